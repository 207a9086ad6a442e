"""`jackstay proxy` with real processes on both sides."""

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
from jackstay.cli._running import prepare_server
from jackstay.cli._target import SelectedServer
from jackstay.client import Client, connect
from jackstay.errors import JsonRpcError, McpError
from jackstay.transport import stdio
from peers.http_process import Serving
from scripted.places import ROOT

JACKSTAY = (sys.executable, "-m", "jackstay")
WORKING = (sys.executable, "-I", "-S", str(ROOT / "tests" / "chaos" / "servers" / "working.py"))
EVERYTHING = (sys.executable, str(ROOT / "examples" / "everything.py"))
PEER = (sys.executable, str(ROOT / "tests" / "peers" / "stdio_server.py"))
SDK = (sys.executable, str(ROOT / "tests" / "interop" / "clients" / "sdk1.py"))
GUARD = 120.0
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}}


def proxied(*words: str) -> Serving:
    """A proxy over HTTP, on a free port."""
    return Serving(*JACKSTAY, "proxy", "--http", "0", *words)


# --- usage errors -----------------------------------------------------------------------------------------------------


# arguments -> exit code, text on standard error
USAGE_ERRORS: list[tuple[tuple[str, ...], int, str]] = [
    ((), 2, "no server was passed"),
    (("--http", "garbage", "--", "true"), 2, "--http expects PORT or HOST:PORT"),
    (("somewhere",), 2, "unknown server 'somewhere'"),
    (("https://example.org/mcp", "more"), 2, "unexpected argument 'more'"),
    (("--per-client", "--", "true"), 2, "--per-client requires --http"),
    (("--path", "/x", "--", "true"), 2, "--path requires --http"),
    (("--wait", "-1", "--", "true"), 2, "wait must be a number"),
    (("--timeout", "0", "--", "true"), 2, "timeout must be a number"),
    (("--keepalive", "-1", "--", "true"), 2, "--keepalive must be a number"),
    (("--backoff", "soon", "--", "true"), 2, "--backoff expects MIN or MIN:MAX in seconds, got 'soon'"),
    (("--backoff", "-1", "--", "true"), 2, "--backoff must be a number"),
    (("--backoff", "2:1", "--", "true"), 2, "--backoff: MIN must not be greater than MAX"),
    (("--metrics", "--", "true"), 2, "--metrics requires --http"),
    (("--status", "--", "true"), 2, "--status requires --http"),
    (("--", "/nowhere/at/all"), 3, "no such file: /nowhere/at/all"),
]


def test_usage_errors(jackstay: Any) -> None:
    for words, code, message in USAGE_ERRORS:
        done = jackstay("proxy", *words, peer=False)
        assert (done.code, done.out) == (code, ""), words
        assert message in done.err, words
        assert "Traceback" not in done.err, words


def test_a_server_that_fails_to_start_is_exit_code_3_with_its_stderr(jackstay: Any) -> None:
    """The same exit code as in the other commands."""
    for flags in ((), ("--http", "0")):
        done = jackstay("proxy", *flags, "--", *WORKING, "exits", peer=False)
        assert done.code == 3
        assert "no configuration found" in done.err
        assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [(("-v", "--", *WORKING, "exits"), "starting: "), (("-v", "http://127.0.0.1:9/"), "connecting to: ")],
)
def test_verbose_prints_the_server(words: tuple[str, ...], message: str, jackstay: Any) -> None:
    done = jackstay("proxy", *words, peer=False)
    assert done.code == 3
    assert done.err.startswith(message)


async def test_login_comes_before_the_connection() -> None:
    signed: list[bool] = []

    async def sign_in() -> None:
        signed.append(True)

    selected = SelectedServer(stdio("true"), "true", sign_in)
    await prepare_server(Namespace(verbose=False), selected)
    assert signed == [True]


def test_a_port_in_use_is_reported_before_the_server_is_started(tmp_path: Path, jackstay: Any) -> None:
    with proxied("--", *WORKING, "works") as other:
        done = jackstay("proxy", "--http", str(other.port), "--", *WORKING, "works", str(tmp_path), peer=False)
        assert done.code == 3
        assert "the port is already in use" in done.err
        assert not (tmp_path / "pid").exists()


# --- all features -----------------------------------------------------------------------------------------------------


def test_the_official_sdk_gets_the_same_through_two_proxies() -> None:
    """stdio to HTTP to stdio: tools, resources, prompts, completion, progress, logs, cancellation, subscriptions, list
    changes, sampling, elicitation, roots.
    """
    with proxied("--", *EVERYTHING) as proxy:
        command = [*SDK, *JACKSTAY, "proxy", f"http://127.0.0.1:{proxy.port}/mcp"]
        done = subprocess.run(command, capture_output=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr.decode()
    seen = json.loads(done.stdout)
    del seen["closing"]  # a time
    assert seen == seen_by(CLIENTS[0])


# --- a server that crashes --------------------------------------------------------------------------------------------


class Outcomes:
    """The outcome of every call by its nonce, while the server is killed. `working.py` keeps a ledger."""

    def __init__(self, directory: Path, kills: int) -> None:
        self.directory = directory
        self.left = kills
        self.outcomes: dict[str, str] = {}

    async def work(self, client: Client, worker: int) -> None:
        """Call in sequence until the last kill. Worker 0 gets no responses: every kill hits a call in flight."""
        number = 0
        while self.left:
            nonce = f"{worker}-{number}"
            number += 1
            try:
                name = "record" if worker else "record_and_hang"
                result = await client.tools.call(name, {"nonce": nonce}, timeout=10)
            except JsonRpcError as error:
                data: Any = error.data
                self.outcomes[nonce] = "unknown" if data["mayHaveRun"] else "failed"
            else:
                assert result.text == nonce, "the response to another call"
                self.outcomes[nonce] = "ok"
            if worker == 1 and number % 10 == 0:
                self.kill()

    def kill(self) -> None:
        try:
            os.kill(int((self.directory / "pid").read_text()), signal.SIGKILL)
        except ProcessLookupError:
            return  # already killed, and the next one has not started
        self.left -= 1

    def check(self) -> Counter[str]:
        """Compare outcomes with the ledger: ok ran once, failed never, unknown at most once."""
        runs = Counter((self.directory / "ledger").read_text().split())
        for nonce, outcome in self.outcomes.items():
            allowed = {"ok": (1,), "failed": (0,), "unknown": (0, 1)}[outcome]
            assert runs.pop(nonce, 0) in allowed, f"{nonce}: {outcome}"
        assert not runs, f"ran without an outcome: {runs}"
        return Counter(self.outcomes.values())


async def test_outcomes_agree_with_the_ledger_while_the_server_is_killed(
    tmp_path: Path,
) -> None:
    """docs/guarantees.md G7 through the proxy: two clients, one child, SIGKILL under load."""
    outcomes = Outcomes(tmp_path, kills=1)

    async def test(url: str) -> None:
        async with (
            connect(http(url), versions=("2025-11-25",)) as old,
            connect(http(url), versions=("2026-07-28",)) as new,
        ):
            workers = [outcomes.work(client, worker) for worker, client in enumerate((new, old, new, old, new))]
            await asyncio.gather(*workers)
            assert (old.state, new.state) == ("ready", "ready")

    with proxied("--", *WORKING, "works", str(tmp_path)) as proxy:
        await test(f"http://127.0.0.1:{proxy.port}/mcp")
        proxy.wait_for_line(r"the upstream server \S+ is ready again")
        proxy.signal(signal.SIGTERM)
        assert proxy.ended() == 0
        assert "Traceback" not in proxy.stderr
    counts = outcomes.check()
    assert counts["ok"] > 10
    assert counts["unknown"] >= 1, "no kill hit a call in flight"
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
        error = {"code": -32601, "message": "no"}
        os.write(1, json.dumps({"jsonrpc": "2.0", "id": id, "error": error}).encode() + b"\\n")
        continue
    os.write(1, json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() + b"\\n")
"""


@pytest.mark.parametrize("words", [(), ("--keepalive", "0.5")], ids=str)
async def test_a_hanging_server_is_restarted_and_health_reports_it(words: tuple[str, ...], tmp_path: Path) -> None:
    """3 clients with 20 calls each. It hangs at the 7th call; /health reports it, and later calls succeed."""
    outcomes: list[str] = []
    states: list[str] = []

    async def test(proxy: Serving) -> None:
        async def call(client: Client) -> None:
            for _ in range(20):
                try:
                    await client.tools.call("t", timeout=6)
                    outcomes.append("ok")
                except McpError as error:
                    outcomes.append(type(error).__name__)

        async def look() -> None:
            answer = await asyncio.to_thread(proxy.request, "GET", "/health")
            states.append(f"{answer.status} {answer.json['status']}")

        async def watch() -> None:
            while len(outcomes) < 60:
                await look()
                await asyncio.sleep(0.05)

        url = f"http://127.0.0.1:{proxy.port}/mcp"
        async with connect(http(url)) as one, connect(http(url)) as two, connect(http(url)) as three:
            await look()
            await asyncio.gather(watch(), *(call(client) for client in (one, two, three)))

    flags = (*words, "--health", "--metrics", "--backoff", "0.2")
    with proxied(*flags, "--", sys.executable, "-I", "-S", "-c", HANGING, str(tmp_path / "hung")) as proxy:
        await test(proxy)
        assert proxy.request("GET", "/health").json["servers"][0]["restarts"] == 1
        assert 'outcome="ok"' in proxy.request("GET", "/metrics").body.decode()
        proxy.signal(signal.SIGTERM)
        assert proxy.ended() == 0
    assert len(outcomes) == 60
    assert outcomes.count("ok") >= 30, "only calls during the hang fail"
    assert outcomes[-5:] == ["ok"] * 5
    assert states[0] == "200 ok"
    assert {"503 unresponsive", "503 down"} & set(states)
    assert states[-1] in ("200 ok", "503 down")


# --- signals and shutdown ---------------------------------------------------------------------------------------------


def test_sigint_stops_the_proxy_and_its_server(tmp_path: Path) -> None:
    """No traceback, and no process is left."""
    with proxied("--", *WORKING, "works", str(tmp_path)) as proxy:
        proxy.wait_for_line("serves")
        pid = int((tmp_path / "pid").read_text())
        proxy.signal(signal.SIGINT)
        assert proxy.ended() == 130
        assert "Traceback" not in proxy.stderr
        assert not is_running(pid)


def test_json_logs(tmp_path: Path) -> None:
    """Including the line with the address, at every level."""
    with proxied("--log-format", "json", "--", *WORKING, "works", str(tmp_path)) as proxy:
        proxy.wait_for_line("serves")
        proxy.signal(signal.SIGTERM)
        assert proxy.ended() == 0
        lines = [json.loads(line) for line in proxy.stderr.splitlines()]
    assert "serves http://127.0.0.1:" in lines[0]["message"]
    assert all(line["time"].endswith("+00:00") for line in lines)


def test_a_second_signal_kills_the_server(tmp_path: Path) -> None:
    """The server ignores the end of its input and SIGTERM."""
    with proxied("--", *WORKING, "ignores_sigterm", str(tmp_path)) as proxy:
        proxy.wait_for_line("serves")
        pid = int((tmp_path / "pid").read_text())
        proxy.signal(signal.SIGINT)
        proxy.signal(signal.SIGTERM)  # Python handles the lower number first if both are pending
        assert proxy.ended() == 128 + signal.SIGTERM
        wait_until_gone(pid)


def test_exit_codes_are_the_same_through_a_proxy(jackstay: Any) -> None:
    """4: the call may have run, as the proxy reports."""
    words = ("die", "--", *JACKSTAY, "proxy", "--log-level", "error", "--", *PEER)
    done = jackstay("call", *words, peer=False)
    assert (done.code, done.out) == (4, "")
    assert "may have run" in done.err
    done = jackstay("call", "--json", *words, peer=False)
    assert json.loads(done.err)["error"]["data"]["mayHaveRun"] is True


def test_a_signal_while_the_server_is_starting() -> None:
    with Serving(*JACKSTAY, "proxy", "-v", "--http", "0", "--", *WORKING, "never_answers") as proxy:
        proxy.wait_for_line("starting: ")
        proxy.signal(signal.SIGINT)
        assert proxy.ended() == 130
        assert "Traceback" not in proxy.stderr
        assert "serves" not in proxy.stderr


def test_end_of_input_stops_the_proxy_and_its_server(tmp_path: Path) -> None:
    """docs/guarantees.md G12: with a hanging call in a child that ignores everything but SIGKILL."""
    command = [*JACKSTAY, "proxy", "--", *WORKING, "ignores_sigterm", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        process.stdin.write(json.dumps(hello).encode())
        process.stdin.write(b'\n{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hang"}}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "working"
        pid = int((tmp_path / "pid").read_text())
        process.stdin.close()
        assert process.wait(GUARD) == 0  # while the tool hangs; how soon is tested in tests/chaos/test_server.py
    assert not is_running(pid)


# --- floods and slow readers ------------------------------------------------------------------------------------------

FLOODING = """
import json, os, sys
def send(message):
    os.write(1, json.dumps(message).encode() + b"\\n")
for line in sys.stdin.buffer:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}, "logging": {}},
                "serverInfo": {"name": "flooding", "version": "1"}}
        send({"jsonrpc": "2.0", "id": id, "result": result})
    elif method == "tools/call":
        params = {"level": "info", "data": "x" * 20000}
        for _ in range(1500):
            send({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
        send({"jsonrpc": "2.0", "id": id, "result": {"content": []}})
        open(sys.argv[1], "w").close()
    elif id is not None:
        send({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})
"""


def test_memory_is_limited_if_the_client_does_not_read(tmp_path: Path) -> None:
    """30 MB of log messages are dropped; the response is kept."""
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
        assert len(ids) < 1500, "log messages were not dropped"
        peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
        assert peak is not None
        assert int(peak[1]) < 80 * 1024, f"{peak[1]} KiB"
    finally:
        guard.cancel()
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


# --- arguments --------------------------------------------------------------------------------------------------------


def test_http_options_are_those_of_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_KEY", "sesame-open-please")
    with proxied("--path", "/here", "--auth-key-env", "PROXY_KEY", "--", *WORKING, "works") as proxy:
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        assert proxy.request("POST", "/here", body).status == 401
        key = {"authorization": "Bearer sesame-open-please"}
        assert proxy.request("POST", "/here", body, key).status == 200


async def test_a_server_from_a_configuration_file(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(
        json.dumps({"mcpServers": {"w": {"command": WORKING[0], "args": [*WORKING[1:], "works"]}}})
    )

    target = stdio(*JACKSTAY, "proxy", "--config", str(tmp_path / "mcp.json"), "w", inherit_env=True)
    async with connect(target, init_timeout=GUARD) as client:
        assert (await client.tools.call("anything")).text == "anything"
