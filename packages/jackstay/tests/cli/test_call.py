"""`jackstay call`: typed arguments in, the answer out, and an exit code that tells the truth."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scripted.places import TESTS

PEER = TESTS / "peers" / "stdio_server.py"


def test_the_answer_goes_to_standard_output(jackstay: Callable) -> None:
    assert jackstay("call", "greet", "who=you") == (0, "hi, you\n", "")


def test_arguments_are_typed_by_the_schema_of_the_tool(jackstay: Callable) -> None:
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


def test_all_arguments_can_be_one_object(jackstay: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(
        jackstay("call", "--arguments", '{"text": "a", "count": 1}', "echo", "count=2").out
    ) == {
        "text": "a",
        "count": 2,
    }
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"text": "from stdin"}'))
    assert json.loads(jackstay("call", "echo", "--arguments", "-").out) == {"text": "from stdin"}


def test_a_server_of_a_file_is_called_by_its_name(jackstay: Callable, tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": [str(PEER)], "env": {"PEER_GREETING": "hello"}}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"peer": entry}}))
    shown = jackstay("call", "--config", str(path), "peer", "greet", "who=you", peer=False)
    assert shown == (0, "hello, you\n", "")


def test_a_tool_that_failed_is_exit_code_1_and_says_why_on_standard_error(jackstay: Callable) -> None:
    assert jackstay("call", "fail", "why=rain") == (1, "", "jackstay: fail failed: it failed: rain\n")


def test_a_tool_that_failed_is_a_result_to_programs(jackstay: Callable) -> None:
    shown = jackstay("call", "fail", "--json")
    assert (shown.code, shown.json["isError"], shown.err) == (1, True, "")


def test_a_server_that_refuses_is_exit_code_1(jackstay: Callable) -> None:
    shown = jackstay("call", "refuse")
    assert (shown.code, shown.out) == (1, "")
    assert "cannot do refuse [code -32602]" in shown.err


def test_a_server_that_dies_is_exit_code_4_with_its_last_words(jackstay: Callable) -> None:
    shown = jackstay("call", "die")
    assert (shown.code, shown.out) == (4, "")
    assert "it may have run: check before sending it again [exit code 9] [stderr: killed]" in shown.err
    assert shown.err.endswith("its last words on standard error were:\n  out of memory\n  killed\n")


def test_an_error_is_an_object_to_programs(jackstay: Callable) -> None:
    error = json.loads(jackstay("call", "die", "--json").err)["error"]
    assert (error["type"], error["mayHaveRun"], error["retryable"]) == ("transport", True, False)
    assert error["details"]["exit_code"] == 9


def test_a_call_without_an_answer_is_exit_code_4(jackstay: Callable) -> None:
    shown = jackstay("call", "--timeout", "0.5", "hang")
    assert (shown.code, shown.out) == (4, "")
    assert "no answer within 0.5 s (timeout); it was cancelled, but it may have run" in shown.err


def test_progress_is_shown_while_the_call_reports_it(jackstay: Callable) -> None:
    shown = jackstay("call", "work", "steps=1")
    assert (shown.code, shown.out) == (0, "worked\n")
    assert shown.err == "0% (0 of 1) step 0\n"


def test_what_is_no_text_is_named(jackstay: Callable) -> None:
    assert jackstay("call", "picture").out.splitlines() == [
        "\x1b[31mred\x1b[0m",  # into a pipe: as it came
        "[image image/png, 3 bytes]",
        "[audio audio/wav, 3 bytes]",
        "[link to note://1: first]",
        "inside",
        "[bytes of bytes://2, 3 bytes]",
        "[hologram: not known here, see --json]",
    ]


def test_a_servers_escapes_do_not_reach_a_terminal(
    jackstay: Callable, terminal: Callable[[int], None]
) -> None:
    terminal(80)
    assert jackstay("call", "picture").out.startswith("\\x1b[31mred\\x1b[0m\n")


def test_structure_without_text_is_printed_as_json(jackstay: Callable) -> None:
    assert jackstay("call", "data").json == {"a": [1, 2]}


def test_an_answer_without_anything_prints_nothing(jackstay: Callable) -> None:
    assert jackstay("call", "nothing") == (0, "", "")


# words -> what is said; no server is started for them
MISTAKES = [
    (["call"], "TOOL is missing"),
    (["call", "greet", "who"], "'who' is not key=value"),
    (["call", "greet", "--arguments", "[]"], "must be a JSON object"),
]


@pytest.mark.parametrize(("words", "said"), MISTAKES)
def test_a_mistake_is_told_before_anything_is_started(
    words: list[str], said: str, jackstay: Callable
) -> None:
    shown = jackstay(*words, "--", "/no/such/server", peer=False)
    assert (shown.code, shown.out) == (2, "")
    assert said in shown.err


def test_a_mistake_that_only_the_schema_shows_is_told_and_nothing_is_called(jackstay: Callable) -> None:
    assert "count must be integer, and 'x' is not JSON" in jackstay("call", "echo", "count=x").err
    shown = jackstay("call", "gret")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == "jackstay: the server has no tool 'gret'; there is greet\n"
