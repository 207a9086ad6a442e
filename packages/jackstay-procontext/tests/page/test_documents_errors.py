"""The documents as the tools ask for them: every way to fail, and what is said about it (reference, 4.4)."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from procontext.errors import ProContextError
from procontext.fetch import read_url
from procontext.models import Library
from procontext.page import LibraryDocuments
from scripted.documentation import (
    LoopbackNetwork,
    RecordingNetwork,
    Rows,
    Site,
    redirect,
    settings,
    text,
    trickle,
)
from scripted.library import FAULTS, code_of, library, opened, patience
from scripted.loop import timed

# --- errors -----------------------------------------------------------------------------------------------------------


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
                == f"There is no page at '{site.url}/a' (HTTP 404). HTTP 404 (http://127.0.0.1/...)."
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


# --- what goes where, and what is shown of it -------------------------------------------------------------------------

SECRET = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        f"https://me:{SECRET}@docs.example.com/",
        f"https://{SECRET}@docs.example.com/a",
        f"https://me:{SECRET}@evil.example/",
        f"https://me:{SECRET}@docs.example.com:99999/",
        f"https://docs.example.com:{SECRET}/",
        f"https://me:x/{SECRET}@docs.example.com/",
        f"https:/me:{SECRET}@docs.example.com/",
        f"https:me:{SECRET}@docs.example.com/",
        f"https://me:{SECRET}@[docs.example.com/",
        f"HTTPS://me:{SECRET}@docs.example.com\\x/",
        f"https://me:{SECRET}@docs.example.com/ x",
    ],
)
def test_a_password_in_an_address_is_in_no_message(url: str, tmp_path: Path) -> None:
    @timed
    async def scenario() -> None:
        rows = Rows(Library(id="lib", name="Lib", docs_url="https://docs.example.com"))
        network = RecordingNetwork()
        documents = await LibraryDocuments.open(settings(tmp_path), rows, network=network)
        with pytest.raises(ProContextError) as caught:
            await documents.page(url)
        assert SECRET not in str(caught.value)
        assert SECRET not in repr(caught.value.__cause__)
        assert SECRET not in str(caught.value.__cause__)
        await documents.close()
        assert network.connected == []

    scenario()


@pytest.mark.parametrize(
    "location",
    [
        f"https://me:{SECRET}@127.0.0.1/x",
        f"https://elsewhere.example/x?signature={SECRET}",
        f"https://elsewhere.example:{SECRET}/",
        f"ftp://elsewhere.example/{SECRET}",
        f"http://[{SECRET}",
    ],
)
def test_a_redirect_is_named_by_its_host_alone(location: str, tmp_path: Path) -> None:
    """A signed address is as good as a password."""

    @timed
    async def scenario() -> None:
        async with Site({"/a": redirect(location)}) as site, opened(tmp_path, site) as documents:
            with pytest.raises(ProContextError) as caught:
                await documents.page(f"{site.url}/a")
            assert SECRET not in str(caught.value)

    scenario()


class AnyName(LoopbackNetwork):
    """Every name is this machine."""

    async def resolve(self, host: str, port: int) -> list[str]:
        return ["127.0.0.1"]


def test_a_page_that_another_host_gave_has_the_final_address_also_from_the_cache(tmp_path: Path) -> None:
    @timed
    async def scenario() -> None:
        async with Site({"/b": text("B")}) as site:
            one, two = f"http://one.test:{site.port}", f"http://two.test:{site.port}"
            site.routes |= {"/a": redirect(f"{two}/b"), "/same": redirect("/b")}
            rows = Rows(
                Library(id="one", name="One", docs_url=one), Library(id="two", name="Two", docs_url=two)
            )
            hosts = (f"one.test:{site.port}", f"two.test:{site.port}")
            config = settings(tmp_path, site)
            fetcher = msgspec.structs.replace(config.fetcher, allowed_private_hosts=hosts)
            config = msgspec.structs.replace(config, fetcher=fetcher)
            for is_cached in (False, True):
                documents = await LibraryDocuments.open(config, rows, network=AnyName())
                away = await documents.page(f"{one}/a")
                assert (away.url, away.final_url, away.cached) == (f"{one}/a", f"{two}/b", is_cached)
                assert (await documents.page(f"{one}/same")).final_url is None
                await documents.close()

    scenario()


def test_a_site_known_by_https_is_not_read_in_clear_and_siblings_get_no_query(tmp_path: Path) -> None:
    """Text on a page could have a secret sent over the network, or into an address of a host that nobody named."""

    @timed
    async def scenario() -> None:
        rows = Rows(Library(id="lib", name="Lib", docs_url="https://docs.example.com"))
        network = RecordingNetwork()
        documents = await LibraryDocuments.open(settings(tmp_path), rows, network=network)
        for url, reason in {
            "http://docs.example.com/": "this site is read over https only",
            "http://docs.example.com/?secret=1": "this site is read over https only",
            "http://other.example.com/": "this site is read over https only",
            "https://other.example.com/?secret=1": "a query is sent only to a host that a library names",
        }.items():
            with pytest.raises(ProContextError) as caught:
                await documents.page(url)
            assert caught.value.code == "URL_NOT_ALLOWED"
            assert reason in caught.value.message.lower()
        assert network.connected == []
        for url in ("https://docs.example.com/?page=1", "https://other.example.com/a"):
            assert (await code_of(documents, url))[
                0
            ] == "PAGE_FETCH_FAILED"  # the network that records refuses
        await documents.close()

    scenario()


def test_a_link_of_a_library_that_is_not_known_any_more_opens_nothing(tmp_path: Path) -> None:
    """The cache is shared by all folders, and may hold what a source of another one linked to."""

    @timed
    async def scenario() -> None:
        link = "https://elsewhere.example/page"
        async with Site({"/llms.txt": text(f"[a]({link})")}) as site:
            rows = Rows(library(site))
            async with opened(tmp_path, site, rows=rows) as documents:
                await documents.index(library(site))
                access = await documents._access(read_url(link))
                assert access.is_allowed
                rows.replace()
                assert not (await documents._access(read_url(link))).is_allowed

    scenario()
