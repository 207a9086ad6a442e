"""Where it is listened: every address of a host, one port, and clear words where it cannot be."""

import socket

import pytest

from jackstay.errors import TransportError, UsageError
from jackstay.server.http import _sockets
from jackstay.server.http._sockets import bind_sockets, port_of, url_host


def closed(sockets: list[socket.socket]) -> None:
    for one in sockets:
        one.close()


def test_a_free_port_is_found_and_listened_on() -> None:
    sockets = bind_sockets("127.0.0.1", 0)
    try:
        with socket.create_connection(("127.0.0.1", port_of(sockets)), timeout=5):
            pass
    finally:
        closed(sockets)


def test_every_address_of_a_name_has_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("127.0.0.1", "127.0.0.2")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [*rows, rows[0]])
    sockets = bind_sockets("both", 0)
    try:
        assert len(sockets) == 2
        assert {one.getsockname() for one in sockets} == {
            ("127.0.0.1", port_of(sockets)),
            ("127.0.0.2", port_of(sockets)),
        }
    finally:
        closed(sockets)


def test_an_address_that_is_not_here_is_done_without_if_there_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("192.0.2.1", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows)
    sockets = bind_sockets("both", 0)
    assert [one.getsockname()[0] for one in sockets] == ["127.0.0.1"]
    closed(sockets)


def test_ipv6_takes_its_own_family_only() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        sockets = bind_sockets("::1", 0)
    except TransportError:
        pytest.skip("no IPv6 here")
    assert sockets[0].getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1
    closed(sockets)


def test_a_taken_port_is_told_with_what_to_do() -> None:
    taken = bind_sockets("127.0.0.1", 0)
    try:
        with pytest.raises(TransportError, match=r"127\.0\.0\.1:\d+: the port is taken") as caught:
            bind_sockets("127.0.0.1", port_of(taken))
        assert caught.value.permanent
    finally:
        closed(taken)


def test_a_port_that_is_taken_on_one_address_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = bind_sockets("127.0.0.1", 0)
    port = port_of(taken)
    rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.2", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows)
    try:
        with pytest.raises(TransportError, match="taken"):
            bind_sockets("both", port)
    finally:
        closed(taken)


def test_an_address_of_another_machine_is_told() -> None:
    with pytest.raises(TransportError, match="does not have that address"):
        bind_sockets("192.0.2.1", 0)


def test_an_error_that_nobody_foresaw_is_told_in_the_systems_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(one: socket.socket, *_: object) -> socket.socket:
        one.close()
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(_sockets, "_listen", fail)
    with pytest.raises(TransportError, match="Cannot allocate memory"):
        bind_sockets("127.0.0.1", 0)


def test_a_name_that_nobody_knows_is_told() -> None:
    with pytest.raises(TransportError, match="no host"):
        bind_sockets("no such host", 0)


@pytest.mark.parametrize("port", [-1, 65536, "80", None, True, 1.0])
def test_what_is_no_port_is_refused(port: object) -> None:
    with pytest.raises(UsageError, match="port"):
        bind_sockets("127.0.0.1", port)  # type: ignore[arg-type]  # the mistake


def test_hosts_in_urls() -> None:
    assert [url_host(host) for host in ("localhost", "::1", "[::1]")] == ["localhost", "[::1]", "[::1]"]
