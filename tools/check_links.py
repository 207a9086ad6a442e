"""Check every link of a built site: `python tools/check_links.py build/site`.

A link inside the site must lead to an existing file and anchor; every page must be reachable from the first one;
nothing may be loaded from other hosts. External addresses are not fetched, but their form is checked; `--list` prints
them.
"""

import argparse
import ipaddress
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

# Attributes that a browser loads automatically.
LOADS = {
    ("script", "src"),
    ("img", "src"),
    ("img", "srcset"),
    ("source", "src"),
    ("source", "srcset"),
    ("video", "src"),
    ("video", "poster"),
    ("audio", "src"),
    ("track", "src"),
    ("iframe", "src"),
    ("embed", "src"),
    ("object", "data"),
    ("image", "href"),
    ("image", "xlink:href"),
    ("use", "href"),
    ("use", "xlink:href"),
}
# `link` elements that load nothing.
SILENT_RELATIONS = {"index", "search", "next", "prev", "canonical", "author", "license"}

CSS_ADDRESS = re.compile(r"(?:url\(\s*|@import\s+)[\"']?([^\"')\s;]+)")
# A script that requests something from another host. Addresses in comments and licences are harmless.
SCRIPT_ADDRESS = re.compile(
    r"(?:fetch|importScripts|import|open|\.src\s*=|\.href\s*=)\s*\(?\s*[\"'`]((?:https?:)?//[^\"'`]+)"
)
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.IGNORECASE)


class Link(NamedTuple):
    """The target of an element, and whether a browser loads it automatically."""

    address: str
    is_loaded: bool


class Page(HTMLParser):
    """The links and the anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[Link] = []
        self.anchors: list[str] = []
        self._is_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self._is_style = tag == "style"
        if "id" in values:
            self.anchors.append(values["id"])
        if tag == "a" and "name" in values:
            self.anchors.append(values["name"])
        for name, value in values.items():
            if name == "style":
                self._take_styles(value)
            elif (tag, name) in LOADS:
                parts = value.split(",") if name == "srcset" else [value]
                self.links.extend(Link(part.split()[0], True) for part in parts if part.strip())
            elif tag == "link" and name == "href":
                is_loaded = not SILENT_RELATIONS.issuperset(values.get("rel", "").lower().split())
                self.links.append(Link(value, is_loaded))
            elif name in ("href", "action"):
                self.links.append(Link(value, False))

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002  # the signature of the base class
        self._is_style = False

    def handle_data(self, data: str) -> None:
        if self._is_style:
            self._take_styles(data)

    def _take_styles(self, text: str) -> None:
        self.links.extend(Link(address, True) for address in CSS_ADDRESS.findall(text))


class Report(NamedTuple):
    """The problems, one line each; the external addresses; the number of pages and links."""

    flaws: list[str]
    outside: list[str]
    pages: int
    links: int


def check(site: Path) -> Report:
    """Check every page, style sheet and script in this folder."""
    site = site.resolve()
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    anchors = {file: set(page.anchors) for file, page in pages.items()}
    flaws: list[str] = []
    outside: set[str] = set()
    leads_to: dict[Path, set[Path]] = {}
    for file, page in pages.items():
        shown = file.relative_to(site)
        twice = sorted({name for name in page.anchors if page.anchors.count(name) > 1})
        flaws.extend(f"{shown}: two elements have the id {name!r}" for name in twice)
        for link in page.links:
            flaw = flaw_of(link, file, site, anchors)
            if flaw:
                flaws.append(f"{shown}: {link.address}: {flaw}")
            elif is_outside(link.address):
                outside.add(link.address)
            else:
                leads_to.setdefault(file, set()).add(aim(link.address, file)[0])
    flaws.extend(flaws_of_files(site))
    flaws.extend(f"{page.relative_to(site)}: no link leads here" for page in unreached(site, pages, leads_to))
    return Report(flaws, sorted(outside), len(pages), sum(len(page.links) for page in pages.values()))


def is_outside(address: str) -> bool:
    """True if an address leads out of the site."""
    return bool(re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//", address))


def aim(address: str, file: Path) -> tuple[Path, str]:
    """Return the file and the anchor of a link."""
    path, _, anchor = address.partition("#")
    path = unquote(path.partition("?")[0])
    return (file.parent / path).resolve() if path else file, unquote(anchor)


def flaw_of(link: Link, file: Path, site: Path, anchors: dict[Path, set[str]]) -> str:
    """Return the problem of a link; empty if there is none."""
    if link.address.startswith("data:"):
        return ""
    if is_outside(link.address):
        return "loaded from elsewhere" if link.is_loaded else flaw_of_address(link.address)
    if link.address.startswith("/"):
        return "works only if the site is at the root of a host"
    aimed, anchor = aim(link.address, file)
    if site not in (aimed, *aimed.parents):
        return "leads out of the site"
    if not aimed.is_file():
        return "there is no such file"
    if anchor and aimed in anchors and anchor not in anchors[aimed]:
        return f"there is no {anchor!r} in that page"
    return ""


def flaw_of_address(address: str) -> str:
    """Return the problem with the form of an external address, which is not fetched; empty if there is none."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme == "mailto":
        return "" if re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", parts.path) else "not a mail address"
    if parts.scheme not in ("http", "https"):
        return "neither http nor https"
    if parts.username is not None:
        return "has a user name in it"
    if re.search(r"[\s<>\"{}|\\^`]", address):
        return "has a character that must be escaped"
    return "" if is_host(host) else "has no sound host name"


def is_host(host: str) -> bool:
    """True if this can be a host name or an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        labels = host.split(".")
        return host == "localhost" or (len(labels) > 1 and all(LABEL.fullmatch(label) for label in labels))
    return True


def flaws_of_files(site: Path) -> list[str]:
    """Return the problems of resources that styles, scripts and pictures load."""
    flaws: list[str] = []
    for file in sorted(site.rglob("*")):
        if file.suffix not in (".css", ".js", ".svg"):
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        shown = file.relative_to(site)
        if file.suffix == ".js":
            flaws.extend(f"{shown}: {found}: loaded from elsewhere" for found in SCRIPT_ADDRESS.findall(text))
            continue
        links = Page(text).links if file.suffix == ".svg" else []
        loaded = [link.address for link in links if link.is_loaded]
        loaded += CSS_ADDRESS.findall(re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))
        for address in dict.fromkeys(loaded):
            if address.startswith(("data:", "#")):
                continue
            if is_outside(address) or address.startswith("/"):
                flaws.append(f"{shown}: {address}: loaded from elsewhere")
            elif not aim(address, file)[0].is_file():
                flaws.append(f"{shown}: {address}: there is no such file")
    return flaws


def unreached(site: Path, pages: dict[Path, Page], leads_to: dict[Path, set[Path]]) -> list[Path]:
    """Return pages that cannot be reached from the first one."""
    first = site / "index.html"
    if first not in pages:
        return [first]
    seen, waiting = {first}, [first]
    while waiting:
        for page in leads_to.get(waiting.pop(), set()) & pages.keys() - seen:
            seen.add(page)
            waiting.append(page)
    return sorted(pages.keys() - seen)


def main() -> int:
    """Check a site and print each problem. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("--list", action="store_true", help="print the external addresses, too")
    options = parser.parse_args()
    report = check(options.site)
    if options.list:
        print("\n".join(report.outside))
    for flaw in report.flaws:
        print(flaw, file=sys.stderr)
    print(
        f"{report.pages} pages, {report.links} links, {len(report.outside)} external addresses (not fetched), "
        f"{len(report.flaws)} flaws"
    )
    return 1 if report.flaws else 0


if __name__ == "__main__":
    sys.exit(main())
