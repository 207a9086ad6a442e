"""The site of a version, with a fake fetch function: each row is the layout of a real kind of site."""

import pytest

from procontext.fetch import Fetched, FetchError
from procontext.page._version_sites import find_version, front_page, stated_version, version_of_url

MIKE = '[{"version": "2.1", "title": "2.1", "aliases": ["latest"]}, {"version": "1.4", "aliases": []}]'
SWITCHER = '[{"name": "dev", "version": "dev", "url": "/doc/devdocs/"}, {"version": "1.26", "url": "/doc/1.26/"}]'
MENU = '<a href="/docs/next/intro">Next</a><a href="/docs/2.x/intro">2.x</a><a href="/blog/releases/2.4/">News</a>'
REFRESH = '<meta http-equiv="refresh" content="0; url=latest/">'

# The site, the version, and the address of its documentation.
SITES: list[tuple[str, dict[str, str], str, str]] = [
    ("https://x.readthedocs.io", {"/": "", "/en/4.2/": "old"}, "4.2.11", "https://x.readthedocs.io/en/4.2/"),
    ("https://x.org/en/stable/", {"/en/stable/": "", "/en/v1/": "old"}, "1", "https://x.org/en/v1/"),
    (
        "https://m.io/kit/",
        {"/kit/": REFRESH, "/kit/latest/": "new", "/kit/versions.json": MIKE},
        ">=1,<2",
        "https://m.io/kit/1.4/",
    ),
    (
        "https://n.org/doc/stable/",
        {
            "/doc/stable/": "DOCUMENTATION_OPTIONS.theme_switcher_json_url = '/doc/_static/versions.json'",
            "/doc/_static/versions.json": SWITCHER,
        },
        "==1.26.4",
        "https://n.org/doc/1.26/",
    ),
    ("https://d.io/docs", {"/docs": MENU}, "^2.3", "https://d.io/docs/2.x/"),
    ("https://v.dev", {"/": "new", "v3.v.dev/": "old"}, "3.4.1", "https://v3.v.dev/"),
    (
        "https://docs.rs/serde-json",
        {"/serde-json/1.0.9/serde_json/": "x"},
        "1.0.9",
        "https://docs.rs/serde-json/1.0.9/serde_json/",
    ),
    ("https://pkg.go.dev/a.b/c", {"/a.b/c@v1.9.1": "x"}, "v1.9.1", "https://pkg.go.dev/a.b/c@v1.9.1"),
]


def fetching(home: str, pages: dict[str, str], requested: list[str]):  # type: ignore[no-untyped-def]
    host = home.split("/")[2]
    known = {f"https://{path}" if path[0] != "/" else f"https://{host}{path}": body for path, body in pages.items()}

    async def fetch(url: str) -> Fetched:
        requested.append(url)
        key = url if url in known else f"{url}/"
        if key not in known:
            raise FetchError("not_found", url, "HTTP 404")
        return Fetched(url=url, final_url=key, body=known[key].encode())

    return fetch


@pytest.mark.parametrize(("home", "pages", "wanted", "url"), SITES)
async def test_site_of_a_version(home: str, pages: dict[str, str], wanted: str, url: str) -> None:
    requested: list[str] = []
    fetch = fetching(home, pages, requested)
    assert (await find_version(home, wanted, fetch)).url == url
    assert len(requested) <= 12
    with pytest.raises(FetchError, match="no documentation of version 99"):
        await find_version(home, "99", fetch)


async def test_site_that_responds_to_every_address() -> None:
    async def same(url: str) -> Fetched:
        return Fetched(url=url, final_url=url, body=b"<p>front page")

    async def newest(url: str) -> Fetched:
        return Fetched(url=url, final_url="https://x.org/5.0/", body=url.encode())

    async def failing(url: str) -> Fetched:
        raise FetchError("failed", url, "HTTP 500")

    for fetch in (same, newest, failing):
        with pytest.raises(FetchError):
            await find_version("https://x.org/", "4.2", fetch)


STATED = [
    ('<meta name="docsearch:version" content="2.x">', "2.x"),
    ("<script>var DOCUMENTATION_OPTIONS = { VERSION: '3.1.3' }</script>", "3.1.3"),
    ('<span class="version">1.0.219</span>', "1.0.219"),
    ('<meta name="readthedocs-version-slug" content="v2.0" />', "v2.0"),
    ("<title>typed-kit - v0.9.1</title>", "0.9.1"),
    ('<meta name="docusaurus_version" content="current"><title>Kit</title>', None),
]


@pytest.mark.parametrize(("head", "version"), STATED)
def test_stated_version(head: str, version: str | None) -> None:
    url = "https://x.org/docs/"
    assert stated_version(Fetched(url=url, final_url=url, body=head.encode())) == version


def test_version_of_url() -> None:
    assert version_of_url("https://x.org/en/4.2/topics/") == "4.2"
    assert version_of_url("https://v3.x.org/docs") == "3"
    assert version_of_url("https://pkg.go.dev/a.b/c@v1.9.1") == "v1.9.1"
    assert version_of_url("https://x.org/blog/2x/") is None


async def test_endless_refresh() -> None:
    requested: list[str] = []
    page = await front_page(
        fetching("https://x.org", {"/": REFRESH.replace("latest/", "/")}, requested), "https://x.org/"
    )
    assert (page.final_url, len(requested)) == ("https://x.org/", 3)
