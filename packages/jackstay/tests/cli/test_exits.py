"""Exit codes: errors, help and documentation."""

from jackstay import errors as e
from jackstay.cli._exits import EXITS, exit_code, exit_codes
from scripted.places import ROOT

DOCS = ROOT / "docs"

SENT = e.TransportError("lost")
CODES: list[tuple[e.McpError, int]] = [
    (e.UsageError("x"), 2),
    (e.JsonRpcError(-32602, "x"), 1),
    (e.JsonRpcError(-32603, "x", {"reason": "lost", "mayHaveRun": True, "retryable": False}), 4),
    (e.JsonRpcError(-32603, "x", {"reason": "down", "mayHaveRun": False, "retryable": True}), 3),
    (e.JsonRpcError(-32603, "x", {"reason": "too large", "mayHaveRun": False, "retryable": False}), 1),
    (e.JsonRpcError(-32603, "x", {"retryable": True}), 1),
    (e.JsonRpcError(-32603, "x", {"mayHaveRun": "perhaps"}), 1),
    (e.JsonRpcError(-32603, "x", ["mayHaveRun"]), 1),
    (e.CapabilityError("tools"), 1),
    (e.ProtocolError("x"), 1),
    (e.ProtocolError("x", sent=True), 4),
    (e.TransportError("x"), 3),
    (e.SessionLostError(), 3),
    (e.StateError("backoff"), 3),
    (e.BackpressureError("x"), 3),
    (e.TimeoutError(1, sent=False), 3),
    (e.TimeoutError(1, sent=True), 4),
    (e.OutcomeUnknownError("x"), 4),
    (e.ResetError(), 4),
    (e.ResetError(sent=False), 1),
    (e.ShutdownError(), 3),
    (e.ClosedError(SENT), 3),
    (e.ClosedError(SENT, sent=True), 4),
    (e.McpError("x"), 1),
]


def test_exit_code_of_every_error() -> None:
    for error, code in CODES:
        assert exit_code(error) == code, repr(error)


def test_exit_codes_are_unique() -> None:
    codes = [row.code for row in EXITS]
    assert codes == sorted(set(codes)) == [0, 1, 2, 3, 4, 130, 143]
    assert {code for _, code in CODES} <= set(codes)


def test_help_and_documentation_list_every_exit_code() -> None:
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    for row in EXITS:
        assert f" {row.code} {row.short}" in exit_codes()
        assert f"| {row.code} | {row.meaning} |\n" in page
    assert page.count("\n| ") >= len(EXITS)
