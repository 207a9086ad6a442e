"""`jackstay watch`: a line for each event, until a signal arrives."""

import asyncio
import io
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from jackstay.cli import _watch, main
from jackstay.cli._watch import _show, make_event
from jackstay.errors import TransportError
from jackstay.shell import Screen
from scripted.places import TESTS

PEER = TESTS / "peers" / "stdio_server.py"


class Stopping(io.StringIO):
    """Standard output that sends a signal when it contains the marker."""

    def __init__(self, marker: str, number: int = signal.SIGTERM) -> None:
        super().__init__()
        self.marker = marker
        self.number = number

    def write(self, text: str) -> int:
        if self.marker in text:
            os.kill(os.getpid(), self.number)
        return super().write(text)


def watched(marker: str, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    stream = Stopping(marker)
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["watch", *words, "--", sys.executable, str(PEER), "--chatty"]) == 0, "exit code after SIGTERM"
    return stream.getvalue().splitlines()


def test_text_output(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = watched("resources/updated", monkeypatch, "note://1")
    assert all(re.match(r"\d\d:\d\d:\d\d  ", line) for line in lines)
    texts = [line[10:] for line in lines]
    assert texts[:3] == ["new -> starting", "starting -> initializing", "initializing -> ready"]
    assert "tools/list_changed" in texts
    assert "message  warning peer \\x1b[31mred\\x1b[0m" in texts
    assert 'resources/updated  {"uri": "note://1"}' in texts


def test_json_is_an_object_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.loads(line) for line in watched("resources/updated", monkeypatch, "note://1", "--json")]
    assert lines[2] == {
        "time": lines[2]["time"],
        "event": "state",
        "from": "initializing",
        "to": "ready",
        "reason": "",
    }
    updated = next(line for line in lines if line.get("method") == "notifications/resources/updated")
    assert updated["params"] == {"uri": "note://1"}
    assert updated["event"] == "notification"


def test_a_server_that_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stopping("-> backoff")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["watch", "note://1", "--", sys.executable, str(PEER), "--fragile"]) == 0
    (line,) = [line for line in stream.getvalue().splitlines() if "-> backoff" in line]
    assert "ready -> backoff" in line
    assert "exited" in line


def test_a_protocol_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stopping("protocol violation")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["watch", "--log-level", "error", "--", sys.executable, str(PEER), "--noisy"]) == 0


def test_a_closed_pipe_ends_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    assert main(["watch", "--", sys.executable, str(PEER)]) == 0
    assert capsys.readouterr().err == ""


class FakeClient:
    """A client whose events the test emits."""

    def on_event(self, listener: Callable[[str, dict[str, object]], None]) -> None:
        self.emit = listener

    def on_notification(self, handler: object) -> None: ...


CLOSINGS = [(TransportError("no such file"), "no such file"), (None, "the client stopped reconnecting")]


@pytest.mark.parametrize(("reason", "message"), CLOSINGS)
def test_a_closed_client_ends_the_command_with_the_reason(
    reason: TransportError | None,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def with_client(arguments: object, selected: object, work: Callable, **options: Any) -> int:
        client = FakeClient()
        options["prepare"](client)

        async def emit_and_work() -> int:
            client.emit("jackstay.request.start", {})
            client.emit("jackstay.connection.transition", {"from": "backoff", "to": "closed", "reason": reason})
            return await work(client)

        return asyncio.run(emit_and_work())

    monkeypatch.setattr(_watch, "with_client", with_client)
    assert main(["watch", "--", "x"]) == 3
    done = capsys.readouterr()
    assert "backoff -> closed" in done.out
    assert message in done.err


LINES = [
    (
        make_event("notification", method="notifications/message", params={"level": "info", "data": {"a": 1}}),
        'message  info {"a": 1}',
    ),
    (make_event("notification", method="notifications/message", params=None), "message"),
    (make_event("notification", method="vendor/\x1b", params={}), "vendor/\\x1b"),
    (
        make_event("violation", reason="a line that is not JSON"),
        "protocol violation: a line that is not JSON",
    ),
]


def test_lines_of_every_kind() -> None:
    for event, text in LINES:
        stream = io.StringIO()
        _show(Screen(stream), event, as_json=False)
        assert stream.getvalue()[10:] == f"{text}\n"
