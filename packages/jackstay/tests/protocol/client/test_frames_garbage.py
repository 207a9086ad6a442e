"""Frames that make no sense, and any bytes at all: counted, answered where that is demanded, and never the end of the program."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import ProtocolError
from jackstay.protocol.client import events as e
from jackstay.protocol.client._exchange import Role
from jackstay.protocol.client._table import ClientState
from model.rig import Rig, S, rig_in

# --- garbage ----------------------------------------------------------------------------------------------------------

GARBAGE = [
    b"Listening on stdio...",
    b"",
    b"{",
    b"null",
    b"5",
    b'"x"',
    b"{}",
    b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","method":5}',
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    b'{"jsonrpc":"2.0","method":"x","params":5}',
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"[" * 1000,
    b'{"jsonrpc":"2.0","method":"x","params":' + b"[" * 200 + b"]" * 200 + b"}",
]


@pytest.mark.parametrize("frame", GARBAGE, ids=lambda value: repr(value[:20]))
def test_what_is_not_json_rpc_is_a_strike_with_its_size(frame):
    """Row 24, section 5: protocol.violation with reason and frame_size."""
    rig = rig_in(S.READY)
    rig.receive(frame)
    violation = rig.only(e.Violation)
    assert violation.reason
    assert violation.size == len(frame)
    assert rig.state is S.READY


@pytest.mark.parametrize("state", [S.STARTING, S.INITIALIZING, S.READY])
def test_twenty_bad_lines_in_a_row_are_a_failure_that_quotes_the_line(state):
    """Row 24."""
    rig = rig_in(state)
    for _ in range(19):
        rig.receive(b"Listening on stdio...")
        assert rig.state is state
    rig.receive(b"Listening on port 80")
    assert rig.state is S.BACKOFF
    assert str(rig.core.cause) == "20 bad lines in a row: 'Listening on port 80'"


def test_a_good_message_ends_the_row():
    rig = rig_in(S.READY)
    for _ in range(5):
        for _ in range(19):
            rig.receive(b"hello")
        rig.say(method="notifications/message")
    assert rig.state is S.READY
    id = rig.written_call("me")
    for _ in range(19):
        rig.receive(b"hello")
    rig.answer(id)
    for _ in range(19):
        rig.receive(b"hello")
    assert rig.state is S.READY


def test_strikes_belong_to_one_transport():
    rig = rig_in(S.READY)
    for _ in range(19):
        rig.receive(b"hello")
    rig.down()
    rig.reconnect()
    rig.receive(b"hello")
    assert rig.state is S.INITIALIZING


def test_nothing_but_bad_lines_until_the_connect_deadline_says_so_and_quotes_one():
    """Row 24."""
    rig = rig_in(S.INITIALIZING)
    rig.receive(b"npm WARN deprecated")
    rig.wait(10.1)
    assert rig.state is S.BACKOFF
    assert isinstance(rig.core.cause, ProtocolError)
    said = "the program printed 'npm WARN deprecated' to its standard output and sent no MCP message; is this an MCP server?"
    assert str(rig.core.cause) == said


def test_a_server_that_also_said_something_good_is_not_said_to_have_sent_nothing_but_bad_lines():
    rig = rig_in(S.INITIALIZING)
    rig.say(method="notifications/message")
    rig.receive(b"npm WARN deprecated")
    rig.wait(10.1)
    assert "nothing but" not in str(rig.core.cause)


def test_garbage_is_no_sign_of_life():
    rig = rig_in(S.READY, keepalive=5.0)
    rig.wait(5.1)
    rig.receive(b"hello")
    rig.wait(5.1)
    assert "ping" in rig.methods()


# --- any bytes --------------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
METHODS = st.sampled_from(
    ["ping", "initialize", "notifications/cancelled", "notifications/progress", "notifications/message", "$/reset",
     "roots/list", "x"]
)  # fmt: skip
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": st.integers(0, 5) | VALUES,
        "method": METHODS | VALUES,
        "params": st.fixed_dictionaries(
            {}, optional={"requestId": VALUES, "progressToken": st.integers(0, 5)}
        )
        | VALUES,
        "result": VALUES,
        "error": st.fixed_dictionaries({"code": st.integers(), "message": st.text(max_size=3)}) | VALUES,
    },
)


@given(
    st.lists(MESSAGES | st.lists(MESSAGES, max_size=3) | VALUES | st.binary(max_size=20), max_size=12),
    st.sampled_from(ClientState),
    st.sampled_from(["2025-03-26", "2025-11-25", "2026-07-28"]),
    st.booleans(),
)
def test_whatever_a_peer_sends_no_caller_is_told_twice_and_nothing_escapes(frames, state, version, is_http):
    rig = rig_in(state, versions=(version,), is_http=is_http)
    for caller in range(3):
        rig.call(caller, wait_for_ready=True)
    rig.wrote()
    for frame in frames:
        rig.receive(frame if isinstance(frame, bytes) else json.dumps(frame).encode())
    for caller in range(3):
        assert rig.outcomes_of(caller) <= 1
    if rig.state in (S.CLOSING, S.CLOSED):
        assert rig.core.calls.pending == {}
    assert len(rig.core._serving) <= 64
    if version == "2026-07-28":
        answered = [frame for frame in rig.frames(rig.history) if "method" not in frame]
        assert answered == []
    assert not any(x.role is Role.CALL for x in rig.core.calls.pending.values() if rig.state is S.CLOSED)


@pytest.mark.parametrize("state", [S.INITIALIZING, S.READY])
def test_a_server_that_sends_initialize_breaks_the_rules(state):
    """Row 8; table: peer sends initialize."""
    rig = rig_in(state)
    rig.say(id=1, method="initialize", params={})
    assert rig.only(e.Violation).reason == "the server sent initialize, which only a client may"
    assert rig.only(e.Violation).size > 0
    assert rig.state is S.BACKOFF
    assert rig.methods() == []


@pytest.mark.parametrize("method", ["$/reset", "notifications/reset"])
def test_both_names_of_a_reset_are_known(method):
    """Row 7."""
    rig = rig_in(S.READY)
    rig.say(method=method)
    assert rig.state is S.BACKOFF


def test_a_frame_of_an_old_transport_is_counted():
    rig = rig_in(S.READY)
    rig.receive(b"hello", epoch=0)
    assert rig.core.counts["stale"] == 1


def test_progress_of_an_open_post_is_reported_while_the_session_is_renewed():
    rig = Rig(is_http=True).ready()
    lost, open_post = rig.call("lost"), rig.call("open")
    rig.step(e.SessionLost(1, lost))
    rig.spawned()
    rig.up()
    rig.say(method="notifications/progress", params={"progressToken": open_post, "progress": 1})
    assert rig.only(e.Report).caller == "open"


@pytest.mark.parametrize("depth", [150, 995, 1_000, 20_000])
def test_an_answer_that_is_nested_too_deeply_ends_its_call(depth):
    """Over any transport: whoever waits is told at once. Another call is untouched."""
    rig = Rig().ready()
    mine, other = rig.written_call("mine"), rig.written_call("other")
    rig.receive(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (mine, b"[" * depth + b"]" * depth))
    error = rig.error_of("mine")
    assert isinstance(error, ProtocolError)
    assert error.may_have_run is True
    assert "nested more than 128 deep" in str(error)
    rig.answer(other)
    assert rig.only(e.Complete).caller == "other"
