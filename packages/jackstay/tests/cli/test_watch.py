"""`jackstay watch`: a line for each that happens, until it is told to stop."""

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
from jackstay.cli._screen import Screen
from jackstay.cli._watch import Happening, _show
from jackstay.errors import TransportError
from scripted.places import TESTS

PEER = TESTS / "peers" / "stdio_server.py"


class Stopping(io.StringIO):
    """Standard output that ends the command when it has seen enough."""

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
    assert main(["watch", *words, "--", sys.executable, str(PEER), "--chatty"]) == 0, "SIGTERM is how it ends"
    return stream.getvalue().splitlines()


def test_states_and_notifications_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = watched("resources/updated", monkeypatch, "note://1")
    assert all(re.match(r"\d\d:\d\d:\d\d  ", line) for line in lines)
    said = [line[10:] for line in lines]
    assert said[:3] == ["new -> starting", "starting -> initializing", "initializing -> ready"]
    assert "tools/list_changed" in said
    assert "message  warning peer \\x1b[31mred\\x1b[0m" in said
    assert 'resources/updated  {"uri": "note://1"}' in said


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


def test_a_server_that_dies_is_seen_going_and_coming_back(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stopping("-> backoff")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["watch", "note://1", "--", sys.executable, str(PEER), "--fragile"]) == 0
    (line,) = [line for line in stream.getvalue().splitlines() if "-> backoff" in line]
    assert "ready -> backoff" in line
    assert "exited" in line


def test_a_server_that_breaks_the_rules_is_seen_to(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stopping("broke a rule")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["watch", "--log-level", "error", "--", sys.executable, str(PEER), "--noisy"]) == 0


def test_a_reader_that_left_ends_it_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    assert main(["watch", "--", sys.executable, str(PEER)]) == 0
    assert capsys.readouterr().err == ""


class Given:
    """A client that is given what happens to it."""

    def on_event(self, listener: Callable[[str, dict[str, object]], None]) -> None:
        self.tell = listener

    def on_notification(self, handler: object) -> None: ...


CLOSINGS = [(TransportError("no such file"), "no such file"), (None, "the connection was given up")]


@pytest.mark.parametrize(("reason", "said"), CLOSINGS)
def test_a_connection_given_up_for_good_ends_it_with_the_reason(
    reason: TransportError | None,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def with_client(arguments: object, chosen: object, work: Callable, **options: Any) -> int:
        client = Given()
        options["prepare"](client)

        async def happen() -> int:
            client.tell("jackstay.request.start", {})
            client.tell(
                "jackstay.connection.transition", {"from": "backoff", "to": "closed", "reason": reason}
            )
            return await work(client)

        return asyncio.run(happen())

    monkeypatch.setattr(_watch, "with_client", with_client)
    assert main(["watch", "--", "x"]) == 3
    shown = capsys.readouterr()
    assert "backoff -> closed" in shown.out
    assert said in shown.err


LINES = [
    (
        Happening("notification", method="notifications/message", params={"level": "info", "data": {"a": 1}}),
        'message  info {"a": 1}',
    ),
    (Happening("notification", method="notifications/message", params=None), "message"),
    (Happening("notification", method="vendor/\x1b", params={}), "vendor/\\x1b"),
    (
        Happening("violation", reason="a line that is no JSON"),
        "the server broke a rule: a line that is no JSON",
    ),
]


@pytest.mark.parametrize(("happening", "said"), LINES)
def test_every_kind_has_its_line(happening: Happening, said: str) -> None:
    stream = io.StringIO()
    _show(Screen(stream), happening, as_json=False)
    assert stream.getvalue()[10:] == f"{said}\n"
