"""Where a table of contents comes from, in order (design, section 1, row "entries without llms.txt"). The fetch is a table."""

import zlib

import pytest

from procontext.fetch import Fetched, FetchError
from procontext.models import Library
from procontext.page._finding import FoundIndex, find_index
from scripted.loop import timed

DOCS = "https://docs.example.com/"
LIBRARY = Library(id="lib", name="Lib", docs_url="https://docs.example.com")

INVENTORY = b"# Sphinx inventory version 2\n#\n#\n#\n" + zlib.compress(b"a std:doc -1 a.html A\n")
SEARCH = b'{"docs": [{"location": "b/", "title": "B"}]}'
SITEMAP = b"<urlset><loc>https://docs.example.com/c</loc></urlset>"
HOME = b"<!doctype html><html><body><nav><a href=d>D</a></nav></body></html>"


async def find(
    pages: dict[str, bytes | FetchError], library: Library = LIBRARY, home: str = DOCS
) -> tuple[FoundIndex, list[str]]:
    asked: list[str] = []

    async def fetch(url: str) -> Fetched:
        asked.append(url)
        answer = pages.get(url, FetchError("not_found", url, "HTTP 404"))
        if isinstance(answer, FetchError):
            raise answer
        return Fetched(url=url, final_url=home if url == library.docs_url else url, body=answer, etag='"e"')

    return await find_index(library, fetch), asked


ROWS = [
    ("llms.txt", "llms.txt", b"# L\n- [x](x.md)", "https://docs.example.com/x.md"),
    ("objects.inv", "objects.inv", INVENTORY, "https://docs.example.com/a.html"),
    ("search/search_index.json", "search_index.json", SEARCH, "https://docs.example.com/b/"),
    ("sitemap.xml", "sitemap.xml", SITEMAP, "https://docs.example.com/c"),
    ("", "navigation", HOME, "https://docs.example.com/d"),
]


@pytest.mark.parametrize("first", range(len(ROWS)))
def test_the_first_source_that_a_site_has_is_taken(first: int) -> None:
    @timed
    async def scenario() -> None:
        pages: dict[str, bytes | FetchError] = {f"{DOCS}{file}": body for file, _, body, _ in ROWS[first:]}
        pages["https://docs.example.com"] = HOME
        found, _ = await find(pages)
        assert found.source == ROWS[first][1]
        assert found.links == (ROWS[first][3],)

    scenario()


@timed
async def test_a_picture_is_no_table_of_contents() -> None:
    """Design, section 4: a host that answers every address with the same."""
    found, _ = await find({"https://docs.example.com": HOME, f"{DOCS}llms.txt": b"\x89PNG\r\n\0\0\0"})
    assert found.source == "navigation"


@timed
async def test_the_llms_txt_that_is_named_is_asked_for_alone() -> None:
    library = Library(id="lib", name="Lib", docs_url=DOCS, llms_txt_url=f"{DOCS}x/llms-full.txt")
    found, asked = await find({f"{DOCS}x/llms-full.txt": b"# Named"}, library)
    assert (found.text, found.source, found.url, found.etag) == (
        "# Named",
        "llms.txt",
        f"{DOCS}x/llms-full.txt",
        '"e"',
    )
    assert asked == [f"{DOCS}x/llms-full.txt"]


@timed
async def test_a_failure_of_the_named_llms_txt_is_not_papered_over() -> None:
    """What is made of a sitemap during an outage would be served for a day."""
    library = Library(id="lib", name="Lib", docs_url=DOCS, llms_txt_url=f"{DOCS}llms.txt")
    failed = FetchError("failed", f"{DOCS}llms.txt", "HTTP 503")
    with pytest.raises(FetchError, match="503"):
        await find({f"{DOCS}llms.txt": failed, f"{DOCS}objects.inv": INVENTORY}, library)


@timed
async def test_a_front_page_in_place_of_an_llms_txt_is_not_one() -> None:
    library = Library(id="lib", name="Lib", docs_url=DOCS, llms_txt_url=f"{DOCS}llms.txt")
    # A site that answers everything with its front page.
    pages: dict[str, bytes | FetchError] = {f"{DOCS}{file}": HOME for file, _, _, _ in ROWS}
    pages[f"{DOCS}/sitemap.xml"] = HOME
    found, _ = await find(pages, library)
    assert found.source == "navigation"
    with pytest.raises(FetchError, match=r"no llms\.txt"):
        await find({f"{DOCS}llms.txt": b"  "}, Library(id="l", name="L", llms_txt_url=f"{DOCS}llms.txt"))


@timed
async def test_the_rest_is_looked_for_where_the_front_page_leads() -> None:
    found, asked = await find(
        {"https://docs.example.com": HOME, f"{DOCS}en/stable/objects.inv": INVENTORY},
        home=f"{DOCS}en/stable/index.html",
    )
    assert found.url == f"{DOCS}en/stable/objects.inv"
    assert asked == ["https://docs.example.com", f"{DOCS}en/stable/llms.txt", f"{DOCS}en/stable/objects.inv"]


@timed
async def test_sitemaps_of_a_sitemap_are_read() -> None:
    index = b"<sitemapindex>" + b"".join(b"<loc>/s%d.xml</loc>" % n for n in range(12)) + b"</sitemapindex>"
    pages: dict[str, bytes | FetchError] = {
        f"{DOCS}sitemap.xml": index,
        f"{DOCS}s1.xml": SITEMAP,
        f"{DOCS}s2.xml": b"x",
    }
    found, asked = await find(pages)
    assert found.links == (f"{DOCS}c",)
    assert sum("/s" in url and url.endswith(".xml") and "sitemap" not in url for url in asked) == 8


@timed
async def test_the_sitemap_of_the_host_is_the_last_but_one() -> None:
    library = Library(id="lib", name="Lib", docs_url=f"{DOCS}guide/")
    sitemap = b"<urlset><loc>/guide/x</loc><loc>/blog/y</loc></urlset>"
    found, _ = await find({f"{DOCS}sitemap.xml": sitemap}, library, home=f"{DOCS}guide/")
    assert found.links == (f"{DOCS}guide/x",)


@timed
async def test_a_site_with_nothing_is_not_found_and_one_that_failed_may_have_something() -> None:
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
