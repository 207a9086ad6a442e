"""`jackstay call`: arguments, output and exit codes."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scripted.places import TESTS

PEER = TESTS / "peers" / "stdio_server.py"


def test_the_result_goes_to_standard_output(jackstay: Callable) -> None:
    assert jackstay("call", "greet", "who=you") == (0, "hi, you\n", "")


def test_arguments_are_parsed_by_the_input_schema(jackstay: Callable) -> None:
    typed = ["text=5", "count=5", "ratio=0.5", "flag=true", 'tags=["a"]', "more=null", "other=x"]
    expected = {
        "text": "5",
        "count": 5,
        "ratio": 0.5,
        "flag": True,
        "tags": ["a"],
        "more": None,
        "other": "x",
    }
    assert json.loads(jackstay("call", "echo", *typed).out) == expected


def test_arguments_can_be_one_json_object(jackstay: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(jackstay("call", "--arguments", '{"text": "a", "count": 1}', "echo", "count=2").out) == {
        "text": "a",
        "count": 2,
    }
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"text": "from stdin"}'))
    assert json.loads(jackstay("call", "echo", "--arguments", "-").out) == {"text": "from stdin"}


def test_a_server_from_a_configuration_file(jackstay: Callable, tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": [str(PEER)], "env": {"PEER_GREETING": "hello"}}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"peer": entry}}))
    done = jackstay("call", "--config", str(path), "peer", "greet", "who=you", peer=False)
    assert done == (0, "hello, you\n", "")


def test_a_failed_tool_is_exit_code_1(jackstay: Callable) -> None:
    assert jackstay("call", "fail", "why=rain") == (1, "", "jackstay: fail failed: it failed: rain\n")


def test_a_failed_tool_with_json_is_a_result(jackstay: Callable) -> None:
    done = jackstay("call", "fail", "--json")
    assert (done.code, done.json["isError"], done.err) == (1, True, "")


def test_a_server_error_is_exit_code_1(jackstay: Callable) -> None:
    done = jackstay("call", "refuse")
    assert (done.code, done.out) == (1, "")
    assert "cannot do refuse [code -32602]" in done.err


def test_a_server_that_crashes_is_exit_code_4_with_its_stderr(jackstay: Callable) -> None:
    done = jackstay("call", "die")
    assert (done.code, done.out) == (4, "")
    assert "it may have run: check before sending it again [exit code 9]" in done.err
    assert done.err.endswith("last lines of the server's standard error:\n  out of memory\n  killed\n")


def test_an_error_with_json_is_an_object(jackstay: Callable) -> None:
    error = json.loads(jackstay("call", "die", "--json").err)["error"]
    assert (error["type"], error["mayHaveRun"], error["retryable"]) == ("transport", True, False)
    assert error["details"]["exit_code"] == 9


def test_a_call_without_a_response_is_exit_code_4(jackstay: Callable) -> None:
    done = jackstay("call", "--timeout", "0.5", "hang")
    assert (done.code, done.out) == (4, "")
    assert "no response within 0.5 s (timeout); the request was cancelled, but it may have run" in done.err


def test_progress_is_printed(jackstay: Callable) -> None:
    done = jackstay("call", "work", "steps=1")
    assert (done.code, done.out) == (0, "worked\n")
    assert done.err == "0% (0 of 1) step 0\n"


def test_content_that_is_not_text_is_described(jackstay: Callable) -> None:
    assert jackstay("call", "picture").out.splitlines() == [
        "\x1b[31mred\x1b[0m",  # unchanged in a pipe
        "[image image/png, 3 bytes]",
        "[audio audio/wav, 3 bytes]",
        "[link to note://1: first]",
        "inside",
        "[bytes of bytes://2, 3 bytes]",
        "[hologram: unknown content type, see --json]",
    ]


def test_control_characters_do_not_reach_a_terminal(jackstay: Callable, terminal: Callable[[int], None]) -> None:
    terminal(80)
    assert jackstay("call", "picture").out.startswith("\\x1b[31mred\\x1b[0m\n")


def test_structured_content_is_printed_as_json(jackstay: Callable) -> None:
    assert jackstay("call", "data").json == {"a": [1, 2]}


def test_an_empty_result_prints_nothing(jackstay: Callable) -> None:
    assert jackstay("call", "nothing") == (0, "", "")


def test_usage_errors_are_reported_before_the_server_is_started(jackstay: Callable) -> None:
    for words, message in (
        (["call"], "TOOL is missing"),
        (["call", "greet", "who"], "expected KEY=VALUE, got 'who'"),
        (["call", "greet", "--arguments", "[]"], "must be a JSON object"),
    ):
        done = jackstay(*words, "--", "/no/such/server", peer=False)
        assert (done.code, done.out) == (2, ""), words
        assert message in done.err


def test_errors_against_the_schema(jackstay: Callable) -> None:
    assert "argument 'count' must be integer as JSON, got 'x'" in jackstay("call", "echo", "count=x").err
    done = jackstay("call", "gret")
    assert (done.code, done.out) == (2, "")
    assert done.err == "jackstay: unknown tool 'gret'; did you mean 'greet'?\n"
