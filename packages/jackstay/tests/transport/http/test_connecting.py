"""Connecting: several addresses, proxies, and descriptions of failures."""

import asyncio
import errno
import os
import socket
import ssl
from typing import Any

import pytest

from jackstay.transport.http import _connecting
from jackstay.transport.http._connecting import connect_socket, describe_failure, resolve, tls_context


def info(name: str, family: int = socket.AF_INET6) -> Any:
    return (family, socket.SOCK_STREAM, 0, "", (name, 1))


class Attempts:
    """Replaces the attempts to connect: `outcomes` are sockets or errors; a name without one never connects."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **outcomes: Any) -> None:
        self.tried: list[str] = []
        self.cancelled: list[str] = []
        self._outcomes = outcomes
        monkeypatch.setattr(_connecting, "_connect_one", self._connect)
        monkeypatch.setattr(_connecting, "ATTEMPT_DELAY", 0.0)

    async def _connect(self, loop: Any, found: Any) -> Any:
        name = found[4][0]
        self.tried.append(name)
        outcome = self._outcomes.get(name)
        if isinstance(outcome, OSError):
            raise outcome
        if outcome is None:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.append(name)
        return outcome


async def connect(*infos: Any) -> Any:
    return await connect_socket(asyncio.get_running_loop(), list(infos))


async def test_an_address_that_does_not_respond_is_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 8305: the second address of the first family is tried after the first one of the other family."""
    attempts = Attempts(monkeypatch, c="connected")
    found = await connect(info("a"), info("b"), info("c", socket.AF_INET), info("d", socket.AF_INET))
    assert found == "connected"
    assert attempts.tried[:2] == ["a", "c"]
    while "a" not in attempts.cancelled:
        await asyncio.sleep(0)


async def test_a_refused_address_is_followed_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = Attempts(monkeypatch, a=ConnectionRefusedError(), b="connected")
    assert await connect(info("a"), info("b")) == "connected"
    assert attempts.tried == ["a", "b"]


async def test_a_refusal_is_reported_before_other_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    unreachable = OSError(errno.ENETUNREACH, "no network")
    Attempts(monkeypatch, a=unreachable, b=ConnectionRefusedError(), c=unreachable)
    with pytest.raises(ConnectionRefusedError):
        await connect(info("a"), info("b"), info("c"))
    with pytest.raises(OSError, match="no network"):
        await connect(info("a"), info("c"))


async def test_cancelling_ends_every_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = Attempts(monkeypatch)
    task = asyncio.ensure_future(connect(info("a"), info("b")))
    while len(attempts.tried) < 2:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    while len(attempts.cancelled) < 2:
        await asyncio.sleep(0)


async def test_an_ip_address_needs_no_query(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()

    async def query(*_: Any, **__: Any) -> Any:
        return ["queried"]

    monkeypatch.setattr(loop, "getaddrinfo", query, raising=False)
    assert (await resolve(loop, "127.0.0.1", 80))[0][4] == ("127.0.0.1", 80)
    assert (await resolve(loop, "::1", 80))[0][4][0] == "::1"
    assert await resolve(loop, "example.invalid", 80) == ["queried"]


def test_contexts_are_loaded_once_and_verify_unless_disabled() -> None:
    assert tls_context(True) is tls_context(True)
    assert tls_context(True).verify_mode is ssl.CERT_REQUIRED
    assert tls_context(False).verify_mode is ssl.CERT_NONE


def test_failures_are_described() -> None:
    untrusted = ssl.SSLCertVerificationError("bad")
    untrusted.verify_message = "self-signed certificate"
    for error, message in [
        (untrusted, "untrusted certificate (self-signed certificate); pass the CA's certificate as ca=FILE"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] x"), "the server does not use TLS; should the URL begin with"),
        (ssl.SSLError(1, "other"), "other"),
        (socket.gaierror(-2, "Name or service not known"), "unknown host name (Name or service not known)"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "connection refused"),
        (OSError(errno.ENETUNREACH, "x"), os.strerror(errno.ENETUNREACH)),
        (ConnectionResetError(), "the connection was lost while connecting"),
    ]:
        assert describe_failure(error).startswith(message)
