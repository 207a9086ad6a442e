"""Answers beside the endpoint: what they always say, and bodies that are too large, too slow, broken off or no JSON."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from apcore_mcp import answers
from apcore_mcp.answers import Refused, answer_json, answer_refusal, read_json, until_gone
from jackstay.protocol.http import Refusal


def receiver(messages: Iterable[dict[str, Any]]) -> Any:
    left = iter(messages)

    async def receive() -> Any:
        message = next(left, None)
        return message if message is not None else await asyncio.Event().wait()

    return receive


def read(*messages: dict[str, Any], limit: int = 100) -> dict[str, Any]:
    return asyncio.run(read_json(receiver(messages), limit))


def test_a_body_may_come_in_pieces() -> None:
    first = {"type": "http.request", "body": b'{"a"', "more_body": True}
    assert read(first, {"type": "http.request", "body": b": 1}"}) == {"a": 1}


@pytest.mark.parametrize(
    ("messages", "status", "said"),
    [
        ([{"type": "http.request", "body": b"x" * 101}], 413, "over 100 bytes"),
        (
            [{"type": "http.request", "body": b"x" * 60, "more_body": True}] * 2,
            413,
            "over 100 bytes",
        ),
        ([{"type": "http.disconnect"}], 400, "broke off"),
        ([{"type": "http.request", "body": b"[1]"}], 400, "JSON object"),
        ([{"type": "http.request", "body": b"{"}], 400, "JSON object"),
        ([{"type": "http.request", "body": b'{"a": "\xff"}'}], 400, "JSON object"),
        ([{"type": "http.request"}], 400, "JSON object"),
    ],
)
def test_a_body_that_cannot_be_used_is_refused_with_its_reason(
    messages: list[dict[str, Any]], status: int, said: str
) -> None:
    with pytest.raises(Refused, match=said) as caught:
        read(*messages)
    assert caught.value.refusal.status == status


def test_nesting_without_end_is_refused_and_not_a_crash() -> None:
    with pytest.raises(Refused, match="JSON object"):
        read({"type": "http.request", "body": b'{"a":' + b"[" * 50_000}, limit=100_000)


def test_a_body_that_does_not_come_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "BODY_SECONDS", 0.01)
    with pytest.raises(Refused, match="in time") as caught:
        read({"type": "http.request", "body": b"{", "more_body": True})
    assert caught.value.refusal.status == 408


def test_every_answer_must_not_be_kept_guessed_at_or_read_by_others() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(answer_json(send, {"a": 1}))
    headers = dict(sent[0]["headers"])
    assert headers[b"cache-control"] == b"no-store"
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"cross-origin-resource-policy"] == b"same-origin"
    assert headers[b"content-length"] == b"7"
    assert sent[1] == {"type": "http.response.body", "body": b'{"a":1}', "more_body": False}


def test_a_refusal_is_told_with_its_headers() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(answer_refusal(send, Refusal(401, -32600, "no", headers=(("www-authenticate", "Bearer"),))))
    assert sent[0]["status"] == 401
    assert (b"www-authenticate", b"Bearer") in sent[0]["headers"]
    assert sent[1]["body"] == b'{"error":"no"}'


def test_a_client_is_gone_when_it_says_so_and_not_before() -> None:
    messages = [{"type": "http.request"}, {"type": "http.disconnect"}]
    asyncio.run(until_gone(receiver(messages)))
