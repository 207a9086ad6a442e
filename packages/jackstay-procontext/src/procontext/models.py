"""The data types of the documentation server: libraries, matches, pages, windows, hits.

Field names are those of the tool results, so that a struct can be encoded as it is. Times are `datetime` in UTC.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

# The syntax of a library identifier.
LIBRARY_ID_PATTERN = r"^[a-z0-9][a-z0-9_-]*$"

# How a match was made, in the order in which the matches are tried.
MatchedVia: TypeAlias = Literal["package_name", "library_id", "alias", "installed", "package_metadata", "fuzzy"]

# The origin of a table of contents, in the order in which they are tried.
IndexSource: TypeAlias = Literal[
    "llms.txt",
    "objects.inv",
    "search_index.json",
    "searchindex.js",
    "all.html",
    "allclasses-index.html",
    "navigation.js",
    "search.js",
    "sitemap.xml",
    "navigation",
    "README",
    "folder",
]


class Packages(msgspec.Struct, frozen=True, gc=False):
    """The package names of a library, by package index."""

    pypi: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    crates: tuple[str, ...] = ()
    go: tuple[str, ...] = ()
    maven: tuple[str, ...] = ()
    rubygems: tuple[str, ...] = ()
    nuget: tuple[str, ...] = ()

    def names(self) -> Iterator[tuple[str, str]]:
        """Iterate over the index and the name of each package."""
        for index, names in msgspec.structs.asdict(self).items():
            for name in names:
                yield index, name


class Library(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A library of the registry, or a private source.

    `path` and `headers` are set for private sources only: a folder of Markdown or HTML, and request headers that are
    sent to the hosts of `docs_url` and `llms_txt_url` and to no other. `version` is that of the files in `path`, or the
    one whose site is read.
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
    version: str | None = None


class Match(msgspec.Struct, frozen=True, omit_defaults=True):
    """A library that matches a query. `version` is the one in the query, or the one that the project uses."""

    library_id: str
    name: str
    languages: tuple[str, ...]
    docs_url: str | None
    matched_via: MatchedVia
    relevance: float
    version: str | None = None


class IndexText(msgspec.Struct, frozen=True, kw_only=True):
    """The complete table of contents of a library as Markdown; `cached_at` is None if it was fetched just now."""

    text: str
    source: IndexSource
    url: str
    cached: bool = False
    cached_at: datetime | None = None
    stale: bool = False
    version: str | None = None


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """What a search of a library covers: the stored pages, and how many there are (None if that is unknown).

    `problem` is why there are no more, as a sentence.
    """

    pages: int
    total: int | None
    is_fetching: bool = False
    problem: str = ""
    version: str | None = None


class FetchReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of fetching a library: how many of its pages are stored, and why others are not.

    `problem` is a clause on the last page that is not stored.
    """

    stored: int
    total: int
    excluded: int = 0  # by robots.txt
    beyond_limit: int = 0
    problem: str = ""


class StoredLibrary(msgspec.Struct, frozen=True):
    """A library in the cache: its pages, and when the first and the last of them was checked."""

    library_id: str
    pages: int
    oldest: datetime
    newest: datetime


class CacheStatus(msgspec.Struct, frozen=True):
    """Location and size of a cache."""

    path: str
    is_in_memory: bool
    documents: int
    sections: int
    bytes: int


class Heading(msgspec.Struct, frozen=True):
    """A heading of levels 1 to 4. `line` counts from 1; `text` has no markup; `anchor` is empty if unknown."""

    level: int
    text: str
    anchor: str
    line: int


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A stored page: Markdown in lines of at most 4,000 characters, and all its headings.

    `final_url` is the target of a redirect to another host, or None.
    """

    url: str
    lines: tuple[str, ...]
    headings: tuple[Heading, ...]
    final_url: str | None = None
    version: str | None = None
    cached: bool = False
    cached_at: datetime | None = None
    stale: bool = False


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Some lines of a page, within a budget.

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
    """A section found by a search. `heading_path` has the headings of the section, outermost first.

    `anchor` and `lines`, the length, are those of the section. `copies` are addresses of sections with the same text.
    """

    url: str
    line: int
    heading_path: tuple[str, ...]
    snippet: str
    score: float
    anchor: str = ""
    lines: int = 1
    copies: tuple[str, ...] = ()


__all__ = [
    "LIBRARY_ID_PATTERN",
    "CacheStatus",
    "Coverage",
    "FetchReport",
    "Heading",
    "Hit",
    "IndexSource",
    "IndexText",
    "Library",
    "Match",
    "MatchedVia",
    "Packages",
    "Page",
    "StoredLibrary",
    "Window",
]
