"""The first connect with the default `max_attempts`: where no MCP server is there, one attempt is enough to know."""

import pytest

from jackstay.errors import FrameTooLargeError, McpError, ProtocolError, TransportError
from jackstay.protocol.client import events as e
from jackstay.protocol.client._table import ClientState as S
from model.rig import BOTH, HANDSHAKE, Rig


def first(**options) -> Rig:
    return Rig(**{"max_attempts": None, **options})


REFUSED = TransportError("cannot connect: nothing listens there", absent=True)


def test_a_refused_connection_ends_it():
    rig = first(is_http=True).connect()
    rig.lost(rig.core._negotiation.handshake_id, REFUSED)
    assert rig.state is S.CLOSING
    assert rig.core.cause is REFUSED


def test_with_a_number_a_server_may_come_later():
    rig = first(is_http=True, max_attempts=3).connect()
    for _ in range(2):
        rig.lost(rig.core._negotiation.handshake_id, REFUSED)
        assert rig.state is S.BACKOFF
        rig.reconnect()
    rig.agree()


def test_after_the_first_ready_it_is_tried_for_ever():
    rig = first(is_http=True).ready()
    for _ in range(10):
        rig.down()
        rig.reconnect()
        rig.lost(rig.core._negotiation.handshake_id, REFUSED)
        assert rig.state is S.BACKOFF
        rig.reconnect()
        rig.agree()


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize"}', "the server sent initialize"),
        (None, "over the limit"),
    ],
)
def test_a_breach_of_the_protocol_ends_it(frame, message):
    rig = first().connect()
    if frame is None:
        rig.step(e.OversizeReceived(rig.epoch, FrameTooLargeError(2048, 1024)))
    else:
        rig.receive(frame)
    assert rig.state is S.CLOSING
    assert isinstance(rig.core.cause, ProtocolError)
    assert message in str(rig.core.cause)


def test_what_may_pass_is_tried_five_times():
    rig = first(is_http=True).connect()
    for _ in range(4):
        rig.lost(rig.core._negotiation.handshake_id, TransportError("HTTP 503"))
        assert rig.state is S.BACKOFF
        rig.reconnect()
    rig.lost(rig.core._negotiation.handshake_id, TransportError("HTTP 503"))
    assert rig.state is S.CLOSING


# --- programs ---------------------------------------------------------------------------------------------------------


def exits(rig: Rig, code: int) -> None:
    rig.step(e.WentDown(rig.epoch, TransportError("the server x exited", exit_code=code), code, False))


@pytest.mark.parametrize("versions", [HANDSHAKE, BOTH])
def test_a_program_that_prints_and_exits_in_the_same_way_twice_is_no_server(versions):
    rig = first(versions=versions).connect()
    rig.receive(b"hello")
    exits(rig, 0)
    assert rig.state is S.BACKOFF
    rig.reconnect()
    rig.receive(b"hello")
    exits(rig, 0)
    assert rig.state is S.CLOSING
    said = "the server x exited; the program printed 'hello' to its standard output and sent no MCP message"
    assert str(rig.core.cause) == f"{said}; is this an MCP server? [exit code 0]"


def test_one_that_exits_in_another_way_is_tried_on():
    rig = first().connect()
    for code in (1, 2, 1, 2):
        rig.receive(b"hello")
        exits(rig, code)
        assert rig.state is S.BACKOFF
        rig.reconnect()


@pytest.mark.parametrize("attempts", [None, 1])
def test_a_program_that_prints_something_else_gets_little_time(attempts):
    """One attempt, as the commands make, is no patience either."""
    rig = first(max_attempts=attempts).connect()
    rig.wait(0.5)
    rig.receive(b"Serving on port 8000")
    rig.wait(1.4)
    assert rig.state is S.INITIALIZING
    rig.receive(b"another line changes nothing")
    rig.wait(0.2)
    assert rig.state is S.CLOSING
    assert isinstance(rig.core.cause, ProtocolError)
    assert "is this an MCP server?" in str(rig.core.cause)


def test_a_server_that_prints_and_then_sends_a_message_has_all_its_time():
    rig = first().connect()
    rig.receive(b"Starting...")
    rig.wait(1.0)
    rig.say(method="notifications/message", params={})
    rig.wait(8.9)
    assert rig.state is S.INITIALIZING
    rig.agree()


def test_with_a_number_of_attempts_it_has_all_its_time_too():
    rig = first(max_attempts=2).connect()
    rig.receive(b"Starting...")
    rig.wait(9.9)
    assert rig.state is S.INITIALIZING


def test_over_http_nothing_is_said_of_standard_output():
    rig = first(is_http=True).connect()
    rig.receive(b"hello")
    assert "standard output" not in rig.only(e.Violation).reason
    rig.wait(1.6)
    assert str(rig.core.cause) == "the server sent 'hello' and no MCP message; is this an MCP server?"


@pytest.mark.parametrize(
    ("line", "is_hinted"), [(b"DEBUG: entering", True), (b"{not json", False), (b'{"jsonrpc":"1.0"}', False)]
)
def test_a_printed_line_is_said_to_be_one(line, is_hinted):
    rig = Rig().ready()
    rig.receive(line)
    hint = "the server prints to its standard output, which is reserved for MCP messages"
    assert (hint in rig.only(e.Violation).reason) is is_hinted


def test_an_oversize_frame_is_a_violation_with_its_size():
    rig = Rig().ready()
    rig.step(e.OversizeReceived(rig.epoch, FrameTooLargeError(2048, 1024)))
    violation = rig.only(e.Violation)
    assert violation.size == 2048
    assert "2048 bytes is over the limit" in violation.reason
    assert isinstance(rig.core.cause, McpError)
