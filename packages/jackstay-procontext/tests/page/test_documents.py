"""Documents of a site on loopback: caching, refresh, folders."""

import asyncio
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from procontext.errors import ProContextError
from procontext.fetch import Sites
from procontext.interfaces import Documents
from procontext.models import Library
from procontext.page import LibraryDocuments
from scripted.documentation import (
    LoopbackNetwork,
    RecordingNetwork,
    Rows,
    Site,
    held,
    redirect,
    settings,
    status,
    text,
    validated,
)
from scripted.library import Clock, code_of, library, opened, settled


async def test_implements_documents(tmp_path: Path) -> None:
    async with Site() as site, opened(tmp_path, site) as documents:
        contract: Documents = documents
        assert contract is documents
        assert "LibraryDocuments" in repr(documents)
        assert (await documents.status()).documents == 0
        await documents.close()  # closing twice is allowed


# --- pages ------------------------------------------------------------------------------------------------------------


async def test_page_is_fetched_once_and_cached(tmp_path: Path) -> None:
    clock = Clock()
    async with Site({"/a.md": text("# A\n\ntext\n")}) as site:
        async with opened(tmp_path, site, clock) as documents:
            page = await documents.page(f"{site.url}/a.md#part")
            assert page.url == f"{site.url}/a.md#part"
            assert page.lines == ("# A", "", "text")
            assert (page.cached, page.cached_at, page.stale) == (False, None, False)
            clock.pass_hours(1)
            again = await documents.page(f"{site.url}/a.md")
            assert (again.cached, again.stale, again.url) == (True, False, f"{site.url}/a.md")
            assert again.cached_at == datetime.fromtimestamp(1_000_000, UTC)
            assert again.lines is page.lines
        async with opened(tmp_path, site, clock) as documents:  # as after a restart
            third = await documents.page(f"{site.url}/a.md")
            assert (third.lines, third.headings, third.cached) == (page.lines, page.headings, True)
        assert site.paths == ["/a.md"]


async def test_pages_at_once_share_one_allowlist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Sites] = []

    class Counted(Sites):
        def __init__(self, libraries: Iterable[Library]) -> None:
            super().__init__(libraries)
            made.append(self)

    monkeypatch.setattr("procontext.page._documents.Sites", Counted)
    routes = {f"/{number}.md": text(f"# {number}\n") for number in range(20)}
    async with Site(routes) as site, opened(tmp_path, site) as documents:
        await asyncio.gather(*(documents.page(f"{site.url}{path}") for path in routes))
    assert len(made) == 1


async def test_html_links_are_relative_to_the_final_url(tmp_path: Path) -> None:
    html = "<!doctype html><html><body><main><h1 id=t>T</h1><a href=x>x</a></main></body></html>"
    routes = {
        "/p": redirect("/q/p"),
        "/q/p": text(html, "text/html"),
        "/sniffed": text(html, "text/plain"),
    }
    async with Site(routes) as site, opened(tmp_path, site) as documents:
        page = await documents.page(f"{site.url}/p")
        assert page.lines == ("# T {#t}", "", f"[x]({site.url}/q/x)")
        assert page.headings[0].anchor == "t"
        assert (await documents.page(f"{site.url}/sniffed")).lines[0] == "# T {#t}"


async def test_page_that_refers_to_another(tmp_path: Path) -> None:
    """mike, Javadoc and GitHub Pages have such pages; Markdown about them is no such page."""
    refresh = (
        '<!doctype html><html><head><meta http-equiv="refresh" content="0; url=new/"></head><body>Moved</body></html>'
    )
    routes = {
        "/old/": text(refresh, "text/html", etag='"1"'),
        "/old/new/": text('<html><main><h1>New</h1><a href="a">a</a></main></html>', "text/html"),
        "/about.md": text(f"# Refresh\n\n{refresh}"),
        "/lost/": text(refresh, "text/html"),
    }
    async with Site(routes) as site, opened(tmp_path, site) as documents:
        page = await documents.page(f"{site.url}/old/")
        assert page.lines == ("# New", "", f"[a]({site.url}/old/new/a)")
        assert page.url == f"{site.url}/old/"
        assert (await documents.page(f"{site.url}/about.md")).lines[0] == "# Refresh"
        assert (await documents.page(f"{site.url}/lost/")).lines[-1] == "Moved"


async def test_stale_page_is_refreshed_in_background(tmp_path: Path) -> None:
    """The stale page is returned at once (stale-while-revalidate, RFC 5861)."""
    clock, resume = Clock(), asyncio.Event()
    async with Site({"/a": text("old")}) as site, opened(tmp_path, site, clock) as documents:
        await documents.page(f"{site.url}/a")
        site.routes["/a"] = held(resume, text("new"))
        clock.pass_hours(24)
        for _ in range(3):  # no call waits, and there is one request
            stale = await documents.page(f"{site.url}/a")
            assert (stale.lines, stale.cached, stale.stale) == (("old",), True, True)
        resume.set()
        await settled(documents)
        fresh = await documents.page(f"{site.url}/a")
        assert (fresh.lines, fresh.stale) == (("new",), False)
        assert len(site.requests) == 2


async def test_unchanged_page_is_revalidated(tmp_path: Path) -> None:
    clock = Clock()
    async with Site({"/a": validated("# A", '"1"')}) as site, opened(tmp_path, site, clock) as documents:
        await documents.page(f"{site.url}/a")
        clock.pass_hours(30)
        assert (await documents.page(f"{site.url}/a")).stale
        await settled(documents)
        again = await documents.page(f"{site.url}/a")
        assert (again.stale, again.lines) == (False, ("# A",))
        assert again.cached_at == datetime.fromtimestamp(1_000_000, UTC)  # the text is unchanged
        assert site.requests[1].headers["if-none-match"] == '"1"'


async def test_failed_refresh_keeps_the_page_and_waits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    async with Site({"/a": text("old")}) as site, opened(tmp_path, site, clock) as documents:
        await documents.page(f"{site.url}/a")
        site.routes["/a"] = status(500)
        clock.pass_hours(25)
        for _ in range(3):
            assert (await documents.page(f"{site.url}/a")).lines == ("old",)
            await settled(documents)
        assert len(site.requests) == 2
        clock.pass_hours(0.1)
        await documents.page(f"{site.url}/a")
        await settled(documents)
        assert len(site.requests) == 3
    assert "cannot refresh" in caplog.text


async def test_unexpected_error_in_refresh_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    async with Site({"/a": text("old")}) as site, opened(tmp_path, site, clock) as documents:
        await documents.page(f"{site.url}/a")
        clock.pass_hours(25)
        monkeypatch.setattr("procontext.page._documents.convert_fetched", None)
        await documents.page(f"{site.url}/a")
        await settled(documents)
    assert [record.levelno for record in caplog.records if record.exc_info] == [logging.ERROR]


async def test_page_refreshed_by_another_process(tmp_path: Path) -> None:
    clock = Clock()
    async with Site({"/a": text("old")}) as site, opened(tmp_path, site, clock) as first:
        await first.page(f"{site.url}/a")
        clock.pass_hours(25)
        site.routes["/a"] = text("new")
        async with opened(tmp_path, site, clock) as other:
            await other.page(f"{site.url}/a")
            await settled(other)
        seen = await first.page(f"{site.url}/a")
        assert (seen.lines, seen.stale) == (("new",), False)
        assert len(site.requests) == 2


async def test_stale_page_in_memory_is_not_reread(tmp_path: Path) -> None:
    """Offline, every page becomes stale, and windows must stay fast."""
    clock = Clock()
    async with Site({"/a": text("# A")}) as site:
        async with opened(tmp_path, site, clock) as documents:
            await documents.page(f"{site.url}/a")
        clock.pass_hours(25)
        async with opened(tmp_path, site, clock, offline=True) as documents:
            pages = [await documents.page(f"{site.url}/a") for _ in range(5)]
            assert len({id(page.lines) for page in pages}) == 1
            assert all(page.stale for page in pages)
            await documents._cache._run(lambda: documents._cache._store._connection.execute("DELETE FROM documents"))
            assert (await documents.page(f"{site.url}/a")).lines == ("# A",)
            clock.pass_hours(1)
            assert (await documents.page(f"{site.url}/a")).lines == ("# A",)  # deleted on disk, still in memory


async def test_concurrent_requests_share_one_fetch(tmp_path: Path) -> None:
    resume = asyncio.Event()
    async with Site({"/a": held(resume, text("one"))}) as site, opened(tmp_path, site) as documents:
        tasks = [asyncio.create_task(documents.page(f"{site.url}/a")) for _ in range(20)]
        while not site.requests:
            await asyncio.sleep(0)
        resume.set()
        pages = await asyncio.gather(*tasks)
        assert {page.lines for page in pages} == {("one",)}
        assert len(site.requests) == 1


# --- folders ----------------------------------------------------------------------------------------------------------


async def test_folder_source(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "guide.md").write_text("# Guide\n\n## Knots\n\nbowline\n")
    local = Library(id="local", name="Local", path=str(folder))
    network = RecordingNetwork()
    rows = Rows(local, Library(id="lib", name="Lib", docs_url="https://docs.example.com"))
    documents = await LibraryDocuments.open(settings(tmp_path / "cache"), rows, network=network)
    index = await documents.index(local)
    assert index.source == "folder"
    address = "https://folder.procontext.invalid/local/guide.md"
    assert f"- [Guide]({address})" in index.text
    assert (await documents.prefetch(local)).stored == 1
    page = await documents.page(address)
    assert (page.cached, page.stale, page.lines[0]) == (True, False, "# Guide")
    assert [hit.line for hit in await documents.search("local", "bowline")] == [3]
    (folder / "guide.md").write_text("# Guide, rewritten\n")
    changed = await documents.page(address)
    assert (changed.cached, changed.lines) == (False, ("# Guide, rewritten",))
    (folder / "large.md").write_text("x" * 70_000)
    assert (await code_of(documents, f"{address}/../absent.md"))[0] == "PAGE_NOT_FOUND"
    assert (await code_of(documents, "https://folder.procontext.invalid/local/%2e%2e/x.md"))[0] == "PAGE_NOT_FOUND"
    assert (await code_of(documents, "https://folder.procontext.invalid/lib/guide.md"))[0] == "URL_NOT_ALLOWED"
    assert (await code_of(documents, "https://folder.procontext.invalid/"))[0] == "URL_NOT_ALLOWED"
    (folder / "guide.md").unlink()
    (folder / "large.md").unlink()
    with pytest.raises(ProContextError) as caught:
        await documents.index(local)
    assert caught.value.code == "LLMS_TXT_NOT_FOUND"
    folder.rmdir()
    with pytest.raises(ProContextError) as caught:
        await documents.index(local)
    assert caught.value.code == "LLMS_TXT_FETCH_FAILED"
    await documents.close()
    assert (network.resolved, network.connected) == ([], [])


async def test_large_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "large.md").write_text("x" * 70_000)
    local = Library(id="local", name="Local", path=str(tmp_path))
    documents = await LibraryDocuments.open(settings(tmp_path / "cache", max_bytes=65536), Rows(local))
    assert (await code_of(documents, "https://folder.procontext.invalid/local/large.md"))[0] == "PAGE_FETCH_FAILED"
    await documents.close()


async def test_library_without_documentation(tmp_path: Path) -> None:
    async with Site() as site, opened(tmp_path, site) as documents:
        for repository, ending in (
            (None, "has no documentation site for it."),
            ("https://git.example/a/b", "repository, https://git.example/a/b."),
        ):
            bare = Library(id="bare", name="Bare", repo_url=repository)
            with pytest.raises(ProContextError) as caught:
                await documents.index(bare)
            assert (caught.value.code, caught.value.recoverable) == ("LLMS_TXT_NOT_FOUND", False)
            assert caught.value.message.endswith(ending)
            assert "without this library's docs" in caught.value.suggestion
        assert site.paths == []


async def test_readme_of_a_library_without_documentation(tmp_path: Path) -> None:
    """The README of its repository is its only page; other files of the host stay refused."""
    raw = "https://raw.githubusercontent.com/a/b/HEAD"
    async with Site({"/a/b/HEAD/README.rst": text("# Bare\n\nTie a bowline.\n", "text/plain")}) as site:
        bare = Library(id="bare", name="Bare", repo_url="https://github.com/a/b")
        network = RecordingNetwork({"raw.githubusercontent.com": [["185.199.108.133"]]}, leads_to=site.port)
        documents = await LibraryDocuments.open(settings(tmp_path), Rows(bare), network=network)
        try:
            index = await documents.index(bare)
            assert (index.source, index.text) == ("README", f"# Bare\n\n## Pages\n\n- [README]({raw}/README.rst)\n")
            coverage = await documents.cover(bare, 60.0, "bowline")
            assert (coverage.pages, coverage.total) == (1, 1)
            assert [hit.url for hit in await documents.search("bare", "bowline")] == [f"{raw}/README.rst"]
            assert (await code_of(documents, f"{raw}/setup.py"))[0] == "URL_NOT_ALLOWED"
            assert (await code_of(documents, "https://raw.githubusercontent.com/x/y/HEAD/README.md"))[
                0
            ] == "URL_NOT_ALLOWED"
        finally:
            await documents.close()
        assert set(site.paths) == {"/a/b/HEAD/README.md", "/a/b/HEAD/README.rst"}


# --- eviction ---------------------------------------------------------------------------------------------------------


async def test_page_in_memory_counts_as_used(tmp_path: Path) -> None:
    """A page that is read often must not be evicted first."""
    words = " ".join(f"word{number * 7919 % 5003}" for number in range(4000))
    pages = {f"/{number}.md": text(f"# Page {number}\n\n{words}\n") for number in range(40)}
    async with Site(pages) as site:
        config = settings(tmp_path, site)
        config = msgspec.structs.replace(config, cache=msgspec.structs.replace(config.cache, max_bytes=1_000_000))
        clock = Clock()
        documents = await LibraryDocuments.open(config, Rows(library(site)), network=LoopbackNetwork(), clock=clock)
        for number in range(40):
            clock.now += 1
            await documents.page(f"{site.url}/{number}.md")
            clock.now += 1
            assert (await documents.page(f"{site.url}/0.md")).cached
        while documents._cache._evicting is not None:
            await documents.status()
        assert (await documents.status()).bytes <= 1_000_000
        await documents.close()
        again = await LibraryDocuments.open(config, Rows(library(site)), network=LoopbackNetwork(), clock=clock)
        assert (await again.page(f"{site.url}/0.md")).cached
        assert not (await again.page(f"{site.url}/1.md")).cached
        await again.close()


async def test_expired_entries_are_pruned(tmp_path: Path) -> None:
    """The dictionaries of a long-running server must not grow."""
    clock = Clock()
    async with Site({"/a.md": text("# A\n")}) as site, opened(tmp_path, site, clock) as documents:
        await documents.page(f"{site.url}/a.md", library(site))
        await documents.page(f"{site.url}/a.md", library(site))
        assert documents._recheck_after
        assert documents._joined
        documents._prune()
        assert documents._recheck_after
        clock.pass_hours(1)
        documents._prune()
        assert not documents._recheck_after
        assert not documents._joined
