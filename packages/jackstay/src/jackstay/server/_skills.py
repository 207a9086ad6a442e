"""`Skills`: serves folders of agent skills by the extension `io.modelcontextprotocol/skills` (SEP-2640)."""

import mimetypes
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from jackstay.errors import JsonRpcError, ProtocolError, UsageError
from jackstay.protocol.wire import ErrorCode
from jackstay.server._context import Context
from jackstay.server._extensions import ServerExtension
from jackstay.server._resources import ResourceOptions, resource_from_function
from jackstay.skills import (
    MANIFEST,
    MAX_FILES,
    MAX_TOTAL_BYTES,
    SKILLS_EXTENSION,
    Skill,
    SkillFile,
    digest_of,
    read_frontmatter,
)

if TYPE_CHECKING:
    from jackstay.server._server import Server

# The names that the Agent Skills specification allows.
_NAME: Final = re.compile(r"(?!.*--)[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")
_DIRECTORY: Final = "inode/directory"


class ListParams(msgspec.Struct):
    """Params of `skills/list`."""

    cursor: str | None = None


class UriParams(msgspec.Struct):
    """Params of `skills/get` and of `resources/directory/read`."""

    uri: str
    cursor: str | None = None


class Skills(ServerExtension):
    """Serves the skills in a folder: `Server(extensions=[Skills("skills")])`. Each is a folder with a `SKILL.md`.

    The files are read once, so that what is served always matches the listed digests; restart the server to change
    them. They are also resources, `skill://PATH/FILE`. Files and folders that begin with a dot are left out.

    Raises: UsageError for a folder without skills, or with one that is invalid.
    """

    # What a client may read without it is not secret.
    must_be_declared = False

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__(SKILLS_EXTENSION, settings={"directoryRead": True}, since="2026-07-28")
        root = Path(folder)
        self.skills: dict[str, Skill] = {}
        # The content of each file by its URI, and the URIs directly in each directory.
        self._files: dict[str, bytes] = {}
        self._directories: dict[str, dict[str, str]] = {}
        for manifest in sorted(root.rglob(MANIFEST)):
            self._add(root, manifest.parent)
        if not self.skills:
            raise UsageError(f"no skill in {os.fspath(folder)!r}: no folder there has a {MANIFEST}", path="folder")
        self.methods.update(
            {"skills/list": self._list, "skills/get": self._get, "resources/directory/read": self._read}
        )
        self._cache: dict[str, Any] = {}

    def _add(self, root: Path, folder: Path) -> None:
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not _is_hidden(path, folder)]
        contents = {_uri(path.relative_to(root)): path.read_bytes() for path in paths}
        if len(contents) > MAX_FILES or sum(map(len, contents.values())) > MAX_TOTAL_BYTES:
            raise UsageError(f"{folder}: a skill has at most {MAX_FILES} files of 16 MiB together", path="folder")
        uri = _uri((folder / MANIFEST).relative_to(root))
        try:
            frontmatter = read_frontmatter(contents[uri])
        except ProtocolError as error:
            raise UsageError(f"{folder / MANIFEST}: {error.message}", path="folder") from error
        name, description = frontmatter.get("name"), frontmatter.get("description")
        if name != folder.name or not isinstance(name, str) or _NAME.fullmatch(name) is None:
            message = f"{folder / MANIFEST}: name must be that of its folder, in lower case letters, digits and hyphens"
            raise UsageError(message, path="folder")
        if not isinstance(description, str) or not description:
            raise UsageError(f"{folder / MANIFEST}: description is missing", path="folder")
        files = tuple(SkillFile(key, digest_of(data), len(data)) for key, data in contents.items())
        self.skills[uri] = Skill(uri, frontmatter, files)
        self._files.update(contents)
        for key in contents:
            self._add_to_directory(key, uri.removesuffix(f"/{MANIFEST}"))

    def _add_to_directory(self, uri: str, top: str) -> None:
        kind = _mime_type(uri)
        while uri != top:
            parent = uri.rpartition("/")[0]
            self._directories.setdefault(parent, {})[uri] = kind
            uri, kind = parent, _DIRECTORY

    def bind(self, server: "Server") -> None:
        """Register the files as resources."""
        self._cache = {"ttlMs": server.options.ttl_ms, "cacheScope": server.options.cache_scope}
        for uri, data in self._files.items():
            about: dict[str, Any] = {"name": uri.removeprefix("skill://"), "mime_type": _mime_type(uri)}
            if uri in self.skills:
                about |= {"name": self.skills[uri].name, "description": self.skills[uri].description}
            entry = resource_from_function(uri, _reader(data), ResourceOptions(**about, blocking=False, size=len(data)))
            server.catalogue.add_resources(entry)

    async def _list(self, ctx: Context, params: ListParams) -> dict[str, Any]:  # noqa: ARG002  # a method
        if params.cursor is not None:
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, "unknown cursor: there is one page")
        return {"skills": list(self.skills.values()), **self._cache}

    async def _get(self, ctx: Context, params: UriParams) -> dict[str, Any]:  # noqa: ARG002  # a method
        skill = self.skills.get(params.uri)
        if skill is None:
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, f"unknown skill: {params.uri[:256]}")
        return {"skill": skill, **self._cache}

    async def _read(self, ctx: Context, params: UriParams) -> dict[str, Any]:  # noqa: ARG002  # a method
        children = self._directories.get(params.uri.rstrip("/"))
        if children is None or params.cursor is not None:
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, f"not a directory, or an unknown cursor: {params.uri[:256]}")
        rows = [{"uri": uri, "name": uri.rpartition("/")[2], "mimeType": kind} for uri, kind in children.items()]
        return {"resources": rows, **self._cache}


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _uri(path: Path) -> str:
    return f"skill://{quote(path.as_posix())}"


def _mime_type(uri: str) -> str:
    if uri.endswith(".md"):
        return "text/markdown"
    return mimetypes.guess_type(uri)[0] or "application/octet-stream"


def _reader(data: bytes) -> Any:
    try:
        content: str | bytes = data.decode()
    except UnicodeDecodeError:
        content = data

    def read() -> str | bytes:
        return content

    return read
