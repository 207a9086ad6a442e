"""What is kept: a document with everything that was made from it, as plain rows.

Above: `_store`, `_cache`, `procontext.page`. Below: `procontext.models`.
"""

from typing import Literal

import msgspec

from procontext.models import Heading


class Section(msgspec.Struct, frozen=True, gc=False):
    """A heading and what follows it up to the next one: the unit of search. `path` begins with the outermost heading."""

    line: int
    path: tuple[str, ...]
    body: str


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A page or a table of contents as it is kept.

    `key` is what it is asked for by, `url` where it was found. `text` is Markdown in lines as they are counted. Times are
    seconds since 1970: `fetched_at` when the text came, `checked_at` when the host last said that it is still the same.
    """

    key: str
    kind: Literal["page", "index"]
    url: str
    text: str
    headings: tuple[Heading, ...] = ()
    source: str = ""
    etag: str = ""
    last_modified: str = ""
    fetched_at: float
    checked_at: float


class CacheStatus(msgspec.Struct, frozen=True):
    """What a person who looks after a cache wants to know."""

    path: str
    is_in_memory: bool
    documents: int
    sections: int
    bytes: int


__all__ = ["CacheStatus", "Document", "Section"]
