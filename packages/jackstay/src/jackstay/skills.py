"""Agent skills (extension `io.modelcontextprotocol/skills`, SEP-2640): the entries, and the checks of both sides.

A skill is a folder with a `SKILL.md`, whose YAML frontmatter has at least `name` and `description`. An entry lists
every file with its digest and size, so that a client can verify what it reads.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from jackstay.errors import ProtocolError, UsageError
from jackstay.extras import install_command

# The identifier of the extension.
SKILLS_EXTENSION: Final = "io.modelcontextprotocol/skills"
# The file that makes a folder a skill.
MANIFEST: Final = "SKILL.md"

# The limits of SEP-2640 for the files of one skill.
MAX_FILES: Final = 512
MAX_TOTAL_BYTES: Final = 16 * 1024 * 1024

_MAX_FRONTMATTER_BYTES: Final = 65_536
_FRONTMATTER: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


class SkillFile(msgspec.Struct, frozen=True):
    """A file of a skill. `digest` is `sha256:` and 64 hexadecimal digits."""

    uri: str
    digest: str
    size: int


class Skill(msgspec.Struct, frozen=True):
    """An entry of `skills/list`. `uri` is that of its `SKILL.md`; `resources` are its files, or "dynamic"."""

    uri: str
    frontmatter: Mapping[str, Any]
    resources: tuple[SkillFile, ...] | Literal["dynamic"]

    @property
    def name(self) -> str:
        """The name in the frontmatter."""
        return str(self.frontmatter.get("name", ""))

    @property
    def description(self) -> str:
        """The description in the frontmatter."""
        return str(self.frontmatter.get("description", ""))

    def verify(self, uri: str, data: bytes) -> None:
        """Check the content of a file against its entry. The manifest must also have the listed frontmatter.

        Raises: ProtocolError, if the content must not be used.
        """
        if self.resources != "dynamic":
            listed = next((row for row in self.resources if row.uri == uri), None)
            if listed is None:
                raise ProtocolError(f"skill {self.name!r} does not list the file {uri}", sent=True)
            if len(data) != listed.size:
                raise ProtocolError(f"{uri} has {len(data)} bytes, but {listed.size} are listed", sent=True)
            if digest_of(data) != listed.digest:
                raise ProtocolError(f"{uri} does not match its listed digest", sent=True)
        if uri == self.uri and read_frontmatter(data) != dict(self.frontmatter):
            raise ProtocolError(f"the frontmatter of {uri} differs from the listed one", sent=True)


def digest_of(data: bytes) -> str:
    """Return the digest of the content of a file, as entries have it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def read_frontmatter(data: bytes) -> dict[str, Any]:
    """Return the YAML frontmatter of a `SKILL.md` as JSON.

    Raises: ProtocolError, if there is none or it is invalid; UsageError, if the extra is missing.
    """
    found = _FRONTMATTER.match(data)
    if found is None or len(found[1]) > _MAX_FRONTMATTER_BYTES:
        raise ProtocolError(f"{MANIFEST} must begin with frontmatter between lines of three hyphens")
    try:
        import yaml  # noqa: PLC0415  # optional
    except ImportError as missing:
        raise UsageError(f"skills need the extra 'skills': {install_command('skills')}", path="skills") from missing

    class Loader(yaml.SafeLoader):
        """Keeps dates as strings, and refuses aliases, which can repeat a value endlessly."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not allowed")
            return super().compose_node(parent, index)

    Loader.yaml_implicit_resolvers = {
        first: [row for row in rows if row[0] != "tag:yaml.org,2002:timestamp"]
        for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        read = msgspec.json.decode(msgspec.json.encode(yaml.load(found[1], Loader)))  # noqa: S506  # a SafeLoader
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"the frontmatter of {MANIFEST} is invalid: {error}") from error
    if not isinstance(read, dict):
        raise ProtocolError(f"the frontmatter of {MANIFEST} must be a mapping")
    return read


__all__ = [
    "MANIFEST",
    "MAX_FILES",
    "MAX_TOTAL_BYTES",
    "SKILLS_EXTENSION",
    "Skill",
    "SkillFile",
    "digest_of",
    "read_frontmatter",
]
