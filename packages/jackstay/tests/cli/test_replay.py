"""`jackstay replay` over real pipes: responses, exit codes and errors."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.redirected_stdio import redirected_stdio
from scripted.cassettes import client, event, notification, request, result, server, write
from scripted.places import PYTHONPATH

GUARD = 120.0


def call(id: Any, **arguments: Any) -> dict[str, Any]:
    return request(id, "tools/call", {"name": "a", "arguments": arguments})


def replay(path: Path, *words: str, stdin: Any = subprocess.PIPE) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    return subprocess.Popen(
        [sys.executable, "-m", "jackstay", "replay", str(path), *words],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )


def test_all_requests_from_a_file_are_answered(tmp_path: Path) -> None:
    """`jackstay replay FILE < requests > responses`, with delays, which are longer than the input."""
    path = write(tmp_path / "x.jsonl", client(call(1), at=0), server(result(1, "slow"), at=0.3))
    file = tmp_path / "requests"
    file.write_text("".join(json.dumps(message) + "\n" for message in (call("a"), call("b", x=1), call("c"))))
    with file.open("rb") as requests:
        out, err = replay(path, "--speed", "3", stdin=requests).communicate(timeout=GUARD)
    answers = {message["id"]: message for message in map(json.loads, out.splitlines())}
    assert (answers["a"]["result"], answers["c"]["result"]) == ("slow", "slow")
    refused = "tools/call was not recorded with these params; the nearest is in line 2: params.arguments"
    assert answers["b"]["error"]["message"].startswith(refused)
    assert refused in err.decode(), "and on standard error"


def test_a_client_that_disconnects_without_reading(tmp_path: Path) -> None:
    messages = [server(notification("notifications/message", data="x" * 100_000)) for _ in range(20)]
    path = write(tmp_path / "x.jsonl", client(call(1)), *messages, server(result(1, {})))
    process = replay(path)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(call(1)).encode() + b"\n")
    process.stdin.flush()
    process.stdout.read(1)  # it has started, and the pipe is full
    process.stdin.close()
    process.stdin = None
    assert process.wait(GUARD) == 0
    process.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_is_silent(number: int, code: int, tmp_path: Path) -> None:
    process = replay(write(tmp_path / "x.jsonl", client(call(1)), server(result(1, {}))))
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(call(1)).encode() + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline()) == result(1, {})
    process.send_signal(number)
    process.wait(GUARD)
    assert (process.returncode, *process.communicate()) == (code, b"", b"")


# recorded after the call -> responses, exit code, standard error
ENDS = [
    ([server(result(1, {}), at=0.1)], [result("a", {})], 0, ""),
    ([event("server", ended="died", exit=2)], [], 1, "jackstay: died (replayed) [exit code 2]\n"),
]


@pytest.mark.parametrize("row", ENDS, ids=["answered", "died"])
def test_exit_codes(row: Any, jackstay: Callable, tmp_path: Path) -> None:
    lines, answers, code, stderr = row
    path = write(tmp_path / "x.jsonl", client(call(1)), *lines)
    (tmp_path / "in").write_text(json.dumps(call("a")) + "\n")
    with (
        (tmp_path / "in").open("rb") as stdin,
        (tmp_path / "out").open("wb") as stdout,
        redirected_stdio(stdin.fileno(), stdout.fileno()),
    ):
        done = jackstay("replay", str(path), "--speed", "10", peer=False)
    assert (done.code, done.err) == (code, stderr)
    assert [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()] == answers


# arguments -> text on standard error
USAGE_ERRORS: list[tuple[list[str], str]] = [
    ([], "FILE"),
    (["a", "b"], "unexpected argument 'b'"),
    (["--speed", "x.jsonl"], "expected a number from 0.001 to 1000000, got 'x.jsonl'"),
    (["x.jsonl", "--speed", "nan"], "expected a number"),
    (["x.jsonl", "--", "server"], "this command starts no server"),
    (
        ["gone.jsonl"],
        "no such recording: 'gone.jsonl'; create it with `jackstay record gone.jsonl -- COMMAND`",
    ),
    (["."], "cannot read '.': Is a directory"),
    (["foreign"], "foreign: line 1 is not the header of a recording"),
    (["newer"], "newer: line 1 has version 9, but this Jackstay reads versions up to 1; update Jackstay"),
    (["cut"], "cut: line 3 is truncated"),
]


def test_usage_errors(jackstay: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("foreign").write_text('{"mcpServers": {}}')
    write(Path("newer"), header={"jackstay": "recording", "version": 9})
    cut = write(Path("cut"), client(call(1)), event("server", note="x"))
    cut.write_text(cut.read_text()[:-10])
    for words, message in USAGE_ERRORS:
        done = jackstay("replay", *words, peer=False)
        assert done.code == 2, words
        assert message in done.err, words
        assert done.out == "", words
        assert "Traceback" not in done.err, words
