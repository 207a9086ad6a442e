"""The keys of an authorization server: fetched once, cached, refreshed, and not more often than allowed."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey

from jackstay.errors import TransportError, UsageError
from jackstay.server.http import _jwks
from jackstay.server.http._jwks import (
    MAX_AGE,
    MAX_BYTES,
    MIN_INTERVAL,
    REFRESH_AGE,
    KeySource,
    fetch_from,
    read_keys,
)
from jackstay.testing import run_on_fake_clock


def public(key: Any, **more: str) -> dict[str, Any]:
    return {**key.as_dict(private=False), **more}


ONE = public(ECKey.generate_key("P-256"), kid="one")
TWO = public(ECKey.generate_key("P-256"), kid="two")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Published:
    """The keys of an authorization server, and how often they were fetched."""

    def __init__(self, *rows: Any) -> None:
        self.rows = list(rows)
        self.count = 0
        self.is_down = False
        self.gate: asyncio.Event | None = None

    async def __call__(self) -> Mapping[str, Any]:
        self.count += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.is_down:
            raise OSError("down")
        return {"keys": self.rows}


def names(found: Sequence[Any]) -> list[str]:
    return [key.get("kid") for key in found]


async def test_keys_are_fetched_once_and_cached() -> None:
    published, clock = Published(ONE, TWO), Clock()
    source = KeySource(published, clock=clock)
    assert names(await source.find("one", "ES256")) == ["one"]
    assert names(await source.find(None, "ES256")) == ["one", "two"]
    clock.now += REFRESH_AGE - 1
    assert names(await source.find("two", "ES256")) == ["two"]
    assert published.count == 1
    assert "2 keys" in repr(source)


async def test_an_unknown_key_id_refreshes_at_most_once_per_interval() -> None:
    """Key rotation works, and a flood of made-up key ids costs one fetch in thirty seconds."""
    published, clock = Published(ONE), Clock()
    source = KeySource(published, clock=clock)
    assert await source.find("two", "ES256") == []
    for n in range(1000):
        assert await source.find(f"made-up-{n}", "ES256") == []
    assert published.count == 1
    published.rows.append(TWO)
    clock.now += MIN_INTERVAL
    assert names(await source.find("two", "ES256")) == ["two"]
    assert published.count == 2


async def test_concurrent_callers_share_a_fetch_and_one_can_be_cancelled() -> None:
    published = Published(ONE)
    published.gate = asyncio.Event()
    source = KeySource(published)
    waiting = [asyncio.create_task(source.find("one", "ES256")) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    published.gate.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert [names(keys) for keys in found[1:]] == [["one"]] * 4  # type: ignore[arg-type]  # the others are keys
    assert published.count == 1


def test_cached_keys_are_used_during_a_refresh_until_max_age(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        published, clock = Published(ONE), Clock()
        source = KeySource(published, clock=clock)
        await source.find("one", "ES256")
        published.is_down = True
        clock.now += REFRESH_AGE
        assert names(await source.find("one", "ES256")) == ["one"]  # without waiting
        await asyncio.sleep(1)  # the fetch has ended
        assert published.count == 2
        assert "fetching the signing keys failed" in caplog.text
        clock.now += MAX_AGE
        with pytest.raises(TransportError, match="no signing keys") as caught:
            await source.find("one", "ES256")
        assert caught.value.retryable
        assert published.count == 3
        published.is_down = False
        with pytest.raises(TransportError):  # too early for another fetch
            await source.find("one", "ES256")
        clock.now += MIN_INTERVAL
        assert names(await source.find("one", "ES256")) == ["one"]

    run_on_fake_clock(test())


async def test_a_set_without_a_usable_key_is_rejected(subtests: pytest.Subtests) -> None:
    for rows in ([], [{"kty": "x"}], ["no key"]):
        with subtests.test(rows=rows), pytest.raises(TransportError, match="no signing keys"):
            await KeySource(Published(*rows)).find("one", "ES256")


async def test_a_fetch_that_hangs_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jwks, "FETCH_TIMEOUT", 0.01)

    published = Published(ONE)
    published.gate = asyncio.Event()
    with pytest.raises(TransportError):
        await KeySource(published).find("one", "ES256")


async def test_a_key_is_used_with_its_own_type_of_algorithm_only() -> None:
    """RFC 8725 section 2.1: a public key must never be used as a secret."""
    rsa = public(RSAKey.generate_key(2048), kid="rsa")
    fixed = public(ECKey.generate_key("P-384"), kid="fixed", alg="ES384")
    enc = public(ECKey.generate_key("P-256"), kid="enc", use="enc")
    source = KeySource(None, {"keys": [ONE, rsa, fixed, enc]})
    for name, algorithm, expected in [
        ("rsa", "RS256", ["rsa"]),
        ("rsa", "PS512", ["rsa"]),
        ("rsa", "ES256", []),
        ("rsa", "HS256", []),
        ("one", "HS256", []),
        ("one", "none", []),
        ("fixed", "ES384", ["fixed"]),
        ("fixed", "ES256", []),
        ("enc", "ES256", []),
        (None, "ES256", ["one"]),
    ]:
        assert names(await source.find(name, algorithm)) == expected, (name, algorithm)


def test_a_fetched_secret_is_skipped() -> None:
    secret = OctKey.generate_key(256).as_dict()
    assert len(read_keys({"keys": [secret]})) == 1
    assert read_keys({"keys": [secret]}, is_fetched=True) == ()


def test_an_invalid_set_is_refused(subtests: pytest.Subtests) -> None:
    for given in ({}, {"keys": 1}, {"keys": [ONE] * 65}, [ONE]):
        with subtests.test(given=given), pytest.raises(UsageError, match="invalid jwks"):
            read_keys(given)


def test_a_configured_set_without_keys_is_refused() -> None:
    with pytest.raises(UsageError, match="no usable key"):
        KeySource(None, {"keys": []})


# --- over HTTP --------------------------------------------------------------------------------------------------------


class Response:
    def __init__(self, status: int, chunks: list[bytes]) -> None:
        self.status = status
        self.headers: dict[str, str] = {}
        self._chunks = chunks
        self.is_closed = False

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk

    async def close(self) -> None:
        self.is_closed = True


class Client:
    def __init__(self, response: Response) -> None:
        self.response = response
        self.sent: list[tuple[str, str]] = []
        self.is_closed = False

    async def send(self, method: str, url: str, headers: Any, body: bytes | None) -> Response:
        self.sent.append((method, url))
        return self.response

    async def close(self) -> None:
        self.is_closed = True


URL = "https://auth.example.com/jwks.json"


async def test_a_url_is_fetched_with_the_given_client() -> None:
    body = json.dumps({"keys": [ONE]}).encode()
    client = Client(Response(200, [body[:10], body[10:]]))
    assert await fetch_from(URL, client)() == {"keys": [ONE]}
    assert client.sent == [("GET", URL)]
    assert client.response.is_closed
    assert not client.is_closed


async def test_an_invalid_response_is_an_error(subtests: pytest.Subtests) -> None:
    cases = [
        (Response(302, []), "HTTP 302"),
        (Response(500, []), "HTTP 500"),
        (Response(200, [b"<html>"]), "not a JSON object"),
        (Response(200, [b"[]"]), "not a JSON object"),
        (Response(200, [b'{"keys":"\xff"}']), "not a JSON object"),
        (Response(200, [b'{"keys":', b"[" * 50_000, b"]" * 50_000, b"}"]), "not a JSON object"),
        (Response(200, [b" " * 65536] * 5), f"exceeds {MAX_BYTES} bytes"),
    ]
    for response, message in cases:
        with subtests.test(message=message):
            with pytest.raises(TransportError, match=message):
                await fetch_from(URL, Client(response))()
            assert response.is_closed


async def test_without_a_client_the_default_one_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(Response(200, [b'{"keys":[]}']))
    monkeypatch.setattr("jackstay.transport.default_http_client", lambda: client, raising=False)
    assert await fetch_from("http://127.0.0.1:1/jwks", None)() == {"keys": []}
    assert client.is_closed


def test_an_insecure_jwks_url_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["http://auth.example.com/jwks", "file:///etc/passwd", "jwks.json", ""]
    for url in cases:
        with subtests.test(url=url), pytest.raises(UsageError, match="https"):
            fetch_from(url, None)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "joserfc", None)
    with pytest.raises(UsageError, match=r"jackstay\[http\]"):
        _jwks.need_jose()
