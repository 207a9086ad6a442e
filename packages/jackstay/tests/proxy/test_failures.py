"""The errors that clients receive when the upstream server fails."""

import pytest

from jackstay.errors import (
    BackpressureError,
    CapabilityError,
    ClosedError,
    FrameTooLargeError,
    Json,
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
from jackstay.proxy._failures import for_era, to_client_error
from jackstay.testing import ScriptedError, on_fake_clock
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
    (ProtocolError("nonsense", sent=True), "invalid response", True, False),
    (ProtocolError("nonsense"), "invalid response", False, False),
    (FrameTooLargeError(9, 5), "too large", False, False),
]


def test_client_error_contains_reason_may_have_run_and_retryable() -> None:
    for error, reason, may_have_run, retryable in ROWS:
        sent = to_client_error(error)
        assert sent.code == -32603, error
        assert sent.data == {"reason": reason, "mayHaveRun": may_have_run, "retryable": retryable}, error
        assert ("may have run" in sent.message) is may_have_run, error
        assert ("did not run" in sent.message) is not may_have_run, error
        assert "secret" not in str(sent.server_error), "standard error of a child is never sent"


@pytest.mark.parametrize(
    ("code", "data", "method", "is_stateless", "expected"),
    [
        (-32002, {"uri": "a://b"}, "resources/read", True, -32602),
        (-32002, {"uri": "a://b"}, "resources/read", False, -32002),
        (-32602, {"uri": "a://b"}, "resources/read", False, -32002),
        (-32602, {"uri": "a://b"}, "resources/read", True, -32602),
        (-32602, None, "resources/read", False, -32602),
        (-32602, {"uri": "a://b"}, "tools/call", False, -32602),
    ],
)
def test_an_unknown_resource_has_the_code_of_the_clients_era(
    code: int, data: dict[str, Json] | None, method: str, is_stateless: bool, expected: int
) -> None:
    sent = for_era(JsonRpcError(code, "resource not found", data), method, is_stateless=is_stateless)
    assert (sent.code, sent.message, sent.data) == (expected, "resource not found", data)


def test_one_of_several_servers_is_named() -> None:
    sent = to_client_error(TransportError("gone"), "git")
    assert sent.message == "git: the upstream server is down; the call did not run"
    assert sent.data == {"reason": "down", "mayHaveRun": False, "retryable": True, "server": "git"}


def test_an_error_of_the_server_is_forwarded_unchanged() -> None:
    error = JsonRpcError(-1, "no", {"a": 1})
    assert to_client_error(error) is error


def test_usage_and_capability_errors_have_their_own_codes() -> None:
    assert to_client_error(UsageError("not JSON")).code == -32602
    assert to_client_error(CapabilityError("resources.subscribe")).code == -32601


@pytest.mark.parametrize(("client_version", "server_version"), PAIRS)
@on_fake_clock
async def test_the_client_reads_may_have_run_and_retryable_of_a_proxy(client_version: str, server_version: str) -> None:
    """`may_have_run` and `retryable` of the error are the same as without a proxy."""
    async with between(server_version, wait=1, settings={"backoff_min": 30.0, "backoff_max": 30.0}) as harness:
        client = await harness.join(client_version)
        call = client.submit("tools/call", {"name": "t"})
        await harness.peer.expect("tools/call")
        harness.peer.crash()
        with pytest.raises(McpError) as lost:
            await call
        assert (lost.value.may_have_run, lost.value.retryable) == (True, False)
        with pytest.raises(McpError) as down:
            await client.tools.call("t")
        assert (down.value.may_have_run, down.value.retryable) == (False, True)


@pytest.mark.parametrize(("client_version", "server_version"), PAIRS)
@on_fake_clock
async def test_every_error_code_is_forwarded(client_version: str, server_version: str) -> None:
    async with between(server_version) as harness:
        client = await harness.join(client_version)
        for code in (0, 1, -32603, -32000):

            def respond_error(_: object, code: int = code) -> None:
                raise ScriptedError(code, "no", {"retryable": True, "mayHaveRun": False})

            harness.peer.on["tools/call"] = respond_error
            with pytest.raises(JsonRpcError) as caught:
                await client.tools.call("t")
            assert caught.value.code == code
            assert caught.value.data == {"retryable": True, "mayHaveRun": False}
