"""`jackstay gateway` with real processes on both sides: killed, hanging, lying and flooding servers, and reloading."""

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chaos.leftovers import wait_until_gone
from jackstay.client import Client, connect
from jackstay.errors import JsonRpcError
from jackstay.transport import stdio
from peers import http_process
from peers.http_process import Serving
from scripted.between import ERAS

JACKSTAY = (sys.executable, "-m", "jackstay")

# A server in plain Python, which starts quickly. MODE: good, hangs (at tools/list), lies or floods.
SERVER = """
import json, os, sys, time
MODE, FOLDER = sys.argv[1:]
def send(**message):
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\\n")
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("pid", "wait")]
for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if id is None:
        if MODE == "floods":
            for _ in range(2000):
                send(method="notifications/tools/list_changed")
                send(method="notifications/message", params={"level": "info", "data": "x" * 1000})
    elif method == "initialize":
        info = {"name": MODE, "version": "1"}
        send(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        if MODE == "lies":
            send(id=id, result={"tools": [7, {"name": ["x"]}], "nextCursor": {}})
        elif MODE != "hangs":
            send(id=id, result={"tools": TOOLS})
    elif method == "tools/call":
        if message["params"]["name"] == "wait":
            open(FOLDER + "/waiting", "w").close()
            while not os.path.exists(FOLDER + "/go"):
                time.sleep(0.01)
        send(id=id, result={"content": [{"type": "text", "text": str(os.getpid())}]})
    elif method == "ping":
        send(id=id, result={})
    else:
        send(id=id, error={"code": -32601, "message": "no"})
"""


class Files:
    """A configuration file and the program of its servers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "server.py"
        self.program.write_text(SERVER)
        self.config = folder / "gateway.toml"

    def write(self, **modes: str) -> None:
        rows = []
        for name, mode in modes.items():
            words = json.dumps(["-I", "-S", str(self.program), mode, str(self.folder)])
            rows.append(f"[servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {words}\n")
        new = self.config.with_suffix(".new")
        new.write_text("".join(rows))
        new.replace(self.config)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setattr(http_process, "GUARD", 100.0)
    return Files(tmp_path)


async def names(client: Client) -> list[str]:
    return [tool.name for tool in await client.tools.list()]


async def until_listed(client: Client, *expected: str) -> None:
    while not set(expected) <= set(await names(client)):
        await asyncio.sleep(0.05)


async def text(client: Client, tool: str) -> str:
    return (await client.tools.call(tool, timeout=60)).text


async def test_every_fault_costs_only_its_own_server(files: Files) -> None:
    files.write(good="good", other="good", hangs="hangs", lies="lies", floods="floods")
    with Serving(*JACKSTAY, "gateway", str(files.config), "--http", "0") as serving:
        url = await asyncio.to_thread(lambda: serving.wait_for_line(r"serves (http://\S+)/mcp")[1])
        for era in ERAS:
            async with connect(f"{url}/mcp", versions=(era,)) as client:
                await until_listed(client, "good_pid", "other_pid", "floods_pid")
                assert not [name for name in await names(client) if name.startswith(("hangs", "lies"))]
                pids = {name: await text(client, f"{name}_pid") for name in ("good", "other", "floods")}
                assert len(set(pids.values())) == 3
            async with connect(f"{url}/servers/good/mcp", versions=(era,)) as client:
                await until_listed(client, "pid")
                assert await text(client, "pid") == pids["good"]

        async with connect(f"{url}/mcp") as client:
            os.kill(int(pids["good"]), signal.SIGKILL)
            found = pids["good"]
            while found == pids["good"]:
                assert await text(client, "other_pid") == pids["other"]
                with suppress(JsonRpcError):  # the call was sent before the loss was known
                    found = await text(client, "good_pid")
            await until_listed(client, "good_pid", "other_pid")
        serving.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(serving.process.wait, 100) == 0
    for pid in (found, pids["other"], pids["floods"]):
        await asyncio.to_thread(wait_until_gone, int(pid))


async def test_a_reload_completes_the_calls_in_flight(files: Files) -> None:
    files.write(good="good")
    with Serving(*JACKSTAY, "gateway", str(files.config), "--http", "0") as serving:
        url = await asyncio.to_thread(lambda: serving.wait_for_line(r"serves (http://\S+)/mcp")[1])
        async with connect(f"{url}/mcp") as client:
            await until_listed(client, "good_wait")
            pid = await text(client, "good_pid")
            waiting = asyncio.ensure_future(text(client, "good_wait"))
            while not (files.folder / "waiting").exists():
                await asyncio.sleep(0.01)
            files.write(late="good")
            await until_listed(client, "late_pid")
            while "good_pid" in await names(client):
                await asyncio.sleep(0.05)
            assert await text(client, "late_pid") != pid
            files.config.write_text("[servers.late]\ncomand = 'x'\n")
            await asyncio.to_thread(
                serving.wait_for_line, "not reloaded: .*servers.late.comand is unknown; did you mean"
            )
            (files.folder / "go").touch()
            assert await waiting == pid
        await asyncio.to_thread(wait_until_gone, int(pid))


async def test_over_stdio(files: Files) -> None:
    files.write(good="good", missing="good")
    files.config.write_text(files.config.read_text() + "[servers.absent]\ncommand = '/nowhere/at/all'\n")
    async with connect(stdio(*JACKSTAY, "gateway", files.config), init_timeout=100, open_timeout=150) as client:
        await until_listed(client, "good_pid", "missing_pid")
        pid = int(await text(client, "good_pid"))
    await asyncio.to_thread(wait_until_gone, pid)


# The content of the file -> text on standard error
ERRORS = [
    ("", "has no table [servers.NAME]"),
    ("[servers.a]\nurl = 7\n", "servers.a.url must be a string"),
    ("[servers.a]\ncommand = 'x'\ndeny = 'y'\n", "servers.a.deny must be an array of strings"),
    ("[servers.a\n", "is not valid TOML: Expected ']' at the end of a table declaration (at line 1"),
]


def test_an_invalid_file_is_a_usage_error(jackstay: Any, files: Files) -> None:
    for content, message in ERRORS:
        files.config.write_text(content)
        done = jackstay("gateway", str(files.config), peer=False)
        assert (done.code, done.out) == (2, ""), content
        assert str(files.config) in done.err
        assert message in done.err, content
    done = jackstay("gateway", str(files.folder / "none.toml"), peer=False)
    assert done.code == 2
    assert "cannot read" in done.err
