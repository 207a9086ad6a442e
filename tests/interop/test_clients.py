"""Clients nobody here wrote against our server: each uses all of it, and our server ends by itself when the client closes."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interop.peers import BY_NAME, PEERS, ROOT, node

HERE = Path(__file__).parent
PROGRAM_SECONDS = 45.0
GONE_WITHIN = 1.5  # seconds after the end of its input: our server's promise

TOOLS = [
    "add", "fail", "count", "hold", "cancelled", "log", "ask_person", "ask_model", "ask_roots", "grow", "touch",
]  # fmt: skip

# What every client must see of our server, whoever wrote it.
SEEN = {
    "server": ["harbour", "1.0", "Ask for the tide."],
    "tools": TOOLS,
    "sum": ["42", {"result": 42}],
    "failed": [True, "the rope broke"],
    "invalid": True,
    "unknown_tool": -32602,
    "resources": ["note://today"],
    "templates": ["note://day/{day}"],
    "read": ["high water at noon", "low water on monday"],
    "prompts": ["greet"],
    "prompt": "Say ahoy to Bo.",
    "completion": ["Anna", "Anton"],
    "counted": "counted to 3",
    "progress": [[1, 3, "step 1"], [2, 3, "step 2"], [3, 3, "step 3"]],
    "log": [["warning", "swell"]],
    "asked": ["accept Ada", "parrot: aye", "file:///harbour"],
    "changes": ["notifications/tools/list_changed"],
    "updates": ["note://today"],
    "grown": True,
    "cancelled": "cancelled",
}


@dataclass(frozen=True)
class Row:
    """One client in one mode of its own, and what it sees differently."""

    peer: str
    mode: str
    revision: str
    unknown_resource: int
    differs: tuple[tuple[str, Any], ...] = ()

    @property
    def id(self) -> str:
        return f"{self.peer}-{self.revision}"

    def command(self) -> list[str | Path]:
        """How the client is started, up to the command of the server that it starts."""
        peer = BY_NAME[self.peer]
        if self.peer == "typescript":
            return [node(), HERE / "clients" / "typescript.mjs", peer.home]
        program = HERE / "clients" / ("fast.py" if self.peer.startswith("fastmcp") else f"{self.peer}.py")
        return [peer.python, program, *([self.mode] if self.mode else [])]


# -32002 is the code of an unknown resource in the handshake era, -32602 in the stateless one.
ROWS = (
    Row("sdk1", "", "2025-11-25", -32002),
    Row("sdk2", "auto", "2026-07-28", -32602),
    Row("sdk2", "legacy", "2025-11-25", -32002),
    Row("fastmcp3", "-", "2025-11-25", -32002),
    # FastMCP 4 never opens `subscriptions/listen`, and so hears of no change in the stateless era.
    Row("fastmcp4", "auto", "2026-07-28", -32602, (("changes", []), ("updates", []))),
    Row("fastmcp4", "legacy", "2025-11-25", -32002),
    # The TypeScript SDK loses reports that arrive together with the answer; see the program.
    Row("typescript", "", "2025-11-25", -32002, (("progress", [[1, 2, "holding"]]),)),
)


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
    """The command that a client is told to start: our server, with somebody who writes down how it ended."""
    return [sys.executable, HERE / "servers" / "watched.py", ledger, sys.executable, program]


def test_every_client_among_the_peers_is_walked() -> None:
    walked = {row.peer for row in ROWS} | {"inspector"}
    assert walked == {peer.name for peer in PEERS if peer.role in ("client", "both")}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_it_sees_all_that_our_server_offers_and_our_server_ends_when_it_closes(
    row: Row, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.json"
    done = _run([*row.command(), *_watched(ledger, HERE / "servers" / "ours.py")])
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    closing = seen.pop("closing")
    expected = {
        **SEEN,
        "revision": row.revision,
        "unknown_resource": row.unknown_resource,
        **dict(row.differs),
    }
    assert seen == expected
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


# --- the Inspector's command line: one request a run ----------------------------------------------------------------------

# (arguments, what is looked up in the answer, what is found there)
REQUESTS = (
    (("tools/list",), lambda answer: [tool["name"] for tool in answer["tools"]], TOOLS),
    (("tools/call", "--tool-name", "add", "--tool-arg", "a=19", "b=23"), lambda answer: answer["structuredContent"], {"result": 42}),
    (("resources/list",), lambda answer: [resource["uri"] for resource in answer["resources"]], ["note://today"]),
    (("resources/templates/list",), lambda answer: [each["uriTemplate"] for each in answer["resourceTemplates"]], ["note://day/{day}"]),
    (("resources/read", "--uri", "note://today"), lambda answer: answer["contents"][0]["text"], "high water at noon"),
    (("prompts/list",), lambda answer: [prompt["name"] for prompt in answer["prompts"]], ["greet"]),
    (("prompts/get", "--prompt-name", "greet", "--prompt-args", "name=Bo"),
     lambda answer: answer["messages"][0]["content"]["text"], "Say ahoy to Bo."),
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
    done = _inspect(ledger, HERE / "servers" / "ours.py", *request_)
    assert done.returncode == 0, done.stderr
    assert look_up(json.loads(done.stdout)) == found
    assert json.loads(ledger.read_text(encoding="utf-8"))["code"] == 0


def test_the_inspector_finds_nothing_to_criticise_in_our_schemas(tmp_path: Path) -> None:
    done = _inspect(tmp_path / "ledger.json", HERE / "servers" / "ours.py", "tools/list", "--strict")
    # An error would be exit code 6; what is less than that is only printed.
    assert (done.returncode, done.stderr) == (0, "")


def test_the_inspector_calls_the_smallest_example(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"
    request_ = ("tools/call", "--tool-name", "echo", "--tool-arg", "text=ahoy")
    done = _inspect(ledger, ROOT / "examples" / "echo.py", *request_)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["content"] == [{"type": "text", "text": "ahoy"}]
    assert json.loads(ledger.read_text(encoding="utf-8"))["code"] == 0
