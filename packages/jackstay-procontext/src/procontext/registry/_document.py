"""Parsing and validation of a registry file.

Our own format, and the public one of ProContext: an array of entries, with `packages` by `ecosystem`. It may come from
the network, so it may contain neither local paths nor request headers; only private sources may. Unknown fields are
ignored, so that an older server can read a newer file.
"""

import hashlib
import re
from typing import Final

import msgspec

from jackstay.types import DECODE_ERRORS
from procontext.errors import RegistryError
from procontext.models import LIBRARY_ID_PATTERN, Library, Packages

# A hundred thousand libraries have 30 MB.
MAX_BYTES: Final = 128 * 1024 * 1024

_ID: Final = re.compile(LIBRARY_ID_PATTERN[:-1] + r"\Z")
_ADDRESS: Final = re.compile(r"https?://[^\s/?#@\\]+([/?#][^\s]*)?")


class Document(msgspec.Struct, frozen=True):
    """A complete registry. `undocumented` has the names of packages that exist and have no row."""

    version: str
    libraries: tuple[Library, ...]
    undocumented: tuple[str, ...] = ()


class _Outline(msgspec.Struct, frozen=True):
    """A registry with undecoded libraries.

    Decoding holds the GIL: a hundred thousand libraries at once would block the event loop for 0.1 s, so they are
    decoded one by one.
    """

    version: str
    libraries: tuple[msgspec.Raw, ...]
    undocumented: tuple[str, ...] = ()


class _PublicPackages(msgspec.Struct, frozen=True):
    """The packages of an entry of the public format in one ecosystem."""

    ecosystem: str
    languages: tuple[str, ...] | None = None
    package_names: tuple[str, ...] | None = None
    repo_url: str | None = None


class _PublicEntry(msgspec.Struct, frozen=True):
    """An entry of the public format."""

    id: str
    name: str
    description: str | None = None
    docs_url: str | None = None
    llms_txt_url: str | None = None
    aliases: tuple[str, ...] | None = None
    languages: tuple[str, ...] | None = None
    packages: tuple[_PublicPackages, ...] | None = None

    def library(self) -> Library:
        """Return this entry as a library."""
        groups = self.packages or ()
        languages = (*(self.languages or ()), *(name for group in groups for name in group.languages or ()))
        names: dict[str, tuple[str, ...]] = {}
        for group in groups:
            index = _ECOSYSTEMS.get(group.ecosystem.lower(), group.ecosystem.lower())
            if index in Packages.__struct_fields__:
                names[index] = (*names.get(index, ()), *(group.package_names or ()))
        return Library(
            id=self.id,
            name=self.name.strip() or self.id,
            languages=tuple(dict.fromkeys(languages)),
            packages=Packages(**names),
            aliases=self.aliases or (),
            description=self.description or "",
            docs_url=self.docs_url or None,
            llms_txt_url=self.llms_txt_url or None,
            repo_url=next((group.repo_url for group in groups if group.repo_url), None),
        )


# Names of package indexes that differ from ours.
_ECOSYSTEMS: Final = {"cargo": "crates", "crates.io": "crates", "golang": "go", "gem": "rubygems", "gems": "rubygems"}
# The version of a registry in the public format, which states none.
PUBLIC_VERSION: Final = "public"

_public_entries = msgspec.json.Decoder(tuple[msgspec.Raw, ...]).decode
_public_entry = msgspec.json.Decoder(_PublicEntry).decode
_outline = msgspec.json.Decoder(_Outline).decode
_library = msgspec.json.Decoder(Library).decode


def read_document(data: bytes, where: str) -> Document:
    """Parse a registry; `where` is its file or URL for error messages.

    Raises: RegistryError with the problem and the library.
    """
    if len(data) > MAX_BYTES:
        raise RegistryError(where, f"too large: {len(data)} bytes; the maximum is {MAX_BYTES}")
    document = _decode(data, where)
    if not document.version or len(document.version) > 100 or not document.version.isprintable():
        raise RegistryError(where, "invalid version: it must have 1 to 100 printable characters")
    if not document.libraries:
        raise RegistryError(where, "contains no libraries")
    seen: set[str] = set()
    for library in document.libraries:
        problem = "duplicate id" if library.id in seen else _problem(library)
        if problem is not None:
            raise RegistryError(where, f"library {library.id[:100]!r}: {problem}")
        seen.add(library.id)
    return document


def _decode(data: bytes, where: str) -> Document:
    position = ""
    libraries: list[Library] = []
    try:
        if data.lstrip()[:1] == b"[":
            for number, raw in enumerate(_public_entries(data), 1):
                position = f" (library number {number})"
                libraries.append(_public_entry(raw).library())
            return Document(PUBLIC_VERSION, tuple(libraries))
        outline = _outline(data)
        for number, raw in enumerate(outline.libraries, 1):
            position = f" (library number {number})"
            libraries.append(_library(raw))
    except DECODE_ERRORS as error:
        raise RegistryError(where, f"not a registry: {error}{position}") from error
    return Document(outline.version, tuple(libraries), outline.undocumented)


def _problem(library: Library) -> str | None:
    if _ID.match(library.id) is None:
        return "the id must consist of lower case letters, digits, - and _"
    if not library.name:
        return "the name is empty"
    if library.path is not None or library.headers:
        return "path and headers are allowed only for private sources"
    for url in (library.docs_url, library.llms_txt_url):
        if url is not None and _ADDRESS.fullmatch(url) is None:
            return f"invalid URL {url[:200]!r}"
    return None


def checksum(data: bytes) -> str:
    """Return the SHA-256 digest in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


__all__ = ["MAX_BYTES", "Document", "checksum", "read_document"]
