"""What a client is told when the server behind fails: every error of ours as a row."""

import pytest

from jackstay.errors import (
    BackpressureError,
    CapabilityError,
    ClosedError,
    FrameTooLargeError,
    JsonRpcError,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    ResetError,
    ShutdownError,
    StateError,
    TimeoutError,
    TransportError,
    UsageError,
)
from jackstay.proxy._failures import told
from jackstay.testing import Refusal, on_fake_clock
from scripted.between import PAIRS, between

ROWS: list[tuple[McpError, str, bool, bool]] = [
    (StateError("backoff"), "down", False, True),
    (TransportError("refused"), "down", False, True),
    (ShutdownError(), "down", False, True),
    (TimeoutError(1, sent=False), "down", False, True),
    (BackpressureError("full"), "busy", False, True),
    (OutcomeUnknownError("gone", exit_code=9, stderr_tail="secret"), "lost", True, False),
    (ResetError(), "lost", True, False),
    (ShutdownError(sent=True), "lost", True, False),
    (ClosedError(TransportError("x"), sent=True), "lost", True, False),
    (TimeoutError(1, sent=True), "timeout", True, False),
    (ProtocolError("nonsense", sent=True), "broken answer", True, False),
    (ProtocolError("nonsense"), "broken answer", False, False),
    (FrameTooLargeError(9, 5), "too large", False, False),
]


@pytest.mark.parametrize(
    ("error", "reason", "may_have_run", "retryable"), ROWS, ids=lambda row: type(row).__name__
)
def test_an_error_of_ours_says_whether_the_call_may_have_run(
    error: McpError, reason: str, may_have_run: bool, retryable: bool
) -> None:
    said = told(error)
    assert said.code == -32603
    assert said.data == {"reason": reason, "mayHaveRun": may_have_run, "retryable": retryable}
    assert ("may have run" in said.message) is may_have_run
    assert ("did not run" in said.message) is not may_have_run
    assert "secret" not in str(said.server_error), "what a child wrote to standard error stays here"


def test_an_error_of_the_server_passes_as_it_is() -> None:
    error = JsonRpcError(-1, "no", {"a": 1})
    assert told(error) is error


def test_what_was_misused_or_not_offered_has_the_code_for_it() -> None:
    assert told(UsageError("not JSON")).code == -32602
    assert told(CapabilityError("resources.subscribe")).code == -32601


@pytest.mark.parametrize(("front", "back"), PAIRS)
@on_fake_clock
async def test_our_own_client_understands_what_the_proxy_reports(front: str, back: str) -> None:
    """Whether the call may have run and may be sent again is in the error, as it is without a proxy."""
    async with between(back, wait=1, settings={"backoff_min": 30.0, "backoff_max": 30.0}) as made:
        client = await made.join(front)
        call = client.submit("tools/call", {"name": "t"})
        await made.peer.expect("tools/call")
        made.peer.die()
        with pytest.raises(McpError) as lost:
            await call
        assert (lost.value.may_have_run, lost.value.retryable) == (True, False)
        with pytest.raises(McpError) as down:
            await client.tools.call("t")
        assert (down.value.may_have_run, down.value.retryable) == (False, True)


@pytest.mark.parametrize(("front", "back"), PAIRS)
@pytest.mark.parametrize("code", [0, 1, -32603, -32000])
@on_fake_clock
async def test_the_code_of_an_error_passes_whatever_it_is(code: int, front: str, back: str) -> None:
    def refuse(_: object) -> None:
        raise Refusal(code, "no", {"retryable": True, "mayHaveRun": False})

    async with between(back) as made:
        client = await made.join(front)
        made.peer.on["tools/call"] = refuse
        with pytest.raises(JsonRpcError) as told:
            await client.tools.call("t")
        assert told.value.code == code
        assert told.value.data == {"retryable": True, "mayHaveRun": False}
