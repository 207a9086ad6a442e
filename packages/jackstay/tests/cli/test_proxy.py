"""`jackstay proxy`, as it is typed: real processes on both sides of it, and what goes wrong with them."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from chaos.leftovers import is_running, wait_until_gone
from interop.known_clients import ROWS as CLIENTS
from interop.known_clients import seen_by
from jackstay import http
from jackstay.cli import _proxy
from jackstay.cli._target import Chosen
from jackstay.client import Client, connect
from jackstay.errors import JsonRpcError, McpError
from jackstay.transport import stdio
from peers.http_process import Serving
from scripted.loop import timed
from scripted.places import ROOT

JACKSTAY = (sys.executable, "-m", "jackstay")
WORKING = (sys.executable, "-I", "-S", str(ROOT / "tests" / "chaos" / "servers" / "working.py"))
EVERYTHING = (sys.executable, str(ROOT / "examples" / "everything.py"))
PEER = (sys.executable, str(ROOT / "tests" / "peers" / "stdio_server.py"))
SDK = (sys.executable, str(ROOT / "tests" / "interop" / "clients" / "sdk1.py"))
GUARD = 20.0
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}}


def proxied(*words: str) -> Serving:
    """A proxy over HTTP, on a free port."""
    return Serving(*JACKSTAY, "proxy", "--http", "0", *words)


# --- what cannot be done ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "which server?"),
        (("--http", "garbage", "--", "true"), 2, "--http takes PORT or HOST:PORT"),
        (("somewhere",), 2, "where is 'somewhere' named?"),
        (("https://example.org/mcp", "more"), 2, "one word too many"),
        (("--per-client", "--", "true"), 2, "--per-client is for HTTP"),
        (("--path", "/x", "--", "true"), 2, "--path is for HTTP"),
        (("--wait", "-1", "--", "true"), 2, "wait must be a number"),
        (("--timeout", "0", "--", "true"), 2, "timeout must be a number"),
        (("--keepalive", "-1", "--", "true"), 2, "--keepalive must be a number"),
        (("--backoff", "soon", "--", "true"), 2, "--backoff expects MIN or MIN:MAX in seconds, got 'soon'"),
        (("--backoff", "-1", "--", "true"), 2, "--backoff must be a number"),
        (("--backoff", "2:1", "--", "true"), 2, "--backoff: MIN must not be above MAX"),
        (("--metrics", "--", "true"), 2, "--metrics is for HTTP"),
        (("--status", "--", "true"), 2, "--status is for HTTP"),
        (("--", "/nowhere/at/all"), 3, "there is no file /nowhere/at/all"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_said_in_a_line(
    words: tuple[str, ...], code: int, said: str, jackstay: Any
) -> None:
    shown = jackstay("proxy", *words, peer=False)
    assert (shown.code, shown.out) == (code, "")
    assert said in shown.err
    assert "Traceback" not in shown.err


def test_a_server_that_fails_at_the_very_start_is_shown_with_its_last_words(jackstay: Any) -> None:
    """Exit 3, as with the other commands: nothing was served."""
    for front in ((), ("--http", "0")):
        shown = jackstay("proxy", *front, "--", *WORKING, "exits", peer=False)
        assert shown.code == 3
        assert "no configuration found" in shown.err
        assert "Traceback" not in shown.err


@pytest.mark.parametrize(
    ("words", "said"),
    [(("-v", "--", *WORKING, "exits"), "starting: "), (("-v", "http://127.0.0.1:9/"), "connecting to: ")],
)
def test_what_is_started_is_said_where_that_is_asked_for(
    words: tuple[str, ...], said: str, jackstay: Any
) -> None:
    shown = jackstay("proxy", *words, peer=False)
    assert shown.code == 3
    assert shown.err.startswith(said)


def test_people_sign_in_before_the_server_is_reached() -> None:
    signed: list[bool] = []

    async def sign_in() -> None:
        signed.append(True)

    chosen = Chosen(stdio("true"), "true", sign_in)
    asyncio.run(_proxy._prepare(Namespace(verbose=False), chosen))
    assert signed == [True]


def test_a_port_that_is_taken_is_told_before_the_server_is_started(tmp_path: Path, jackstay: Any) -> None:
    with proxied("--", *WORKING, "works") as one:
        shown = jackstay("proxy", "--http", str(one.port), "--", *WORKING, "works", str(tmp_path), peer=False)
        assert shown.code == 3
        assert "the port is taken" in shown.err
        assert not (tmp_path / "pid").exists()


# --- everything passes ------------------------------------------------------------------------------------------------


@pytest.mark.guard(90)
def test_the_official_sdk_sees_through_two_of_them_what_it_sees_without() -> None:
    """stdio in front of HTTP in front of stdio: tools, resources, prompts, completion, progress, logs, cancel, subscriptions,
    list changes, sampling, elicitation, roots.
    """
    with proxied("--", *EVERYTHING) as front:
        command = [*SDK, *JACKSTAY, "proxy", f"http://127.0.0.1:{front.port}/mcp"]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr.decode()
    seen = json.loads(done.stdout)
    del seen["closing"]  # a time
    assert seen == seen_by(CLIENTS[0])


# --- a server that dies -----------------------------------------------------------------------------------------------


class History:
    """What every call came to, by its nonce, while the server is killed: for `working.py`, which keeps a ledger."""

    def __init__(self, directory: Path, kills: int) -> None:
        self.directory = directory
        self.left = kills
        self.outcomes: dict[str, str] = {}

    async def work(self, client: Client, worker: int) -> None:
        """Call, one after the other, until the last kill. Worker 0 is never answered: every kill finds a call open."""
        number = 0
        while self.left:
            nonce = f"{worker}-{number}"
            number += 1
            try:
                name = "record" if worker else "record_and_hang"
                result = await client.tools.call(name, {"nonce": nonce}, timeout=10)
            except JsonRpcError as error:
                told: Any = error.data
                self.outcomes[nonce] = "unknown" if told["mayHaveRun"] else "failed"
            else:
                assert result.text == nonce, "somebody else's answer"
                self.outcomes[nonce] = "ok"
            if worker == 1 and number % 10 == 0:
                self.kill()

    def kill(self) -> None:
        try:
            os.kill(int((self.directory / "pid").read_text()), signal.SIGKILL)
        except ProcessLookupError:
            return  # it is dead already, and the next is not there yet
        self.left -= 1

    def check(self) -> Counter[str]:
        """Hold what was told against what happened: ok ran once, failed never, unknown at most once."""
        runs = Counter((self.directory / "ledger").read_text().split())
        for nonce, outcome in self.outcomes.items():
            allowed = {"ok": (1,), "failed": (0,), "unknown": (0, 1)}[outcome]
            assert runs.pop(nonce, 0) in allowed, f"{nonce} was told {outcome}"
        assert not runs, f"ran, and nobody was told: {runs}"
        return Counter(self.outcomes.values())


@pytest.mark.guard(90)
def test_the_ledger_agrees_with_what_clients_of_both_eras_were_told_while_the_server_was_killed(
    tmp_path: Path,
) -> None:
    """G7 through the proxy: two clients on one child, killed -9 under load; the front stays, and nobody hangs."""
    history = History(tmp_path, kills=1)

    @timed
    async def test(url: str) -> None:
        async with (
            connect(http(url), versions=("2025-11-25",)) as old,
            connect(http(url), versions=("2026-07-28",)) as new,
        ):
            workers = [
                history.work(client, worker) for worker, client in enumerate((new, old, new, old, new))
            ]
            await asyncio.gather(*workers)
            assert (old.state, new.state) == ("ready", "ready")

    with proxied("--", *WORKING, "works", str(tmp_path)) as front:
        test(f"http://127.0.0.1:{front.port}/mcp")
        front.told("the server behind is there again")
        front.signal(signal.SIGTERM)
        assert front.ended() == 0
        assert "Traceback" not in front.stderr
    outcomes = history.check()
    assert outcomes["ok"] > 10
    assert outcomes["unknown"] >= 1, "no kill hit an open call: nothing was shown"
    assert not is_running(int((tmp_path / "pid").read_text()))


# --- a server that hangs ----------------------------------------------------------------------------------------------

HANGING = """
import json, os, sys, time
calls = 0
for line in sys.stdin.buffer:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "tools/call":
        calls += 1
        if calls == 7 and not os.path.exists(sys.argv[1]):
            open(sys.argv[1], "w").close()
            print("hanging at the 7th call", file=sys.stderr, flush=True)
            time.sleep(10_000)
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "hanging", "version": "1"}}
    elif method in ("tools/call", "ping"):
        result = {"content": []} if method == "tools/call" else {}
    elif id is None:
        continue
    else:
        os.write(1, json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}).encode() + b"\\n")
        continue
    os.write(1, json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() + b"\\n")
"""


@pytest.mark.guard(90)
@pytest.mark.parametrize("words", [(), ("--keepalive", "0.5")], ids=str)
def test_a_server_that_hangs_is_replaced_and_health_reports_it(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    """3 clients with 20 calls each; it hangs at the 7th. Later calls succeed, and /health is not 200 meanwhile."""
    outcomes: list[str] = []
    states: list[str] = []

    @timed
    async def test(front: Serving) -> None:
        async def call(client: Client) -> None:
            for _ in range(20):
                try:
                    await client.tools.call("t", timeout=6)
                    outcomes.append("ok")
                except McpError as error:
                    outcomes.append(type(error).__name__)

        async def watch() -> None:
            while len(outcomes) < 60:
                answer = await asyncio.to_thread(front.ask, "GET", "/health")
                states.append(f"{answer.status} {answer.json['status']}")
                await asyncio.sleep(0.05)

        url = f"http://127.0.0.1:{front.port}/mcp"
        async with connect(http(url)) as one, connect(http(url)) as two, connect(http(url)) as three:
            await asyncio.gather(watch(), *(call(client) for client in (one, two, three)))

    flags = (*words, "--health", "--metrics", "--backoff", "0.2")
    with proxied(*flags, "--", sys.executable, "-I", "-S", "-c", HANGING, str(tmp_path / "hung")) as front:
        test(front)
        assert front.ask("GET", "/health").json["servers"][0]["restarts"] == 1
        assert 'outcome="ok"' in front.ask("GET", "/metrics").body.decode()
        front.signal(signal.SIGTERM)
        assert front.ended() == 0
    assert len(outcomes) == 60
    assert outcomes.count("ok") >= 45, "only those fail that were made while it hung"
    assert outcomes[-5:] == ["ok"] * 5
    assert states[0] == "200 ok"
    assert {"503 unresponsive", "503 down"} & set(states)
    assert states[-1] in ("200 ok", "503 down")


# --- how it ends ------------------------------------------------------------------------------------------------------


def test_an_interrupt_ends_it_in_order_and_the_server_with_it(tmp_path: Path) -> None:
    """No traceback, and no process is left. SIGTERM: with the ledger, above."""
    with proxied("--", *WORKING, "works", str(tmp_path)) as front:
        front.told("serves")
        pid = int((tmp_path / "pid").read_text())
        front.signal(signal.SIGINT)
        assert front.ended() == 130
        assert "Traceback" not in front.stderr
        assert not is_running(pid)


def test_with_json_logs_every_line_is_an_object(tmp_path: Path) -> None:
    """The line that tells where it is reached as well, whatever the level."""
    with proxied("--log-format", "json", "--", *WORKING, "works", str(tmp_path)) as front:
        front.told("serves")
        front.signal(signal.SIGTERM)
        assert front.ended() == 0
        lines = [json.loads(line) for line in front.stderr.splitlines()]
    assert "serves http://127.0.0.1:" in lines[0]["message"]
    assert all(line["time"].endswith("+00:00") for line in lines)


def test_a_second_signal_ends_it_at_once_and_the_server_with_it(tmp_path: Path) -> None:
    """One that ignores the end of its input and SIGTERM, and nobody waits for the ladder any more."""
    with proxied("--", *WORKING, "ignores_sigterm", str(tmp_path)) as front:
        front.told("serves")
        pid = int((tmp_path / "pid").read_text())
        front.signal(signal.SIGINT)
        front.signal(signal.SIGTERM)  # Python hears the lower number first, also where both have come
        assert front.ended() == 128 + signal.SIGTERM
        wait_until_gone(pid)


def test_a_command_ends_with_the_same_code_as_without_a_proxy(jackstay: Any) -> None:
    """4: nobody knows whether it ran. The proxy says so, and the command tells."""
    words = ("die", "--", *JACKSTAY, "proxy", "--log-level", "error", "--", *PEER)
    shown = jackstay("call", *words, peer=False)
    assert (shown.code, shown.out) == (4, "")
    assert "may have run" in shown.err
    shown = jackstay("call", "--json", *words, peer=False)
    assert json.loads(shown.err)["error"]["data"]["mayHaveRun"] is True


def test_a_signal_while_the_server_is_being_started_ends_both() -> None:
    with Serving(*JACKSTAY, "proxy", "-v", "--http", "0", "--", *WORKING, "never_answers") as front:
        front.told("starting: ")
        front.signal(signal.SIGINT)
        assert front.ended() == 130
        assert "Traceback" not in front.stderr
        assert "serves" not in front.stderr


def test_the_end_of_its_input_ends_it_within_a_second_and_a_half(tmp_path: Path) -> None:
    """G12 with a call that hangs in a child which ignores everything but SIGKILL."""
    command = [*JACKSTAY, "proxy", "--", *WORKING, "ignores_sigterm", str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        process.stdin.write(json.dumps(hello).encode())
        process.stdin.write(b'\n{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hang"}}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "working"
        pid = int((tmp_path / "pid").read_text())
        process.stdin.close()
        assert (
            process.wait(GUARD) == 0
        )  # while the tool hangs; how soon is tested in tests/chaos/test_server.py
    assert not is_running(pid)


# --- floods and slow readers ------------------------------------------------------------------------------------------

FLOODING = """
import json, os, sys
def say(message):
    os.write(1, json.dumps(message).encode() + b"\\n")
for line in sys.stdin.buffer:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        told = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}, "logging": {}},
                "serverInfo": {"name": "flooding", "version": "1"}}
        say({"jsonrpc": "2.0", "id": id, "result": told})
    elif method == "tools/call":
        for _ in range(1500):
            say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 20000}})
        say({"jsonrpc": "2.0", "id": id, "result": {"content": []}})
        open(sys.argv[1], "w").close()
    elif id is not None:
        say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})
"""


def test_a_server_that_floods_a_client_that_does_not_read_costs_no_memory(tmp_path: Path) -> None:
    """30 MB of log messages for a client that reads nothing: they are dropped, and the answer waits for it."""
    done = tmp_path / "done"
    process = subprocess.Popen(
        [*JACKSTAY, "proxy", "--", sys.executable, "-I", "-S", "-c", FLOODING, str(done)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    guard = threading.Timer(GUARD, process.kill)
    guard.start()
    try:
        frames = [
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "t"}},
        ]
        for frame in frames:
            process.stdin.write(json.dumps(frame).encode() + b"\n")
        process.stdin.flush()
        while not done.exists():
            time.sleep(0.01)
            assert process.poll() is None
        ids: list[Any] = []
        while 2 not in ids:
            ids.append(json.loads(process.stdout.readline()).get("id"))
        assert len(ids) < 1500, "everything was kept for it"
        peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
        assert peak is not None
        assert int(peak[1]) < 80 * 1024, f"{peak[1]} KiB"
    finally:
        guard.cancel()
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


# --- the words of the command -----------------------------------------------------------------------------------------


def test_keys_and_paths_are_those_of_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_KEY", "sesame-open-please")
    with proxied("--path", "/here", "--auth-key-env", "PROXY_KEY", "--", *WORKING, "works") as front:
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        assert front.ask("POST", "/here", body).status == 401
        key = {"authorization": "Bearer sesame-open-please"}
        assert front.ask("POST", "/here", body, key).status == 200


def test_a_name_in_a_file_is_a_server_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(
        json.dumps({"mcpServers": {"w": {"command": WORKING[0], "args": [*WORKING[1:], "works"]}}})
    )

    @timed
    async def test() -> None:
        target = stdio(*JACKSTAY, "proxy", "--config", str(tmp_path / "mcp.json"), "w", inherit_env=True)
        async with connect(target) as client:
            assert (await client.tools.call("anything")).text == "anything"

    test()
