"""The first connection with the default `max_attempts`: one attempt is enough if there is evidently no MCP server."""

from jackstay.errors import FrameTooLargeError, McpError, ProtocolError, TransportError
from jackstay.protocol.client import events as e
from jackstay.protocol.client._states import ClientState as S
from model.harness import BOTH, HANDSHAKE, Harness


def first(**options) -> Harness:
    return Harness(**{"max_attempts": None, **options})


REFUSED = TransportError("cannot connect: connection refused", absent=True)


def test_a_refused_connection_closes():
    harness = first(is_http=True).connect()
    harness.lost(harness.core.negotiation.handshake_id, REFUSED)
    assert harness.state is S.CLOSING
    assert harness.core.cause is REFUSED


def test_with_max_attempts_a_server_may_start_later():
    harness = first(is_http=True, max_attempts=3).connect()
    for _ in range(2):
        harness.lost(harness.core.negotiation.handshake_id, REFUSED)
        assert harness.state is S.BACKOFF
        harness.reconnect()
    harness.agree()


def test_after_the_first_ready_attempts_are_unlimited():
    harness = first(is_http=True).ready()
    for _ in range(10):
        harness.down()
        harness.reconnect()
        harness.lost(harness.core.negotiation.handshake_id, REFUSED)
        assert harness.state is S.BACKOFF
        harness.reconnect()
        harness.agree()


def test_a_protocol_violation_closes(subtests):
    cases = [
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize"}', "the server sent initialize"),
        (None, "over the limit"),
    ]
    for frame, message in cases:
        with subtests.test(frame=frame, message=message):
            harness = first().connect()
            if frame is None:
                harness.step(e.OversizeReceived(harness.epoch, FrameTooLargeError(2048, 1024)))
            else:
                harness.receive(frame)
            assert harness.state is S.CLOSING
            assert isinstance(harness.core.cause, ProtocolError)
            assert message in str(harness.core.cause)


def test_a_transient_failure_is_tried_five_times():
    harness = first(is_http=True).connect()
    for _ in range(4):
        harness.lost(harness.core.negotiation.handshake_id, TransportError("HTTP 503"))
        assert harness.state is S.BACKOFF
        harness.reconnect()
    harness.lost(harness.core.negotiation.handshake_id, TransportError("HTTP 503"))
    assert harness.state is S.CLOSING


# --- programs ---------------------------------------------------------------------------------------------------------


def exits(harness: Harness, code: int) -> None:
    harness.step(e.WentDown(harness.epoch, TransportError("the server x exited", exit_code=code), code, False))


def test_a_program_that_prints_and_exits_twice_with_the_same_code_is_not_a_server(subtests):
    for versions in (HANDSHAKE, BOTH):
        with subtests.test(versions=versions):
            harness = first(versions=versions).connect()
            harness.receive(b"hello")
            exits(harness, 0)
            assert harness.state is S.BACKOFF
            harness.reconnect()
            harness.receive(b"hello")
            exits(harness, 0)
            assert harness.state is S.CLOSING
            start = "the server x exited; the program printed 'hello' to its standard output and sent no MCP message"
            assert str(harness.core.cause) == f"{start}; is this an MCP server? [exit code 0]"


def test_a_silent_program_that_exits_without_an_error_is_probably_not_a_server(subtests):
    for code, message in (
        (0, "the server x exited; it sent no MCP message; is this an MCP server? [exit code 0]"),
        (1, "the server x exited [exit code 1]"),
    ):
        with subtests.test(code=code):
            harness = first().connect()
            harness.down(TransportError("the server x exited", exit_code=code), code, was_silent=True)
            assert str(harness.core.cause) == message


def test_a_program_that_exits_with_another_code_is_retried():
    harness = first().connect()
    for code in (1, 2, 1, 2):
        harness.receive(b"hello")
        exits(harness, code)
        assert harness.state is S.BACKOFF
        harness.reconnect()


def test_a_server_that_was_ready_is_restarted_however_often_it_exits():
    harness = first().ready()
    harness.down()
    for _ in range(10):
        harness.reconnect()
        harness.receive(b"hello")
        exits(harness, 1)
        assert harness.state is S.BACKOFF


def test_a_program_that_prints_other_output_has_a_shorter_deadline(subtests):
    for attempts in (None, 1):
        with subtests.test(attempts=attempts):
            harness = first(max_attempts=attempts).connect()
            harness.wait(0.5)
            harness.receive(b"Serving on port 8000")
            harness.wait(1.4)
            assert harness.state is S.INITIALIZING
            harness.receive(b"another line changes nothing")
            harness.wait(0.2)
            assert harness.state is S.CLOSING
            assert isinstance(harness.core.cause, ProtocolError)
            assert "is this an MCP server?" in str(harness.core.cause)


def test_a_server_that_prints_and_then_sends_a_message_has_the_full_deadline():
    harness = first().connect()
    harness.receive(b"Starting...")
    harness.wait(1.0)
    harness.receive_json(method="notifications/message", params={})
    harness.wait(8.9)
    assert harness.state is S.INITIALIZING
    harness.agree()


def test_with_max_attempts_the_full_deadline_applies():
    harness = first(max_attempts=2).connect()
    harness.receive(b"Starting...")
    harness.wait(9.9)
    assert harness.state is S.INITIALIZING


def test_over_http_the_error_does_not_mention_standard_output():
    harness = first(is_http=True).connect()
    harness.receive(b"hello")
    assert "standard output" not in harness.only(e.Violation).reason
    harness.wait(1.6)
    assert str(harness.core.cause) == "the server sent 'hello' and no MCP message; is this an MCP server?"


def test_a_violation_has_a_hint_for_printed_output(subtests):
    for line, is_hinted in ((b"DEBUG: entering", True), (b"{not json", False), (b'{"jsonrpc":"1.0"}', False)):
        with subtests.test(line=line, is_hinted=is_hinted):
            harness = Harness().ready()
            harness.receive(line)
            hint = "the server prints to its standard output, which is reserved for MCP messages"
            assert (hint in harness.only(e.Violation).reason) is is_hinted


def test_an_oversize_frame_is_a_violation_with_its_size():
    harness = Harness().ready()
    harness.step(e.OversizeReceived(harness.epoch, FrameTooLargeError(2048, 1024)))
    violation = harness.only(e.Violation)
    assert violation.size == 2048
    assert "2048 bytes is over the limit" in violation.reason
    assert isinstance(harness.core.cause, McpError)
