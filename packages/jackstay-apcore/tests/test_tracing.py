"""Trace ids."""

import logging

import pytest

from apcore_mcp.secrets import REDACTED, SECRETS, Secrets
from apcore_mcp.tracing import TRACE_ID, TraceFilter, read_parent, traced

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_parent_from_meta() -> None:
    """W3C Trace Context."""
    parent = read_parent({"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "tracestate": "a=b"})
    assert parent is not None
    assert parent.trace_id == TRACE
    assert parent.tracestate == (("a", "b"),)


def test_invalid_parents() -> None:
    for value in [None, 7, "", "nonsense", f"00-{'0' * 32}-00f067aa0ba902b7-01"]:
        assert read_parent({"traceparent": value, "tracestate": 1}) is None, value


def test_trace_id_is_appended_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.addFilter(TraceFilter())
    with caplog.at_level(logging.INFO):
        traced("apcore_mcp.x").info("before %s", 1)
        token = TRACE_ID.set("abc")
        traced("apcore_mcp.x").info("own %s", 2)
        logging.getLogger("a.module").info("other %s", 3)
        TRACE_ID.reset(token)
        logging.getLogger("a.module").info("after")
    assert [record.getMessage() for record in caplog.records] == [
        "before 1", "own 2 [trace_id=abc]", "other 3 [trace_id=abc]", "after",
    ]  # fmt: skip


def test_bad_log_call_in_a_call_does_not_fail() -> None:
    """Nor does it show values that could not be hidden."""
    record = logging.LogRecord("shop", logging.INFO, "shop.py", 7, "pin 1234-secret", ("1234-secret",), None)
    reset = SECRETS.set(Secrets({"pin": "1234-secret"}, lambda _: {"pin": REDACTED}))
    try:
        assert TraceFilter().filter(record)
    finally:
        SECRETS.reset(reset)
    assert record.getMessage() == "a log call at shop.py:7 has arguments that do not fit"
