"""The transcript: pairs of requests and responses, rounds, repetitions, and a recording of everything."""

import json
from pathlib import Path
from typing import Any

import pytest

from jackstay import connect
from jackstay.inspector import _transcript
from jackstay.inspector._events import EventLog
from jackstay.inspector._transcript import Transcript
from jackstay.testing import replayed
from scripted.inspected import Inspected, with_inspected


class Written:
    """A transcript with a clock that moves by one second for each event."""

    def __init__(self) -> None:
        self.log = EventLog()
        self.now = 0.0
        self.transcript = Transcript("demo", self.log, self._clock)

    def _clock(self) -> float:
        self.now += 1.0
        return self.now

    def frame(self, sender: Any, message: Any, connection: int = 1) -> dict[str, Any]:
        frame = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.transcript.frame(sender, connection, frame)
        return self.last

    @property
    def last(self) -> dict[str, Any]:
        number, event = self.log.after(0)[-1]
        found: dict[str, Any] = json.loads(event.decode().strip().rpartition("data: ")[2])
        return {**found, "number": number}


def test_a_response_is_paired_with_its_request() -> None:
    written = Written()
    request = written.frame("client", {"id": 1, "method": "tools/list"})
    assert (request["kind"], request["method"], request["from"]) == ("request", "tools/list", "client")
    response = written.frame("server", {"id": 1, "result": {}})
    assert (response["kind"], response["pair"], response["seconds"]) == ("response", request["number"], 1.0)
    assert response["method"] == "tools/list"


def test_ids_of_the_two_sides_are_different() -> None:
    written = Written()
    own = written.frame("client", {"id": 1, "method": "tools/call"})
    question = written.frame("server", {"id": 1, "method": "elicitation/create"})
    assert written.frame("client", {"id": 1, "result": {}})["pair"] == question["number"]
    failed = written.frame("server", {"id": 1, "error": {"code": 1, "message": "no"}})
    assert (failed["kind"], failed["pair"]) == ("error", own["number"])


def test_rounds_and_tool_errors() -> None:
    written = Written()
    written.frame("client", {"id": 1, "method": "tools/call", "params": {"name": "a"}})
    assert written.frame("server", {"id": 1, "result": {"resultType": "input_required"}})["wants_input"]
    later = {"name": "a", "inputResponses": {}, "requestState": "x"}
    assert written.frame("client", {"id": 2, "method": "tools/call", "params": later})["is_later_round"]
    assert written.frame("server", {"id": 2, "result": {"isError": True}})["is_error"]


def test_a_request_that_is_sent_again_after_the_connection_was_lost() -> None:
    written = Written()
    params = {"name": "a", "_meta": {"progressToken": 1}}
    first = written.frame("client", {"id": 1, "method": "tools/call", "params": params})
    written.transcript.event("server", 1, "ended", "exited", exit=3)
    assert (written.last["kind"], written.last["exit"]) == ("ended", 3)
    again = written.frame("client", {"id": 5, "method": "tools/call", "params": {"name": "a"}}, connection=2)
    assert again["again"] == first["number"]
    assert "again" not in written.frame("client", {"id": 6, "method": "tools/call", "params": {"name": "a"}}, 2)


def test_a_request_over_http_that_got_no_response() -> None:
    written = Written()
    first = written.frame("client", {"id": 1, "method": "ping"})
    written.transcript.event("server", 1, "lost", 1, why="HTTP 502")
    assert (written.last["kind"], written.last["pair"]) == ("lost", first["number"])
    written.transcript.event("server", 1, "lost", 7, why="HTTP 502")
    assert "pair" not in written.last


def test_notifications_and_garbage() -> None:
    written = Written()
    note = written.frame("server", {"method": "notifications/message", "params": {}})
    assert (note["kind"], note["method"]) == ("notification", "notifications/message")
    assert written.frame("server", b"Debugger attached.\xff")["text"] == "Debugger attached.\ufffd"
    assert written.frame("server", b"[1]")["kind"] == "garbage"


def test_a_large_message_is_published_without_its_content() -> None:
    written = Written()
    large = written.frame("server", {"method": "notifications/message", "params": {"data": "x" * 70_000}})
    assert large["is_large"]
    assert "message" not in large
    line = written.transcript.find(large["number"])
    assert line is not None
    assert json.loads(line)["message"]["params"]["data"] == "x" * 70_000
    assert written.transcript.find(99) is None


def test_the_oldest_lines_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transcript, "MAX_KEPT_BYTES", 200)
    written = Written()
    for id in range(20):
        written.frame("client", {"id": id, "method": "ping"})
    _, *lines = written.transcript.save().splitlines()
    assert [json.loads(line)["message"]["id"] for line in lines][-1] == 19, "the newest are kept"
    assert len(lines) < 10


def test_requests_that_get_no_response_are_forgotten_with_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transcript, "MAX_KEPT_BYTES", 1000)
    written = Written()
    for connection in range(1, 101):
        written.frame("client", {"id": 1, "method": "tools/call", "params": {"name": str(connection)}}, connection)
        if connection % 2:
            written.transcript.event("server", connection, "ended", "lost")
    kept = len(written.transcript.save().splitlines())
    assert len(written.transcript._open) + len(written.transcript._lost) <= kept < 20


@with_inspected
async def test_it_can_be_replayed(inspected: Inspected, tmp_path: Path) -> None:
    await inspected.call("add", a=1)
    path = tmp_path / "session.jsonl"
    path.write_bytes((await inspected.request("GET", "/api/recording")).body)
    async with connect(replayed(path)) as client:
        assert (await client.tools.call("add", {"a": 1})).data == 3
