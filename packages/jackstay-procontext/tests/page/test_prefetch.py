"""Pages that are fetched for a search or by `procontext fetch`: politeness, limits, refresh, and what is reported."""

import asyncio
from pathlib import Path

import pytest

from procontext.models import IndexText, Library
from procontext.page import LibraryDocuments
from procontext.page._prefetch import pages_of_full_text, readable_links
from scripted.documentation import Request, Route, Rows, Site, held, status, text
from scripted.library import Clock, library, opened


def pages(count: int) -> dict[str, Route]:
    """A site with a table of contents and some pages."""
    routes = {f"/p{number}.md": text(f"# Page {number}\n\nA bowline{number}.\n") for number in range(count)}
    routes["/llms.txt"] = text("# Docs\n" + "\n".join(f"- [P](/p{number}.md)" for number in range(count)))
    return routes


async def found(documents: LibraryDocuments, query: str) -> list[str]:
    return [hit.url.rpartition("/")[2] for hit in await documents.search("lib", query)]


async def test_first_search_fetches_the_pages(tmp_path: Path) -> None:
    clock = Clock()
    async with Site(pages(8)) as site, opened(tmp_path, site, clock) as documents:
        coverage = await documents.cover(library(site), 60.0)
        assert (coverage.pages, coverage.total, coverage.is_fetching, coverage.problem) == (8, 8, False, "")
        assert await found(documents, "bowline5") == ["p5.md"]
        count = len(site.requests)
        await documents.cover(library(site), 60.0)
        clock.pass_hours(1)  # nothing is missing, so nothing is fetched
        await documents.cover(library(site), 60.0)
        assert [path for path in site.paths[count:] if path.startswith("/p")] == []


async def test_background_fetch_has_a_limit(tmp_path: Path) -> None:
    async with Site(pages(8)) as site, opened(tmp_path, site, background_pages=3) as documents:
        coverage = await documents.cover(library(site), 60.0)
        assert (coverage.pages, coverage.total) == (3, 8)


def harbour(until: asyncio.Event) -> dict[str, Route]:
    """A site with 20 pages that respond late, and three pages about subjects."""
    routes = {path: held(until, route) for path, route in pages(20).items()}
    links = [f"[P](/p{number}.md)" for number in range(20)]
    links += ["[Anchoring boats](/a.md)", "[Part](/anchors/drop.md)", "[API](/b.md)", "[Sail](/b.md#s)"]
    routes["/llms.txt"] = text("# Docs\n" + "\n".join(f"- {link}" for link in links))
    return routes | {path: text(f"# Page {path}\n") for path in ("/a.md", "/anchors/drop.md", "/b.md")}


async def test_pages_about_the_query_are_fetched_first(tmp_path: Path) -> None:
    """The words are those of titles and addresses, in any form. The limit applies to the others."""
    release = asyncio.Event()
    async with Site(harbour(release)) as site, opened(tmp_path, site, background_pages=2) as documents:
        coverage = await documents.cover(library(site), 60.0, "how do I anchor boats")
        assert (coverage.pages, coverage.total, coverage.is_fetching) == (2, 23, False)
        assert set(site.paths) >= {"/a.md", "/anchors/drop.md"}
        assert not any(path.startswith("/p") for path in site.paths)


async def test_later_query_changes_the_order_of_what_remains(tmp_path: Path) -> None:
    release = asyncio.Event()
    async with Site(harbour(release)) as site, opened(tmp_path, site) as documents:
        while (await documents.cover(library(site), 0.01)).is_fetching and "/p5.md" not in site.paths:
            pass
        await documents.cover(library(site), 0.001, "sails")
        release.set()
        coverage = await documents.cover(library(site), 60.0)
        assert (coverage.pages, coverage.is_fetching) == (23, False)
    fetched = [path for path in site.paths if path.endswith(".md")]
    assert set(fetched[:6]) == {f"/p{number}.md" for number in range(6)}
    # Six requests are sent at once, so they may arrive in another order than that of the list, where `/b.md` was last.
    assert fetched.index("/b.md") < fetched.index("/p19.md")


async def test_nothing_is_fetched_in_the_background_if_it_is_off(tmp_path: Path) -> None:
    async with Site(pages(2)) as site, opened(tmp_path, site, background_pages=0) as documents:
        coverage = await documents.cover(library(site))
        assert (coverage.pages, coverage.total, site.paths) == (0, None, [])


async def test_search_does_not_wait_for_slow_pages(tmp_path: Path) -> None:
    release = asyncio.Event()
    routes = pages(2)
    routes["/p1.md"] = held(release, routes["/p1.md"])
    async with Site(routes) as site, opened(tmp_path, site) as documents:
        coverage = await documents.cover(library(site), 0.001)
        assert coverage.is_fetching
        release.set()
        coverage = await documents.cover(library(site), 60.0)
        assert (coverage.pages, coverage.is_fetching) == (2, False)


async def test_missing_table_of_contents_is_reported(tmp_path: Path) -> None:
    async with Site({}) as site, opened(tmp_path, site) as documents:
        coverage = await documents.cover(library(site), 60.0)
        assert (coverage.pages, coverage.total) == (0, None)
        assert "No table of contents was found for library 'lib'" in coverage.problem


async def test_llms_full_replaces_requests(tmp_path: Path) -> None:
    """Pages of other sites in it, and pages that the table of contents does not link, are not stored."""
    async with Site(pages(2)) as site:
        full = f"# One\nSource: {site.url}/p0\n\nA bowline.\n\n## Use\n\nTie it.\n"
        full += f"\n# Two\nSource: {site.url}/p1.md\n\nA hitch.\n"
        full += "\n# Three\nSource: https://elsewhere.example/x\n\nA trap.\n"
        site.routes["/llms-full.txt"] = text(full, "text/plain")
        async with opened(tmp_path, site) as documents:
            coverage = await documents.cover(library(site), 60.0)
            assert (coverage.pages, coverage.total) == (2, 2)
            assert await found(documents, "hitch") == ["p1.md"]
            assert await found(documents, "trap") == []
            assert (await documents.page(f"{site.url}/p0.md")).lines[0] == "# One"
        assert site.paths == ["/llms.txt", "/robots.txt", "/llms-full.txt"]


async def test_robots_txt_is_respected(tmp_path: Path) -> None:
    routes = pages(4)
    routes["/robots.txt"] = text("User-agent: *\nDisallow: /p2\n", "text/plain")
    async with Site(routes) as site, opened(tmp_path, site) as documents:
        report = await documents.prefetch(library(site))
        assert (report.stored, report.total, report.excluded) == (3, 4, 1)
        assert "/p2.md" not in site.paths
        assert site.paths.count("/robots.txt") == 1


@pytest.mark.parametrize(("code", "stored"), [(401, 2), (404, 2), (429, 0), (500, 0), (503, 0)])
async def test_robots_txt_that_cannot_be_read(code: int, stored: int, tmp_path: Path) -> None:
    """An error of the host excludes everything until it can be read (RFC 9309, 2.3.1.4)."""
    clock = Clock()
    async with Site(pages(2) | {"/robots.txt": status(code)}) as site, opened(tmp_path, site, clock) as documents:
        coverage = await documents.cover(library(site), 60.0)
        assert (coverage.pages, coverage.total) == (stored, 2)
        assert (f"robots.txt could not be read: the host responded with HTTP {code}." in coverage.problem) == (
            not stored
        )
        assert site.paths.count("/robots.txt") == 1
        assert any(path.startswith(("/p", "/llms-full")) for path in site.paths) == bool(stored)
        site.routes["/robots.txt"] = status(404)
        clock.pass_hours(1)
        assert (await documents.cover(library(site), 60.0)).pages == 2


async def test_retry_after_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[str] = []
    pauses: list[float] = []

    async def busy(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        attempts.append(request.target)
        if len(attempts) < 3:
            await text("", "text/plain", 429, Retry_After="7")(request, reader, writer)
        else:
            await text("# Bowline\n")(request, reader, writer)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    routes = pages(2) | {"/p0.md": busy, "/p1.md": text("", "text/plain", 503, Retry_After="3600")}
    async with Site(routes) as site, opened(tmp_path, site) as documents:
        monkeypatch.setattr(documents._prefetcher, "_sleep", sleep)
        report = await documents.prefetch(library(site))
        assert (report.stored, report.total) == (1, 2)
        assert (len(attempts), pauses) == (3, [7.0, 7.0])
        assert site.paths.count("/p1.md") == 1


async def test_fetch_refreshes_what_is_stale(tmp_path: Path) -> None:
    clock = Clock()
    async with Site(pages(3)) as site:
        async with opened(tmp_path, site, clock) as documents:
            assert (await documents.prefetch(library(site))).stored == 3
        clock.pass_hours(48)
        site.routes |= pages(4)
        site.routes["/p1.md"] = text("# Page 1\n\nA sheet bend.\n")
        async with opened(tmp_path, site, clock) as documents:
            report = await documents.prefetch(library(site))
            assert (report.stored, report.total) == (4, 4)
            assert await found(documents, "sheet bend") == ["p1.md"]
            page = await documents.page(f"{site.url}/p1.md")
            assert (page.lines[-1], page.stale) == ("A sheet bend.", False)


async def test_pages_beyond_the_limit_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("procontext.page._prefetch.MAX_PAGES", 2)
    async with Site(pages(5)) as site, opened(tmp_path, site) as documents:
        report = await documents.prefetch(library(site))
        assert (report.stored, report.total, report.beyond_limit) == (2, 5, 3)


async def test_folder_is_always_indexed(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nbowline\n")
    local = Library(id="lib", name="Lib", path=str(folder))
    async with Site({}) as site, opened(tmp_path, site, rows=Rows(local), offline=True) as documents:
        coverage = await documents.cover(local)
        assert (coverage.pages, coverage.total) == (1, 1)
        (folder / "b.md").write_text("# B\n\nhitch\n")
        (folder / "a.md").write_text("# A\n\nsheet bend\n")
        coverage = await documents.cover(local)
        assert (coverage.pages, coverage.total) == (2, 2)
        assert await found(documents, "sheet bend") == ["a.md"]
        assert await found(documents, "bowline") == []


async def test_closing_stops_the_background_fetch(tmp_path: Path) -> None:
    never = asyncio.Event()
    routes = pages(1)
    routes["/p0.md"] = held(never, status(200))
    async with Site(routes) as site, opened(tmp_path, site) as documents:
        assert (await documents.cover(library(site), 0.001)).is_fetching


def test_pages_of_full_text() -> None:
    assert list(pages_of_full_text("intro\n# A\n\nURL: https://a.example/a\ntext\n# B\nno source\n")) == [
        ("https://a.example/a", "# A\n\ntext\n# B\nno source\n")
    ]
    assert list(pages_of_full_text("# A\nwithout sources")) == []


def test_unreadable_links_are_no_pages() -> None:
    index = IndexText(text="[a](/a.md) [b](/b.PNG?x=1) [c](/c)", source="llms.txt", url="https://a.example/llms.txt")
    assert readable_links(index) == ["https://a.example/a.md", "https://a.example/c"]
