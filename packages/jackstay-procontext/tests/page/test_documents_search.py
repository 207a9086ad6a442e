"""The documents as the tools ask for them: searched, prefetched, offline, and removed when nobody confirms them."""

import asyncio
import logging
from pathlib import Path

import pytest

from procontext.models import Library
from procontext.page import LibraryDocuments, window
from scripted.documentation import (
    LoopbackNetwork,
    Rows,
    Site,
    redirect,
    settings,
    text,
)
from scripted.library import Clock, code_of, library, opened, settled
from scripted.loop import timed

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


@pytest.mark.parametrize("is_a_file", [False, True])
def test_what_the_disk_would_not_have_is_not_counted_as_stored(
    is_a_file: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design, section 4: the disk is full, or the directory is none. The pages are read, but nobody finds them offline."""
    if is_a_file:
        (tmp_path / "cache").write_text("")
    else:
        monkeypatch.setattr("procontext.cache._store.Store.put", lambda *_: False)

    @timed
    async def scenario() -> None:
        routes = {"/llms.txt": text("- [P](/p.md)\n"), "/p.md": text("# P\n")}
        async with Site(routes) as site, opened(tmp_path / "cache", site) as documents:
            assert await documents.prefetch(library(site)) == 0
            assert (await documents.page(f"{site.url}/p.md")).lines == ("# P",)
        assert "the cache could not keep it" in caplog.text

    scenario()


def test_a_page_of_headings_only_is_searched_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design, section 4: a hostile page must not keep the disk busy for a minute."""
    monkeypatch.setattr("procontext.page._making.MOST_SECTIONS", 3)

    @timed
    async def scenario() -> None:
        routes = {"/many.md": text("".join(f"# knot{number}\n" for number in range(5)))}
        async with Site(routes) as site, opened(tmp_path, site) as documents:
            assert len((await documents.page(f"{site.url}/many.md", library(site))).headings) == 5
            assert len(await documents.search("lib", "knot2")) == 1
            assert await documents.search("lib", "knot3") == []

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
