"""Fetching: the allowlist, private addresses, redirects, limits and proxies. Nothing is sent to a rejected address."""

import asyncio
import socket
import struct
from pathlib import Path

import pytest

from procontext.config import FetcherSettings
from procontext.fetch import Access, Fetcher, FetchError, Network, Target
from procontext.fetch._fetcher import MAX_CONNECTIONS_PER_HOST
from scripted import certificates
from scripted.documentation import (
    LoopbackNetwork,
    RecordingNetwork,
    Request,
    Site,
    bomb,
    held,
    redirect,
    settings,
    status,
    text,
    trickle,
    tunnelling_proxy,
    validated,
)

UNUSED = Path("unused")


async def allow_all(target: Target) -> Access:
    return Access(True)


def only(*hosts: str) -> object:
    async def check_access(target: Target) -> Access:
        return Access(target.host in hosts)

    return check_access


def fetcher(
    *sites: Site, network: Network | None = None, check_access: object = allow_all, **options: object
) -> Fetcher:
    assert callable(check_access)
    return Fetcher(settings(UNUSED, *sites, **options).fetcher, check_access, network or LoopbackNetwork())


async def fetch_error(fetching: Fetcher, url: str) -> FetchError:
    with pytest.raises(FetchError) as caught:
        await fetching.fetch(url)
    return caught.value


# --- addresses --------------------------------------------------------------------------------------------------------


async def test_connection_goes_to_the_checked_address() -> None:
    """The name is resolved once, so a changed DNS answer has no effect."""
    async with Site({"/a": text("page")}) as site:
        network = RecordingNetwork({"docs.example.com": [["8.8.8.8"], ["127.0.0.1"]]}, leads_to=site.port)
        found = await fetcher(network=network).fetch("http://docs.example.com/a")
    assert found.body == b"page"
    assert network.resolved == ["docs.example.com"]
    assert network.connected == [("8.8.8.8", 80, None)]
    assert site.requests[0].headers["host"] == "docs.example.com"


async def test_tls_uses_the_host_name() -> None:
    network = RecordingNetwork({"docs.example.com": [["8.8.8.8"]]})
    assert (await fetch_error(fetcher(network=network), "https://docs.example.com/")).reason == "failed"
    assert network.connected == [("8.8.8.8", 443, "docs.example.com")]


NON_PUBLIC_DNS_ANSWERS: list[list[str]] = [
    ["127.0.0.1"],
    ["10.0.0.1"],
    ["169.254.169.254"],
    ["100.64.0.1"],
    ["192.0.0.8"],
    ["224.0.0.1"],
    ["0.0.0.0"],
    ["::1"],
    ["::ffff:127.0.0.1"],
    ["64:ff9b::a00:1"],
    ["2002:a00:1::"],
    ["fe80::1%eth0"],
    ["fd00::1"],
    ["8.8.8.8", "10.0.0.1"],  # one non-public address is enough
    ["nonsense"],
]


async def test_host_with_non_public_address_is_rejected(
    subtests: pytest.Subtests,
) -> None:
    for answer in NON_PUBLIC_DNS_ANSWERS:
        with subtests.test(answer=answer):
            network = RecordingNetwork({"docs.example.com": [answer]})
            error = await fetch_error(fetcher(network=network), "https://docs.example.com/")
            assert error.reason == "not_allowed"
            assert "which is not public" in error.detail
            assert network.connected == []


NON_PUBLIC_LITERALS: list[str] = [
    "127.0.0.1",
    "10.0.0.1",
    "[::1]",
    "[::ffff:7f00:1]",
    "169.254.169.254",
    "0.0.0.0",
]


async def test_non_public_literal_address_is_rejected(subtests: pytest.Subtests) -> None:
    for host in NON_PUBLIC_LITERALS:
        with subtests.test(host=host):
            for proxy in (None, "http://proxy.corp:3128"):
                network = RecordingNetwork()
                error = await fetch_error(fetcher(network=network, proxy=proxy), f"http://{host}/")
                assert error.reason == "not_allowed"
                assert "is not a public address" in error.detail
                assert (network.resolved, network.connected) == ([], [])


async def test_private_host_is_allowed_on_its_port_only() -> None:
    network = RecordingNetwork({"docs.corp": [["10.1.2.3"]], "odd.corp": [["169.254.169.254"]]})
    allowed = ("docs.corp:80", "odd.corp:80")
    fetching = fetcher(network=network, allowed_private_hosts=allowed)
    assert (await fetch_error(fetching, "http://docs.corp/")).reason == "failed"
    assert network.connected == [("10.1.2.3", 80, None)]
    assert (await fetch_error(fetching, "http://docs.corp:8080/")).reason == "not_allowed"
    assert (await fetch_error(fetching, "https://docs.corp/")).reason == "not_allowed"
    # An allowed host may not have a link-local address: metadata services of cloud providers have one.
    assert (await fetch_error(fetching, "http://odd.corp/")).reason == "not_allowed"
    assert len(network.connected) == 1


async def test_disallowed_host_is_not_resolved() -> None:
    network = RecordingNetwork({"evil.example": [["8.8.8.8"]]})
    error = await fetch_error(fetcher(network=network, check_access=only("docs.example.com")), "https://evil.example/")
    assert error.reason == "not_allowed"
    assert (network.resolved, network.connected) == ([], [])


async def test_next_address_is_tried_after_a_timeout() -> None:
    class HalfDown(RecordingNetwork):
        async def connect(self, address: str, port: int, tls_name: str | None):  # type: ignore[no-untyped-def]  # as in the base class
            if address == "8.8.8.8":
                self.connected.append((address, port, tls_name))
                raise TimeoutError
            return await super().connect(address, port, tls_name)

    async with Site({"/": text("second")}) as site:
        network = HalfDown({"docs.example.com": [["8.8.8.8", "8.8.4.4"]]}, leads_to=site.port)
        assert (await fetcher(network=network).fetch("http://docs.example.com/")).body == b"second"
    assert [address for address, _, _ in network.connected] == ["8.8.8.8", "8.8.4.4"]
    down = HalfDown({"docs.example.com": [["8.8.8.8"]]})
    assert (
        "timeout connecting to 8.8.8.8" in (await fetch_error(fetcher(network=down), "http://docs.example.com/")).detail
    )


async def test_unresolvable_host_is_a_temporary_failure() -> None:
    network = RecordingNetwork({"empty.example": [[]]})
    for url in ("http://unknown.example/", "http://empty.example/"):
        error = await fetch_error(fetcher(network=network), url)
        assert error.reason == "failed"
        assert "cannot resolve" in error.detail


# --- redirects --------------------------------------------------------------------------------------------------------


async def test_at_most_three_redirects() -> None:
    async with Site({f"/{n}": redirect(f"/{n + 1}") for n in range(5)}) as site:
        site.routes["/4"] = text("there")
        fetching = fetcher(site)
        found = await fetching.fetch(f"{site.url}/1")
        assert (found.url, found.final_url, found.body) == (f"{site.url}/1", f"{site.url}/4", b"there")
        assert (await fetch_error(fetching, f"{site.url}/0")).reason == "too_many_redirects"


async def test_a_redirect_loop_ends() -> None:
    async with Site({"/a": redirect("/b"), "/b": redirect("/a", 308)}) as site:
        assert (await fetch_error(fetcher(site), f"{site.url}/a")).reason == "too_many_redirects"
        assert len(site.requests) == 4


REJECTED_REDIRECTS: list[tuple[str, str]] = [
    ("http://127.0.0.1:1/", "not_allowed"),
    ("http://169.254.169.254/latest/meta-data/", "not_allowed"),
    ("http://[::1]/", "not_allowed"),
    ("http://2130706433/", "not_allowed"),
    ("http://user@docs.example.com/", "not_allowed"),
    ("http://rebound.example/", "not_allowed"),
    ("file:///etc/passwd", "not_allowed"),
]


async def test_every_redirect_is_checked(subtests: pytest.Subtests) -> None:
    for location, reason in REJECTED_REDIRECTS:
        with subtests.test(location=location):
            async with Site({"/": redirect(location)}) as site:
                answers = {"docs.example.com": [["8.8.8.8"]], "rebound.example": [["10.0.0.1"]]}
                network = RecordingNetwork(answers, leads_to=site.port)
                assert (await fetch_error(fetcher(network=network), "http://docs.example.com/")).reason == reason
                assert len(network.connected) == len(site.requests) == 1


async def test_redirect_to_disallowed_host_is_rejected() -> None:
    async with Site({"/": redirect("http://evil.example/")}) as site:
        network = RecordingNetwork({"docs.example.com": [["8.8.8.8"]]}, leads_to=site.port)
        fetching = fetcher(network=network, check_access=only("docs.example.com"))
        assert (await fetch_error(fetching, "http://docs.example.com/")).url == "http://evil.example/"
        assert network.resolved == ["docs.example.com"]


async def test_redirect_without_location_fails() -> None:
    async with Site({"/": status(302)}) as site:
        assert "without a Location header" in (await fetch_error(fetcher(site), f"{site.url}/")).detail


async def test_headers_are_not_sent_to_another_host() -> None:
    async with Site({"/b": text("open")}) as other, Site() as first:
        first.routes["/a"] = redirect(f"{other.url}/b")

        async def check_access(target: Target) -> Access:
            return Access(True, (("Authorization", "Bearer s"),) if target.port == first.port else ())

        await fetcher(first, other, check_access=check_access).fetch(f"{first.url}/a")
        assert first.requests[0].headers["authorization"] == "Bearer s"
        assert "authorization" not in other.requests[0].headers


# --- responses --------------------------------------------------------------------------------------------------------


ERROR_STATUSES: list[tuple[int, str]] = [
    (404, "not_found"),
    (410, "not_found"),
    (500, "failed"),
    (403, "failed"),
    (304, "failed"),
]


async def test_error_statuses(subtests: pytest.Subtests) -> None:
    for code, reason in ERROR_STATUSES:
        with subtests.test(code=code):
            async with Site({"/": status(code)}) as site:
                error = await fetch_error(fetcher(site), f"{site.url}/")
                assert error.reason == reason
                assert str(code) in error.detail


async def test_conditional_requests() -> None:
    """Requests have the ETag or the Last-Modified of the known document."""
    date = "Sun, 15 Nov 2026 10:00:00 GMT"
    async with Site({"/": validated("# Page", '"7"', date)}) as site:
        fetching = fetcher(site)
        first = await fetching.fetch(f"{site.url}/")
        assert (first.etag, first.last_modified, first.is_unchanged) == ('"7"', date, False)
        for known in ({"etag": '"7"'}, {"last_modified": date}):
            again = await fetching.fetch(f"{site.url}/", **known)
            assert (again.is_unchanged, again.body) == (True, b"")
        assert not (await fetching.fetch(f"{site.url}/", etag='"6"')).is_unchanged


async def test_non_ascii_validator_is_not_sent() -> None:
    async with Site({"/": validated("# Page", '"\u00fc"', "\u00fc")}) as site:
        fetching = fetcher(site)
        first = await fetching.fetch(f"{site.url}/")
        again = await fetching.fetch(f"{site.url}/", etag=first.etag, last_modified=first.last_modified)
        assert (first.etag, again.body) == ('"\u00fc"', b"# Page")
        assert "if-none-match" not in site.requests[1].headers


async def test_private_ipv6_host() -> None:
    network = RecordingNetwork()
    fetching = fetcher(network=network, allowed_private_hosts=("[fd00::7]:8080",))
    assert (await fetch_error(fetching, "http://[fd00::7]:8080/")).reason == "failed"
    assert network.connected == [("fd00::7", 8080, None)]


async def test_gzip_bomb_and_slow_response() -> None:
    async with Site({"/bomb": bomb(), "/trickle": trickle()}) as site:
        error = await fetch_error(fetcher(site), f"{site.url}/bomb")
        assert "larger than 10485760 bytes" in error.detail
        assert error.remedy.startswith("Trying again does not help.")
        error = await fetch_error(fetcher(site, timeout_seconds=0.2), f"{site.url}/trickle")
        assert (error.reason, error.detail) == ("failed", "timeout after 0.2 seconds")


async def test_connection_reset_fails() -> None:
    async def reset(request: object, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected = writer.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with Site({"/": reset}) as site:
        error = await fetch_error(fetcher(site), f"{site.url}/")
        assert error.reason == "failed"
        assert error.detail.startswith("connection lost")


async def test_concurrent_fetches_share_one_request() -> None:
    resume = asyncio.Event()
    async with Site({"/": held(resume, text("once"))}) as site:
        fetching = fetcher(site)
        waiting = [asyncio.create_task(fetching.fetch(f"{site.url}/")) for _ in range(10)]
        while not site.requests:
            await asyncio.sleep(0)
        assert "in_flight=1" in repr(fetching)
        resume.set()
        found = await asyncio.gather(*waiting)
    assert {document.body for document in found} == {b"once"}
    assert len(site.requests) == 1


async def test_close_cancels_fetches() -> None:
    async with Site({"/": trickle()}) as site:
        fetching = fetcher(site)
        waiting = asyncio.create_task(fetching.fetch(f"{site.url}/"))
        while not site.requests:
            await asyncio.sleep(0)
        await fetching.close()
        with pytest.raises(FetchError, match="closing"):
            await waiting


async def test_offline_sends_nothing() -> None:
    network = RecordingNetwork()
    error = await fetch_error(fetcher(network=network, offline=True), "https://docs.example.com/")
    assert error.reason == "offline"
    assert network.resolved == []


# --- proxies ----------------------------------------------------------------------------------------------------------


async def test_proxy_with_plain_http_and_credentials() -> None:
    async with Site({"http://docs.example.com/a": text("by proxy")}) as proxy:
        network = RecordingNetwork(leads_to=proxy.port)
        fetching = fetcher(network=network, proxy="http://me:p%40ss@proxy.corp:3128")
        assert (await fetching.fetch("http://docs.example.com/a")).body == b"by proxy"
    assert network.connected == [("proxy.corp", 3128, None)]
    assert network.resolved == []
    assert proxy.requests[0].headers["proxy-authorization"] == "Basic bWU6cEBzcw=="


async def test_private_host_bypasses_the_proxy() -> None:
    async with Site({"/": text("near")}) as site:
        fetching = fetcher(site, proxy="http://proxy.invalid:1")
        assert (await fetching.fetch(f"{site.url}/")).body == b"near"


async def test_proxy_tunnels_tls(tmp_path: Path) -> None:
    """The tunnel uses CONNECT and a CA file. A fetch from 127.0.0.1 is rejected, so the test opens the connection."""
    context, authority = certificates.make(tmp_path)

    async with Site({"/a": text("tunnelled")}, tls=context) as site, tunnelling_proxy() as (port, heads):
        fetching = Fetcher(FetcherSettings(proxy=f"http://127.0.0.1:{port}", ca_file=str(authority)), allow_all)
        target = Target("https", "127.0.0.1", site.port, "/a")
        streams, absolute_form, headers = await fetching._open_via_proxy(fetching._proxy, target)  # type: ignore[arg-type]  # set
        assert (absolute_form, headers) == (False, ())
        streams[1].write(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await streams[0].read()).endswith(b"tunnelled")
        streams[1].transport.abort()
        assert heads[0].startswith(f"CONNECT 127.0.0.1:{site.port} HTTP/1.1\r\n".encode())


PROXY_ERRORS: list[tuple[bytes, str]] = [
    (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "the proxy rejected the request: HTTP/1.1 407"),
    (b"", "closed the connection"),
    (b"x" * 100_000, "closed the connection"),
    (b"nonsense\r\n\r\n", "the proxy rejected the request: nonsense"),
]


async def test_proxy_errors(subtests: pytest.Subtests) -> None:
    for response, problem in PROXY_ERRORS:
        with subtests.test(problem=problem):
            async with tunnelling_proxy(response) as (port, _):
                fetching = fetcher(proxy=f"http://127.0.0.1:{port}")
                error = await fetch_error(fetching, "https://docs.example.com/")
                assert (error.reason, problem in error.detail) == ("failed", True)


async def test_tunnel_without_tls_fails() -> None:
    class Broken(RecordingNetwork):
        async def upgrade(self, streams: object, tls_name: str):  # type: ignore[no-untyped-def, override]  # never returns
            raise ConnectionResetError("not TLS")

    async with tunnelling_proxy() as (port, _):
        fetching = fetcher(network=Broken(leads_to=port), proxy="https://[::1]:3128")
        assert "cannot connect through the proxy" in (await fetch_error(fetching, "https://[2606:4700::1]/")).detail


# --- many fetches -----------------------------------------------------------------------------------------------------


async def test_connections_to_a_host_are_limited() -> None:
    """Further fetches wait their turn, and that is not part of their deadline."""
    release = asyncio.Event()
    open_now = 0
    largest = 0

    async def route(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, largest
        open_now += 1
        largest = max(largest, open_now)
        if open_now == MAX_CONNECTIONS_PER_HOST:
            release.set()
        await release.wait()
        open_now -= 1
        await text("page")(request, reader, writer)

    async with Site({f"/{number}": route for number in range(30)}) as site:
        fetching = fetcher(site)
        fetched = await asyncio.gather(*(fetching.fetch(f"{site.url}/{number}") for number in range(30)))
        assert (len(fetched), largest) == (30, MAX_CONNECTIONS_PER_HOST)
        await fetching.close()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7.0), ("", None), ("soon", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)],
)
async def test_retry_after(value: str, seconds: float | None) -> None:
    async with Site({"/a": text("", "text/plain", 429, Retry_After=value)}) as site:
        fetching = fetcher(site)
        assert (await fetch_error(fetching, f"{site.url}/a")).retry_after == seconds
        await fetching.close()
