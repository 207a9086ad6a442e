"""Tables of contents for sites without llms.txt: from `objects.inv`, `search_index.json`, `sitemap.xml` or links.

Each becomes the same Markdown: a title, groups, and one link a line. Titles are escaped, so that they cannot contain
links. A parser returns None for data of another kind, because many sites respond to any URL with their front page.
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

from jackstay.types import DECODE_ERRORS
from procontext.fetch import FetchError, parse_url
from procontext.page._limits import Deadline, PageTooLargeError
from procontext.page._nesting import is_too_deep

# Entries that are listed; more would not be a table of contents.
MAX_ENTRIES: Final = 20_000
MAX_NAVIGATION: Final = 2_000
# objects.inv is compressed: Python's inventory of 140 KB has 2 MB with 17,000 lines.
MAX_INVENTORY_BYTES: Final = 16 * 1024 * 1024
MAX_INVENTORY_LINES: Final = 200_000
MAX_LINKS: Final = 50_000

_INVENTORY_HEAD: Final = b"# Sphinx inventory version 2"
# Roles that are listed: objects that are imported or called on their own. Methods and attributes are on class pages.
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
_TITLED_LINK = re.compile(rf"\[([^\[\]\n]+){_MARKDOWN_LINK.pattern}")
_BARE_LINK = re.compile(r"https?://[^\s<>\"'`\])]+")


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One line of a table of contents. `depth` is 1 for an entry below the previous one."""

    title: str
    url: str
    note: str = ""
    depth: int = 0


def write_index(name: str, groups: Iterable[tuple[str, list[Entry]]]) -> str | None:
    """Return the table of contents as Markdown, or None if it is empty."""
    lines = [f"# {_escaped(name)}"]
    for title, entries in groups:
        if entries:
            lines += ["", f"## {_escaped(title)}", ""]
            lines += [
                f"{'  ' * entry.depth}- [{_escaped(entry.title)}]({entry.url})"
                + (f": {entry.note}" if entry.note else "")
                for entry in entries
            ]
    return "\n".join(lines) + "\n" if len(lines) > 1 else None


def _escaped(text: str) -> str:
    return re.sub(r"([\[\]\\])", r"\\\1", " ".join(text.split()))[:300]


def is_below(url: str, base: str) -> bool:
    """Return whether a URL is in the folder `base`."""
    return url == base.rstrip("/") or url.startswith(base if base.endswith("/") else f"{base}/")


def folder_of(url: str) -> str:
    """Return the folder of a front page: the URL itself if it looks like a folder, else its parent. Ends with /."""
    parts = urlsplit(url)
    path = parts.path or "/"
    if not path.endswith("/"):
        path = f"{path}/" if "." not in path.rpartition("/")[2] else f"{path.rpartition('/')[0]}/"
    return f"{parts.scheme}://{parts.netloc}{path}"


def joined(base: str, address: str) -> str | None:
    """Return the normalized absolute URL with its fragment, or None if it is invalid."""
    try:
        absolute = urljoin(base, address)
        target = parse_url(absolute)
        fragment = urlsplit(absolute).fragment
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
    """Parse `name domain:role priority location title`. Name and title may have spaces; `$` and `-` mean the name."""
    parts = line.split()
    for at in range(1, len(parts) - 2):
        if ":" in parts[at] and parts[at + 1].lstrip("-").isdecimal():
            name, location, title = " ".join(parts[:at]), parts[at + 2], " ".join(parts[at + 3 :])
            if location.endswith("$"):
                location = location[:-1] + name
            return _InventoryRow(name, parts[at], location, name if title in ("-", "") else title)
    return None


def inventory_version(data: bytes) -> str | None:
    """Return the version that an `objects.inv` states in its third line, or None."""
    lines = data[:1000].split(b"\n", 3)
    if not data.startswith(_INVENTORY_HEAD) or len(lines) < 4 or not lines[2].startswith(b"# Version:"):
        return None
    return lines[2].removeprefix(b"# Version:").strip().decode("utf-8", "replace")[:50] or None


def from_inventory(data: bytes, base: str, name: str) -> str | None:
    """Return the index from an `objects.inv` of Sphinx, version 2."""
    if not data.startswith(_INVENTORY_HEAD):
        return None
    packed = data.split(b"\n", 4)[-1]
    try:
        text = zlib.decompressobj().decompress(packed, MAX_INVENTORY_BYTES).decode("utf-8", "replace")
    except zlib.error:
        return None
    pages: list[Entry] = []
    objects: list[Entry] = []
    for line in islice(StringIO(text), MAX_INVENTORY_LINES):
        row = _inventory_row(line)
        url = None if row is None else joined(base, row.location)
        if row is None or url is None:
            continue
        if row.role == "std:doc":
            pages.append(Entry(row.title, url))
        elif (kind := _ROLES.get(row.role.rpartition(":")[2])) is not None:
            objects.append(Entry(row.name, url, kind))
    return write_index(name, [("Pages", pages[:MAX_ENTRIES]), ("API", objects[:MAX_ENTRIES])])


# --- MkDocs -----------------------------------------------------------------------------------------------------------


class _SearchEntry(msgspec.Struct):
    location: str
    title: str = ""


class _SearchIndex(msgspec.Struct):
    docs: list[_SearchEntry]


_search_index = msgspec.json.Decoder(_SearchIndex)


def from_search_index(data: bytes, base: str, name: str) -> str | None:
    """Return the index from a `search_index.json` of MkDocs: pages with their sections."""
    try:
        found = _search_index.decode(data)
    except DECODE_ERRORS:
        return None
    entries: list[Entry] = []
    for item in found.docs[:MAX_ENTRIES]:
        url = joined(base, item.location)
        if url is not None and is_below(url, base):
            # Titles are HTML.
            title = unescape(re.sub(r"<[^<>]*>", "", item.title)) or item.location or name
            entries.append(Entry(title, url, depth=1 if "#" in item.location else 0))
    return write_index(name, [("Pages", entries)])


# --- any site ---------------------------------------------------------------------------------------------------------


def read_sitemap(text: str, base: str) -> tuple[list[str], list[str]] | None:
    """Return the pages below `base` and the nested sitemaps of a sitemap, or None if the text is not a sitemap.

    With a regular expression instead of an XML parser, so that there are no entities to expand.
    """
    head = text[:4096]
    if "<urlset" not in head and "<sitemapindex" not in head:
        return None
    found = [
        url
        for location in _LOCATION.findall(text)[: 5 * MAX_ENTRIES]
        if (url := joined(base, _bare_location(location))) is not None
    ]
    if "<sitemapindex" in head:
        return [], found
    return [url for url in found if is_below(url, base)], []


def _bare_location(text: str) -> str:
    return unescape(text.strip().removeprefix("<![CDATA[").removesuffix("]]>").strip())


def from_addresses(addresses: Iterable[str], base: str, name: str) -> str | None:
    """Return the index from URLs; the title of each is its path below `base`."""
    entries = [Entry(unquote(url.removeprefix(base)).strip("/") or name, url) for url in dict.fromkeys(addresses)]
    return write_index(name, [("Pages", entries[:MAX_ENTRIES])])


def from_navigation(html: str, url: str, name: str) -> str | None:
    """Return the index from the navigation links of a front page, or from all its links; only URLs in its folder."""
    deadline = Deadline()
    try:
        if is_too_deep(html, deadline):
            return None  # parsing would take too long
        return _from_links(LexborHTMLParser(html), url, name, deadline)
    except PageTooLargeError:
        return None


def _from_links(tree: LexborHTMLParser, url: str, name: str, deadline: Deadline) -> str | None:
    base = folder_of(url)
    for selector in ("nav a, aside a, [role=navigation] a, [class*=sidebar] a", "a"):
        entries: dict[str, Entry] = {}
        for link in deadline.each(tree.css(selector)):
            title = " ".join(link.text().split())
            address = joined(url, link.attributes.get("href") or "")
            if address is None or not title:
                continue
            address = address.partition("#")[0]
            if is_below(address, base) and address != url:
                entries.setdefault(address, Entry(title, address))
        if entries:
            return write_index(name, [("Pages", list(entries.values())[:MAX_NAVIGATION])])
    return None


# --- links ------------------------------------------------------------------------------------------------------------


def links_of(text: str, base: str) -> Iterator[str]:
    """Return the URLs that a table of contents links, each once, normalized and without fragments."""
    seen: set[str] = set()
    found = (match[1] for match in _MARKDOWN_LINK.finditer(text))
    bare = (match[0].rstrip(".,;:!?") for match in _BARE_LINK.finditer(text))
    for address in dict.fromkeys((*found, *bare)):  # deduplicated first: strict parsing is slow
        url = joined(base, address)
        url = None if url is None else url.partition("#")[0]
        if url is not None and url not in seen:
            seen.add(url)
            yield url
            if len(seen) >= MAX_LINKS:
                return


def titles_of(text: str, base: str) -> dict[str, list[str]]:
    """Return the titles that a table of contents has for each page that it links, also those of its sections."""
    found: dict[str, list[str]] = {}
    urls: dict[str, str | None] = {}
    for title, address in _TITLED_LINK.findall(text):
        page = address.partition("#")[0]
        if page not in urls:
            urls[page] = joined(base, page)  # each page once: strict parsing is slow
        url = urls[page]
        if url is not None:
            found.setdefault(url, []).append(title)
    return found


__all__ = [
    "MAX_ENTRIES",
    "MAX_INVENTORY_BYTES",
    "Entry",
    "folder_of",
    "from_addresses",
    "from_inventory",
    "from_navigation",
    "from_search_index",
    "inventory_version",
    "is_below",
    "joined",
    "links_of",
    "read_sitemap",
    "titles_of",
    "write_index",
]
