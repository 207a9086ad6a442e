"""A caller notes what he was told, whatever the client raises."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from demo.callers import MANNERS, Caller, WrongAnswerError
from demo.ledger import Told

from demonstration.moments import beginning
from jackstay.client import Client
from jackstay.errors import (
    JsonRpcError,
    McpError,
    OutcomeUnknownError,
    StateError,
    TimeoutError,
    TransportError,
)

OUTCOMES: list[tuple[McpError | None, Told]] = [
    (None, Told.OK),
    (StateError("backoff"), Told.FAILED),
    (TransportError("could not connect"), Told.FAILED),
    (TimeoutError(1.0, sent=False), Told.FAILED),
    (TimeoutError(1.0, sent=True), Told.UNKNOWN),
    (OutcomeUnknownError("exited"), Told.UNKNOWN),
    (JsonRpcError(-32603, "the server decides"), Told.UNKNOWN),
]


def call_once(
    lane: int, error: McpError | None, text: str | None = None
) -> tuple[Caller, list[dict[str, Any]]]:
    """One call of that caller's; and with what options he made it."""
    chronicle, seen = beginning(), []
    caller = Caller(chronicle, lane, MANNERS[lane], lambda: 1.0, 0.5)

    async def call(name: str, arguments: dict[str, str], **options: Any) -> SimpleNamespace:
        caller.is_done = True
        seen.append({"name": name, **options})
        if error is not None:
            raise error
        return SimpleNamespace(text=arguments["nonce"] if text is None else text)

    client = SimpleNamespace(tools=SimpleNamespace(call=call))
    asyncio.run(caller.work(cast(Client, client)))
    return caller, seen


@pytest.mark.parametrize(("error", "told"), OUTCOMES)
def test_an_error_is_told_as_what_it_lets_one_assume(error: McpError | None, told: Told) -> None:
    caller, _ = call_once(0, error)
    assert caller.chronicle.told == {"pay-0.0": told}
    assert caller.chronicle.open_calls == []


def test_an_answer_of_somebody_else_ends_the_story() -> None:
    with pytest.raises(WrongAnswerError, match=r"pay-0\.0 was answered with 'pay-1\.7'"):
        call_once(0, None, "pay-1.7")


def test_a_manner_is_what_is_asked_of_the_client() -> None:
    _, hasty = call_once(3, None)
    assert hasty == [{"name": "pay", "wait_for_ready": True, "timeout": 1.0}]
    _, looking = call_once(5, None)
    assert looking == [{"name": "look", "wait_for_ready": True, "replay": "safe"}]
    assert {manner.options["wait_for_ready"] for manner in MANNERS} == {True, False}
