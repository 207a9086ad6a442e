"""The documents as the tools ask for them, over a real site on loopback (reference, 3.4, 4.4; design, sections 1, 2 and 4)."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from procontext.errors import ProContextError
from procontext.models import Library
from procontext.page import LibraryDocuments, window
from procontext.sources import Documents
from scripted.documentation import (
    LoopbackNetwork,
    RecordingNetwork,
    Rows,
    Site,
    body,
    bomb,
    cut_short,
    held,
    raw,
    redirect,
    settings,
    status,
    text,
    trickle,
    validated,
)
from scripted.loop import timed


class Clock:
    """Seconds since 1970, as the test says."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now

    def pass_hours(self, hours: float) -> None:
        self.now += hours * 3600


@asynccontextmanager
async def opened(
    directory: Path, site: Site, clock: Clock | None = None, rows: Rows | None = None, **named: object
) -> AsyncIterator[LibraryDocuments]:
    registry = rows if rows is not None else Rows(library(site))
    config = settings(directory, site, **named)
    documents = await LibraryDocuments.open(
        config, registry, network=LoopbackNetwork(), clock=clock or Clock()
    )
    try:
        yield documents
    finally:
        await documents.close()


def library(site: Site, **named: object) -> Library:
    values = {"llms_txt_url": f"{site.url}/llms.txt", "docs_url": f"{site.url}/", **named}
    return Library(id="lib", name="Lib", **values)  # type: ignore[arg-type]  # the two above, or a test's own


async def settled(documents: LibraryDocuments) -> None:
    """Wait until what runs in the background is done."""
    while len(documents._loads) or len(documents._finds):
        await asyncio.sleep(0.001)


async def code_of(documents: LibraryDocuments, url: str) -> tuple[str, bool]:
    with pytest.raises(ProContextError) as caught:
        await documents.page(url)
    return caught.value.code, caught.value.recoverable


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
            monkeypatch.setattr("procontext.page._documents._make", None)
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


# --- errors -----------------------------------------------------------------------------------------------------------

FAULTS = {
    "/absent": (status(404), "PAGE_NOT_FOUND", False),
    "/gone": (status(410), "PAGE_NOT_FOUND", False),
    "/broken": (status(500), "PAGE_FETCH_FAILED", True),
    "/secret": (status(403), "PAGE_FETCH_FAILED", True),
    "/short": (cut_short(), "PAGE_FETCH_FAILED", True),
    "/noise": (raw(b"\0\1\2\3\r\n\r\n"), "PAGE_FETCH_FAILED", True),
    "/bomb": (bomb(16 * 1024 * 1024), "PAGE_FETCH_FAILED", True),
    "/trickle": (trickle(), "PAGE_FETCH_FAILED", True),
    "/picture": (body(b"\x89PNG", "image/png"), "PAGE_FETCH_FAILED", True),
    "/binary": (body(b"\0" * 100, ""), "PAGE_FETCH_FAILED", True),
    "/loop": (redirect("/loop"), "TOO_MANY_REDIRECTS", False),
    "/away": (redirect("https://evil.example/"), "URL_NOT_ALLOWED", False),
    "/inside": (redirect("http://127.0.0.1:1/"), "URL_NOT_ALLOWED", False),
}


def patience(path: str) -> dict[str, object]:
    """Little for the host that trickles; for the others as much as a busy machine may need."""
    return {"timeout_seconds": 0.3} if path == "/trickle" else {}


def test_every_fault_of_a_host_is_a_row_of_the_catalogue(tmp_path: Path) -> None:
    """Reference, 4.4."""

    @timed
    async def scenario() -> None:
        routes = {path: route for path, (route, _, _) in FAULTS.items()}
        async with Site(routes) as site:
            for path, (_, code, recoverable) in FAULTS.items():
                async with opened(tmp_path, site, **patience(path)) as documents:
                    assert (path, *await code_of(documents, f"{site.url}{path}")) == (path, code, recoverable)
                    assert (await documents.status()).documents == 0

    scenario()


def test_an_address_that_is_not_allowed_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    @timed
    async def scenario() -> None:
        rows = Rows(Library(id="lib", name="Lib", docs_url="https://docs.example.com"))
        network = RecordingNetwork()
        documents = await LibraryDocuments.open(settings(tmp_path), rows, network=network)
        for url, code in {
            "https://evil.example/": "URL_NOT_ALLOWED",
            "https://docs.example.com.evil.example/": "URL_NOT_ALLOWED",
            "https://user@docs.example.com/": "URL_NOT_ALLOWED",
            "http://127.0.0.1/": "URL_NOT_ALLOWED",
            "http://2130706433/": "URL_NOT_ALLOWED",
            "https://docs.example.com:22/": "URL_NOT_ALLOWED",
            "ftp://docs.example.com/": "INVALID_INPUT",
            "nonsense": "INVALID_INPUT",
            "https://docs.example.com/" + "a" * 2048: "INVALID_INPUT",
        }.items():
            assert await code_of(documents, url) == (code, False)
        assert (network.resolved, network.connected) == ([], [])
        await documents.close()

    scenario()


def test_the_message_names_what_was_asked_for_and_where_it_failed(tmp_path: Path) -> None:
    """Reference, 4.4: the example of URL_NOT_ALLOWED."""

    @timed
    async def scenario() -> None:
        async with Site({"/a": redirect("/b")}) as site, opened(tmp_path, site) as documents:
            with pytest.raises(ProContextError) as caught:
                await documents.page("https://internal.example.com/docs")
            assert caught.value.message == "URL 'https://internal.example.com/docs' is not permitted."
            with pytest.raises(ProContextError) as caught:
                await documents.page(f"{site.url}/a")
            assert (
                caught.value.message
                == f"There is no page at '{site.url}/a' (HTTP 404). HTTP 404 ({site.url}/b)."
            )

    scenario()


def test_rows_that_are_replaced_change_what_is_allowed(tmp_path: Path) -> None:
    @timed
    async def scenario() -> None:
        async with Site({"/a": text("A")}) as site:
            rows = Rows()
            async with opened(tmp_path, site, rows=rows) as documents:
                assert (await code_of(documents, f"{site.url}/a"))[0] == "URL_NOT_ALLOWED"
                rows.replace(library(site))
                assert (await documents.page(f"{site.url}/a")).lines == ("A",)
                rows.replace()
                assert (await code_of(documents, f"{site.url}/a"))[0] == "URL_NOT_ALLOWED"

    scenario()


def test_a_disk_that_is_full_does_not_hold_back_the_answer(tmp_path: Path) -> None:
    """Design, section 4."""

    @timed
    async def scenario() -> None:
        large = "\n".join(f"line {number * 7919 % 100_003}" for number in range(50_000))
        async with Site({"/a": text(large)}) as site, opened(tmp_path, site) as documents:
            store = documents._cache._store
            await documents._cache._run(lambda: store._connection.execute("PRAGMA max_page_count = 1"))
            page = await documents.page(f"{site.url}/a")
            assert len(page.lines) == 50_000
            assert (await documents.page(f"{site.url}/a")).lines is page.lines  # from memory
            assert (await documents.status()).documents == 0

    scenario()


def test_closing_ends_what_waits(tmp_path: Path) -> None:
    @timed
    async def scenario() -> None:
        async with Site({"/a": trickle(), "/llms.txt": trickle()}) as site:
            documents = await LibraryDocuments.open(
                settings(tmp_path, site), Rows(library(site)), network=LoopbackNetwork()
            )
            waiting = [
                asyncio.create_task(documents.page(f"{site.url}/a")),
                asyncio.create_task(documents.index(library(site))),
            ]
            while len(site.requests) < 2:
                await asyncio.sleep(0)
            await documents.close()
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert [getattr(result, "code", result) for result in results] == [
                "PAGE_FETCH_FAILED",
                "LLMS_TXT_FETCH_FAILED",
            ]

    scenario()


# --- tables of contents -----------------------------------------------------------------------------------------------


def test_an_index_is_served_like_a_page(tmp_path: Path) -> None:
    """Reference, 3.3."""

    @timed
    async def scenario() -> None:
        clock = Clock()
        async with (
            Site({"/llms.txt": text("# Docs\r\n- [A](/a.md)\n")}) as site,
            opened(tmp_path, site, clock) as documents,
        ):
            first = await documents.index(library(site))
            assert (first.text, first.source, first.cached, first.cached_at) == (
                "# Docs\r\n- [A](/a.md)\n",
                "llms.txt",
                False,
                None,
            )
            clock.pass_hours(1)
            second = await documents.index(library(site))
            assert (second.text, second.cached, second.stale) == (first.text, True, False)
            assert second.cached_at == datetime.fromtimestamp(1_000_000, UTC)
            site.routes["/llms.txt"] = text("# New")
            clock.pass_hours(24)
            assert (await documents.index(library(site))).stale
            await settled(documents)
            assert (await documents.index(library(site))).text == "# New"
            assert site.paths == ["/llms.txt"] * 2

    scenario()


def test_an_index_that_is_unchanged_is_not_sent_again(tmp_path: Path) -> None:
    @timed
    async def scenario() -> None:
        clock = Clock()
        async with (
            Site({"/llms.txt": validated("# Docs")}) as site,
            opened(tmp_path, site, clock) as documents,
        ):
            await documents.index(library(site))
            for _ in range(2):
                clock.pass_hours(30)
                assert (await documents.index(library(site))).stale
                await settled(documents)
                again = await documents.index(library(site))
                assert (again.text, again.stale) == ("# Docs", False)
            assert [request.headers.get("if-none-match") for request in site.requests] == [None, '"1"', '"1"']
            site.routes["/llms.txt"] = validated("# More", '"2"')
            clock.pass_hours(30)
            await documents.index(library(site))
            await settled(documents)
            assert (await documents.index(library(site))).text == "# More"

    scenario()


@pytest.mark.parametrize(
    ("path", "code", "recoverable"),
    [
        ("/absent", "LLMS_TXT_NOT_FOUND", False),
        ("/broken", "LLMS_TXT_FETCH_FAILED", True),
        ("/trickle", "LLMS_TXT_FETCH_FAILED", True),
        ("/loop", "TOO_MANY_REDIRECTS", False),
        ("/away", "LLMS_TXT_FETCH_FAILED", True),
    ],
)
def test_every_fault_of_an_index_is_a_row_of_the_catalogue(
    tmp_path: Path, path: str, code: str, recoverable: bool
) -> None:
    """Reference, 3.4."""

    @timed
    async def scenario() -> None:
        routes = {name: route for name, (route, _, _) in FAULTS.items()}
        async with Site(routes) as site, opened(tmp_path, site, **patience(path)) as documents:
            with pytest.raises(ProContextError) as caught:
                await documents.index(library(site, llms_txt_url=f"{site.url}{path}"))
            assert (caught.value.code, caught.value.recoverable) == (code, recoverable)

    scenario()


def test_the_exact_links_of_an_index_are_allowed_and_nothing_beside_them(tmp_path: Path) -> None:
    """Design, section 1, row "allowlist": never learned from page text."""

    @timed
    async def scenario() -> None:
        async with Site({"/linked": text("see [b](/beside)")}) as other, Site() as site:
            site.routes["/llms.txt"] = text(f"- [x]({other.url}/linked)\n")
            config = settings(tmp_path, site, other)
            documents = await LibraryDocuments.open(config, Rows(library(site)), network=LoopbackNetwork())
            assert (await code_of(documents, f"{other.url}/linked"))[0] == "URL_NOT_ALLOWED"
            await documents.index(library(site))
            assert (await documents.page(f"{other.url}/linked")).lines == ("see [b](/beside)",)
            assert (await code_of(documents, f"{other.url}/beside"))[0] == "URL_NOT_ALLOWED"
            assert [hit.url for hit in await documents.search("lib", "see")] == [f"{other.url}/linked"]
            await documents.close()

    scenario()


def test_a_link_of_an_index_opens_no_other_port(tmp_path: Path) -> None:
    """A library's index may name any page, but not send us to the mail server or the database of a host."""

    @timed
    async def scenario() -> None:
        async with Site() as site, opened(tmp_path, site) as documents:
            odd = (
                "http://public.example:25/x",
                "https://public.example:6379/x",
                "http://public.example:443/",
            )
            site.routes["/llms.txt"] = text("".join(f"- [x]({url})\n" for url in odd))
            await documents.index(library(site))
            for url in odd:
                assert await documents._cache.libraries_linking(url) == ("lib",)
                assert (await code_of(documents, url))[0] == "URL_NOT_ALLOWED"

    scenario()


# --- search, prefetch, offline ----------------------------------------------------------------------------------------


def test_a_library_is_prefetched_and_then_served_offline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Design, section 2, points 1 and 4."""

    @timed
    async def scenario() -> None:
        clock = Clock()
        routes = {
            f"/p{number}.md": text(f"# Page {number}\n\n## Knots\n\nbowline{number}\n") for number in range(8)
        }
        listed = "\n".join(f"- [P](/p{number}.md#x)" for number in range(9))
        routes["/llms.txt"] = text(f"# Docs\n{listed}\n- [logo](/logo.png)\n")
        async with Site(routes) as site:
            told: list[tuple[int, int, str]] = []
            async with opened(tmp_path, site, clock) as documents:
                stored = await documents.prefetch(library(site), lambda *step: told.append(step))
                assert stored == 8
                assert await documents.prefetch(library(site)) == 8
            assert told[0] == (0, 9, "")
            assert [done for done, _, _ in told] == list(range(10))
            assert "/p8.md was not prefetched" in caplog.text
            assert "/logo.png" not in site.paths
            asked = len(site.requests)
            clock.pass_hours(100)
            async with opened(tmp_path, site, clock, offline=True) as documents:
                page = await documents.page(f"{site.url}/p3.md")
                assert (page.cached, page.stale) == (True, True)
                assert (await documents.index(library(site))).stale
                hits = await documents.search("lib", "bowline5")
                assert [(hit.url, hit.line, hit.heading_path) for hit in hits] == [
                    (f"{site.url}/p5.md", 3, ("Page 5", "Knots"))
                ]
                assert window(await documents.page(hits[0].url), hits[0].line, 3).content.startswith(
                    "## Knots"
                )
                assert await code_of(documents, f"{site.url}/never.md") == ("PAGE_FETCH_FAILED", True)
                await settled(documents)
            assert len(site.requests) == asked

    scenario()


def test_a_page_read_for_a_library_is_found_in_its_search(tmp_path: Path) -> None:
    @timed
    async def scenario() -> None:
        async with Site({"/a": text("# Bowline")}) as site, opened(tmp_path, site) as documents:
            await documents.page(f"{site.url}/a")
            other = Library(id="other", name="Other", docs_url=f"{site.url}/other/")
            assert len(await documents.search("lib", "bowline")) == 1  # by its address
            assert await documents.search("other", "bowline") == []
            await documents.page(f"{site.url}/a", other)
            await documents.page(f"{site.url}/a", other)
            assert len(await documents.search("other", "bowline")) == 1

    scenario()


def test_headers_go_to_the_source_they_belong_to(tmp_path: Path) -> None:
    @timed
    async def scenario() -> None:
        async with Site({"/a": text("A")}) as site, Site({"/b": text("B")}) as other:
            site.routes["/away"] = redirect(f"{other.url}/b")
            rows = Rows(
                library(site, headers=(("Authorization", "Bearer s"),)),
                Library(id="two", name="Two", docs_url=f"{other.url}/"),
            )
            documents = await LibraryDocuments.open(
                settings(tmp_path, site, other), rows, network=LoopbackNetwork()
            )
            await documents.page(f"{site.url}/a")
            await documents.page(f"{site.url}/away")
            await documents.close()
            assert [request.headers.get("authorization") for request in site.requests] == ["Bearer s"] * 2
            assert "authorization" not in other.requests[0].headers

    scenario()


def test_what_nobody_confirmed_for_long_is_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    @timed
    async def scenario() -> None:
        clock = Clock()
        async with Site({"/a": text("A"), "/b": text("B")}) as site:
            async with opened(tmp_path, site, clock) as documents:
                await documents.page(f"{site.url}/a")
                clock.pass_hours(24 * 20)
                await documents.page(f"{site.url}/b")
            clock.pass_hours(24 * 15)
            async with opened(tmp_path, site, clock, offline=True) as documents:
                assert (await documents.status()).documents == 2
            async with opened(tmp_path, site, clock) as documents:
                while (await documents.status()).documents == 2:
                    await asyncio.sleep(0)
                assert (await documents.status()).documents == 1
                await asyncio.sleep(0)
        assert "removed 1 documents" in caplog.text

    scenario()


def test_without_a_directory_the_cache_lies_where_the_platform_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    @timed
    async def scenario() -> None:
        from procontext.config import Config

        documents = await LibraryDocuments.open(Config(), Rows())
        assert (await documents.status()).path.startswith(str(tmp_path))
        await documents.close()

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
