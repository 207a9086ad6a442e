"""A registry file: what it must look like, and how it becomes rows. The decoder's checks, then those that types cannot make.

A registry may come from the network, so nothing in it may name a file of this machine or send a header: those belong to
private sources, which a person writes. Fields that are not known here are skipped, so that a newer file can be read by an
older server (reference, section 8).

Must never know where a file lies. Above: `_store`, `_update`, `_registry`, the tools that make and check one. Below: `models`.
"""

import hashlib
import re
from typing import Final

import msgspec

from procontext.errors import RegistryError
from procontext.models import LIBRARY_ID_PATTERN, Library

# A hundred thousand rows have 30 MB; what is larger is not a registry.
MOST_BYTES: Final = 128 * 1024 * 1024

_ID: Final = re.compile(LIBRARY_ID_PATTERN[:-1] + r"\Z")
_ADDRESS: Final = re.compile(r"https?://[^\s/?#@\\]+([/?#][^\s]*)?")


class Document(msgspec.Struct, frozen=True):
    """A whole registry."""

    version: str
    libraries: tuple[Library, ...]


class _Outline(msgspec.Struct, frozen=True):
    """The same with its rows unread. A decoder lets no other thread run before it is done, and a hundred thousand rows take
    it a tenth of a second, in which a server could answer nobody; so they are read one at a time."""

    version: str
    libraries: tuple[msgspec.Raw, ...]


_outline = msgspec.json.Decoder(_Outline).decode
_row = msgspec.json.Decoder(Library).decode


def read_document(data: bytes, where: str) -> Document:
    """The registry that is written in `data`; `where` is told if it is none.

    Raises: RegistryError, saying what is wrong, and with which library.
    """
    if len(data) > MOST_BYTES:
        raise RegistryError(where, f"has {len(data)} bytes; at most {MOST_BYTES} are read")
    document = _decode(data, where)
    if not document.version or len(document.version) > 100 or not document.version.isprintable():
        raise RegistryError(where, "has no version that could be told")
    if not document.libraries:
        raise RegistryError(where, "has no libraries")
    seen: set[str] = set()
    for library in document.libraries:
        problem = "is there twice" if library.id in seen else _problem(library)
        if problem is not None:
            raise RegistryError(where, f"library {library.id[:100]!r} {problem}")
        seen.add(library.id)
    return document


def _decode(data: bytes, where: str) -> Document:
    place = ""
    rows: list[Library] = []
    try:
        outline = _outline(data)
        for number, raw in enumerate(outline.libraries, 1):
            place = f" (of library {number})"
            rows.append(_row(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RegistryError(where, f"is not a registry: {error}{place}") from error
    return Document(outline.version, tuple(rows))


def _problem(library: Library) -> str | None:
    if _ID.match(library.id) is None:
        return "has an id that is not lower case letters, digits, - and _"
    if not library.name:
        return "has no name"
    if library.path is not None or library.headers:
        return "has a path or headers, which only a private source may have"
    for url in (library.docs_url, library.llms_txt_url):
        if url is not None and _ADDRESS.fullmatch(url) is None:
            return f"has an address that cannot be used: {url[:200]!r}"
    return None


def checksum(data: bytes) -> str:
    """SHA-256, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


__all__ = ["MOST_BYTES", "Document", "checksum", "read_document"]
