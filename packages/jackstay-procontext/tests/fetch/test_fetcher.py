"""Fetching (design, section 1, rows "allowlist", "private IP ranges", "nothing on sizes"; section 4). Refused addresses are never sent to."""

import asyncio
import socket
import struct
from pathlib import Path

import pytest

from procontext.config import FetcherSettings
from procontext.fetch import Access, Fetcher, FetchError, Network, Target
from scripted import certificates
from scripted.documentation import (
    LoopbackNetwork,
    RecordingNetwork,
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
from scripted.loop import timed

HERE = Path("unused")


async def everything(target: Target) -> Access:
    return Access(True)


def only(*hosts: str) -> object:
    async def permits(target: Target) -> Access:
        return Access(target.host in hosts)

    return permits


def fetcher(
    *sites: Site, network: Network | None = None, permits: object = everything, **named: object
) -> Fetcher:
    assert callable(permits)
    return Fetcher(settings(HERE, *sites, **named).fetcher, permits, network or LoopbackNetwork())


async def refused(fetching: Fetcher, url: str) -> FetchError:
    with pytest.raises(FetchError) as caught:
        await fetching.fetch(url)
    return caught.value


# --- where it goes ----------------------------------------------------------------------------------------------------


@timed
async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """A name that answers differently the second time changes nothing: it is asked once."""
    async with Site({"/a": text("page")}) as site:
        network = RecordingNetwork({"docs.example.com": [["8.8.8.8"], ["127.0.0.1"]]}, leads_to=site.port)
        found = await fetcher(network=network).fetch("http://docs.example.com/a")
    assert found.body == b"page"
    assert network.resolved == ["docs.example.com"]
    assert network.connected == [("8.8.8.8", 80, None)]
    assert site.requests[0].headers["host"] == "docs.example.com"


@timed
async def test_tls_is_asked_for_by_the_name() -> None:
    network = RecordingNetwork({"docs.example.com": [["8.8.8.8"]]})
    assert (await refused(fetcher(network=network), "https://docs.example.com/")).reason == "failed"
    assert network.connected == [("8.8.8.8", 443, "docs.example.com")]


@pytest.mark.parametrize(
    "answer",
    [
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
        ["8.8.8.8", "10.0.0.1"],  # one bad answer spoils all
        ["nonsense"],
    ],
)
def test_a_name_with_an_address_that_is_not_public_is_refused_and_nothing_is_sent(answer: list[str]) -> None:
    @timed
    async def scenario() -> None:
        network = RecordingNetwork({"docs.example.com": [answer]})
        error = await refused(fetcher(network=network), "https://docs.example.com/")
        assert error.reason == "not_allowed"
        assert "no public address" in error.detail
        assert network.connected == []

    scenario()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "10.0.0.1", "[::1]", "[::ffff:7f00:1]", "169.254.169.254", "0.0.0.0"]
)
def test_a_literal_address_that_is_not_public_is_refused_and_nothing_is_sent(host: str) -> None:
    @timed
    async def scenario() -> None:
        for proxy in (None, "http://proxy.corp:3128"):
            network = RecordingNetwork()
            error = await refused(fetcher(network=network, proxy=proxy), f"http://{host}/")
            assert error.reason == "not_allowed"
            assert "no public address" in error.detail
            assert (network.resolved, network.connected) == ([], [])

    scenario()


@timed
async def test_a_private_host_is_reached_only_on_the_port_that_was_named() -> None:
    """Design, section 2: `allowed_private_hosts`."""
    network = RecordingNetwork({"docs.corp": [["10.1.2.3"]], "odd.corp": [["169.254.169.254"]]})
    allowed = ("docs.corp:80", "odd.corp:80")
    fetching = fetcher(network=network, allowed_private_hosts=allowed)
    assert (await refused(fetching, "http://docs.corp/")).reason == "failed"
    assert network.connected == [("10.1.2.3", 80, None)]
    assert (await refused(fetching, "http://docs.corp:8080/")).reason == "not_allowed"
    assert (await refused(fetching, "https://docs.corp/")).reason == "not_allowed"
    # Permission for a host is no permission for the cloud's metadata.
    assert (await refused(fetching, "http://odd.corp/")).reason == "not_allowed"
    assert len(network.connected) == 1


@timed
async def test_what_the_caller_does_not_permit_is_not_even_resolved() -> None:
    network = RecordingNetwork({"evil.example": [["8.8.8.8"]]})
    error = await refused(fetcher(network=network, permits=only("docs.example.com")), "https://evil.example/")
    assert error.reason == "not_allowed"
    assert (network.resolved, network.connected) == ([], [])


@timed
async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    class HalfDown(RecordingNetwork):
        async def connect(self, address: str, port: int, tls_name: str | None):  # type: ignore[no-untyped-def]  # as below
            if address == "8.8.8.8":
                self.connected.append((address, port, tls_name))
                raise TimeoutError
            return await super().connect(address, port, tls_name)

    async with Site({"/": text("second")}) as site:
        network = HalfDown({"docs.example.com": [["8.8.8.8", "8.8.4.4"]]}, leads_to=site.port)
        assert (await fetcher(network=network).fetch("http://docs.example.com/")).body == b"second"
    assert [address for address, _, _ in network.connected] == ["8.8.8.8", "8.8.4.4"]
    down = HalfDown({"docs.example.com": [["8.8.8.8"]]})
    assert "does not answer" in (await refused(fetcher(network=down), "http://docs.example.com/")).detail


@timed
async def test_a_name_without_an_address_may_have_one_later() -> None:
    network = RecordingNetwork({"empty.example": [[]]})
    for url in ("http://unknown.example/", "http://empty.example/"):
        error = await refused(fetcher(network=network), url)
        assert error.reason == "failed"
        assert "has no address" in error.detail


# --- redirects --------------------------------------------------------------------------------------------------------


@timed
async def test_three_redirects_are_followed_and_a_fourth_is_not() -> None:
    async with Site({f"/{n}": redirect(f"/{n + 1}") for n in range(5)}) as site:
        site.routes["/4"] = text("there")
        fetching = fetcher(site)
        found = await fetching.fetch(f"{site.url}/1")
        assert (found.url, found.final_url, found.body) == (f"{site.url}/1", f"{site.url}/4", b"there")
        assert (await refused(fetching, f"{site.url}/0")).reason == "too_many_redirects"


@timed
async def test_a_redirect_loop_ends() -> None:
    async with Site({"/a": redirect("/b"), "/b": redirect("/a", 308)}) as site:
        assert (await refused(fetcher(site), f"{site.url}/a")).reason == "too_many_redirects"
        assert len(site.requests) == 4


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("http://127.0.0.1:1/", "not_allowed"),
        ("http://169.254.169.254/latest/meta-data/", "not_allowed"),
        ("http://[::1]/", "not_allowed"),
        ("http://2130706433/", "not_allowed"),
        ("http://user@docs.example.com/", "not_allowed"),
        ("http://rebound.example/", "not_allowed"),
        ("file:///etc/passwd", "not_allowed"),
    ],
)
def test_each_hop_of_a_redirect_is_checked_anew(location: str, reason: str) -> None:
    @timed
    async def scenario() -> None:
        async with Site({"/": redirect(location)}) as site:
            answers = {"docs.example.com": [["8.8.8.8"]], "rebound.example": [["10.0.0.1"]]}
            network = RecordingNetwork(answers, leads_to=site.port)
            assert (await refused(fetcher(network=network), "http://docs.example.com/")).reason == reason
            assert len(network.connected) == len(site.requests) == 1

    scenario()


@timed
async def test_a_redirect_to_a_host_that_is_not_permitted_is_refused() -> None:
    """Reference, 4.4: a redirect leads to a domain that is not on the list."""
    async with Site({"/": redirect("http://evil.example/")}) as site:
        network = RecordingNetwork({"docs.example.com": [["8.8.8.8"]]}, leads_to=site.port)
        fetching = fetcher(network=network, permits=only("docs.example.com"))
        assert (await refused(fetching, "http://docs.example.com/")).url == "http://evil.example/"
        assert network.resolved == ["docs.example.com"]


@timed
async def test_a_redirect_without_a_place_is_a_failure() -> None:
    async with Site({"/": status(302)}) as site:
        assert "not where to" in (await refused(fetcher(site), f"{site.url}/")).detail


@timed
async def test_headers_of_a_source_never_cross_to_another_host() -> None:
    """Design, section 2, point 5."""
    async with Site({"/b": text("open")}) as other, Site() as own:
        own.routes["/a"] = redirect(f"{other.url}/b")

        async def permits(target: Target) -> Access:
            return Access(True, (("Authorization", "Bearer s"),) if target.port == own.port else ())

        await fetcher(own, other, permits=permits).fetch(f"{own.url}/a")
        assert own.requests[0].headers["authorization"] == "Bearer s"
        assert "authorization" not in other.requests[0].headers


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "reason"),
    [(404, "not_found"), (410, "not_found"), (500, "failed"), (403, "failed"), (304, "failed")],
)
def test_a_status_that_is_no_document_is_an_error(code: int, reason: str) -> None:
    @timed
    async def scenario() -> None:
        async with Site({"/": status(code)}) as site:
            error = await refused(fetcher(site), f"{site.url}/")
            assert error.reason == reason
            assert str(code) in error.detail

    scenario()


@timed
async def test_who_has_it_already_is_told_that_it_is_unchanged() -> None:
    """Design, section 2, point 4: ETag and Last-Modified."""
    date = "Sun, 15 Nov 2026 10:00:00 GMT"
    async with Site({"/": validated("# Page", '"7"', date)}) as site:
        fetching = fetcher(site)
        first = await fetching.fetch(f"{site.url}/")
        assert (first.etag, first.last_modified, first.is_unchanged) == ('"7"', date, False)
        for known in ({"etag": '"7"'}, {"last_modified": date}):
            again = await fetching.fetch(f"{site.url}/", **known)
            assert (again.is_unchanged, again.body) == (True, b"")
        assert not (await fetching.fetch(f"{site.url}/", etag='"6"')).is_unchanged


@timed
async def test_a_validator_that_is_no_ascii_is_not_sent_back() -> None:
    async with Site({"/": validated("# Page", '"\u00fc"', "\u00fc")}) as site:
        fetching = fetcher(site)
        first = await fetching.fetch(f"{site.url}/")
        again = await fetching.fetch(f"{site.url}/", etag=first.etag, last_modified=first.last_modified)
        assert (first.etag, again.body) == ('"\u00fc"', b"# Page")
        assert "if-none-match" not in site.requests[1].headers


@timed
async def test_a_private_host_may_be_named_by_its_ipv6_address() -> None:
    network = RecordingNetwork()
    fetching = fetcher(network=network, allowed_private_hosts=("[fd00::7]:8080",))
    assert (await refused(fetching, "http://[fd00::7]:8080/")).reason == "failed"
    assert network.connected == [("fd00::7", 8080, None)]


@timed
async def test_a_bomb_and_a_trickle_end() -> None:
    async with Site({"/bomb": bomb(), "/trickle": trickle()}) as site:
        error = await refused(fetcher(site), f"{site.url}/bomb")
        assert "larger than 10485760 bytes" in error.detail
        error = await refused(fetcher(site, timeout_seconds=0.2), f"{site.url}/trickle")
        assert (error.reason, error.detail) == ("failed", "it was not here after 0.2 seconds")


@timed
async def test_a_connection_that_breaks_is_a_failure() -> None:
    async def reset(request: object, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected = writer.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with Site({"/": reset}) as site:
        error = await refused(fetcher(site), f"{site.url}/")
        assert (error.reason, error.detail[:20]) == ("failed", "the connection broke")


@timed
async def test_one_address_is_fetched_once_at_a_time() -> None:
    go = asyncio.Event()
    async with Site({"/": held(go, text("once"))}) as site:
        fetching = fetcher(site)
        waiting = [asyncio.create_task(fetching.fetch(f"{site.url}/")) for _ in range(10)]
        while not site.requests:
            await asyncio.sleep(0)
        assert "in_flight=1" in repr(fetching)
        go.set()
        found = await asyncio.gather(*waiting)
    assert {one.body for one in found} == {b"once"}
    assert len(site.requests) == 1


@timed
async def test_closing_ends_what_is_under_way() -> None:
    async with Site({"/": trickle()}) as site:
        fetching = fetcher(site)
        waiting = asyncio.create_task(fetching.fetch(f"{site.url}/"))
        while not site.requests:
            await asyncio.sleep(0)
        await fetching.close()
        with pytest.raises(FetchError, match="closing"):
            await waiting


@timed
async def test_offline_nothing_is_asked() -> None:
    network = RecordingNetwork()
    error = await refused(fetcher(network=network, offline=True), "https://docs.example.com/")
    assert error.reason == "offline"
    assert network.resolved == []


# --- proxies ----------------------------------------------------------------------------------------------------------


@timed
async def test_a_proxy_is_asked_for_plain_pages_in_full_and_knows_who_asks() -> None:
    async with Site({"http://docs.example.com/a": text("by proxy")}) as proxy:
        network = RecordingNetwork(leads_to=proxy.port)
        fetching = fetcher(network=network, proxy="http://me:p%40ss@proxy.corp:3128")
        assert (await fetching.fetch("http://docs.example.com/a")).body == b"by proxy"
    assert network.connected == [("proxy.corp", 3128, None)]
    assert network.resolved == []
    assert proxy.requests[0].headers["proxy-authorization"] == "Basic bWU6cEBzcw=="


@timed
async def test_a_private_host_is_asked_without_the_proxy() -> None:
    async with Site({"/": text("near")}) as site:
        fetching = fetcher(site, proxy="http://proxy.invalid:1")
        assert (await fetching.fetch(f"{site.url}/")).body == b"near"


def test_a_proxy_tunnels_tls_and_the_name_is_verified_through_it(tmp_path: Path) -> None:
    """Through CONNECT, with a corporate CA file. 127.0.0.1 would be refused, so a public name is made to lead there."""
    context, authority = certificates.make(tmp_path)

    @timed
    async def scenario() -> None:
        async with Site({"/a": text("tunnelled")}, tls=context) as site, tunnelling_proxy() as (port, heads):
            named = FetcherSettings(proxy=f"http://127.0.0.1:{port}", ca_file=str(authority))
            fetching = Fetcher(named, everything)
            target = Target("https", "127.0.0.1", site.port, "/a")
            streams, in_full, headers = await fetching._open_through(fetching._proxy, target)  # type: ignore[arg-type]  # set
            assert (in_full, headers) == (False, ())
            streams[1].write(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await streams[0].read()).endswith(b"tunnelled")
            streams[1].transport.abort()
            assert heads[0].startswith(f"CONNECT 127.0.0.1:{site.port} HTTP/1.1\r\n".encode())

    scenario()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "the proxy refused: HTTP/1.1 407"),
        (b"", "closed the connection"),
        (b"x" * 100_000, "closed the connection"),
        (b"nonsense\r\n\r\n", "the proxy refused: nonsense"),
    ],
)
def test_a_proxy_that_refuses_is_told_of(answer: bytes, said: str) -> None:
    @timed
    async def scenario() -> None:
        async with tunnelling_proxy(answer) as (port, _):
            fetching = fetcher(proxy=f"http://127.0.0.1:{port}")
            error = await refused(fetching, "https://docs.example.com/")
            assert (error.reason, said in error.detail) == ("failed", True)

    scenario()


@timed
async def test_a_proxy_whose_tunnel_speaks_no_tls_is_a_failure() -> None:
    class Broken(RecordingNetwork):
        async def upgrade(self, streams: object, tls_name: str):  # type: ignore[no-untyped-def, override]  # it only fails
            raise ConnectionResetError("not TLS")

    async with tunnelling_proxy() as (port, _):
        fetching = fetcher(network=Broken(leads_to=port), proxy="https://[::1]:3128")
        assert "no way through the proxy" in (await refused(fetching, "https://[2606:4700::1]/")).detail
