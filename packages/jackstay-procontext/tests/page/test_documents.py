"""The documents as the tools ask for them, over a real site on loopback (reference, 3.4, 4.4; design, sections 1, 2 and 4)."""

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from procontext.errors import ProContextError
from procontext.models import Library
from procontext.page import LibraryDocuments
from procontext.sources import Documents
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
from scripted.loop import timed


def test_the_contract_of_the_tools_is_fulfilled(tmp_path: Path) -> None:
    @timed
    async def scenario() -> None:
        async with Site() as site, opened(tmp_path, site) as documents:
            contract: Documents = documents
            assert contract is documents
            assert "LibraryDocuments" in repr(documents)
            assert (await documents.status()).documents == 0
            await documents.close()  # and once more at the end: that is allowed

    scenario()


# --- pages ------------------------------------------------------------------------------------------------------------


def test_a_page_is_fetched_once_and_then_served_from_the_cache(tmp_path: Path) -> None:
    """Reference, 4.3."""

    @timed
    async def scenario() -> None:
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
            async with opened(tmp_path, site, clock) as documents:  # another process, as it were
                third = await documents.page(f"{site.url}/a.md")
                assert (third.lines, third.headings, third.cached) == (page.lines, page.headings, True)
            assert site.paths == ["/a.md"]

    scenario()


def test_html_becomes_markdown_and_links_follow_where_it_was_found(tmp_path: Path) -> None:
    @timed
    async def scenario() -> None:
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

    scenario()


def test_a_stale_page_is_served_at_once_and_refreshed_behind(tmp_path: Path) -> None:
    """Reference, 3.2: stale-while-revalidate."""

    @timed
    async def scenario() -> None:
        clock, go = Clock(), asyncio.Event()
        async with Site({"/a": text("old")}) as site, opened(tmp_path, site, clock) as documents:
            await documents.page(f"{site.url}/a")
            site.routes["/a"] = held(go, text("new"))
            clock.pass_hours(24)
            for _ in range(3):  # nobody waits, and it is asked for once
                stale = await documents.page(f"{site.url}/a")
                assert (stale.lines, stale.cached, stale.stale) == (("old",), True, True)
            go.set()
            await settled(documents)
            fresh = await documents.page(f"{site.url}/a")
            assert (fresh.lines, fresh.stale) == (("new",), False)
            assert len(site.requests) == 2

    scenario()


def test_a_page_that_is_unchanged_is_not_sent_again(tmp_path: Path) -> None:
    @timed
    async def scenario() -> None:
        clock = Clock()
        async with Site({"/a": validated("# A", '"1"')}) as site, opened(tmp_path, site, clock) as documents:
            await documents.page(f"{site.url}/a")
            clock.pass_hours(30)
            assert (await documents.page(f"{site.url}/a")).stale
            await settled(documents)
            again = await documents.page(f"{site.url}/a")
            assert (again.stale, again.lines) == (False, ("# A",))
            assert again.cached_at == datetime.fromtimestamp(1_000_000, UTC)  # the text is as old as it was
            assert site.requests[1].headers["if-none-match"] == '"1"'

    scenario()


def test_a_refresh_that_fails_leaves_the_old_page_and_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @timed
    async def scenario() -> None:
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
        assert "could not be refreshed" in caplog.text

    scenario()


def test_a_defect_in_a_refresh_is_logged_with_its_trace(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    @timed
    async def scenario() -> None:
        clock = Clock()
        async with Site({"/a": text("old")}) as site, opened(tmp_path, site, clock) as documents:
            await documents.page(f"{site.url}/a")
            clock.pass_hours(25)
            monkeypatch.setattr("procontext.page._documents.make", None)
            await documents.page(f"{site.url}/a")
            await settled(documents)
        assert [record.levelno for record in caplog.records if record.exc_info] == [logging.ERROR]

    scenario()


def test_a_page_refreshed_by_another_process_is_seen(tmp_path: Path) -> None:
    @timed
    async def scenario() -> None:
        clock = Clock()
        async with Site({"/a": text("old")}) as site, opened(tmp_path, site, clock) as one:
            await one.page(f"{site.url}/a")
            clock.pass_hours(25)
            site.routes["/a"] = text("new")
            async with opened(tmp_path, site, clock) as other:
                await other.page(f"{site.url}/a")
                await settled(other)
            seen = await one.page(f"{site.url}/a")
            assert (seen.lines, seen.stale) == (("new",), False)
            assert len(site.requests) == 2

    scenario()


def test_a_stale_page_in_memory_is_not_read_from_disk_each_time(tmp_path: Path) -> None:
    """Offline everything is stale in the end, and windows must stay quick."""

    @timed
    async def scenario() -> None:
        clock = Clock()
        async with Site({"/a": text("# A")}) as site:
            async with opened(tmp_path, site, clock) as documents:
                await documents.page(f"{site.url}/a")
            clock.pass_hours(25)
            async with opened(tmp_path, site, clock, offline=True) as documents:
                pages = [await documents.page(f"{site.url}/a") for _ in range(5)]
                assert len({id(page.lines) for page in pages}) == 1
                assert all(page.stale for page in pages)
                await documents._cache._run(
                    lambda: documents._cache._store._connection.execute("DELETE FROM documents")
                )
                assert (await documents.page(f"{site.url}/a")).lines == ("# A",)
                clock.pass_hours(1)
                assert (await documents.page(f"{site.url}/a")).lines == (
                    "# A",
                )  # gone from disk, and still known

    scenario()


def test_a_page_is_fetched_once_for_all_who_ask_at_once(tmp_path: Path) -> None:
    @timed
    async def scenario() -> None:
        go = asyncio.Event()
        async with Site({"/a": held(go, text("one"))}) as site, opened(tmp_path, site) as documents:
            asking = [asyncio.create_task(documents.page(f"{site.url}/a")) for _ in range(20)]
            while not site.requests:
                await asyncio.sleep(0)
            go.set()
            pages = await asyncio.gather(*asking)
            assert {page.lines for page in pages} == {("one",)}
            assert len(site.requests) == 1

    scenario()


# --- folders ----------------------------------------------------------------------------------------------------------


def test_a_folder_is_a_source_like_any_other(tmp_path: Path) -> None:
    """Design, section 2, point 5."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "guide.md").write_text("# Guide\n\n## Knots\n\nbowline\n")
    mine = Library(id="mine", name="Mine", path=str(folder))

    @timed
    async def scenario() -> None:
        network = RecordingNetwork()
        rows = Rows(mine, Library(id="lib", name="Lib", docs_url="https://docs.example.com"))
        documents = await LibraryDocuments.open(settings(tmp_path / "cache"), rows, network=network)
        index = await documents.index(mine)
        assert index.source == "folder"
        address = "https://folder.procontext.invalid/mine/guide.md"
        assert f"- [Guide]({address})" in index.text
        assert await documents.prefetch(mine) == 1
        page = await documents.page(address)
        assert (page.cached, page.stale, page.lines[0]) == (True, False, "# Guide")
        assert [hit.line for hit in await documents.search("mine", "bowline")] == [3]
        (folder / "guide.md").write_text("# Guide, rewritten\n")
        changed = await documents.page(address)
        assert (changed.cached, changed.lines) == (False, ("# Guide, rewritten",))
        (folder / "large.md").write_text("x" * 70_000)
        assert (await code_of(documents, f"{address}/../absent.md"))[0] == "PAGE_NOT_FOUND"
        assert (await code_of(documents, "https://folder.procontext.invalid/mine/%2e%2e/x.md"))[
            0
        ] == "PAGE_NOT_FOUND"
        assert (await code_of(documents, "https://folder.procontext.invalid/lib/guide.md"))[
            0
        ] == "URL_NOT_ALLOWED"
        assert (await code_of(documents, "https://folder.procontext.invalid/"))[0] == "URL_NOT_ALLOWED"
        (folder / "guide.md").unlink()
        (folder / "large.md").unlink()
        with pytest.raises(ProContextError) as caught:
            await documents.index(mine)
        assert caught.value.code == "LLMS_TXT_NOT_FOUND"
        folder.rmdir()
        with pytest.raises(ProContextError) as caught:
            await documents.index(mine)
        assert caught.value.code == "LLMS_TXT_FETCH_FAILED"
        await documents.close()
        assert (network.resolved, network.connected) == ([], [])

    scenario()


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "large.md").write_text("x" * 70_000)
    mine = Library(id="mine", name="Mine", path=str(tmp_path))

    @timed
    async def scenario() -> None:
        documents = await LibraryDocuments.open(settings(tmp_path / "cache", max_bytes=65536), Rows(mine))
        assert (await code_of(documents, "https://folder.procontext.invalid/mine/large.md"))[
            0
        ] == "PAGE_FETCH_FAILED"
        await documents.close()

    scenario()


def test_a_library_without_any_documentation_says_so_and_sends_nothing(tmp_path: Path) -> None:
    """An honest "not known": there is a package, and a repository, and no site to read."""

    @timed
    async def scenario() -> None:
        async with Site() as site, opened(tmp_path, site) as documents:
            for repository, said in (
                (None, "is known."),
                ("https://github.com/a/b", "repository, https://github.com/a/b."),
            ):
                bare = Library(id="bare", name="Bare", repo_url=repository)
                with pytest.raises(ProContextError) as caught:
                    await documents.index(bare)
                assert (caught.value.code, caught.value.recoverable) == ("LLMS_TXT_NOT_FOUND", False)
                assert caught.value.message.endswith(said)
                assert "without this library's docs" in caught.value.suggestion
            assert site.paths == []

    scenario()


# --- room -------------------------------------------------------------------------------------------------------------


def test_a_page_that_is_read_from_memory_counts_as_used(tmp_path: Path) -> None:
    """`cache.max_bytes`: what an agent reads all day must not be the first to go."""

    @timed
    async def scenario() -> None:
        words = " ".join(f"word{number * 7919 % 5003}" for number in range(4000))
        pages = {f"/{number}.md": text(f"# Page {number}\n\n{words}\n") for number in range(40)}
        async with Site(pages) as site:
            config = settings(tmp_path, site)
            config = msgspec.structs.replace(
                config, cache=msgspec.structs.replace(config.cache, max_bytes=1_000_000)
            )
            clock = Clock()
            documents = await LibraryDocuments.open(
                config, Rows(library(site)), network=LoopbackNetwork(), clock=clock
            )
            for number in range(40):
                clock.now += 1
                await documents.page(f"{site.url}/{number}.md")
                clock.now += 1
                assert (await documents.page(f"{site.url}/0.md")).cached
            while documents._cache._making_room is not None:
                await documents.status()
            assert (await documents.status()).bytes <= 1_000_000
            await documents.close()
            again = await LibraryDocuments.open(
                config, Rows(library(site)), network=LoopbackNetwork(), clock=clock
            )
            assert (await again.page(f"{site.url}/0.md")).cached
            assert not (await again.page(f"{site.url}/1.md")).cached
            await again.close()

    scenario()


def test_what_was_noted_of_an_address_is_forgotten_when_it_is_over(tmp_path: Path) -> None:
    """A server that runs for months is asked for many."""

    @timed
    async def scenario() -> None:
        clock = Clock()
        async with Site({"/a.md": text("# A\n")}) as site, opened(tmp_path, site, clock) as documents:
            await documents.page(f"{site.url}/a.md", library(site))
            await documents.page(f"{site.url}/a.md", library(site))
            assert documents._looked_up
            assert documents._joined
            documents._forget()
            assert documents._looked_up
            clock.pass_hours(1)
            documents._forget()
            assert not documents._looked_up
            assert not documents._joined

    scenario()
