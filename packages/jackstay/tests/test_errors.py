"""Every error as a row: message, type, `may_have_run`, `retryable`; fields, and pickling."""

import builtins
import copy
import pickle

import pytest

from jackstay import errors
from jackstay.errors import (
    BackpressureError,
    CapabilityError,
    ClosedError,
    FrameTooLargeError,
    GuardRefusedError,
    InvalidEventError,
    JsonRpcError,
    MachineError,
    McpError,
    NoTransitionError,
    OutcomeUnknownError,
    ProtocolError,
    ResetError,
    SessionLostError,
    ShutdownError,
    StateError,
    TimeoutError,
    ToolCallError,
    TransportError,
    UnexpectedOptionError,
    UnknownEventError,
    UsageError,
    did_you_mean,
)

# (error, message, type, may_have_run, retryable)
ROWS = [
    (McpError("it broke"), "it broke", "protocol", False, False),
    (UsageError("name must be a str, not 5", path="name"), "name must be a str, not 5", "usage", False, False),
    (UsageError("has no host", path="url"), "url: has no host", "usage", False, False),
    (
        UnexpectedOptionError("Server()", "nmae", ("name", "version")),
        "Server() got an unexpected option 'nmae'; did you mean 'name'?",
        "usage",
        False,
        False,
    ),
    (
        UnexpectedOptionError("Server()", "x", ("name", "version")),
        "Server() got an unexpected option 'x'; valid options: name, version",
        "usage",
        False,
        False,
    ),
    (UnexpectedOptionError("f()", "x"), "f() got an unexpected option 'x'", "usage", False, False),
    (
        StateError("starting"),
        "the connection is not ready (starting); wait with ready(), or pass wait_for_ready=True",
        "state",
        False,
        True,
    ),
    (
        StateError("backoff", retry_in=1.25),
        "the connection is not ready (backoff); wait with ready(), or pass wait_for_ready=True (in 1.25 s)",
        "state",
        False,
        True,
    ),
    (
        StateError("closed", message="a client is opened once; make a new one"),
        "a client is opened once; make a new one",
        "state",
        False,
        False,
    ),
    (
        BackpressureError("too many calls are open"),
        'too many calls are open; nothing was sent: try again, or pass busy="wait"',
        "transport",
        False,
        True,
    ),
    (
        BackpressureError.after(3, 7),
        'transport busy after 3 attempts; nothing was sent: try again, or pass busy="wait"',
        "transport",
        False,
        True,
    ),
    (TransportError("connection refused"), "connection refused", "transport", False, True),
    (
        TransportError("the server ended", exit_code=3, stderr_tail="one\ntwo\n"),
        "the server ended [exit code 3] [stderr: two]",
        "transport",
        False,
        True,
    ),
    (TransportError("killed", exit_code=-9), "killed [signal 9]", "transport", False, True),
    (TransportError("too many requests", retry_in=2.0), "too many requests (in 2 s)", "transport", False, True),
    (TransportError("busy", retry_in=86_400.0), "busy (in 86400 s)", "transport", False, True),
    (TransportError("no such file", permanent=True), "no such file", "transport", False, False),
    (
        SessionLostError(),
        "the server no longer knows this session; a new session is being opened: try again",
        "transport",
        False,
        True,
    ),
    (
        OutcomeUnknownError("the pipe broke", exit_code=1, stderr_tail="Traceback\nKeyError: 'x'"),
        "the pipe broke; it may have run: check before sending it again [exit code 1] [stderr: KeyError: 'x']",
        "transport",
        True,
        False,
    ),
    (ResetError(), "connection reset by server", "reset", True, False),
    (ResetError(sent=False), "connection reset by server", "reset", False, True),
    (
        TimeoutError(30.0, sent=True),
        "no response within 30 s; the request was cancelled, but it may have run",
        "timeout",
        True,
        False,
    ),
    (TimeoutError(0.5, sent=False), "not sent within 0.5 s", "timeout", False, True),
    (
        TimeoutError(None, sent=True),
        "no response; the request was cancelled, but it may have run",
        "timeout",
        True,
        False,
    ),
    (TimeoutError(None, sent=False), "not sent", "timeout", False, True),
    (TimeoutError(2, sent=True, message="gone"), "gone", "timeout", True, False),
    (TimeoutError(2, sent=False, message="gone"), "gone", "timeout", False, True),
    (JsonRpcError(-32601, "no such method"), "no such method [code -32601]", "jsonrpc", None, False),
    (JsonRpcError(-32603, "busy", {"retryable": True}), "busy [code -32603]", "jsonrpc", None, False),
    (
        JsonRpcError(-32603, "busy", {"retryable": True, "mayHaveRun": False}),
        "busy [code -32603]",
        "jsonrpc",
        False,
        True,
    ),
    (JsonRpcError(-32603, "lost", {"mayHaveRun": True}), "lost [code -32603]", "jsonrpc", True, False),
    (JsonRpcError(-32603, "odd", {"mayHaveRun": "no", "retryable": 1}), "odd [code -32603]", "jsonrpc", None, False),
    (ProtocolError("not JSON"), "not JSON", "protocol", False, False),
    (
        ProtocolError("not JSON", path="$.id", quote="hello", code=-32700, sent=True),
        "not JSON at $.id: 'hello'",
        "protocol",
        True,
        False,
    ),
    (
        FrameTooLargeError(2048, 1024),
        "a frame of at least 2048 bytes is over the limit of 1024; raise max_frame_bytes on both sides, or send less",
        "protocol",
        False,
        False,
    ),
    (
        FrameTooLargeError(2048, 1024, sent=True),
        "a frame of at least 2048 bytes is over the limit of 1024; raise max_frame_bytes on both sides, or send less",
        "protocol",
        True,
        False,
    ),
    (
        CapabilityError("resources.subscribe"),
        "the server did not declare the capability 'resources.subscribe'",
        "capability_not_supported",
        False,
        False,
    ),
    (CapabilityError("roots", "sessions are off"), "sessions are off", "capability_not_supported", False, False),
    (ShutdownError(), "the client was stopped", "shutdown", False, False),
    (ShutdownError(sent=True), "the client was stopped", "shutdown", True, False),
    (
        ClosedError(TransportError("no such file", exit_code=127, permanent=True)),
        "the connection is closed: no such file [exit code 127]",
        "transport",
        False,
        False,
    ),
    (
        ClosedError(ShutdownError(), sent=True),
        "the connection is closed: the client was stopped",
        "shutdown",
        True,
        False,
    ),
    (
        MachineError("no", event="initialize", state="closed"),
        "no",
        "state",
        False,
        False,
    ),
    (
        InvalidEventError("initialize", "operating"),
        "initialize is not allowed while operating",
        "state",
        False,
        False,
    ),
    (
        UnknownEventError("x/y", "operating", method="x/y"),
        "x/y: no such method",
        "state",
        False,
        False,
    ),
    (
        GuardRefusedError("too many", event="tools/call", state="operating", code=-32603),
        "too many",
        "state",
        False,
        False,
    ),
    (ToolCallError("find", "the tool 'find' failed: no"), "the tool 'find' failed: no", "tool", True, False),
    (NoTransitionError("stays", event="ping", state="fresh"), "stays", "state", False, False),
]

ERRORS = [row[0] for row in ROWS]


def test_every_row(subtests):
    for error, message, type_, may_have_run, retryable in ROWS:
        with subtests.test(error=message):
            assert str(error) == message
            assert error.type == type_
            assert error.may_have_run is may_have_run
            assert error.retryable is retryable


def public_classes():
    return {
        value
        for name in errors.__all__
        if isinstance(value := getattr(errors, name), type) and issubclass(value, McpError)
    }


def test_every_public_class_has_a_row():
    assert {type(error) for error in ERRORS} == public_classes()


def test_every_subclass_is_public():
    def below(cls):
        for child in cls.__subclasses__():
            yield child
            yield from below(child)

    hidden = {cls for cls in below(McpError) if cls.__module__ == "jackstay.errors"} - public_classes()
    assert {cls.__name__ for cls in hidden} == {"_TransportEnded"}


def test_a_retryable_error_did_not_run():
    assert all(error.may_have_run is False for error in ERRORS if error.retryable)


def test_every_error_pickles(subtests):
    for original in ERRORS:
        error = copy.copy(original).about("tools/call", 7)
        with subtests.test(error=str(error)):
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                again = pickle.loads(pickle.dumps(error, protocol))
                assert type(again) is type(error)
                assert str(again) == str(error)
                assert again.args == error.args
                fields = {name: value for name, value in vars(again).items() if name != "reason"}
                assert fields == {name: value for name, value in vars(error).items() if name != "reason"}
                if isinstance(error, ClosedError):
                    assert str(again.reason) == str(error.reason)
                    assert type(again.reason) is type(error.reason)


def test_notes_survive_pickling():
    error = TransportError("lost")
    error.add_note("while testing")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["while testing"]


BUILTINS = [
    (TimeoutError(1, sent=True), builtins.TimeoutError),
    (TimeoutError(1, sent=True), OSError),
    (TransportError("x"), ConnectionError),
    (SessionLostError(), ConnectionError),
    (UsageError("x"), ValueError),
    (UnexpectedOptionError("f()", "x"), ValueError),
    (UnexpectedOptionError("f()", "x"), TypeError),
]


def test_errors_are_subclasses_of_builtin_exceptions():
    for error, builtin in BUILTINS:
        with pytest.raises(builtin):
            raise error
        assert isinstance(error, McpError)


def test_other_errors_are_no_os_errors():
    for error in (OutcomeUnknownError("x"), ResetError(), BackpressureError("x"), StateError("x")):
        assert not isinstance(error, OSError)


def test_the_fields_of_the_base_class():
    error = McpError("m", details={"a": 1}, code=-1, may_have_run=None, retry_in=0.5).about("ping", 0)
    assert (error.type, error.message, error.details, error.code) == ("protocol", "m", {"a": 1}, -1)
    assert (error.server_error, error.method, error.request_id) == (None, "ping", 0)
    assert (error.may_have_run, error.retry_in, error.retryable) == (None, 0.5, False)
    assert str(error) == "ping (request 0): m (in 0.5 s)"


def test_details_are_not_shared():
    assert McpError("a").details is not McpError("b").details
    reason = TransportError("x", exit_code=1)
    closed = ClosedError(reason)
    closed.details["more"] = 1
    assert "more" not in reason.details


def test_about_sets_the_call_and_keeps_fields_that_are_set():
    error = ShutdownError()
    assert error.about("tools/call", None) is error
    assert str(error) == "tools/call: the client was stopped"
    assert str(error.about("ping", 0)) == "tools/call (request 0): the client was stopped"
    assert str(error.about("ping", 5)) == "tools/call (request 0): the client was stopped"


FIELDS = [
    (UsageError("x", path="versions"), {"path": "versions"}, {"path": "versions"}),
    (UsageError("x"), {"path": ""}, {}),
    (UnexpectedOptionError("f()", "x", ["y"]), {"option": "x", "valid": ("y",), "path": "x"}, {"path": "x"}),
    (StateError("backoff", retry_in=2.0), {"state": "backoff", "retry_in": 2.0}, {"state": "backoff"}),
    (BackpressureError("x", details={"a": 1}), {}, {"a": 1}),
    (BackpressureError.after(3, 7), {"request_id": 7}, {"attempts": 3, "request_id": 7}),
    (
        TransportError("x", exit_code=0, stderr_tail="t", details={"a": 1}),
        {"exit_code": 0, "stderr_tail": "t", "permanent": False},
        {"a": 1, "exit_code": 0, "stderr_tail": "t"},
    ),
    (TransportError("x"), {"exit_code": None, "stderr_tail": ""}, {}),
    (OutcomeUnknownError("x", retry_in=1.0, details={"a": 1}), {"retry_in": 1.0}, {"a": 1}),
    (TimeoutError(1.5, sent=True), {"timeout": 1.5, "sent": True}, {}),
    (
        JsonRpcError(-1, "m"),
        {"code": -1, "data": None, "server_error": {"code": -1, "message": "m"}},
        {},
    ),
    (
        JsonRpcError(-1, "m", 0),
        {"data": 0, "server_error": {"code": -1, "message": "m", "data": 0}},
        {},
    ),
    (
        ProtocolError("x", path="$", quote="q", code=-2),
        {"path": "$", "quote": "q", "code": -2},
        {"path": "$", "quote": "q"},
    ),
    (FrameTooLargeError(9, 8), {"size": 9, "limit": 8, "code": -32600}, {"size": 9, "limit": 8}),
    (CapabilityError("tools"), {"required": "tools"}, {"required": "tools"}),
    (ClosedError(ProtocolError("x", code=-3, quote="q")), {"code": -3, "type": "protocol"}, {"quote": "q"}),
]


def test_fields_and_details():
    for error, fields, details in FIELDS:
        assert {name: getattr(error, name) for name in fields} == fields
        assert error.details == details


def test_a_closed_error_has_the_type_of_its_reason():
    for reason, type_ in (
        (ShutdownError(), "shutdown"),
        (TransportError("x"), "transport"),
        (ProtocolError("x"), "protocol"),
        (JsonRpcError(-1, "x"), "jsonrpc"),
        (ClosedError(ResetError()), "reset"),
    ):
        assert ClosedError(reason).type == type_
        assert ClosedError(reason).reason is reason
        assert ClosedError.type == "protocol"  # the class is not changed by an instance


def test_a_blank_stderr_tail_is_not_shown():
    for tail in ("\n", " ", "\r\n\t", "\x1e"):
        for kind in (TransportError, OutcomeUnknownError):
            assert str(kind("gone", stderr_tail=tail)).startswith("gone")


MACHINE_DATA = [
    (
        InvalidEventError("initialize", "operating", method="initialize"),
        -32001,
        {"fsmError": "InvalidEventError", "event": "initialize", "state": "operating", "method": "initialize"},
    ),
    (
        InvalidEventError("request", "stateless", code=-32600),
        -32600,
        {"fsmError": "InvalidEventError", "event": "request", "state": "stateless", "method": None},
    ),
    (
        UnknownEventError("x/y", "fresh", method="x/y"),
        -32601,
        {"fsmError": "UnknownEventError", "event": "x/y", "state": "fresh", "method": "x/y"},
    ),
    (
        GuardRefusedError(
            "no such version",
            event="initialize",
            state="fresh",
            code=-32022,
            method="initialize",
            more={"supported": ["2026-07-28"]},
        ),
        -32022,
        {
            "fsmError": "GuardRefusedError",
            "event": "initialize",
            "state": "fresh",
            "method": "initialize",
            "reason": "no such version",
            "supported": ["2026-07-28"],
        },
    ),
    (
        GuardRefusedError("no", event="e", state="s", code=-1),
        -1,
        {"fsmError": "GuardRefusedError", "event": "e", "state": "s", "method": None, "reason": "no"},
    ),
]


def test_code_and_data_of_machine_errors():
    for error, code, data in MACHINE_DATA:
        assert error.code == code
        assert error.data() == data


def test_did_you_mean():
    assert did_you_mean("timeuot", ["timeout", "name"]) == "; did you mean 'timeout'?"
    assert did_you_mean("x", ["timeout", "name"]) == ""
