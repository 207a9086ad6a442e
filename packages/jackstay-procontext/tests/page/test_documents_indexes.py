"""Tables of contents, and the URLs that their links allow."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from procontext.errors import ProContextError
from procontext.page import LibraryDocuments
from scripted.documentation import (
    LoopbackNetwork,
    Rows,
    Site,
    settings,
    text,
    validated,
)
from scripted.library import FAULTS, Clock, code_of, library, opened, settled, timeout

# --- tables of contents -----------------------------------------------------------------------------------------------


async def test_index_is_cached_like_a_page(tmp_path: Path) -> None:
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


async def test_unchanged_index_is_revalidated(tmp_path: Path) -> None:
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
async def test_index_faults_and_error_codes(tmp_path: Path, path: str, code: str, recoverable: bool) -> None:
    routes = {name: route for name, (route, _, _) in FAULTS.items()}
    async with Site(routes) as site, opened(tmp_path, site, **timeout(path)) as documents:
        with pytest.raises(ProContextError) as caught:
            await documents.index(library(site, llms_txt_url=f"{site.url}{path}"))
        assert (caught.value.code, caught.value.recoverable) == (code, recoverable)


async def test_only_exact_links_of_an_index_are_allowed(tmp_path: Path) -> None:
    """Links in pages do not allow URLs."""
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


async def test_links_allow_default_ports_only(tmp_path: Path) -> None:
    """An index may link any host, but not its mail server or database."""
    async with Site() as site, opened(tmp_path, site) as documents:
        urls = (
            "http://public.example:25/x",
            "https://public.example:6379/x",
            "http://public.example:443/",
        )
        site.routes["/llms.txt"] = text("".join(f"- [x]({url})\n" for url in urls))
        await documents.index(library(site))
        for url in urls:
            assert await documents._cache.libraries_linking(url) == ("lib",)
            assert (await code_of(documents, url))[0] == "URL_NOT_ALLOWED"
