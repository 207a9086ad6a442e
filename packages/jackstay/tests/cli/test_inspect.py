"""`jackstay inspect`: the selected servers, and the page until a signal arrives."""

import json
import os
import signal
import sys
import threading
import urllib.request
from argparse import Namespace
from pathlib import Path

import pytest

from jackstay.cli import _inspect, main
from jackstay.cli._inspect import _choices
from jackstay.errors import UsageError
from scripted.places import TESTS

PEER = TESTS / "peers" / "stdio_server.py"


def choices(*words: str, server: list[str] | None = None) -> list[tuple[str, str]]:
    arguments = Namespace(
        words=list(words), server=server, config=None, login=False, header=[], ca=None, env=[], pass_env=False
    )
    return [(choice.name, choice.display) for choice in _choices(arguments)]


def test_a_command_and_a_url() -> None:
    assert choices(server=["python", "server.py"]) == [("server", "python server.py")]
    assert choices("https://example.org/mcp?key=1") == [("example.org", "https://example.org/mcp")]


def test_a_configuration_file(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    servers = {"one": {"command": "one"}, "two": {"url": "https://two.example/mcp"}}
    path.write_text(json.dumps({"mcpServers": {**servers, "off": {"command": "off", "disabled": True}}}))
    assert choices(str(path)) == [("one", "one"), ("two", "https://two.example/mcp")]
    assert [name for name, _ in choices(str(path), "two")] == ["two", "one"]
    with pytest.raises(UsageError, match="'three'"):
        choices(str(path), "three")
    with pytest.raises(UsageError, match="unexpected argument 'x'"):
        choices(str(path), "two", "x")
    path.write_text(json.dumps({"mcpServers": {}}))
    with pytest.raises(UsageError, match="has no server that is not disabled"):
        choices(str(path))


def test_invalid_words() -> None:
    with pytest.raises(UsageError, match="unexpected argument 'more'"):
        choices("https://example.org/mcp", "more")
    with pytest.raises(UsageError, match="no server was passed"):
        choices()


def test_the_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--port", "x", "--", "server"]) == 2
    assert "expected a number from 0 to 65535, got 'x'" in capsys.readouterr().err


def test_a_page_until_a_signal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    opened: list[str] = []
    statuses: list[int] = []

    def open_page(url: str) -> None:
        opened.append(url)

        def visit() -> None:
            with urllib.request.urlopen(url, timeout=60) as response:  # it is on this machine
                statuses.append(response.status)
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=visit).start()

    monkeypatch.setattr("jackstay.oauth.open_in_browser", open_page)
    assert main(["inspect", "--", sys.executable, str(PEER)]) == 0
    assert statuses == [200]
    assert f"The inspector: {opened[0]}" in capsys.readouterr().err


def test_without_a_browser(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("jackstay.oauth.open_in_browser", lambda url: pytest.fail(url))
    _inspect._show("http://127.0.0.1:1/", with_browser=False)
    assert capsys.readouterr().err == "The inspector: http://127.0.0.1:1/\n"
