"""Callers log the outcome of every call."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from demo.callers import CALL_STYLES, Caller, WrongAnswerError
from demo.ledger import Outcome

from demonstration.run_logs import beginning
from jackstay.client import Client
from jackstay.errors import (
    JsonRpcError,
    McpError,
    OutcomeUnknownError,
    StateError,
    TimeoutError,
    TransportError,
)

OUTCOMES: list[tuple[McpError | None, Outcome]] = [
    (None, Outcome.OK),
    (StateError("backoff"), Outcome.FAILED),
    (TransportError("could not connect"), Outcome.FAILED),
    (TimeoutError(1.0, sent=False), Outcome.FAILED),
    (TimeoutError(1.0, sent=True), Outcome.UNKNOWN),
    (OutcomeUnknownError("exited"), Outcome.UNKNOWN),
    (JsonRpcError(-32603, "the server decides"), Outcome.UNKNOWN),
]


def call_once(lane: int, error: McpError | None, text: str | None = None) -> tuple[Caller, list[dict[str, Any]]]:
    """Make one call, and return the caller and the options of the call."""
    log, seen = beginning(), []
    caller = Caller(log, lane, CALL_STYLES[lane], lambda: 1.0, 0.5)

    async def call(name: str, arguments: dict[str, str], **options: Any) -> SimpleNamespace:
        caller.is_done = True
        seen.append({"name": name, **options})
        if error is not None:
            raise error
        return SimpleNamespace(text=arguments["nonce"] if text is None else text)

    client = SimpleNamespace(tools=SimpleNamespace(call=call))
    asyncio.run(caller.work(cast(Client, client)))
    return caller, seen


def test_the_outcome_of_every_error() -> None:
    for error, outcome in OUTCOMES:
        caller, _ = call_once(0, error)
        assert caller.log.outcomes == {"pay-0.0": outcome}, error
        assert caller.log.open_calls == [], error


def test_the_result_of_another_call_is_an_error() -> None:
    with pytest.raises(WrongAnswerError, match=r"pay-0\.0 got the result 'pay-1\.7'"):
        call_once(0, None, "pay-1.7")


def test_options_of_a_call() -> None:
    _, short = call_once(3, None)
    assert short == [{"name": "pay", "wait_for_ready": True, "timeout": 1.0}]
    _, retried = call_once(5, None)
    assert retried == [{"name": "read", "wait_for_ready": True, "replay": "safe"}]
    assert {style.options["wait_for_ready"] for style in CALL_STYLES} == {True, False}
