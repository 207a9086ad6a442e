"""`jackstay record` with real processes on both sides: the file, exit codes and errors."""

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

from chaos.redirected_stdio import redirected_stdio
from jackstay.cli import _record, _target
from jackstay.client import Client, connect
from jackstay.errors import TransportError
from jackstay.testing import RelayResult, recorded, replayed
from jackstay.transport import stdio
from jackstay.types import (
    CreateMessageResult,
    ElicitResult,
    PromptReference,
    Root,
    TextContent,
)
from peers.http_process import Serving
from scripted.cassettes import messages, notification, request
from scripted.places import PYTHONPATH, ROOT

EVERYTHING = [sys.executable, str(ROOT / "examples" / "everything.py")]
PEER = [sys.executable, str(ROOT / "tests" / "peers" / "stdio_server.py")]
JACKSTAY = [sys.executable, "-m", "jackstay"]
GUARD = 120.0
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

    def request(self, message: Any) -> Any:
        """Send a message, and read a line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline() or "null")

    def children(self) -> list[int]:
        found = (Path(f"/proc/{self.process.pid}/task") / str(self.process.pid) / "children").read_text()
        return [int(pid) for pid in found.split()]

    def end(self, number: int | None = None) -> tuple[int, str]:
        """Close its input, or send it a signal; return the exit code and standard error."""
        if number is not None:
            self.process.send_signal(number)
            self.process.wait(GUARD)
        _, stderr = self.process.communicate(timeout=GUARD)
        return self.process.returncode, stderr.decode()


def call(id: Any, name: str, **arguments: Any) -> dict[str, Any]:
    return request(id, "tools/call", {"name": name, "arguments": arguments})


def text_of(answer: Any) -> str:
    text: str = answer["result"]["content"][0]["text"]
    return text


# --- a whole session --------------------------------------------------------------------------------------------------


async def use(client: Client) -> list[Any]:
    """Use all features of client and server, and return the results."""
    found: list[Any] = []
    notifications: asyncio.Queue[str] = asyncio.Queue()

    @client.sampling.handle
    async def sample(params: Any) -> CreateMessageResult:
        return CreateMessageResult(role="assistant", content=TextContent(text="aye"), model="parrot")

    @client.elicitation.handle
    async def elicit(params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ada", "username": "ada", "email": "a@b", "ok": True})

    client.roots.set([Root(uri="file:///srv")])
    client.on_notification(lambda notification: notifications.put_nowait(notification.method))
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
            found.append((await client.tools.call(name, arguments, raise_on_error=False)).raw)
        started = asyncio.Event()
        pending = asyncio.ensure_future(client.tools.call("hold", on_progress=lambda _: started.set()))
        await started.wait()
        pending.cancel()
        found.append((await client.tools.call("cancelled")).text)
        await client.resources.subscribe("test://watched-resource", lambda update: None)
        await client.tools.call("touch", {"uri": "test://watched-resource"})
        await client.tools.call("test_trigger_tool_change")
        while await notifications.get() != "notifications/tools/list_changed":
            pass
        found.append((await client.resources.read("test://template/7/data")).raw)
        found.append((await client.prompts.get("test_simple_prompt")).raw)
        reference = PromptReference(name="test_prompt_with_arguments")
        found.append((await client.completion.complete(reference, "arg1", "ha")).raw)
    return found


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
async def test_a_replayed_session_is_the_same_as_the_recorded_one(version: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"

    async def talk(target: Any) -> list[Any]:
        async with asyncio.timeout(GUARD):
            return await use(connect(target, versions=(version,), init_timeout=GUARD))

    original = await talk(recorded(stdio(*EVERYTHING), first))
    repeated = await talk(recorded(replayed(first), second))
    assert repeated == original
    assert without_keys(messages(second, "client")) == without_keys(messages(first, "client"))
    assert messages(second, "server") == messages(first, "server")
    assert len(messages(first, "server")) > 20


def without_keys(found: list[Any]) -> list[Any]:
    """Remove the random key that each call has for the tasks of the server."""
    for message in found:
        message.get("params", {}).get("_meta", {}).pop("jackstay/idempotencyKey", None)
    return found


# --- over HTTP --------------------------------------------------------------------------------------------------------


async def test_a_server_over_http_is_recorded_in_both_eras(tmp_path: Path) -> None:
    """With ids that HTTP does not allow, arguments in headers, and a cancelled call."""
    stateless, handshake = tmp_path / "stateless.jsonl", tmp_path / "handshake.jsonl"

    async def use(target: Any, *versions: str) -> list[Any]:
        async with asyncio.timeout(GUARD), connect(target, versions=versions, init_timeout=GUARD) as client:
            await client.tools.list()
            found: list[Any] = [client.protocol_version]
            found.append((await client.tools.call("test_header", {"region": "eu"})).text)
            started = asyncio.Event()
            pending = asyncio.ensure_future(client.tools.call("hold", on_progress=lambda _: started.set()))
            await started.wait()
            pending.cancel()
            found.append((await client.tools.call("cancelled")).text)
            return found

    with Serving(*EVERYTHING, "--port", "0") as serving:
        url = f"http://127.0.0.1:{serving.port}/mcp"
        through = stdio(*JACKSTAY, "record", str(stateless), url, env={"PYTHONPATH": PYTHONPATH})
        original = await use(through, "2026-07-28")
        talk = Talk("record", str(handshake), url)
        assert talk.request(HELLO)["id"] == 0
        assert talk.process.stdin is not None
        talk.process.stdin.write(json.dumps(notification("notifications/initialized")).encode() + b"\n")
        answer = talk.request(call("id", "add", a=1, b=2))
        assert (answer["id"], text_of(answer)) == ("id", "3")
        assert talk.end() == (0, "")
    assert original == ["2026-07-28", "Region: eu", "cancelled"]
    assert await use(replayed(stateless), "2026-07-28") == original
    assert json.loads(stateless.read_text().splitlines()[0])["target"] == f"127.0.0.1:{serving.port}"
    assert '"aborted"' in stateless.read_text()
    assert "add" in str(messages(handshake, "client"))


# --- shutdown ---------------------------------------------------------------------------------------------------------


async def test_a_killed_recorder_leaves_a_usable_file(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    talk = Talk("record", str(path), "--redact", "who", "--", *PEER)
    talk.request(HELLO)
    assert text_of(talk.request(call(1, "greet", who="Ada"))) == "hi, Ada"
    (server,) = talk.children()
    # The server never responds to `hang`, but to `fail`: after that, `hang` was forwarded.
    assert talk.process.stdin is not None
    talk.process.stdin.write(json.dumps(call(2, "hang")).encode() + b"\n")
    assert text_of(talk.request(call(3, "fail"))) == "it failed: no reason"
    code, _ = talk.end(signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert [message["id"] for message in messages(path, "client")] == [0, 1, 2, 3]
    assert [message["id"] for message in messages(path, "server")] == [0, 1, 3]
    assert path.read_text().endswith("\n")
    while Path(f"/proc/{server}").exists() and "\nState:\tZ" not in Path(f"/proc/{server}/status").read_text():
        os.sched_yield()  # it ends because its input has ended

    async def use() -> list[Any]:
        async with asyncio.timeout(GUARD), connect(replayed(path), versions=("2025-11-25",)) as client:
            greeting = (await client.tools.call("greet", {"who": "Grace"})).text
            with pytest.raises(Exception, match="the recording ends before the response"):
                await client.tools.call("hang")
            return [greeting]

    assert await use() == ["hi, Ada"], "redacted values are not compared"


def test_a_crash_of_the_server_is_recorded_and_replayed(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    talk = Talk("record", str(path), "--", *PEER)
    talk.request(HELLO)
    assert talk.request(call(1, "die")) is None, "end of output"
    code, stderr = talk.end()
    assert code == 1
    assert stderr.splitlines()[:2] == ["out of memory", "killed"], "standard error of the server is forwarded"
    assert stderr.splitlines()[2:] == ["jackstay: the server 'stdio_server' exited [exit code 9]"]
    again = Talk("replay", str(path))
    assert again.request(HELLO)["result"]["serverInfo"]["name"] == "peer"
    assert again.request(call(7, "die")) is None
    assert again.end() == (
        1,
        "jackstay: the server 'stdio_server' exited (replayed) [exit code 9]\n",
    )


def test_a_server_that_sends_nothing_could_not_be_started(tmp_path: Path) -> None:
    talk = Talk("record", str(tmp_path / "x"), "--", *PEER, "--broken")
    assert talk.request(HELLO) is None
    assert talk.end() == (
        3,
        "cannot find its settings\njackstay: the server 'stdio_server' exited [exit code 1]\n",
    )


def test_append_continues_the_file(tmp_path: Path) -> None:
    """Hosts start the server again at each launch."""
    path = tmp_path / "x.jsonl"
    for who in ("Ada", "Bob"):
        talk = Talk("record", "--append", str(path), "--", *PEER)
        talk.request(HELLO)
        assert text_of(talk.request(call(1, "greet", who=who))) == f"hi, {who}"
        assert talk.end() == (0, "")
    rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert [row["connection"] for row in rows] == [1] * (len(rows) // 2) + [2] * (len(rows) // 2)
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows), "the time continues"
    again = Talk("replay", str(path))
    again.request(HELLO)
    assert [text_of(again.request(call(7, "greet", who=who))) for who in ("Bob", "Ada")] == ["hi, Bob", "hi, Ada"]
    assert again.end() == (0, "")


def test_a_full_disk_does_not_stop_forwarding() -> None:
    talk = Talk("record", "/dev/full", "--force", "--", *PEER)
    talk.request(HELLO)
    assert text_of(talk.request(call(1, "greet", who="Ada"))) == "hi, Ada"
    code, stderr = talk.end()
    assert code == 1
    (line,) = stderr.splitlines()
    assert line.endswith("the recording /dev/full stops: No space left on device; the connection continues")


def test_sigterm_closes_the_server(tmp_path: Path) -> None:
    talk = Talk("record", str(tmp_path / "x"), "--", *PEER)
    talk.request(HELLO)
    (server,) = talk.children()
    assert talk.end(signal.SIGTERM) == (0, "")
    assert not Path(f"/proc/{server}").exists()
    assert json.loads((tmp_path / "x").read_text().splitlines()[-1])["ended"] == "closed"


# --- usage errors -----------------------------------------------------------------------------------------------------

# arguments -> exit code, text on standard error
USAGE_ERRORS: list[tuple[list[str], int, str]] = [
    ([], 2, "FILE and the server are missing"),
    (["https://example.org/mcp"], 2, "is a URL: the FILE to write must come first"),
    (["x.jsonl"], 2, "no server was passed"),
    (["x.jsonl", "git"], 2, "unknown server 'git'"),
    (["x.jsonl", "http://127.0.0.1:9/mcp", "more"], 2, "unexpected argument 'more'"),
    (
        ["there", "--", *PEER],
        2,
        "'there' already exists; use another name, --append to append to it, or --force",
    ),
    (["there", "--append", "--", *PEER], 2, "there: line 1 is not the header of a recording ('text')"),
    (["there", "--append", "--force", "--", *PEER], 2, "not allowed with argument"),
    (["nowhere/x", "--", *PEER], 2, "cannot create 'nowhere/x': the directory 'nowhere' does not exist"),
    ([".", "--force", "--", *PEER], 2, "'.' is a directory; pass the name of a file"),
    (["x.jsonl", "--redact", "", "--", *PEER], 2, "redact must be a list[str] of non-empty names"),
    (["x.jsonl", "--", "no-such-command-anywhere"], 3, "no-such-command-anywhere"),
]


def test_usage_errors(jackstay: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("text")
    for words, code, message in USAGE_ERRORS:
        done = jackstay("record", *words, peer=False)
        assert done.code == code, done.err
        assert message in done.err, words
        assert "Traceback" not in done.err, words
        assert done.out == "", words
        assert (tmp_path / "there").read_text() == "text", words
        assert not (tmp_path / "x.jsonl").exists(), "no file is left"


def test_a_client_that_sends_nothing_leaves_a_file_without_messages(
    jackstay: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTP, the connection is opened with the first message."""
    path = tmp_path / "x.jsonl"
    with open(os.devnull, "rb") as nothing, redirected_stdio(nothing.fileno()):
        done = jackstay("record", str(path), "http://127.0.0.1:9/mcp", peer=False)
    assert (done.code, done.err) == (0, "")
    assert (messages(path, "client"), messages(path, "server")) == ([], [])


# result, error of the file -> exit code, standard error
ENDS = [
    (RelayResult(), None, 0, ""),
    (RelayResult(), OSError(28, "No space left on device"), 1, ""),
    (RelayResult(TransportError("died", exit_code=2)), None, 1, "jackstay: died [exit code 2]\n"),
    (RelayResult(TransportError("died"), was_silent=True), None, None, ""),
]


@pytest.mark.parametrize("row", ENDS, ids=str)
async def test_exit_codes(row: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With `--login`, the sign-in comes before the connection."""
    result, error, code, stderr = row
    done: list[str] = []

    async def sign_in() -> None:
        done.append("signed in")

    async def pass_through(client: Any, server: Any) -> RelayResult:
        done.append("opened")
        return result

    monkeypatch.setattr(_record, "pass_through", pass_through)
    selected = _target.SelectedServer(stdio("x"), "x", sign_in)
    target = SimpleNamespace(error=error)
    if code is None:
        with pytest.raises(TransportError, match="died"):
            await _record._forward(selected, target)  # type: ignore[arg-type]  # the part that is used
    else:
        assert await _record._forward(selected, target) == code  # type: ignore[arg-type]  # as above
    assert done == ["signed in", "opened"]
    assert capsys.readouterr().err == stderr
