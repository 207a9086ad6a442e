"""`jackstay record`: real processes on both sides, the file that is left, and what is said when something is wrong."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.standing_in import standing_in
from jackstay.cli import _record, _target
from jackstay.client import Client, connect
from jackstay.errors import TransportError
from jackstay.testing import Passed, recorded, replayed
from jackstay.transport import stdio
from jackstay.types import (
    CreateMessageResult,
    ElicitResult,
    PromptReference,
    Root,
    TextContent,
)
from peers.http_process import Serving
from scripted.places import PYTHONPATH, ROOT
from scripted.tapes import messages, notification, request

EVERYTHING = [sys.executable, str(ROOT / "examples" / "everything.py")]
PEER = [sys.executable, str(ROOT / "tests" / "peers" / "stdio_server.py")]
JACKSTAY = [sys.executable, "-m", "jackstay"]
GUARD = 20.0
HELLO = request(
    0,
    "initialize",
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
)


class Talk:
    """A command at the other end of two pipes, spoken to in JSON."""

    def __init__(self, *words: str) -> None:
        environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
        self.process = subprocess.Popen(
            [*JACKSTAY, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )

    def ask(self, message: Any) -> Any:
        """Say it, and read a line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline() or "null")

    def children(self) -> list[int]:
        found = (Path(f"/proc/{self.process.pid}/task") / str(self.process.pid) / "children").read_text()
        return [int(pid) for pid in found.split()]

    def end(self, number: int | None = None) -> tuple[int, str]:
        """Close its input, or send it a signal: its exit code and what it wrote to standard error."""
        if number is not None:
            self.process.send_signal(number)
            self.process.wait(GUARD)
        _, said = self.process.communicate(timeout=GUARD)
        return self.process.returncode, said.decode()


def call(id: Any, name: str, **arguments: Any) -> dict[str, Any]:
    return request(id, "tools/call", {"name": name, "arguments": arguments})


def text_of(answer: Any) -> str:
    said: str = answer["result"]["content"][0]["text"]
    return said


# --- the whole conversation -------------------------------------------------------------------------------------------


async def use(client: Client) -> list[Any]:
    """Everything a server may be asked, and everything it may ask: what came of it."""
    found: list[Any] = []
    told: asyncio.Queue[str] = asyncio.Queue()

    @client.sampling.handle
    async def sample(params: Any) -> CreateMessageResult:
        return CreateMessageResult(role="assistant", content=TextContent(text="aye"), model="parrot")

    @client.elicitation.handle
    async def elicit(params: Any) -> ElicitResult:
        return ElicitResult(
            action="accept", content={"name": "Ada", "username": "ada", "email": "a@b", "ok": True}
        )

    client.roots.set([Root(uri="file:///srv")])
    client.on_notification(lambda one: told.put_nowait(one.method))
    async with client:
        found += [client.server_info, client.protocol_version, len(await client.tools.list())]
        for name, arguments in (
            ("add", {"a": 1, "b": 2}),
            ("test_multiple_content_types", {}),
            ("test_error_handling", {}),
            ("test_sampling", {"prompt": "ready?"}),
            ("test_elicitation", {"message": "who?"}),
            ("test_input_required_result_list_roots", {}),
        ):
            found.append((await client.tools.call(name, arguments)).raw)
        holding = asyncio.Event()
        held = asyncio.ensure_future(client.tools.call("hold", on_progress=lambda report: holding.set()))
        await holding.wait()
        held.cancel()
        found.append((await client.tools.call("cancelled")).text)
        await client.resources.subscribe("test://watched-resource", lambda update: None)
        await client.tools.call("touch", {"uri": "test://watched-resource"})
        await client.tools.call("test_trigger_tool_change")
        while await told.get() != "notifications/tools/list_changed":
            pass
        found.append((await client.resources.read("test://template/7/data")).raw)
        found.append((await client.prompts.get("test_simple_prompt")).raw)
        reference = PromptReference(name="test_prompt_with_arguments")
        found.append((await client.completion.complete(reference, "arg1", "ha")).raw)
    return found


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
def test_what_our_client_hears_from_a_recording_is_what_it_heard_from_the_server(
    version: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"

    async def talk(target: Any) -> list[Any]:
        async with asyncio.timeout(GUARD):
            return await use(connect(target, versions=(version,)))

    heard = asyncio.run(talk(recorded(stdio(*EVERYTHING), first)))
    again = asyncio.run(talk(recorded(replayed(first), second)))
    assert again == heard
    assert messages(second, "client") == messages(first, "client")
    assert messages(second, "server") == messages(first, "server")
    assert len(messages(first, "server")) > 20


# --- over HTTP --------------------------------------------------------------------------------------------------------


def test_a_server_at_a_url_is_recorded_in_both_eras(tmp_path: Path) -> None:
    """The front is stdio. Ids that HTTP cannot have, arguments that travel in headers, and a call that is cancelled."""
    stateless, handshake = tmp_path / "stateless.jsonl", tmp_path / "handshake.jsonl"

    async def use(target: Any, *versions: str) -> list[Any]:
        async with asyncio.timeout(GUARD), connect(target, versions=versions) as client:
            await client.tools.list()
            found: list[Any] = [client.protocol_version]
            found.append((await client.tools.call("test_header", {"region": "eu"})).text)
            holding = asyncio.Event()
            held = asyncio.ensure_future(client.tools.call("hold", on_progress=lambda report: holding.set()))
            await holding.wait()
            held.cancel()
            found.append((await client.tools.call("cancelled")).text)
            return found

    with Serving(*EVERYTHING, "--port", "0") as serving:
        url = f"http://127.0.0.1:{serving.port}/mcp"
        through = stdio(*JACKSTAY, "record", str(stateless), url, env={"PYTHONPATH": PYTHONPATH})
        heard = asyncio.run(use(through, "2026-07-28"))
        talk = Talk("record", str(handshake), url)
        assert talk.ask(HELLO)["id"] == 0
        assert talk.process.stdin is not None
        talk.process.stdin.write(json.dumps(notification("notifications/initialized")).encode() + b"\n")
        answer = talk.ask(call("mine", "add", a=1, b=2))
        assert (answer["id"], text_of(answer)) == ("mine", "3")
        assert talk.end() == (0, "")
    assert heard == ["2026-07-28", "You asked about eu.", "cancelled"]
    assert asyncio.run(use(replayed(stateless), "2026-07-28")) == heard
    assert json.loads(stateless.read_text().splitlines()[0])["target"] == f"127.0.0.1:{serving.port}"
    assert '"hung_up"' in stateless.read_text()
    assert "add" in str(messages(handshake, "client"))


# --- ends -------------------------------------------------------------------------------------------------------------


def test_a_recorder_that_is_killed_leaves_everything_up_to_then(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    talk = Talk("record", str(path), "--redact", "who", "--", *PEER)
    talk.ask(HELLO)
    assert text_of(talk.ask(call(1, "greet", who="Ada"))) == "hi, Ada"
    (server,) = talk.children()
    # It answers `hang` never, and this always: so `hang` has passed.
    assert talk.process.stdin is not None
    talk.process.stdin.write(json.dumps(call(2, "hang")).encode() + b"\n")
    assert text_of(talk.ask(call(3, "fail"))) == "it failed: no reason"
    code, _ = talk.end(signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert [message["id"] for message in messages(path, "client")] == [0, 1, 2, 3]
    assert [message["id"] for message in messages(path, "server")] == [0, 1, 3]
    assert path.read_text().endswith("\n")
    while (
        Path(f"/proc/{server}").exists() and "\nState:\tZ" not in Path(f"/proc/{server}/status").read_text()
    ):
        os.sched_yield()  # its input has ended: it goes by itself

    async def use() -> list[Any]:
        async with asyncio.timeout(GUARD), connect(replayed(path), versions=("2025-11-25",)) as client:
            greeting = (await client.tools.call("greet", {"who": "Grace"})).text
            with pytest.raises(Exception, match="but the recording ends before its answer"):
                await client.tools.call("hang")
            return [greeting]

    assert asyncio.run(use()) == ["hi, Ada"], "what is redacted is not compared"


def test_a_server_that_dies_is_told_and_dies_again_when_it_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    talk = Talk("record", str(path), "--", *PEER)
    talk.ask(HELLO)
    assert talk.ask(call(1, "die")) is None, "the end of its output"
    code, said = talk.end()
    assert code == 1
    assert said.splitlines()[:2] == ["out of memory", "killed"], (
        "what the server says goes to our standard error"
    )
    assert said.splitlines()[2:] == ["jackstay: the server stdio_server exited [exit code 9]"]
    again = Talk("replay", str(path))
    assert again.ask(HELLO)["result"]["serverInfo"]["name"] == "peer"
    assert again.ask(call(7, "die")) is None
    assert again.end() == (
        1,
        "jackstay: the server stdio_server exited (as it was recorded) [exit code 9]\n",
    )


def test_a_server_that_never_says_a_word_could_not_be_started(tmp_path: Path) -> None:
    talk = Talk("record", str(tmp_path / "x"), "--", *PEER, "--broken")
    assert talk.ask(HELLO) is None
    assert talk.end() == (
        3,
        "cannot find its settings\njackstay: the server stdio_server exited [exit code 1]\n",
    )


def test_a_client_that_starts_its_server_again_goes_on_in_the_file(tmp_path: Path) -> None:
    """As hosts do at each launch, and a client of both eras where the first word kills the server."""
    path = tmp_path / "x.jsonl"
    for who in ("Ada", "Bob"):
        talk = Talk("record", "--append", str(path), "--", *PEER)
        talk.ask(HELLO)
        assert text_of(talk.ask(call(1, "greet", who=who))) == f"hi, {who}"
        assert talk.end() == (0, "")
    rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert [row["connection"] for row in rows] == [1] * (len(rows) // 2) + [2] * (len(rows) // 2)
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows), "its time goes on"
    again = Talk("replay", str(path))
    again.ask(HELLO)
    assert [text_of(again.ask(call(7, "greet", who=who))) for who in ("Bob", "Ada")] == ["hi, Bob", "hi, Ada"]
    assert again.end() == (0, "")


def test_a_full_disk_is_one_line_and_a_failure_and_the_conversation_goes_on() -> None:
    talk = Talk("record", "/dev/full", "--force", "--", *PEER)
    talk.ask(HELLO)
    assert text_of(talk.ask(call(1, "greet", who="Ada"))) == "hi, Ada"
    code, said = talk.end()
    assert code == 1
    (line,) = said.splitlines()
    assert line.endswith(
        "the recording /dev/full ends here: No space left on device; the conversation goes on"
    )


def test_a_signal_ends_it_in_order(tmp_path: Path) -> None:
    talk = Talk("record", str(tmp_path / "x"), "--", *PEER)
    talk.ask(HELLO)
    (server,) = talk.children()
    assert talk.end(signal.SIGTERM) == (0, "")
    assert not Path(f"/proc/{server}").exists()
    assert json.loads((tmp_path / "x").read_text().splitlines()[-1])["ended"] == "closed"


# --- what is wrong ----------------------------------------------------------------------------------------------------

# words -> exit code, what standard error says
MISUSES = [
    ([], 2, "where to? Give the FILE to write, then the server"),
    (["https://example.org/mcp"], 2, "is a server: the FILE to write comes first"),
    (["x.jsonl"], 2, "which server?"),
    (["x.jsonl", "git"], 2, "where is 'git' named?"),
    (["x.jsonl", "http://127.0.0.1:9/mcp", "more"], 2, "'more' is one word too many"),
    (
        ["there", "--", *PEER],
        2,
        "there is there already: give another name, --append to go on in it, or --force",
    ),
    (["there", "--append", "--", *PEER], 2, "there: line 1 is not the header of a recording ('mine')"),
    (["there", "--append", "--force", "--", *PEER], 2, "not allowed with argument"),
    (["nowhere/x", "--", *PEER], 2, "there is no directory nowhere to write nowhere/x to"),
    ([".", "--force", "--", *PEER], 2, ". is a directory: give the name of a file"),
    (["x.jsonl", "--redact", "", "--", *PEER], 2, "redact takes a list of names"),
    (["x.jsonl", "--", "no-such-command-anywhere"], 3, "no-such-command-anywhere"),
]


@pytest.mark.parametrize("row", MISUSES, ids=lambda row: row[2][:40])
def test_what_is_wrong_is_said_in_a_line(
    row: Any, jackstay: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, code, said = row
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("mine")
    shown = jackstay("record", *words, peer=False)
    assert shown.code == code, shown.err
    assert said in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""
    assert (tmp_path / "there").read_text() == "mine"
    if "no-such-command" in said:
        assert not (tmp_path / "x.jsonl").exists(), "what never began leaves no file"


def test_a_client_that_says_nothing_leaves_a_file_without_messages(
    jackstay: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTP nothing is connected before something is said."""
    path = tmp_path / "x.jsonl"
    with open(os.devnull, "rb") as nothing, standing_in(nothing.fileno()):
        shown = jackstay("record", str(path), "http://127.0.0.1:9/mcp", peer=False)
    assert (shown.code, shown.err) == (0, "")
    assert (messages(path, "client"), messages(path, "server")) == ([], [])


# how it ended -> exit code, and what standard error says
ENDS = [
    (Passed(), None, 0, ""),
    (Passed(), OSError(28, "No space left on device"), 1, ""),
    (Passed(TransportError("died", exit_code=2)), None, 1, "jackstay: died [exit code 2]\n"),
    (Passed(TransportError("died"), was_silent=True), None, None, ""),
]


@pytest.mark.parametrize("row", ENDS, ids=str)
def test_every_end_has_its_exit_code(
    row: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `--login`, what a person has to do comes before anything is opened."""
    passed, error, code, said = row
    done: list[str] = []

    async def sign_in() -> None:
        done.append("signed in")

    async def pass_through(front: Any, back: Any) -> Passed:
        done.append("opened")
        return passed

    monkeypatch.setattr(_record, "pass_through", pass_through)
    chosen = _target.Chosen(stdio("x"), "x", sign_in)
    target = SimpleNamespace(error=error)
    if code is None:
        with pytest.raises(TransportError, match="died"):
            asyncio.run(_record._pass(chosen, target))  # type: ignore[arg-type]  # as much of one as is asked for
    else:
        assert asyncio.run(_record._pass(chosen, target)) == code  # type: ignore[arg-type]  # as above
    assert done == ["signed in", "opened"]
    assert capsys.readouterr().err == said
