"""The keys of an authorization server: fetched once for all, kept, rotated, and never more often than allowed."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey

from jackstay.errors import TransportError, UsageError
from jackstay.server.http import _jwks
from jackstay.server.http._jwks import (
    LEAST_INTERVAL,
    MAX_AGE,
    MOST_AGE,
    MOST_BYTES,
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
    """An authorization server's keys, and how often they were asked for."""

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


def test_keys_are_fetched_once_and_kept() -> None:
    async def test() -> None:
        published, clock = Published(ONE, TWO), Clock()
        source = KeySource(published, clock=clock)
        assert names(await source.find("one", "ES256")) == ["one"]
        assert names(await source.find(None, "ES256")) == ["one", "two"]
        clock.now += MAX_AGE - 1
        assert names(await source.find("two", "ES256")) == ["two"]
        assert published.count == 1
        assert "2 keys" in repr(source)

    asyncio.run(test())


def test_a_new_key_is_found_and_made_up_names_do_not_ask_again_and_again() -> None:
    """Rotation: an unknown name makes us look, but a flood of them costs one fetch in thirty seconds."""

    async def test() -> None:
        published, clock = Published(ONE), Clock()
        source = KeySource(published, clock=clock)
        assert await source.find("two", "ES256") == []
        for n in range(1000):
            assert await source.find(f"made-up-{n}", "ES256") == []
        assert published.count == 1
        published.rows.append(TWO)
        clock.now += LEAST_INTERVAL
        assert names(await source.find("two", "ES256")) == ["two"]
        assert published.count == 2

    asyncio.run(test())


def test_all_who_wait_share_a_fetch_and_one_who_leaves_takes_nothing_from_the_others() -> None:
    async def test() -> None:
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

    asyncio.run(test())


def test_old_keys_do_while_new_ones_are_fetched_but_not_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        published, clock = Published(ONE), Clock()
        source = KeySource(published, clock=clock)
        await source.find("one", "ES256")
        published.is_down = True
        clock.now += MAX_AGE
        assert names(await source.find("one", "ES256")) == ["one"]  # not waited for
        await asyncio.sleep(1)  # the fetch has ended
        assert published.count == 2
        assert "could not be fetched" in caplog.text
        clock.now += MOST_AGE
        with pytest.raises(TransportError, match="no keys") as caught:
            await source.find("one", "ES256")
        assert caught.value.retryable
        assert published.count == 3
        published.is_down = False
        with pytest.raises(TransportError):  # too soon to ask again
            await source.find("one", "ES256")
        clock.now += LEAST_INTERVAL
        assert names(await source.find("one", "ES256")) == ["one"]

    run_on_fake_clock(test())


@pytest.mark.parametrize("rows", [[], [{"kty": "x"}], ["no key"]])
def test_a_set_without_a_usable_key_is_not_taken(rows: list[Any]) -> None:
    async def test() -> None:
        with pytest.raises(TransportError, match="no keys"):
            await KeySource(Published(*rows)).find("one", "ES256")

    asyncio.run(test())


def test_a_fetch_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jwks, "FETCH_TIMEOUT", 0.01)

    async def test() -> None:
        published = Published(ONE)
        published.gate = asyncio.Event()
        with pytest.raises(TransportError):
            await KeySource(published).find("one", "ES256")

    asyncio.run(test())


def test_a_key_serves_only_its_own_kind_of_algorithm() -> None:
    """RFC 8725, 2.1: a public key must never be taken for a secret."""

    async def test() -> None:
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

    asyncio.run(test())


def test_a_secret_that_came_over_the_network_is_none() -> None:
    secret = OctKey.generate_key(256).as_dict()
    assert len(read_keys({"keys": [secret]})) == 1
    assert read_keys({"keys": [secret]}, is_fetched=True) == ()


@pytest.mark.parametrize("given", [{}, {"keys": 1}, {"keys": [ONE] * 65}, [ONE]])
def test_what_is_no_set_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match="jwks must be"):
        read_keys(given)


def test_a_given_set_without_keys_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="no key in jwks"):
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


def test_a_url_is_fetched_with_the_given_client() -> None:
    body = json.dumps({"keys": [ONE]}).encode()
    client = Client(Response(200, [body[:10], body[10:]]))
    assert asyncio.run(fetch_from(URL, client)()) == {"keys": [ONE]}  # type: ignore[arg-type]  # a coroutine
    assert client.sent == [("GET", URL)]
    assert client.response.is_closed
    assert not client.is_closed


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (Response(302, []), "answered 302"),
        (Response(500, []), "answered 500"),
        (Response(200, [b"<html>"]), "no JSON object"),
        (Response(200, [b"[]"]), "no JSON object"),
        (Response(200, [b'{"keys":"\xff"}']), "no JSON object"),
        (Response(200, [b'{"keys":', b"[" * 50_000, b"]" * 50_000, b"}"]), "no JSON object"),
        (Response(200, [b" " * 65536] * 5), f"more than {MOST_BYTES}"),
    ],
)
def test_an_answer_that_cannot_be_keys_is_an_error(response: Response, words: str) -> None:
    async def test() -> None:
        with pytest.raises(TransportError, match=words):
            await fetch_from(URL, Client(response))()

    asyncio.run(test())
    assert response.is_closed


def test_without_a_client_there_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(Response(200, [b'{"keys":[]}']))
    monkeypatch.setattr("jackstay.transport.default_http_client", lambda: client, raising=False)
    assert asyncio.run(fetch_from("http://127.0.0.1:1/jwks", None)()) == {"keys": []}  # type: ignore[arg-type]  # a coroutine
    assert client.is_closed


@pytest.mark.parametrize("url", ["http://auth.example.com/jwks", "file:///etc/passwd", "jwks.json", ""])
def test_keys_are_not_taken_from_a_place_that_anybody_can_fake(url: str) -> None:
    with pytest.raises(UsageError, match="https"):
        fetch_from(url, None)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "joserfc", None)
    with pytest.raises(UsageError, match=r"jackstay\[http\]"):
        _jwks.need_jose()
