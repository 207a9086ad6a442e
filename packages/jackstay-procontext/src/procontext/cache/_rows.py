"""The types that the cache stores."""

from typing import Literal

import msgspec

from procontext.models import Heading


class Section(msgspec.Struct, frozen=True, gc=False):
    """A heading with the text up to the next heading: the unit of search.

    `path` starts with the outermost heading. `lines` counts the heading and the text.
    """

    line: int
    path: tuple[str, ...]
    body: str
    anchor: str = ""
    lines: int = 1


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A stored page or table of contents.

    `key` identifies the request, `url` is where the document was found. `text` is Markdown, already split into the
    lines that are counted. Times are seconds since 1970: `fetched_at` is when the text was downloaded, `checked_at`
    when the host last confirmed it.
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


__all__ = ["Document", "Section"]
