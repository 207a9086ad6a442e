"""Other clients with our server: each uses all features, and the server exits when the client closes."""

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
PROGRAM_SECONDS = 45.0
GONE_WITHIN = 1.5  # seconds after the end of its input: our server's promise


def _run(command: list[str | Path]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )


def _watched(ledger: Path, program: Path) -> list[str | Path]:
    """The command for a client: our server in a wrapper that records its exit code."""
    return [sys.executable, HERE / "servers" / "watched.py", ledger, sys.executable, program]


def test_every_client_among_the_peers_is_walked() -> None:
    walked = {row.peer for row in ROWS} | {"inspector"}
    assert walked == {peer.name for peer in PEERS if peer.role in ("client", "both")}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_it_sees_all_that_our_server_offers_and_our_server_ends_when_it_closes(row: Row, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"
    done = _run([*row.command(), *_watched(ledger, EVERYTHING)])
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    closing = seen.pop("closing")
    assert seen == seen_by(row)
    # It would not be there, had the client lost patience and killed what it started.
    ended = json.loads(ledger.read_text(encoding="utf-8"))
    assert ended["code"] == 0
    assert 0 <= ended["ended"] - closing <= GONE_WITHIN


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_it_calls_the_smallest_example(row: Row, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"
    done = _run([*row.command(), *_watched(ledger, ROOT / "examples" / "echo.py")])
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert (seen["revision"], seen["tools"], seen["echo"]) == (row.revision, ["echo"], "ahoy")
    ended = json.loads(ledger.read_text(encoding="utf-8"))
    assert ended["code"] == 0
    assert 0 <= ended["ended"] - seen["closing"] <= GONE_WITHIN


# --- the Inspector's command line: one request a run ------------------------------------------------------------------

# (arguments, what is looked up in the answer, what is found there)
REQUESTS = (
    (("tools/list",), lambda answer: [tool["name"] for tool in answer["tools"]], TOOLS),
    (
        ("tools/call", "--tool-name", "add", "--tool-arg", "a=19", "b=23"),
        lambda answer: answer["structuredContent"],
        {"result": 42},
    ),
    (("resources/list",), lambda answer: [resource["uri"] for resource in answer["resources"]], RESOURCES),
    (("resources/templates/list",), lambda answer: [each["uriTemplate"] for each in answer["resourceTemplates"]], ["test://template/{id}/data"]),
    (("resources/read", "--uri", "test://static-text"), lambda answer: answer["contents"][0]["text"], TEXT),
    (("prompts/list",), lambda answer: [prompt["name"] for prompt in answer["prompts"]], PROMPTS),
    (("prompts/get", "--prompt-name", "test_prompt_with_arguments", "--prompt-args", "arg1=hawser", "arg2=rope"),
     lambda answer: answer["messages"][0]["content"]["text"], PROMPT),
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


@pytest.mark.parametrize(("request_", "look_up", "found"), REQUESTS, ids=[row[0][0] for row in REQUESTS])
def test_the_inspector_is_answered_and_our_server_ends_by_itself(
    request_: tuple[str, ...], look_up: Any, found: object, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.json"
    done = _inspect(ledger, EVERYTHING, *request_)
    assert done.returncode == 0, done.stderr
    assert look_up(json.loads(done.stdout)) == found
    assert json.loads(ledger.read_text(encoding="utf-8"))["code"] == 0


def test_the_inspector_finds_nothing_to_criticise_in_our_schemas(tmp_path: Path) -> None:
    done = _inspect(tmp_path / "ledger.json", EVERYTHING, "tools/list", "--strict")
    # An error would be exit code 6; what is less than that is only printed.
    assert (done.returncode, done.stderr) == (0, "")


def test_the_inspector_calls_the_smallest_example(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"
    request_ = ("tools/call", "--tool-name", "echo", "--tool-arg", "text=ahoy")
    done = _inspect(ledger, ROOT / "examples" / "echo.py", *request_)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["content"] == [{"type": "text", "text": "ahoy"}]
    assert json.loads(ledger.read_text(encoding="utf-8"))["code"] == 0
