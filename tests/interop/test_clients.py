"""Third-party clients with our server: each uses all features, and the server exits when the client closes."""

import fcntl
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interop.known_clients import (
    EVERYTHING,
    PROMPT,
    PROMPTS,
    RESOURCES,
    ROWS,
    TEXT,
    TOOLS,
    Row,
    seen_by,
)
from interop.peers import BY_NAME, PEERS, ROOT, node

HERE = Path(__file__).parent
PROGRAM_SECONDS = 250.0
# Seconds between the end of its input and the exit of the server. On an idle machine 1.5: tests/chaos/test_server.py.
EXIT_TIMEOUT = 15.0


def _run(command: list[str | Path]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(argument) for argument in command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )


def _watched(ledger: Path, program: Path) -> list[str | Path]:
    """Return the command of our server in a wrapper that records its exit code."""
    return [sys.executable, HERE / "servers" / "watched.py", ledger, sys.executable, program]


def _recorded(ledger: Path) -> Any:
    """Return what the wrapper recorded; waits until the server has exited."""
    with ledger.open(encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        return json.load(file)


def test_every_client_peer_is_tested() -> None:
    tested = {row.peer for row in ROWS} | {"inspector"}
    assert tested == {peer.name for peer in PEERS if peer.role in ("client", "both")}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_client_uses_all_features_and_server_exits_on_close(row: Row, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"
    done = _run([*row.command(), *_watched(ledger, EVERYTHING)])
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    closing = seen.pop("closing")
    assert seen == seen_by(row)
    ledger_entry = _recorded(ledger)
    assert ledger_entry["code"] == 0
    assert 0 <= ledger_entry["ended"] - closing <= EXIT_TIMEOUT


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_client_calls_the_smallest_example(row: Row, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"
    done = _run([*row.command(), *_watched(ledger, ROOT / "examples" / "echo.py")])
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert (seen["revision"], seen["tools"], seen["echo"]) == (row.revision, ["echo"], "ahoy")
    ledger_entry = _recorded(ledger)
    assert ledger_entry["code"] == 0
    assert 0 <= ledger_entry["ended"] - seen["closing"] <= EXIT_TIMEOUT


# --- the command line of the Inspector: one request per run -----------------------------------------------------------

# (arguments, function of the result, expected value)
REQUESTS = (
    (("tools/list",), lambda result: [tool["name"] for tool in result["tools"]], TOOLS),
    (
        ("tools/call", "--tool-name", "add", "--tool-arg", "a=19", "b=23"),
        lambda result: result["structuredContent"],
        {"result": 42},
    ),
    (("resources/list",), lambda result: [resource["uri"] for resource in result["resources"]], RESOURCES),
    (("resources/templates/list",), lambda result: [each["uriTemplate"] for each in result["resourceTemplates"]], ["test://template/{id}/data"]),
    (("resources/read", "--uri", "test://static-text"), lambda result: result["contents"][0]["text"], TEXT),
    (("prompts/list",), lambda result: [prompt["name"] for prompt in result["prompts"]], PROMPTS),
    (("prompts/get", "--prompt-name", "test_prompt_with_arguments", "--prompt-args", "arg1=hawser", "arg2=rope"),
     lambda result: result["messages"][0]["content"]["text"], PROMPT),
)  # fmt: skip


def _inspect(ledger: Path, program: Path, *request: str) -> subprocess.CompletedProcess[str]:
    inspector = BY_NAME["inspector"]
    command = [
        node(),
        inspector.home / inspector.program,
        "--cli",
        *_watched(ledger, program),
        "--method",
        *request,
    ]
    return _run(command)


@pytest.mark.parametrize(("request_", "select", "expected"), REQUESTS, ids=[row[0][0] for row in REQUESTS])
def test_inspector_gets_the_result_and_server_exits(
    request_: tuple[str, ...], select: Any, expected: object, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.json"
    done = _inspect(ledger, EVERYTHING, *request_)
    assert done.returncode == 0, done.stderr
    assert select(json.loads(done.stdout)) == expected
    assert _recorded(ledger)["code"] == 0


def test_inspector_reports_no_schema_problems(tmp_path: Path) -> None:
    done = _inspect(tmp_path / "ledger.json", EVERYTHING, "tools/list", "--strict")
    # Errors result in exit code 6; warnings are only printed.
    assert (done.returncode, done.stderr) == (0, "")


def test_inspector_calls_the_smallest_example(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"
    request_ = ("tools/call", "--tool-name", "echo", "--tool-arg", "text=ahoy")
    done = _inspect(ledger, ROOT / "examples" / "echo.py", *request_)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["content"] == [{"type": "text", "text": "ahoy"}]
    assert _recorded(ledger)["code"] == 0
