"""Failures of documents: error codes and messages."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from procontext.errors import ProContextError
from procontext.fetch import parse_url
from procontext.models import Library
from procontext.page import LibraryDocuments
from scripted.documentation import (
    LoopbackNetwork,
    RecordingNetwork,
    Rows,
    Site,
    redirect,
    settings,
    status,
    text,
    trickle,
)
from scripted.library import FAULTS, code_of, library, opened, timeout

# --- errors -----------------------------------------------------------------------------------------------------------


async def test_host_faults_and_error_codes(tmp_path: Path) -> None:
    routes = {path: route for path, (route, _, _) in FAULTS.items()}
    async with Site(routes) as site:
        for path, (_, code, recoverable) in FAULTS.items():
            async with opened(tmp_path, site, **timeout(path)) as documents:
                assert (path, *await code_of(documents, f"{site.url}{path}")) == (path, code, recoverable)
                assert (await documents.status()).documents == 0


async def test_disallowed_urls_send_nothing(tmp_path: Path) -> None:
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


async def test_message_names_url_and_failed_hop(tmp_path: Path) -> None:
    async with Site({"/a": redirect("/b")}) as site, opened(tmp_path, site) as documents:
        with pytest.raises(ProContextError) as caught:
            await documents.page("https://internal.example.com/docs")
        assert caught.value.message == "URL 'https://internal.example.com/docs' is not permitted."
        with pytest.raises(ProContextError) as caught:
            await documents.page(f"{site.url}/a")
        assert (
            caught.value.message == f"There is no page at '{site.url}/a' (HTTP 404). HTTP 404 (http://127.0.0.1/...)."
        )


async def test_replaced_registry_changes_the_allowlist(tmp_path: Path) -> None:
    async with Site({"/a": text("A")}) as site:
        rows = Rows()
        async with opened(tmp_path, site, rows=rows) as documents:
            assert (await code_of(documents, f"{site.url}/a"))[0] == "URL_NOT_ALLOWED"
            rows.replace(library(site))
            assert (await documents.page(f"{site.url}/a")).lines == ("A",)
            rows.replace()
            assert (await code_of(documents, f"{site.url}/a"))[0] == "URL_NOT_ALLOWED"


async def test_full_disk_does_not_fail_the_request(tmp_path: Path) -> None:
    large = "\n".join(f"line {number * 7919 % 100_003}" for number in range(50_000))
    async with Site({"/a": text(large)}) as site, opened(tmp_path, site) as documents:
        store = documents._cache._store
        await documents._cache._run(lambda: store._connection.execute("PRAGMA max_page_count = 1"))
        page = await documents.page(f"{site.url}/a")
        assert len(page.lines) == 50_000
        assert (await documents.page(f"{site.url}/a")).lines is page.lines  # from memory
        assert (await documents.status()).documents == 0


async def test_close_ends_waiting_requests(tmp_path: Path) -> None:
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


# --- secrets in URLs --------------------------------------------------------------------------------------------------

SECRET = "hunter2"


URLS_WITH_SECRETS = (
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
)

REDIRECTS_WITH_SECRETS = (
    f"https://me:{SECRET}@127.0.0.1/x",
    f"https://elsewhere.example/x?signature={SECRET}",
    f"https://elsewhere.example:{SECRET}/",
    f"ftp://elsewhere.example/{SECRET}",
    f"http://[{SECRET}",
)


async def test_passwords_are_not_in_messages(tmp_path: Path, subtests: pytest.Subtests) -> None:
    rows = Rows(Library(id="lib", name="Lib", docs_url="https://docs.example.com"))
    network = RecordingNetwork()
    documents = await LibraryDocuments.open(settings(tmp_path), rows, network=network)
    for url in URLS_WITH_SECRETS:
        with subtests.test(url=url):
            with pytest.raises(ProContextError) as caught:
                await documents.page(url)
            assert SECRET not in str(caught.value)
            assert SECRET not in repr(caught.value.__cause__)
            assert SECRET not in str(caught.value.__cause__)
    await documents.close()
    assert network.connected == []


async def test_redirect_target_is_shown_by_host_only(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """A signed URL is a secret."""
    async with Site({}) as site, opened(tmp_path, site) as documents:
        for location in REDIRECTS_WITH_SECRETS:
            with subtests.test(location=location):
                site.routes["/a"] = redirect(location)
                with pytest.raises(ProContextError) as caught:
                    await documents.page(f"{site.url}/a")
                assert SECRET not in str(caught.value)


class AnyName(LoopbackNetwork):
    """Resolves every name to this machine."""

    async def resolve(self, host: str, port: int) -> list[str]:
        return ["127.0.0.1"]


async def test_final_url_is_cached(tmp_path: Path) -> None:
    async with Site({"/b": text("B")}) as site:
        one, two = f"http://one.test:{site.port}", f"http://two.test:{site.port}"
        site.routes |= {"/a": redirect(f"{two}/b"), "/same": redirect("/b")}
        rows = Rows(Library(id="one", name="One", docs_url=one), Library(id="two", name="Two", docs_url=two))
        hosts = (f"one.test:{site.port}", f"two.test:{site.port}")
        config = settings(tmp_path, site)
        fetcher = msgspec.structs.replace(config.fetcher, allowed_private_hosts=hosts)
        config = msgspec.structs.replace(config, fetcher=fetcher)
        for is_cached in (False, True):
            documents = await LibraryDocuments.open(config, rows, network=AnyName())
            redirected = await documents.page(f"{one}/a")
            assert (redirected.url, redirected.final_url, redirected.cached) == (f"{one}/a", f"{two}/b", is_cached)
            assert (await documents.page(f"{one}/same")).final_url is None
            await documents.close()


async def test_no_plain_http_and_no_query_for_sibling_hosts(tmp_path: Path) -> None:
    """Text on a page could make an agent send a secret in clear text, or in a query to a host that no library names."""
    rows = Rows(Library(id="lib", name="Lib", docs_url="https://docs.example.com"))
    network = RecordingNetwork()
    documents = await LibraryDocuments.open(settings(tmp_path), rows, network=network)
    for url, reason in {
        "http://docs.example.com/": "this site is allowed over https only",
        "http://docs.example.com/?secret=1": "this site is allowed over https only",
        "http://other.example.com/": "this site is allowed over https only",
        "https://other.example.com/?secret=1": "a query string is allowed only for hosts that a library names",
    }.items():
        with pytest.raises(ProContextError) as caught:
            await documents.page(url)
        assert caught.value.code == "URL_NOT_ALLOWED"
        assert reason in caught.value.message.lower()
    assert network.connected == []
    for url in ("https://docs.example.com/?page=1", "https://other.example.com/a"):
        assert (await code_of(documents, url))[0] == "PAGE_FETCH_FAILED"  # the recording network refuses connections
    await documents.close()


async def test_links_of_unknown_libraries_are_not_allowed(tmp_path: Path) -> None:
    """The cache is shared, and may contain links of a source that is not configured here."""
    link = "https://elsewhere.example/page"
    async with Site({"/llms.txt": text(f"[a]({link})")}) as site:
        rows = Rows(library(site))
        async with opened(tmp_path, site, rows=rows) as documents:
            await documents.index(library(site))
            access = await documents._access(parse_url(link))
            assert access.is_allowed
            rows.replace()
            assert not (await documents._access(parse_url(link))).is_allowed


async def test_messages_state_the_failure_once(tmp_path: Path) -> None:
    routes = {"/gone": status(410), "/loop": redirect("/loop")}
    async with Site(routes) as site, opened(tmp_path, site) as documents:
        for path, end in (("gone", "/gone' (HTTP 410)."), ("loop", "/loop' was redirected more than 3 times.")):
            with pytest.raises(ProContextError) as caught:
                await documents.page(f"{site.url}/{path}")
            assert caught.value.message.endswith(end)


@pytest.mark.parametrize("other", ["http://169.254.169.254/", "https://evil.example/", "http://[::1]:1/"])
async def test_addresses_that_a_site_names_are_checked(tmp_path: Path, other: str) -> None:
    """`LoopbackNetwork` fails the test if a name is looked up, or another address is connected to."""
    refresh = f'<!doctype html><html><head><meta http-equiv="refresh" content="0; url={other}"></head></html>'
    routes = {
        "/": text(refresh, "text/html"),
        "/page": text(refresh.replace("</html>", "<body>Own text</body></html>"), "text/html"),
        "/versions.json": text(f'[{{"version": "4.2", "url": "{other}"}}]', "application/json"),
        "/sitemap.xml": text(f"<sitemapindex><loc>{other}sitemap.xml</loc></sitemapindex>", "text/xml"),
        "/robots.txt": redirect(other),
        "/llms-full.txt": redirect(other),
    }
    async with Site(routes) as site, opened(tmp_path, site) as documents:
        row = Library(id="lib", name="Lib", docs_url=f"{site.url}/")
        assert (await documents.page(f"{site.url}/page")).lines[-1] == "Own text"
        assert await documents.select(row, "4.2") is row
        with pytest.raises(ProContextError):
            await documents.index(row)
        site.routes["/llms.txt"] = text("# Lib\n\n- [Page](page)")
        assert (await documents.prefetch(row)).stored == 1
        assert await documents.cover(row) is not None
