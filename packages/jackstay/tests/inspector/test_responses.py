"""HTTP responses and request bodies of the pages besides the endpoint."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from jackstay.inspector import RequestRejected, _responses, read_json, respond_error, respond_json, wait_for_disconnect
from jackstay.protocol.http import ErrorResponse


def receiver(messages: Iterable[dict[str, Any]]) -> Any:
    remaining = iter(messages)

    async def receive() -> Any:
        message = next(remaining, None)
        return message if message is not None else await asyncio.Event().wait()

    return receive


async def read(*messages: dict[str, Any], limit: int = 100) -> dict[str, Any]:
    return await read_json(receiver(messages), limit)


async def test_body_in_parts() -> None:
    first = {"type": "http.request", "body": b'{"a"', "more_body": True}
    assert await read(first, {"type": "http.request", "body": b": 1}"}) == {"a": 1}


UNUSABLE_BODIES: list[tuple[list[dict[str, Any]], int, str]] = [
    ([{"type": "http.request", "body": b"x" * 101}], 413, "larger than 100 bytes"),
    (
        [{"type": "http.request", "body": b"x" * 60, "more_body": True}] * 2,
        413,
        "larger than 100 bytes",
    ),
    ([{"type": "http.disconnect"}], 400, "incomplete"),
    ([{"type": "http.request", "body": b"[1]"}], 400, "JSON object"),
    ([{"type": "http.request", "body": b"{"}], 400, "JSON object"),
    ([{"type": "http.request", "body": b'{"a": "\xff"}'}], 400, "JSON object"),
    ([{"type": "http.request"}], 400, "JSON object"),
]


async def test_unusable_bodies(subtests: pytest.Subtests) -> None:
    for messages, status, problem in UNUSABLE_BODIES:
        with subtests.test(messages=messages):
            with pytest.raises(RequestRejected, match=problem) as caught:
                await read(*messages)
            assert caught.value.response.status == status


async def test_deeply_nested_body_is_rejected() -> None:
    with pytest.raises(RequestRejected, match="JSON object"):
        await read({"type": "http.request", "body": b'{"a":' + b"[" * 50_000}, limit=100_000)


async def test_slow_body_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_responses, "BODY_SECONDS", 0.01)
    with pytest.raises(RequestRejected, match="timeout") as caught:
        await read({"type": "http.request", "body": b"{", "more_body": True})
    assert caught.value.response.status == 408


async def test_headers_of_every_response() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await respond_json(send, {"a": 1})
    headers = dict(sent[0]["headers"])
    assert headers[b"cache-control"] == b"no-store"
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"cross-origin-resource-policy"] == b"same-origin"
    assert headers[b"content-length"] == b"7"
    assert sent[1] == {"type": "http.response.body", "body": b'{"a":1}', "more_body": False}


async def test_error_response_has_its_headers() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await respond_error(send, ErrorResponse(401, -32600, "no", headers=(("www-authenticate", "Bearer"),)))
    assert sent[0]["status"] == 401
    assert (b"www-authenticate", b"Bearer") in sent[0]["headers"]
    assert sent[1]["body"] == b'{"error":"no"}'


async def test_wait_for_disconnect() -> None:
    messages = [{"type": "http.request"}, {"type": "http.disconnect"}]
    await wait_for_disconnect(receiver(messages))
