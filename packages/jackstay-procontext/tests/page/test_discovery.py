"""Discovery of a table of contents, with a fake fetch function."""

import zlib

import pytest

from procontext.fetch import Fetched, FetchError
from procontext.models import Library
from procontext.page._discovery import FoundIndex, find_index

DOCS = "https://docs.example.com/"
LIBRARY = Library(id="lib", name="Lib", docs_url="https://docs.example.com")

INVENTORY = b"# Sphinx inventory version 2\n#\n#\n#\n" + zlib.compress(b"a std:doc -1 a.html A\n")
SEARCH = b'{"docs": [{"location": "b/", "title": "B"}]}'
SITEMAP = b"<urlset><loc>https://docs.example.com/c</loc></urlset>"
HOME = b"<!doctype html><html><body><nav><a href=d>D</a></nav></body></html>"


async def find(
    pages: dict[str, bytes | FetchError], library: Library = LIBRARY, home: str = DOCS
) -> tuple[FoundIndex, list[str]]:
    requested: list[str] = []

    async def fetch(url: str) -> Fetched:
        requested.append(url)
        page = pages.get(url, FetchError("not_found", url, "HTTP 404"))
        if isinstance(page, FetchError):
            raise page
        return Fetched(url=url, final_url=home if url == library.docs_url else url, body=page, etag='"e"')

    return await find_index(library, fetch), requested


ROWS = [
    ("llms.txt", "llms.txt", b"# L\n- [x](x.md)", "https://docs.example.com/x.md"),
    ("objects.inv", "objects.inv", INVENTORY, "https://docs.example.com/a.html"),
    ("search/search_index.json", "search_index.json", SEARCH, "https://docs.example.com/b/"),
    ("sitemap.xml", "sitemap.xml", SITEMAP, "https://docs.example.com/c"),
    ("", "navigation", HOME, "https://docs.example.com/d"),
]


async def test_first_available_source_is_used(subtests: pytest.Subtests) -> None:
    for first in range(len(ROWS)):
        with subtests.test(first=first):
            pages: dict[str, bytes | FetchError] = {f"{DOCS}{file}": body for file, _, body, _ in ROWS[first:]}
            pages["https://docs.example.com"] = HOME
            found, _ = await find(pages)
            assert found.source == ROWS[first][1]
            assert found.links == (ROWS[first][3],)


async def test_image_is_not_an_index() -> None:
    """Some hosts respond to every URL with the same document."""
    found, _ = await find({"https://docs.example.com": HOME, f"{DOCS}llms.txt": b"\x89PNG\r\n\0\0\0"})
    assert found.source == "navigation"


async def test_named_llms_txt_is_the_only_request() -> None:
    library = Library(id="lib", name="Lib", docs_url=DOCS, llms_txt_url=f"{DOCS}x/llms-full.txt")
    found, requested = await find({f"{DOCS}x/llms-full.txt": b"# Named"}, library)
    assert (found.text, found.source, found.url, found.etag) == (
        "# Named",
        "llms.txt",
        f"{DOCS}x/llms-full.txt",
        '"e"',
    )
    assert requested == [f"{DOCS}x/llms-full.txt"]


async def test_failure_of_named_llms_txt_is_raised() -> None:
    """Otherwise an index from a sitemap would be cached for a day after a short outage."""
    library = Library(id="lib", name="Lib", docs_url=DOCS, llms_txt_url=f"{DOCS}llms.txt")
    failed = FetchError("failed", f"{DOCS}llms.txt", "HTTP 503")
    with pytest.raises(FetchError, match="503"):
        await find({f"{DOCS}llms.txt": failed, f"{DOCS}objects.inv": INVENTORY}, library)


async def test_front_page_is_not_an_llms_txt() -> None:
    library = Library(id="lib", name="Lib", docs_url=DOCS, llms_txt_url=f"{DOCS}llms.txt")
    # A site that responds to every URL with its front page.
    pages: dict[str, bytes | FetchError] = {f"{DOCS}{file}": HOME for file, _, _, _ in ROWS}
    pages[f"{DOCS}/sitemap.xml"] = HOME
    found, _ = await find(pages, library)
    assert found.source == "navigation"
    with pytest.raises(FetchError, match=r"no llms\.txt"):
        await find({f"{DOCS}llms.txt": b"  "}, Library(id="l", name="L", llms_txt_url=f"{DOCS}llms.txt"))


async def test_other_sources_are_relative_to_the_front_page() -> None:
    found, requested = await find(
        {"https://docs.example.com": HOME, f"{DOCS}en/stable/objects.inv": INVENTORY},
        home=f"{DOCS}en/stable/index.html",
    )
    assert found.url == f"{DOCS}en/stable/objects.inv"
    assert requested == ["https://docs.example.com", f"{DOCS}en/stable/llms.txt", f"{DOCS}en/stable/objects.inv"]


async def test_nested_sitemaps() -> None:
    index = b"<sitemapindex>" + b"".join(b"<loc>/s%d.xml</loc>" % n for n in range(12)) + b"</sitemapindex>"
    pages: dict[str, bytes | FetchError] = {
        f"{DOCS}sitemap.xml": index,
        f"{DOCS}s1.xml": SITEMAP,
        f"{DOCS}s2.xml": b"x",
    }
    found, requested = await find(pages)
    assert found.links == (f"{DOCS}c",)
    assert sum("/s" in url and url.endswith(".xml") and "sitemap" not in url for url in requested) == 8


async def test_sitemap_at_the_root_of_the_host() -> None:
    library = Library(id="lib", name="Lib", docs_url=f"{DOCS}guide/")
    sitemap = b"<urlset><loc>/guide/x</loc><loc>/blog/y</loc></urlset>"
    found, _ = await find({f"{DOCS}sitemap.xml": sitemap}, library, home=f"{DOCS}guide/")
    assert found.links == (f"{DOCS}guide/x",)


async def test_nothing_found_and_failures() -> None:
    with pytest.raises(FetchError) as caught:
        await find({})
    assert caught.value.reason == "not_found"
    with pytest.raises(FetchError) as caught:
        await find(
            {
                "https://docs.example.com": b"<html><p>nothing",
                f"{DOCS}objects.inv": FetchError("failed", "u", "HTTP 500"),
            }
        )
    assert (caught.value.reason, caught.value.detail) == ("failed", "HTTP 500")


async def test_site_of_one_page() -> None:
    found, _ = await find({"https://docs.example.com": b"<html><p>All of it."})
    assert (found.source, found.links) == ("navigation", (DOCS,))
