"""Tables of contents for sites that publish no llms.txt, from what their generators write for themselves.

Sphinx writes `objects.inv` (every page and every documented object), MkDocs `search_index.json` (every page and section), most
sites a `sitemap.xml`, and all of them a navigation. Each becomes the same Markdown: a title, groups, and one link a line. What
comes from the site is escaped, so that a title cannot write a link of its own.

Pure. Must never fetch, and never trust: each reader gives None for what is not what it should be (many sites answer any
address with their front page). Above: `_finding`. Below: msgspec, selectolax.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from html import unescape
from io import StringIO
from itertools import islice
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit

import msgspec
from selectolax.lexbor import LexborHTMLParser

from procontext.fetch import FetchError, read_url
from procontext.page._limits import Deadline, PageTooLargeError
from procontext.page._nesting import is_too_deep

# What of a site is listed. A site with more is not a table of contents any more.
MOST_ENTRIES: Final = 20_000
MOST_NAVIGATION: Final = 2_000
# objects.inv is packed: of Python's own, 140 KB become 2 MB with 17,000 lines.
MOST_INVENTORY_BYTES: Final = 16 * 1024 * 1024
MOST_INVENTORY_LINES: Final = 200_000
MOST_LINKS: Final = 50_000

_INVENTORY_HEAD: Final = b"# Sphinx inventory version 2"
# Roles that are listed: what one imports or calls by itself. Methods and attributes are on their class's page.
_ROLES: Final = {
    "class": "class",
    "function": "function",
    "exception": "exception",
    "module": "module",
    "data": "data",
    "decorator": "decorator",
    "macro": "macro",
    "struct": "struct",
    "type": "type",
    "cmdoption": "option",
    "confval": "setting",
    "envvar": "environment variable",
    "setting": "setting",
    "command": "command",
}
_LOCATION = re.compile(r"<loc>([^<]{1,3000}|<!\[CDATA\[[^\]]{1,3000}\]\]>)</loc>", re.IGNORECASE)
_MARKDOWN_LINK = re.compile(r"\]\(\s*<?([^\s()<>]+(?:\([^\s()<>]*\)[^\s()<>]*)*)>?")
_BARE_LINK = re.compile(r"https?://[^\s<>\"'`\])]+")


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One line of a table of contents. `depth` is 1 for what stands below the entry before it."""

    title: str
    url: str
    note: str = ""
    depth: int = 0


def write_index(name: str, groups: Iterable[tuple[str, list[Entry]]]) -> str | None:
    """The table of contents as Markdown; None if nothing is in it."""
    lines = [f"# {_escaped(name)}"]
    for title, entries in groups:
        if entries:
            lines += ["", f"## {_escaped(title)}", ""]
            lines += [
                f"{'  ' * one.depth}- [{_escaped(one.title)}]({one.url})"
                + (f": {one.note}" if one.note else "")
                for one in entries
            ]
    return "\n".join(lines) + "\n" if len(lines) > 1 else None


def _escaped(text: str) -> str:
    return re.sub(r"([\[\]\\])", r"\\\1", " ".join(text.split()))[:300]


def is_below(url: str, base: str) -> bool:
    """Whether an address lies in the folder `base`."""
    return url == base.rstrip("/") or url.startswith(base if base.endswith("/") else f"{base}/")


def folder_of(url: str) -> str:
    """The folder that a front page stands for: itself if it looks like one, else the one it lies in. Ends with /."""
    parts = urlsplit(url)
    path = parts.path or "/"
    if not path.endswith("/"):
        path = f"{path}/" if "." not in path.rpartition("/")[2] else f"{path.rpartition('/')[0]}/"
    return f"{parts.scheme}://{parts.netloc}{path}"


def _joined(base: str, address: str) -> str | None:
    """An address in its one spelling, fragment kept; None if it is not one that could be read."""
    try:
        whole = urljoin(base, address)
        target = read_url(whole)
        fragment = urlsplit(whole).fragment
    except (ValueError, FetchError):
        return None
    return f"{target.url}#{fragment}" if fragment else target.url


# --- Sphinx -----------------------------------------------------------------------------------------------------------


class _InventoryRow(msgspec.Struct):
    name: str
    role: str
    location: str
    title: str


def _inventory_row(line: str) -> _InventoryRow | None:
    """`name domain:role priority location title`; the name and the title may have spaces, `$` and `-` mean the name."""
    words = line.split()
    for at in range(1, len(words) - 2):
        if ":" in words[at] and words[at + 1].lstrip("-").isdecimal():
            name, location, title = " ".join(words[:at]), words[at + 2], " ".join(words[at + 3 :])
            if location.endswith("$"):
                location = location[:-1] + name
            return _InventoryRow(name, words[at], location, name if title in ("-", "") else title)
    return None


def from_inventory(data: bytes, base: str, name: str) -> str | None:
    """From a Sphinx `objects.inv`, version 2."""
    if not data.startswith(_INVENTORY_HEAD):
        return None
    packed = data.split(b"\n", 4)[-1]
    try:
        text = zlib.decompressobj().decompress(packed, MOST_INVENTORY_BYTES).decode("utf-8", "replace")
    except zlib.error:
        return None
    pages: list[Entry] = []
    objects: list[Entry] = []
    for line in islice(StringIO(text), MOST_INVENTORY_LINES):
        row = _inventory_row(line)
        url = None if row is None else _joined(base, row.location)
        if row is None or url is None:
            continue
        if row.role == "std:doc":
            pages.append(Entry(row.title, url))
        elif (kind := _ROLES.get(row.role.rpartition(":")[2])) is not None:
            objects.append(Entry(row.name, url, kind))
    return write_index(name, [("Pages", pages[:MOST_ENTRIES]), ("API", objects[:MOST_ENTRIES])])


# --- MkDocs -----------------------------------------------------------------------------------------------------------


class _SearchEntry(msgspec.Struct):
    location: str
    title: str = ""


class _SearchIndex(msgspec.Struct):
    docs: list[_SearchEntry]


_search_index = msgspec.json.Decoder(_SearchIndex)


def from_search_index(data: bytes, base: str, name: str) -> str | None:
    """From the `search_index.json` of MkDocs: pages, and their sections below them."""
    try:
        found = _search_index.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    entries: list[Entry] = []
    for one in found.docs[:MOST_ENTRIES]:
        url = _joined(base, one.location)
        if url is not None and is_below(url, base):
            # Titles are written as HTML.
            title = unescape(re.sub(r"<[^<>]*>", "", one.title)) or one.location or name
            entries.append(Entry(title, url, depth=1 if "#" in one.location else 0))
    return write_index(name, [("Pages", entries)])


# --- any site ---------------------------------------------------------------------------------------------------------


def read_sitemap(text: str, base: str) -> tuple[list[str], list[str]] | None:
    """The pages below `base` and the further sitemaps that a sitemap names; None if it is none.

    By pattern and not by an XML parser: there is nothing else to know, and nothing to expand.
    """
    head = text[:4096]
    if "<urlset" not in head and "<sitemapindex" not in head:
        return None
    found = [
        url
        for location in _LOCATION.findall(text)[: 5 * MOST_ENTRIES]
        if (url := _joined(base, _bare_location(location))) is not None
    ]
    if "<sitemapindex" in head:
        return [], found
    return [url for url in found if is_below(url, base)], []


def _bare_location(text: str) -> str:
    return unescape(text.strip().removeprefix("<![CDATA[").removesuffix("]]>").strip())


def from_addresses(addresses: Iterable[str], base: str, name: str) -> str | None:
    """From bare addresses: the title of each is its path below `base`."""
    entries = [
        Entry(unquote(url.removeprefix(base)).strip("/") or name, url) for url in dict.fromkeys(addresses)
    ]
    return write_index(name, [("Pages", entries[:MOST_ENTRIES])])


def from_navigation(html: str, url: str, name: str) -> str | None:
    """From the links of a front page: those of its navigation, or all of them if it has none; same site and folder only."""
    deadline = Deadline()
    try:
        if is_too_deep(html, deadline):
            return None  # parsing it would take for ever
        return _from_links(LexborHTMLParser(html), url, name, deadline)
    except PageTooLargeError:
        return None


def _from_links(tree: LexborHTMLParser, url: str, name: str, deadline: Deadline) -> str | None:
    base = folder_of(url)
    for selector in ("nav a, aside a, [role=navigation] a, [class*=sidebar] a", "a"):
        entries: dict[str, Entry] = {}
        for link in deadline.each(tree.css(selector)):
            title = " ".join(link.text().split())
            address = _joined(url, link.attributes.get("href") or "")
            if address is None or not title:
                continue
            address = address.partition("#")[0]
            if is_below(address, base) and address != url:
                entries.setdefault(address, Entry(title, address))
        if entries:
            return write_index(name, [("Pages", list(entries.values())[:MOST_NAVIGATION])])
    return None


# --- links ------------------------------------------------------------------------------------------------------------


def links_of(text: str, base: str) -> Iterator[str]:
    """The addresses that a table of contents names, each once, in their one spelling and without fragments."""
    seen: set[str] = set()
    found = (match[1] for match in _MARKDOWN_LINK.finditer(text))
    bare = (match[0].rstrip(".,;:!?") for match in _BARE_LINK.finditer(text))
    for address in dict.fromkeys((*found, *bare)):  # reading one strictly takes far longer than comparing it
        url = _joined(base, address)
        url = None if url is None else url.partition("#")[0]
        if url is not None and url not in seen:
            seen.add(url)
            yield url
            if len(seen) >= MOST_LINKS:
                return


__all__ = [
    "folder_of",
    "from_addresses",
    "from_inventory",
    "from_navigation",
    "from_search_index",
    "is_below",
    "links_of",
    "read_sitemap",
    "write_index",
]
