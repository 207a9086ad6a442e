"""Requests as text to copy: what is copied runs."""

import ast
import json
import shlex
import subprocess
import sys
from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.inspector._snippets import FORMATS, Snippet, make_snippet
from jackstay.transport import stdio
from jackstay.transport.http import http
from scripted.places import ROOT

COMMAND = stdio(sys.executable, str(ROOT / "tests" / "peers" / "authored.py"))
URL = http("https://example.org/mcp?key=secret")
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("tools/call", {"name": "add it's", "arguments": {"a": 1, "text": 'two "lines"\nof $text', "none": None}}),
    ("resources/read", {"uri": "note://today"}),
    ("prompts/get", {"name": "greet", "arguments": {"name": "Ann"}}),
    ("logging/setLevel", {"level": "debug"}),
]


def snippet(format: str, target: Any = COMMAND, request: int = 0, version: str = "2026-07-28") -> str:
    return make_snippet(format, Snippet(target, *REQUESTS[request], version))


@pytest.mark.parametrize("format", ["python", "pytest"])
def test_python_is_valid_and_has_no_secret(format: str) -> None:
    for target in (COMMAND, URL):
        for request in range(len(REQUESTS)):
            text = snippet(format, target, request)
            ast.parse(text)
            assert "secret" not in text


def test_python_runs() -> None:
    made = make_snippet("pytest", Snippet(COMMAND, "tools/list", {}, "2026-07-28"))
    assert "def test_tools_list() -> None:" in made
    done = subprocess.run(
        [sys.executable, "-c", f"{made}\n\ntest_tools_list()"], capture_output=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_chosen_revision_is_kept() -> None:
    old = "2025-06-18"
    made = Snippet(COMMAND, "tools/list", {}, old, old)
    text = make_snippet("python", made).replace("print(result)", "print(client.protocol_version)")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, timeout=120, check=False)
    assert (done.stdout.decode().strip(), done.stderr) == (old, b"")
    assert f"versions=({old!r},)" in make_snippet("pytest", made)
    words = shlex.split(make_snippet("shell", Snippet(COMMAND, *REQUESTS[1], old, old)))
    assert words[:5] == ["jackstay", "read", "note://today", "--protocol", old]
    assert words[5] == "--"
    for format in ("python", "pytest", "shell"):
        assert "2026-07-28" not in snippet(format)  # negotiated: nothing to keep


def test_shell() -> None:
    words = shlex.split(snippet("shell"))
    assert words[:4] == ["jackstay", "call", "add it's", "--arguments"]
    assert json.loads(words[4]) == REQUESTS[0][1]["arguments"]
    assert words[5:] == ["--", COMMAND.command, *COMMAND.arguments]
    assert shlex.split(snippet("shell", URL, 1)) == ["jackstay", "read", "https://example.org/mcp", "note://today"]
    words = shlex.split(snippet("shell", URL, 2))
    assert words == ["jackstay", "prompts", "https://example.org/mcp", "get", "greet", "name=Ann"]
    with pytest.raises(UsageError, match="there is no jackstay command for 'tools/list'"):
        make_snippet("shell", Snippet(COMMAND, "tools/list", {}, "2026-07-28"))


def test_curl() -> None:
    words = shlex.split(snippet("curl", URL).replace("\\\n", " "))
    assert words[:2] == ["curl", "https://example.org/mcp"]
    assert "Mcp-Method: tools/call" in words
    body = json.loads(words[-1])
    assert body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert "Mcp-Method" not in snippet("curl", URL, version="2025-11-25")
    assert "initialize" not in snippet("curl", URL)
    words = shlex.split(snippet("curl", URL, version="2025-11-25").replace("\\\n", " "))
    bodies = [words[at + 1] for at, word in enumerate(words) if word == "-d" and words[at + 1][0] == "{"]
    sent = [json.loads(body)["method"] for body in bodies]
    assert sent == ["initialize", "notifications/initialized", "tools/call"]
    assert words.count("Mcp-Session-Id: $session") == 2
    with pytest.raises(UsageError, match="curl needs a server at a URL; this one is a command"):
        snippet("curl")


def test_json_rpc() -> None:
    assert json.loads(snippet("json-rpc")) == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": REQUESTS[0][1],
    }


def test_unknown_format() -> None:
    assert list(FORMATS) == ["python", "pytest", "shell", "curl", "json-rpc"]
    with pytest.raises(UsageError, match="unknown format 'perl'; use one of python, pytest"):
        snippet("perl")
