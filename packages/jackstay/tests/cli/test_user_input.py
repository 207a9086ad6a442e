"""Questions at a terminal: real programs on a pseudo-terminal."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator

import pytest

from jackstay.cli._user_input import choices_of, describe_host, is_interactive
from jackstay.errors import Json
from scripted.places import PYTHONPATH, ROOT, TESTS

SERVER = TESTS / "peers" / "eliciting_server.py"


class Terminal:
    """A program on a pseudo-terminal: what it prints, and answers to it."""

    def __init__(self, process: "subprocess.Popen[bytes]", master: int) -> None:
        self.process, self._master, self.text = process, master, ""

    def wait_for(self, words: str) -> None:
        while words not in self.text:
            try:
                self.text += os.read(self._master, 4096).decode(errors="replace")
            except OSError:  # the program has ended
                raise AssertionError(f"{words!r} is not in {self.text!r}") from None

    def answer(self, words: str, line: str) -> None:
        """Wait for a question, and answer it."""
        self.wait_for(words)
        self.text = self.text.partition(words)[2]
        os.write(self._master, line.encode())

    def end(self) -> tuple[int, str]:
        with contextlib.suppress(OSError):
            while part := os.read(self._master, 4096):
                self.text += part.decode(errors="replace")
        return self.process.wait(200), self.text.replace("\r\n", "\n")


@contextlib.contextmanager
def terminal(*words: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": ""}
    process = subprocess.Popen(
        [sys.executable, "-m", "jackstay", *words], stdin=slave, stdout=slave, stderr=slave, env=environment
    )
    os.close(slave)
    guard = threading.Timer(200, process.kill)
    guard.start()
    try:
        yield Terminal(process, master)
    finally:
        guard.cancel()
        process.kill()
        process.wait()
        os.close(master)


@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
def test_the_user_is_prompted_for_missing_arguments_and_elicitations(protocol: str) -> None:
    command = ("call", "book", "--protocol", protocol, "name=Ann", "--", sys.executable, str(SERVER))
    with terminal(*command) as screen:
        screen.answer("(integer): ", "many\n")
        screen.wait_for("must be integer as JSON")
        screen.answer("(integer): ", "2\n")
        screen.answer("Request of the server:\x1b[0m Where to?", "")
        screen.answer("city\x1b[0m (string): ", "Rome\n")
        screen.answer("(integer; default: 3): ", "\n")
        screen.answer("(boolean; default: false): ", "y\n")
        code, text = screen.end()
    assert code == 0
    assert "Ann 2 accept Order(city='Rome', days=3, express=True)" in text


def test_ctrl_d_cancels_ctrl_c_ends_and_json_is_indented() -> None:
    with terminal("call", "book", "name=Ann", "count=1", "--", sys.executable, str(SERVER)) as screen:
        screen.answer("city\x1b[0m (string): ", "\x04")
        code, text = screen.end()
    assert (code, "Ann 1 cancel None" in text) == (0, True)
    with terminal("call", "book", "name=Ann", "--", sys.executable, str(SERVER)) as screen:
        screen.wait_for("(integer): ")
        screen.process.send_signal(signal.SIGINT)
        code, text = screen.end()
    assert (code, "\n" in text.rpartition("(integer): ")[2]) == (130, True)
    with terminal("call", "confirm", "--", sys.executable, str(SERVER)) as screen:
        screen.answer("  https://x.example/sign-in", "")
        screen.answer("  Host: x.example\r\n", "")
        screen.answer("Will you open this page yourself? [y/N] ", "y\n")
        code, text = screen.end()
    assert code == 0
    assert '{\n  \x1b[34m"a"\x1b[0m: \x1b[33m1\x1b[0m\n}' in text


FOREIGN = ". Its name has letters outside ASCII and can look like another name."
HOSTS: list[tuple[str, str]] = [
    ("https://x.example/sign-in", "Host: x.example"),
    ("https://x.example.evil.test/x.example", "Host: x.example.evil.test"),
    ("https://x.example@evil.test/", "Host: evil.test"),
    ("https://evil.test\\@x.example/", "Host: evil.test"),
    ("http://x.example", "Host: x.example (not encrypted)"),
    ("https://g\u043e\u043egle.com/", f"Host: xn--ggle-55da.com{FOREIGN}"),
    ("https://xn--ggle-55da.com/", f"Host: xn--ggle-55da.com{FOREIGN}"),
    ("https://fa\u00df.de/", f"Host: xn--fa-hia.de{FOREIGN}"),
    ("https://goo\u200cgle.com/", f"Host: xn--google-kf0c.com{FOREIGN}"),
    ("https://\uff47oogle\u3002com/", "Host: google.com"),
    ("javascript:alert(1)", "This is not the address of a web page."),
    ("file:///etc/passwd", "This is not the address of a web page."),
    ("https://[", "This is not the address of a web page."),
    ("https://\u043e..com", "This is not the address of a web page."),
    ("", "This is not the address of a web page."),
]


def test_the_host_of_a_url_is_shown() -> None:
    for url, line in HOSTS:
        assert describe_host(url) == line, url


def test_the_user_is_prompted_for_the_arguments_of_a_prompt() -> None:
    weather = str(ROOT / "examples" / "weather.py")
    with terminal("prompts", "get", "packing", "--", sys.executable, weather) as screen:
        screen.answer(" (string): ", "Rome\n")
        code, text = screen.end()
    assert (code, "Rome" in text.partition("user:")[2]) == (0, True), text
    with terminal("prompts", "get", "packing", "--", sys.executable, weather) as screen:
        screen.answer(" (string): ", "\x04")
        code, text = screen.end()
    assert (code, "argument 'city' is missing; pass city=VALUE" in text) == (2, True), text


def test_choices_are_typed_by_value_or_title() -> None:
    command = ("call", "test_elicitation_sep1330_enums", "--", sys.executable, str(ROOT / "examples" / "everything.py"))
    with terminal(*command) as screen:
        screen.answer("(one of option1, option2, option3; optional): ", "\n")
        screen.answer("(one of value1 (First Option), value2 (Second Option), value3 (Third Option); opt", "value9\n")
        screen.wait_for("  expected one of value1 (First Option)")
        screen.answer("optional): ", "second option\n")
        screen.answer("opt3 (Option Three); optional): ", "opt3\n")
        screen.answer("(any of option1, option2, option3, separated by commas; optional): ", "option1, option3\n")
        screen.answer("by commas; optional): ", '["value1"]\n')
        code, text = screen.end()
    assert code == 0
    sent = {
        "titledSingle": "value2",
        "legacyEnum": "opt3",
        "untitledMulti": ["option1", "option3"],
        "titledMulti": ["value1"],
    }
    assert json.dumps(sent) in text.replace("\n", "")


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, {}),
        ({"type": "string"}, {}),
        ({"enum": [1, "a", None]}, {"1": 1, "a": "a", "null": None}),
        ({"enum": ["a", "b"], "enumNames": ["A"]}, {"a": "a", "b": "b"}),
        ({"anyOf": [{"const": "a"}, {"type": "null"}]}, {}),
        ({"anyOf": [{"const": "a", "title": "A"}, {"const": "b"}]}, {"A": "a", "b": "b"}),
    ],
)
def test_the_choices_of_a_schema(schema: Json, expected: dict[str, Json]) -> None:
    assert choices_of(schema) == expected


def test_nobody_is_prompted_without_a_terminal() -> None:
    assert is_interactive(Namespace(json=False)) is False
    assert is_interactive(Namespace(json=True)) is False
