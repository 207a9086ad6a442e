"""Search, prefetch, offline use, and removal of expired documents."""

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

# --- search, prefetch, offline ----------------------------------------------------------------------------------------


async def test_prefetch_then_offline(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    routes = {f"/p{number}.md": text(f"# Page {number}\n\n## Knots\n\nbowline{number}\n") for number in range(8)}
    listed = "\n".join(f"- [P](/p{number}.md#x)" for number in range(9))
    routes["/llms.txt"] = text(f"# Docs\n{listed}\n- [logo](/logo.png)\n")
    async with Site(routes) as site:
        steps: list[tuple[int, int, str]] = []
        async with opened(tmp_path, site, clock) as documents:
            report = await documents.prefetch(library(site), lambda *step: steps.append(step))
            assert (report.stored, report.total, report.excluded) == (8, 9, 0)
            assert (await documents.prefetch(library(site))).stored == 8
        assert steps[0] == (0, 9, "")
        assert [done for done, _, _ in steps] == list(range(10))
        assert "/p8.md was not prefetched" in caplog.text
        assert "/logo.png" not in site.paths
        request_count = len(site.requests)
        clock.pass_hours(100)
        async with opened(tmp_path, site, clock, offline=True) as documents:
            page = await documents.page(f"{site.url}/p3.md")
            assert (page.cached, page.stale) == (True, True)
            assert (await documents.index(library(site))).stale
            hits = await documents.search("lib", "bowline5")
            assert [(hit.url, hit.line, hit.heading_path) for hit in hits] == [
                (f"{site.url}/p5.md", 3, ("Page 5", "Knots"))
            ]
            assert window(await documents.page(hits[0].url), hits[0].line, 3).content.startswith("## Knots")
            assert await code_of(documents, f"{site.url}/never.md") == ("PAGE_FETCH_FAILED", True)
            await settled(documents)
        assert len(site.requests) == request_count


@pytest.mark.parametrize("is_a_file", [False, True])
async def test_unstored_pages_are_not_counted(
    is_a_file: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full, or the cache directory is a file. The pages can be read, but not offline."""
    if is_a_file:
        (tmp_path / "cache").write_text("")
    else:
        monkeypatch.setattr("procontext.cache._store.Store.put", lambda *_: False)

    routes = {"/llms.txt": text("- [P](/p.md)\n"), "/p.md": text("# P\n")}
    async with Site(routes) as site, opened(tmp_path / "cache", site) as documents:
        assert (await documents.prefetch(library(site))).stored == 0
        assert (await documents.page(f"{site.url}/p.md")).lines == ("# P",)
    assert "could not be stored in the cache" in caplog.text


async def test_number_of_sections_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile page must not keep the disk busy for a minute."""
    monkeypatch.setattr("procontext.page._conversion.MAX_SECTIONS", 3)

    routes = {"/many.md": text("".join(f"# knot{number}\n" for number in range(5)))}
    async with Site(routes) as site, opened(tmp_path, site) as documents:
        assert len((await documents.page(f"{site.url}/many.md", library(site))).headings) == 5
        assert len(await documents.search("lib", "knot2")) == 1
        assert await documents.search("lib", "knot3") == []


async def test_page_joins_the_library_it_is_read_for(tmp_path: Path) -> None:
    async with Site({"/a": text("# Bowline")}) as site, opened(tmp_path, site) as documents:
        await documents.page(f"{site.url}/a")
        other = Library(id="other", name="Other", docs_url=f"{site.url}/other/")
        assert len(await documents.search("lib", "bowline")) == 1  # by its URL
        assert await documents.search("other", "bowline") == []
        await documents.page(f"{site.url}/a", other)
        await documents.page(f"{site.url}/a", other)
        assert len(await documents.search("other", "bowline")) == 1


async def test_headers_are_sent_to_their_source_only(tmp_path: Path) -> None:
    async with Site({"/a": text("A")}) as site, Site({"/b": text("B")}) as other:
        site.routes["/away"] = redirect(f"{other.url}/b")
        rows = Rows(
            library(site, headers=(("Authorization", "Bearer s"),)),
            Library(id="two", name="Two", docs_url=f"{other.url}/"),
        )
        documents = await LibraryDocuments.open(settings(tmp_path, site, other), rows, network=LoopbackNetwork())
        await documents.page(f"{site.url}/a")
        await documents.page(f"{site.url}/away")
        await documents.close()
        assert [request.headers.get("authorization") for request in site.requests] == ["Bearer s"] * 2
        assert "authorization" not in other.requests[0].headers


async def test_expired_documents_are_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

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
    assert "removed 1 expired documents" in caplog.text


async def test_default_cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    from procontext.config import Config

    documents = await LibraryDocuments.open(Config(), Rows())
    assert (await documents.status()).path.startswith(str(tmp_path))
    await documents.close()
