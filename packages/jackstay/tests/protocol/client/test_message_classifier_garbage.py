"""Invalid frames and arbitrary bytes: they are counted, fail at most their own call, and raise nothing."""

import json

from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import ProtocolError
from jackstay.protocol.client import events as e
from jackstay.protocol.client._exchange import Role
from jackstay.protocol.client._states import ClientState
from model.harness import Harness, S, harness_in

# --- invalid frames ---------------------------------------------------------------------------------------------------

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


def test_an_invalid_frame_is_a_violation_with_its_size(subtests):
    for frame in GARBAGE:
        with subtests.test(frame=frame):
            harness = harness_in(S.READY)
            harness.receive(frame)
            violation = harness.only(e.Violation)
            assert violation.reason
            assert violation.size == len(frame)
            assert harness.state is S.READY


def test_twenty_invalid_frames_in_a_row_are_a_failure_that_quotes_the_last(subtests):
    for state in (S.STARTING, S.INITIALIZING, S.READY):
        with subtests.test(state=state):
            harness = harness_in(state)
            for _ in range(19):
                harness.receive(b"Listening on stdio...")
                assert harness.state is state
            harness.receive(b"Listening on port 80")
            assert harness.state is S.BACKOFF
            assert str(harness.core.cause) == "20 invalid frames in a row: 'Listening on port 80'"


def test_a_valid_message_resets_the_count():
    harness = harness_in(S.READY)
    for _ in range(5):
        for _ in range(19):
            harness.receive(b"hello")
        harness.receive_json(method="notifications/message")
    assert harness.state is S.READY
    id = harness.written_call("me")
    for _ in range(19):
        harness.receive(b"hello")
    harness.respond(id)
    for _ in range(19):
        harness.receive(b"hello")
    assert harness.state is S.READY


def test_invalid_frames_are_counted_per_transport():
    harness = harness_in(S.READY)
    for _ in range(19):
        harness.receive(b"hello")
    harness.down()
    harness.reconnect()
    harness.receive(b"hello")
    assert harness.state is S.INITIALIZING


def test_only_invalid_output_until_the_connect_deadline_is_quoted_in_the_error():
    harness = harness_in(S.INITIALIZING)
    harness.receive(b"npm WARN deprecated")
    harness.wait(10.1)
    assert harness.state is S.BACKOFF
    assert isinstance(harness.core.cause, ProtocolError)
    message = (
        "the program printed 'npm WARN deprecated' to its standard output and sent no MCP message;"
        " is this an MCP server?"
    )
    assert str(harness.core.cause) == message


def test_the_error_does_not_quote_output_if_a_valid_message_was_received():
    harness = harness_in(S.INITIALIZING)
    harness.receive_json(method="notifications/message")
    harness.receive(b"npm WARN deprecated")
    harness.wait(10.1)
    assert "npm" not in str(harness.core.cause)


def test_an_invalid_frame_does_not_replace_a_keepalive():
    harness = harness_in(S.READY, keepalive=5.0)
    harness.wait(5.1)
    harness.receive(b"hello")
    harness.wait(5.1)
    assert "ping" in harness.methods()


# --- arbitrary frames -------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
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
        "params": st.fixed_dictionaries({}, optional={"requestId": VALUES, "progressToken": st.integers(0, 5)})
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
def test_any_frames_give_at_most_one_outcome_per_call_and_raise_nothing(frames, state, version, is_http):
    harness = harness_in(state, versions=(version,), is_http=is_http)
    for caller in range(3):
        harness.call(caller, wait_for_ready=True)
    harness.wrote()
    for frame in frames:
        harness.receive(frame if isinstance(frame, bytes) else json.dumps(frame).encode())
    for caller in range(3):
        assert harness.outcomes_of(caller) <= 1
    if harness.state in (S.CLOSING, S.CLOSED):
        assert harness.core.calls.pending == {}
    assert len(harness.core.peer_requests.serving) <= 64
    if version == "2026-07-28":
        responses = [frame for frame in harness.frames(harness.history) if "method" not in frame]
        assert responses == []
    assert not any(x.role is Role.CALL for x in harness.core.calls.pending.values() if harness.state is S.CLOSED)


def test_initialize_from_the_server_is_a_violation(subtests):
    for state in (S.INITIALIZING, S.READY):
        with subtests.test(state=state):
            harness = harness_in(state)
            harness.receive_json(id=1, method="initialize", params={})
            assert harness.only(e.Violation).reason == "the server sent initialize, which only a client may send"
            assert harness.only(e.Violation).size > 0
            assert harness.state is S.BACKOFF
            assert harness.methods() == []


def test_both_reset_methods_are_recognized(subtests):
    for method in ("$/reset", "notifications/reset"):
        with subtests.test(method=method):
            harness = harness_in(S.READY)
            harness.receive_json(method=method)
            assert harness.state is S.BACKOFF


def test_a_frame_of_an_old_transport_is_counted():
    harness = harness_in(S.READY)
    harness.receive(b"hello", epoch=0)
    assert harness.core.counts["stale"] == 1


def test_progress_of_an_open_post_is_reported_while_the_session_is_renewed():
    harness = Harness(is_http=True).ready()
    lost, open_post = harness.call("lost"), harness.call("open")
    harness.step(e.SessionLost(1, lost))
    harness.spawned()
    harness.receive_json(method="notifications/progress", params={"progressToken": open_post, "progress": 1})
    assert harness.only(e.ReportProgress).caller == "open"


def test_a_response_that_is_nested_too_deeply_fails_only_its_call(subtests):
    for depth in (150, 995, 1_000, 20_000):
        with subtests.test(depth=depth):
            harness = Harness().ready()
            first, other = harness.written_call("first"), harness.written_call("other")
            harness.receive(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (first, b"[" * depth + b"]" * depth))
            error = harness.error_of("first")
            assert isinstance(error, ProtocolError)
            assert error.may_have_run is True
            assert "nested more than 128 deep" in str(error)
            harness.respond(other)
            assert harness.only(e.Complete).caller == "other"
