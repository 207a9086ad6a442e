"""The formats that are read: documents by suffix and media type, and tables of contents by generator.

Most sites have no llms.txt, but their generator writes a file that lists the pages. `INVENTORIES` has these files in
the order in which they are requested. The parsers return None for data of another kind, because many sites respond to
any URL with their front page. They are slow (0.3 s for Python's inventory) and run in a thread.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from html import unescape
from json import JSONDecodeError, JSONDecoder
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote, urljoin

import msgspec
from selectolax.lexbor import LexborHTMLParser

from jackstay.types import DECODE_ERRORS
from procontext.fetch import decode
from procontext.models import IndexSource
from procontext.page._html import html_to_markdown, is_html
from procontext.page._indexes import (
    MAX_ENTRIES,
    MAX_INVENTORY_BYTES,
    Entry,
    from_inventory,
    from_search_index,
    joined,
    write_index,
)
from procontext.page._limits import Deadline, PageTooLargeError
from procontext.page._nesting import is_too_deep

# --- documents --------------------------------------------------------------------------------------------------------


class Format(NamedTuple):
    """A format of documents. `read` returns Markdown from the text and its URL; None for text that is read as it is."""

    suffixes: tuple[str, ...]
    media_types: tuple[str, ...]
    read: Callable[[str, str], str] | None


FORMATS: Final = (
    Format((".html", ".htm"), ("text/html", "application/xhtml+xml"), html_to_markdown),
    Format((".md", ".markdown", ".mdx", ".rst", ".txt", ".adoc"), ("text/markdown", "text/plain"), None),
)
SUFFIXES: Final = tuple(suffix for row in FORMATS for suffix in row.suffixes)


def format_of(text: str, media_type: str = "", file: str = "") -> Format:
    """Return the format of a document: by its media type, the name of its file, or else its text."""
    name = file.lower()
    for row in FORMATS:
        if media_type in row.media_types or (name and name.endswith(row.suffixes)):
            # Some hosts send HTML as text.
            return row if row.read is not None or not is_html(text) else FORMATS[0]
    return FORMATS[0] if is_html(text) else FORMATS[1]


# --- tables of contents -----------------------------------------------------------------------------------------------

# A parser of an inventory: its bytes, the folder of the site and the name of the library.
Parse: TypeAlias = Callable[[bytes, str, str], str | None]

# Kinds in the navigation of TypeDoc (ReflectionKind); others are listed without one.
_TYPEDOC_KINDS: Final = {
    2: "module",
    4: "namespace",
    8: "enum",
    32: "variable",
    64: "function",
    128: "class",
    256: "interface",
    2_097_152: "type",
}
_PDOC_KINDS: Final = ("module", "class", "function")
_PDOC_ENTRY = re.compile(
    r'\{"fullname": ?"([\w.]{1,300})", ?"modulename": ?"([\w.]{1,300})", ?(?:"qualname": ?"([\w.]{0,300})", ?)?'
    r'"kind": ?"(\w{1,20})"'
)
_JAVADOC_KIND = re.compile(r"(.{1,60}) in ([\w.$]{1,300})")
_BASE64 = re.compile(r'navigationData\s*=\s*"(?:data:[^",]{0,80},)?([A-Za-z0-9+/=]+)"')


def from_sphinx_search(data: bytes, base: str, name: str, suffix: str = ".html") -> str | None:
    """Return the index from a `searchindex.js` of Sphinx, whose keys had no quotes before Sphinx 5.3.

    `suffix` is what an address has after the name of its page.
    """
    text = decode(data)
    if not text.startswith("Search.setIndex("):
        return None
    pages, titles = _array(text, "docnames"), _array(text, "titles")
    entries = [
        Entry(unescape(re.sub(r"<[^<>]*>", "", title)), url)
        for page, title in zip(pages, titles, strict=False)
        if (url := joined(base, f"{quote(page)}{suffix}")) is not None
    ]
    return write_index(name, [("Pages", entries[:MAX_ENTRIES])])


def _array(text: str, key: str) -> list[str]:
    """Return the strings of an array by its key in a JavaScript object."""
    found = re.search(rf'[{{,]"?{key}"?:\s*(?=\[)', text)
    if found is None:
        return []
    try:
        value, _ = JSONDecoder().raw_decode(text, found.end())
    except (JSONDecodeError, RecursionError):
        return []
    return [item for item in value if isinstance(item, str)]


def from_rustdoc(data: bytes, base: str, name: str) -> str | None:
    """Return the index from the `all.html` of a crate: its modules, and its items with their kinds."""
    modules = {joined(base, "index.html") or base: Entry(name, joined(base, "index.html") or base)}
    items: list[Entry] = []
    for href, title, _ in _anchors(data, "li a[href]", "rustdoc"):
        folder, _, file = href.rpartition("/")
        kind, dot, _ = file.partition(".")
        url = joined(base, href)
        if url is None or not dot or "#" in href or href.startswith((".", "/")):
            continue
        items.append(Entry(title, url, kind))
        address = joined(base, f"{folder}/index.html") if folder else None
        if address is not None:
            modules.setdefault(address, Entry(folder.replace("/", "::"), address))
    return (
        write_index(name, [("Modules", [*modules.values()][:MAX_ENTRIES]), ("API", items[:MAX_ENTRIES])])
        if items
        else None
    )


def from_javadoc(data: bytes, base: str, name: str) -> str | None:
    """Return the index from the list of all classes of Javadoc: the packages, and the classes with their kinds."""
    packages: dict[str, Entry] = {}
    classes: list[Entry] = []
    for href, title, hint in _anchors(data, "a[href][title]", "javadoc"):
        kind, url = _JAVADOC_KIND.fullmatch(hint), joined(base, href)
        if kind is None or url is None or "#" in href:
            continue
        summary = urljoin(url, "package-summary.html")
        packages.setdefault(summary, Entry(kind[2], summary))
        classes.append(Entry(f"{kind[2]}.{title}", url, kind[1]))
    return write_index(name, [("Packages", [*packages.values()][:MAX_ENTRIES]), ("API", classes[:MAX_ENTRIES])])


def _anchors(data: bytes, selector: str, generator: str) -> Iterable[tuple[str, str, str]]:
    """Return the address, the text and the title of each link of a page that a generator wrote."""
    html = decode(data, "text/html")
    deadline = Deadline()
    try:
        if generator not in html[:20_000].lower() or is_too_deep(html, deadline):
            return
        for link in deadline.each(LexborHTMLParser(html).css(selector)):
            text = " ".join(link.text().split())
            if text:
                yield link.attributes.get("href") or "", text, link.attributes.get("title") or ""
    except PageTooLargeError:
        return


class _TypeDocNode(msgspec.Struct):
    text: str = ""
    path: str | None = None
    kind: int = 0
    children: list["_TypeDocNode"] = []


_navigation = msgspec.json.Decoder(list[_TypeDocNode])


def from_typedoc(data: bytes, base: str, name: str) -> str | None:
    """Return the index from the `assets/navigation.js` of TypeDoc, which is compressed."""
    found = _BASE64.search(decode(data))
    if found is None:
        return None
    try:
        packed = base64.b64decode(found[1])
        text = zlib.decompressobj(32 + zlib.MAX_WBITS).decompress(packed, MAX_INVENTORY_BYTES)
        waiting = _navigation.decode(text)[::-1]
    except (binascii.Error, zlib.error, *DECODE_ERRORS):
        return None
    entries: list[Entry] = []
    while waiting and len(entries) < MAX_ENTRIES:
        node = waiting.pop()
        url = None if node.path is None else joined(base, node.path)
        if url is not None:
            entries.append(Entry(node.text or node.path or "", url, _TYPEDOC_KINDS.get(node.kind, "")))
        waiting += node.children[::-1]
    return write_index(name, [("Pages", [Entry(name, base)]), ("API", entries)]) if entries else None


def from_pdoc(data: bytes, base: str, name: str) -> str | None:
    """Return the index from the `search.js` of pdoc: modules, classes and functions, without methods."""
    found: dict[str, list[Entry]] = {kind: [] for kind in _PDOC_KINDS}
    for match in _PDOC_ENTRY.finditer(decode(data)):
        full, module, inner, kind = match[1], match[2], match[3] or "", match[4]
        url = joined(base, f"{module.replace('.', '/')}.html{f'#{inner}' if inner else ''}")
        if url is not None and kind in found and "." not in inner:
            found[kind].append(Entry(full, url, "" if kind == "module" else kind))
    objects = [*found["class"], *found["function"]]
    return write_index(name, [("Modules", found["module"][:MAX_ENTRIES]), ("API", objects[:MAX_ENTRIES])])


class Inventory(NamedTuple):
    """A file of a generator that lists the pages of a site.

    `marker` is in the front page of the generator; without one, the file is requested from every site. `root` finds
    the path from the front page to the folder of the file.
    """

    generator: str
    file: str
    source: IndexSource
    parse: Parse
    marker: re.Pattern[str] | None = None
    root: re.Pattern[str] | None = None

    def is_likely(self, front_page: str) -> bool:
        """Return whether a site with this front page may have the file."""
        return self.marker is None or self.marker.search(front_page) is not None

    def folder(self, front_page: str, base: str) -> str:
        """Return the folder in which the file is; `base` is that of the front page."""
        found = None if self.root is None else self.root.search(front_page)
        return base if found is None else urljoin(base, found[1])


_SPHINX_ROOT = re.compile(r"""data-content_root=["']((?:\.\./|\./){1,30})["']""")
_JAVADOC = re.compile(r"<!-- Generated by javadoc|content=[\"']?javadoc/", re.IGNORECASE)
_JAVADOC_ROOT = re.compile(r"""pathtoroot = ["']((?:\.\./|\./){0,30})["']""")

INVENTORIES: Final = (
    Inventory("Sphinx", "objects.inv", "objects.inv", from_inventory),
    Inventory("MkDocs", "search/search_index.json", "search_index.json", from_search_index),
    Inventory(
        "Sphinx with the builder dirhtml",
        "searchindex.js",
        "searchindex.js",
        partial(from_sphinx_search, suffix="/"),
        re.compile(r"""href=["'](?:\.\./|\./){0,30}(?:genindex|search)/["']"""),
        _SPHINX_ROOT,
    ),
    Inventory(
        "Sphinx",
        "searchindex.js",
        "searchindex.js",
        from_sphinx_search,
        re.compile(r"_static/(?:doctools|documentation_options|sphinx_highlight)\.js"),
        _SPHINX_ROOT,
    ),
    Inventory("rustdoc", "all.html", "all.html", from_rustdoc, re.compile(r"""content=["']?rustdoc\b""")),
    Inventory("Javadoc", "allclasses-index.html", "allclasses-index.html", from_javadoc, _JAVADOC, _JAVADOC_ROOT),
    Inventory("Javadoc 8", "allclasses-noframe.html", "allclasses-index.html", from_javadoc, _JAVADOC, _JAVADOC_ROOT),
    Inventory(
        "TypeDoc",
        "assets/navigation.js",
        "navigation.js",
        from_typedoc,
        re.compile(r"assets/navigation\.js"),
        re.compile(r"""data-base=["']((?:\.\./|\./){1,30})["']"""),
    ),
    Inventory("pdoc", "search.js", "search.js", from_pdoc, re.compile(r"""content=["']?pdoc\b""")),
)

__all__ = ["FORMATS", "INVENTORIES", "SUFFIXES", "Format", "Inventory", "format_of"]
