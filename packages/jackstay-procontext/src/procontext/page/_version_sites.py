"""The site of one version of a library's documentation, and the version that a site states.

In this order: what the site itself lists (`versions.json` of mike and the PyData theme), the versions that its front
page links (Docusaurus, VitePress, version menus), then the usual addresses: `/en/4.2/`, `/v4/`, `v4.example.org`,
docs.rs and pkg.go.dev.
"""

import re
from collections.abc import Awaitable, Callable
from html import unescape
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urljoin, urlsplit

import msgspec

from jackstay.types import DECODE_ERRORS
from procontext.fetch import Fetched, FetchError, decode, media_type
from procontext.page._html import is_html
from procontext.resolve import allows, best_version, numbers, wanted_numbers

Fetch: TypeAlias = Callable[[str], Awaitable[Fetched]]

# Addresses that are tried, each with one request.
MAX_PROBES: Final = 8
MAX_REFRESHES: Final = 2
_HEAD_CHARS: Final = 200_000

_NUMBER = r"v?\d+(?:\.\d+)*(?:\.x)?"
# A folder that names a version, or stands for one.
_VERSION_FOLDER = re.compile(rf"/(?:{_NUMBER}|latest|stable|current|main|master|dev|next)(?=/|$)")
_NUMBER_FOLDER = re.compile(rf"/({_NUMBER})(?=/|$)")
_LINK = re.compile(r"""(?:href|value)=["']?([^"'\s>]+)""")
_REFRESH = re.compile(
    r"""<meta[^>]+http-equiv=["']?refresh["']?[^>]+content=["']?\s*(?:\d*\s*;\s*(?:url\s*=)?|url\s*=)\s*['"]?([^"'>\s]+)""",
    re.IGNORECASE,
)
_LISTING = re.compile(r"""theme_switcher_json_url\s*=\s*["']([^"']+)["']""")
_STATED = (
    re.compile(r"""<meta[^>]+name=["']?(?:docsearch:version|docusaurus_version)["']?[^>]+content=["']?([^"'>\s]+)"""),
    re.compile(r"""\bVERSION:\s*["']([^"']+)["']"""),  # Sphinx
    re.compile(r"""class=["']?version["']?[^>]*>\s*(?:version\s*)?([^<\s]+)""", re.IGNORECASE),  # rustdoc, pdoc
    re.compile(r"""<meta[^>]+name=["']?readthedocs-version-slug["']?[^>]+content=["']?([^"'>\s]+)"""),
    re.compile(r"<title>[^<]{0,200}?[\s-]v?(\d+(?:\.\d+)+)[\s<]"),  # TypeDoc, Javadoc, Sphinx
)


class VersionSite(NamedTuple):
    """The front page of the documentation of one version."""

    url: str
    version: str


async def front_page(fetch: Fetch, url: str) -> Fetched:
    """Fetch a front page, and the page to which it refers.

    Raises: FetchError.
    """
    return await follow_refresh(fetch, await fetch(url))


async def follow_refresh(fetch: Fetch, page: Fetched) -> Fetched:
    """Return the page to which a page refers with `<meta http-equiv="refresh">`, or the page itself.

    Raises: FetchError.
    """
    for _ in range(MAX_REFRESHES):
        head = _head(page)
        is_page = is_html(head) or head.lstrip().startswith("<meta") or media_type(page.content_type) == "text/html"
        found = _REFRESH.search(head.partition("<body")[0]) if is_page else None
        if found is None:
            break
        page = await fetch(urljoin(page.final_url, unescape(found[1])))
    return page


def stated_version(page: Fetched) -> str | None:
    """Return the version that a page states, in its metadata or its address; None if it states none."""
    head = _head(page)
    found = (match[1] for pattern in _STATED for match in pattern.finditer(head) if numbers(match[1]))
    return next(found, None) or version_of_url(page.final_url)


def version_of_url(url: str) -> str | None:
    """Return the version that the path or the host of a URL names: `4.2` of `/en/4.2/`, or None."""
    parts = urlsplit(url)
    found = _NUMBER_FOLDER.search(parts.path) or re.search(r"@(v\d[\w.]*)", parts.path)
    host = re.match(r"v?(\d+)\.(?=\D)", parts.netloc)
    return found[1] if found is not None else host[1] if host is not None else None


async def find_version(docs_url: str, wanted: str, fetch: Fetch) -> VersionSite:
    """Return the site of the version that fits best.

    Raises: FetchError: `not_found` if there is none.
    """
    is_package_site = urlsplit(docs_url).netloc in ("docs.rs", "pkg.go.dev")
    try:
        home = None if is_package_site else await front_page(fetch, docs_url)
    except FetchError as error:
        if error.reason != "not_found":
            raise
        home = None
    if home is not None:
        listed = {**_linked(home), **await _listed(home, docs_url, fetch)}
        version = best_version(wanted, listed)
        if version is not None:
            return VersionSite(listed[version], version)
    for url in _addresses(docs_url if home is None else home.final_url, wanted):
        try:
            page = await front_page(fetch, url)
        except FetchError:
            continue
        # Some sites lead from every address to their newest version, or respond with their front page.
        version = version_of_url(page.final_url)
        if version is not None and allows(wanted, version) and (home is None or page.body != home.body):
            return VersionSite(page.final_url, version)
    raise FetchError("not_found", docs_url, f"the site has no documentation of version {wanted}")


def _head(page: Fetched) -> str:
    return decode(page.body, page.content_type)[:_HEAD_CHARS]


async def _listed(home: Fetched, docs_url: str, fetch: Fetch) -> dict[str, str]:
    """Return the versions in a `versions.json`, with their addresses."""
    head = _head(home)
    named = _LISTING.search(head)
    addresses = [urljoin(home.final_url, named[1])] if named is not None else []
    addresses += [
        urljoin(root, "versions.json") for root in dict.fromkeys((_root(home.final_url)[0], urljoin(docs_url, ".")))
    ]
    for address in addresses[:2]:
        try:
            rows = msgspec.json.decode((await fetch(address)).body)
        except (FetchError, *DECODE_ERRORS):
            continue
        entries = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        found = {str(row["version"]): _address(row, address) for row in entries if numbers(str(row.get("version", "")))}
        if found:
            return found
    return {}


def _address(row: dict[str, Any], listing: str) -> str:
    url = row.get("url")
    return urljoin(listing, url) if isinstance(url, str) else urljoin(listing, f"{row['version']}/")


def _linked(home: Fetched) -> dict[str, str]:
    """Return the versions that the front page links, with the folder of each."""
    found: dict[str, str] = {}
    host = urlsplit(home.final_url).netloc
    for match in _LINK.finditer(_head(home)):
        try:
            url = urljoin(home.final_url, match[1])
            parts = urlsplit(url)
        except ValueError:
            continue
        folder = _NUMBER_FOLDER.search(parts.path)
        # Folders below are pages about versions, such as release notes.
        if folder is not None and parts.netloc == host and parts.path.count("/", 0, folder.start()) <= 1:
            found.setdefault(folder[1], f"{parts.scheme}://{host}{parts.path[: folder.end()]}/")
    return found


def _root(url: str) -> tuple[str, bool]:
    """Return the folder in which the versions of a site are, and whether the URL names one of them."""
    parts = urlsplit(url)
    path = parts.path if parts.path.endswith("/") else f"{parts.path.rpartition('/')[0]}/"
    found = _VERSION_FOLDER.search(path)
    if found is not None:
        return f"{parts.scheme}://{parts.netloc}{path[: found.start()]}/", True
    return f"{parts.scheme}://{parts.netloc}{path}", False


def _addresses(url: str, wanted: str) -> list[str]:
    """Return the addresses at which the documentation of a version usually is, the likeliest first."""
    named = wanted_numbers(wanted)
    if not named:
        return []
    complete, series = ".".join(map(str, named)), ".".join(map(str, named[:2]))
    parts = urlsplit(url)
    segments = [segment for segment in parts.path.split("/") if segment]
    if parts.netloc == "docs.rs" and segments:
        name = segments[1] if segments[0] == "crate" else segments[0]
        return [f"https://docs.rs/{name}/{version}/{name.replace('-', '_')}/" for version in (complete, f"~{series}")]
    if parts.netloc == "pkg.go.dev":
        return [f"https://pkg.go.dev{parts.path.partition('@')[0].rstrip('/')}@v{complete}"]
    spellings = [complete, series, f"v{series}", f"{series}.x", f"v{named[0]}", str(named[0]), f"{named[0]}.x"]
    root, is_versioned = _root(url)
    found = [f"{root}{version}/" for version in dict.fromkeys(spellings)]
    if not is_versioned and (parts.netloc.endswith((".readthedocs.io", ".rtfd.io")) or "/en/" in root):
        found = [urljoin(root, f"/en/{version}/") for version in dict.fromkeys((complete, series, f"v{complete}"))]
    host = parts.netloc.removeprefix("www.")
    return [*found[: MAX_PROBES - 2], f"https://{named[0]}.{host}/", f"https://v{named[0]}.{host}/"]


__all__ = ["VersionSite", "find_version", "follow_refresh", "front_page", "stated_version", "version_of_url"]
