"""What the parts of the documentation server tell each other: libraries, matches, pages, windows, hits. Plain frozen rows.

The names of the fields are the ones of the tools' answers (reference, sections 2 to 5), so that a row can go out as it is. A
time is a `datetime` in UTC. Nothing here reads, fetches or decides.

Above: everything in this package. Below: msgspec.
"""

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

# Reference, 2.2: what a library's identifier looks like.
LIBRARY_ID_PATTERN = r"^[a-z0-9][a-z0-9_-]*$"

# Reference, 2.2: how a match was made, in the order in which matches are tried.
MatchedVia: TypeAlias = Literal["package_name", "library_id", "alias", "fuzzy"]

# Where the table of contents of a library was taken from, in the order in which they are tried.
IndexSource: TypeAlias = Literal[
    "llms.txt", "objects.inv", "search_index.json", "sitemap.xml", "navigation", "folder"
]


class Packages(msgspec.Struct, frozen=True, gc=False):
    """The names under which a library is installed."""

    pypi: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()


class Library(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One row of the registry, or one private source.

    `path` and `headers` are set for private sources only: a folder of Markdown or HTML, and what to send to the host of
    `docs_url` and `llms_txt_url`, and to no other.
    """

    id: str
    name: str
    languages: tuple[str, ...] = ()
    packages: Packages = Packages()
    aliases: tuple[str, ...] = ()
    description: str = ""
    docs_url: str | None = None
    llms_txt_url: str | None = None
    repo_url: str | None = None
    path: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


class Match(msgspec.Struct, frozen=True):
    """A library that a query may have meant. Reference, 2.2."""

    library_id: str
    name: str
    languages: tuple[str, ...]
    docs_url: str | None
    matched_via: MatchedVia
    relevance: float


class IndexText(msgspec.Struct, frozen=True, kw_only=True):
    """The table of contents of a library, whole, as Markdown; `cached_at` is None where it was fetched just now."""

    text: str
    source: IndexSource
    url: str
    cached: bool = False
    cached_at: datetime | None = None
    stale: bool = False


class Heading(msgspec.Struct, frozen=True):
    """A heading of levels 1 to 4. `line` counts from 1; `text` has no markup of its own; `anchor` is empty if unknown."""

    level: int
    text: str
    anchor: str
    line: int


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page as it is stored: Markdown in lines of at most 4,000 characters, and all its headings.

    `final_url` is where a redirect to another host led; None where there was none.
    """

    url: str
    lines: tuple[str, ...]
    headings: tuple[Heading, ...]
    final_url: str | None = None
    cached: bool = False
    cached_at: datetime | None = None
    stale: bool = False


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Some lines of a page, inside a budget. Reference, 4.2.

    `headings` is the map of the whole page, one `LINE: ## Text` a line. `next_offset` is None at the end.
    """

    content: str
    headings: str
    headings_truncated: bool
    offset: int
    limit: int
    total_lines: int
    next_offset: int | None


class Hit(msgspec.Struct, frozen=True):
    """A section that a search found, best first. `heading_path` is the chain of headings above it, outermost first."""

    url: str
    line: int
    heading_path: tuple[str, ...]
    snippet: str
    score: float


__all__ = [
    "LIBRARY_ID_PATTERN",
    "Heading",
    "Hit",
    "IndexSource",
    "IndexText",
    "Library",
    "Match",
    "MatchedVia",
    "Packages",
    "Page",
    "Window",
]
