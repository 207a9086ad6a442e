"""`jackstay replay`: a recording over real pipes, what is refused and how, and how it ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.standing_in import standing_in
from scripted.places import PYTHONPATH
from scripted.tapes import client, event, notification, request, result, server, write

GUARD = 20.0


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


def test_requests_from_a_file_are_answered_to_the_last(tmp_path: Path) -> None:
    """`jackstay replay FILE < requests > answers`, with delays: the end of the input is not the end of the answers."""
    path = write(tmp_path / "x.jsonl", client(call(1), at=0), server(result(1, "slow"), at=0.3))
    said = tmp_path / "requests"
    said.write_text("".join(json.dumps(message) + "\n" for message in (call("a"), call("b", x=1), call("c"))))
    with said.open("rb") as requests:
        out, err = replay(path, "--speed", "3", stdin=requests).communicate(timeout=GUARD)
    answers = {message["id"]: message for message in map(json.loads, out.splitlines())}
    assert (answers["a"]["result"], answers["c"]["result"]) == ("slow", "slow")
    refused = "tools/call was not recorded with these params; the nearest is in line 2: params.arguments"
    assert answers["b"]["error"]["message"].startswith(refused)
    assert refused in err.decode(), "and on standard error, for who wonders why"


def test_a_client_that_reads_nothing_and_leaves_is_not_waited_for(tmp_path: Path) -> None:
    told = [server(notification("notifications/message", data="x" * 100_000)) for _ in range(20)]
    path = write(tmp_path / "x.jsonl", client(call(1)), *told, server(result(1, {})))
    process = replay(path)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(call(1)).encode() + b"\n")
    process.stdin.flush()
    process.stdout.read(1)  # it has begun, and cannot go on
    process.stdin.close()
    process.stdin = None
    assert process.wait(GUARD) == 0
    process.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_it_without_a_word(number: int, code: int, tmp_path: Path) -> None:
    process = replay(write(tmp_path / "x.jsonl", client(call(1)), server(result(1, {}))))
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(call(1)).encode() + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline()) == result(1, {})
    process.send_signal(number)
    process.wait(GUARD)
    assert (process.returncode, *process.communicate()) == (code, b"", b"")


# what was recorded after the call -> what is answered, exit code, what standard error says
ENDS = [
    ([server(result(1, {}), at=0.1)], [result("a", {})], 0, ""),
    ([event("server", ended="died", exit=2)], [], 1, "jackstay: died (as it was recorded) [exit code 2]\n"),
]


@pytest.mark.parametrize("row", ENDS, ids=["answered", "died"])
def test_every_end_has_its_exit_code(row: Any, jackstay: Callable, tmp_path: Path) -> None:
    lines, answers, code, said = row
    path = write(tmp_path / "x.jsonl", client(call(1)), *lines)
    (tmp_path / "in").write_text(json.dumps(call("a")) + "\n")
    with (
        (tmp_path / "in").open("rb") as stdin,
        (tmp_path / "out").open("wb") as stdout,
        standing_in(stdin.fileno(), stdout.fileno()),
    ):
        shown = jackstay("replay", str(path), "--speed", "10", peer=False)
    assert (shown.code, shown.err) == (code, said)
    assert [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()] == answers


# words -> what standard error says
MISUSES = [
    ([], "FILE"),
    (["a", "b"], "'b' is one word too many"),
    (["--speed", "x.jsonl"], "must be a number from 0.001 to 1000000, not 'x.jsonl'"),
    (["x.jsonl", "--speed", "nan"], "must be a number"),
    (["x.jsonl", "--", "server"], "nothing to start here"),
    (
        ["gone.jsonl"],
        "there is no recording gone.jsonl: make one with `jackstay record gone.jsonl -- COMMAND`",
    ),
    (["."], "cannot read .: Is a directory"),
    (["foreign"], "foreign: line 1 is not the header of a recording"),
    (["newer"], "newer: line 1 says version 9, and this Jackstay reads versions up to 1; update Jackstay"),
    (["cut"], "cut: line 3 is cut short"),
]


@pytest.mark.parametrize(("words", "said"), MISUSES, ids=[row[1][:40] for row in MISUSES])
def test_what_is_wrong_is_said_in_a_line(
    words: list[str], said: str, jackstay: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("foreign").write_text('{"mcpServers": {}}')
    write(Path("newer"), header={"jackstay": "recording", "version": 9})
    cut = write(Path("cut"), client(call(1)), event("server", note="x"))
    cut.write_text(cut.read_text()[:-10])
    shown = jackstay("replay", *words, peer=False)
    assert shown.code == 2
    assert said in shown.err
    assert shown.out == ""
    assert "Traceback" not in shown.err
