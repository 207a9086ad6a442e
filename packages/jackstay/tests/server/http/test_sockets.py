"""Listening sockets: every address of a host, one port, and clear errors."""

import socket

import pytest

from jackstay.errors import TransportError, UsageError
from jackstay.server.http._sockets import bind_sockets, port_of, url_host


def close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def test_a_free_port_is_found_and_listened_on() -> None:
    sockets = bind_sockets("127.0.0.1", 0)
    try:
        with socket.create_connection(("127.0.0.1", port_of(sockets)), timeout=120):
            pass
    finally:
        close(sockets)


def test_connections_do_not_wait_for_acknowledgements() -> None:
    """Without TCP_NODELAY, the second of two small writes waits 40 ms for a delayed acknowledgement."""
    [listener] = bind_sockets("127.0.0.1", 0)
    with listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


def test_every_address_of_a_name_has_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("127.0.0.1", "127.0.0.2")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [*rows, rows[0]])
    sockets = bind_sockets("both", 0)
    try:
        assert len(sockets) == 2
        assert {sock.getsockname() for sock in sockets} == {
            ("127.0.0.1", port_of(sockets)),
            ("127.0.0.2", port_of(sockets)),
        }
    finally:
        close(sockets)


def test_an_unavailable_address_is_skipped_if_there_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("192.0.2.1", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows)
    sockets = bind_sockets("both", 0)
    assert [sock.getsockname()[0] for sock in sockets] == ["127.0.0.1"]
    close(sockets)


def test_ipv6_sockets_are_ipv6_only() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        sockets = bind_sockets("::1", 0)
    except TransportError:
        pytest.skip("no IPv6 here")
    assert sockets[0].getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1
    close(sockets)


def test_a_port_in_use_is_reported_with_a_remedy() -> None:
    taken = bind_sockets("127.0.0.1", 0)
    try:
        with pytest.raises(TransportError, match=r"127\.0\.0\.1:\d+: the port is already in use") as caught:
            bind_sockets("127.0.0.1", port_of(taken))
        assert caught.value.permanent
    finally:
        close(taken)


def test_a_port_in_use_on_one_address_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = bind_sockets("127.0.0.1", 0)
    port = port_of(taken)
    rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.2", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows)
    try:
        with pytest.raises(TransportError, match="already in use"):
            bind_sockets("both", port)
    finally:
        close(taken)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(TransportError, match="not an address of this machine"):
        bind_sockets("192.0.2.1", 0)


def test_another_error_is_reported_with_the_message_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> socket.socket:
        raise OSError(12, "Cannot allocate memory (while attempting to bind)")

    monkeypatch.setattr(socket, "create_server", fail)
    with pytest.raises(TransportError, match=r"Cannot allocate memory$"):
        bind_sockets("127.0.0.1", 0)


def test_an_unknown_host_is_refused() -> None:
    with pytest.raises(TransportError, match="unknown host"):
        bind_sockets("no such host", 0)


def test_an_invalid_port_is_refused(subtests: pytest.Subtests) -> None:
    for port in (-1, 65536, "80", None, True, 1.0):
        with subtests.test(port=port), pytest.raises(UsageError, match="port"):
            bind_sockets("127.0.0.1", port)  # type: ignore[arg-type]  # the mistake


def test_hosts_in_urls() -> None:
    assert [url_host(host) for host in ("localhost", "::1", "[::1]")] == ["localhost", "[::1]", "[::1]"]
