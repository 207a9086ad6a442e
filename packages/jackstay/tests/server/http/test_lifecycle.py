"""Startup and shutdown hooks under ASGI: on real servers, mounted or not, and event by event."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from jackstay.server import Server
from jackstay.testing import run_on_fake_clock
from scripted.asgi import http_client, stateless, tool
from scripted.places import PYTHONPATH

# Each hook and call prints a line to stderr.
PROGRAM = """
import asyncio, sys
sys.path.insert(0, {source!r})
from contextlib import asynccontextmanager
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from jackstay import Server

server = Server("hooked")
loops = []

def report(event):
    print("event", event, file=sys.stderr, flush=True)

@server.on_startup
async def start():
    loops.append(asyncio.get_running_loop())
    await asyncio.sleep(0)
    report("started")

@server.on_shutdown
async def stop():
    assert asyncio.get_running_loop() is loops[0]  # resources must be closed on the loop they were opened on
    await asyncio.sleep(0.2)  # closing a connection pool takes longer than 50 ms
    report("stopped")

@server.tool
async def serve() -> str:
    report("served")
    return "served"

@asynccontextmanager
async def own(app):
    report("parent-started")
    yield
    report("parent-stopped")

alone = server.asgi()
mounted = server.asgi()
fastapi_without_ours = FastAPI(lifespan=own)
fastapi_without_ours.mount("/", mounted)
fastapi_with_ours = FastAPI(lifespan=mounted.lifespan)
fastapi_with_ours.mount("/", mounted)
starlette = Starlette(routes=[Mount("/", app=mounted)])

failing_server = Server("failing")
failing = failing_server.asgi()

@failing_server.on_startup
def fail():
    raise OSError("no database")
"""


class Running:
    """An ASGI server in a process of its own."""

    def __init__(self, tmp_path: Path, kind: str, app: str) -> None:
        (tmp_path / "program.py").write_text(PROGRAM.format(source=PYTHONPATH))
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen(16)
            self.port = listening.getsockname()[1]
            fd = listening.fileno()
            arguments = {
                "uvicorn": ["uvicorn", f"program:{app}", "--fd", str(fd), "--loop", "asyncio"],
                "uvicorn on uvloop": ["uvicorn", f"program:{app}", "--fd", str(fd), "--loop", "uvloop"],
                "hypercorn": ["hypercorn", f"program:{app}", "--bind", f"fd://{fd}"],
            }[kind]
            self.popen = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                cwd=tmp_path,
                pass_fds=[fd],
            )

    def call(self) -> None:
        """Call the tool; the connection waits until the server accepts it."""
        body = {**stateless("tools/call", {"name": "serve", "arguments": {}})}
        request = urllib.request.Request(
            f"http://localhost:{self.port}/mcp",
            json.dumps(body).encode(),
            {
                "content-type": "application/json",
                "accept": "application/json, text/event-stream",
                "mcp-method": "tools/call",
                "mcp-name": "serve",
                "mcp-protocol-version": "2026-07-28",
            },
        )
        with urllib.request.urlopen(request, timeout=240) as response:
            assert b"served" in response.read()

    def ended(self, *numbers: signal.Signals) -> list[str]:
        """Send the signals, wait for the exit, and return the reported events."""
        for number in numbers:
            self.popen.send_signal(number)
        try:
            _, errors = self.popen.communicate(timeout=240)
        finally:
            self.popen.kill()
            self.popen.communicate()
        self.errors = errors.decode()
        return [line.removeprefix("event ") for line in self.errors.splitlines() if line.startswith("event ")]


@pytest.mark.parametrize("kind", ["uvicorn", "uvicorn on uvloop", "hypercorn"])
@pytest.mark.parametrize(
    ("app", "expected"),
    [
        ("alone", ["started", "served", "served", "stopped"]),
        ("fastapi_with_ours", ["started", "served", "served", "stopped"]),
        ("starlette", ["started", "served", "served", "stopped"]),
        (
            "fastapi_without_ours",
            ["parent-started", "started", "served", "served", "parent-stopped", "stopped"],
        ),
    ],
)
def test_hooks_run_once_on_real_servers_mounted_or_not(
    tmp_path: Path, kind: str, app: str, expected: list[str]
) -> None:
    running = Running(tmp_path, kind, app)
    is_late = app in ("starlette", "fastapi_without_ours")
    try:
        running.call()
        running.call()
    finally:
        # After SIGTERM uvicorn raises it again, and the process ends before the loop does.
        events = running.ended(signal.SIGINT if is_late and kind != "hypercorn" else signal.SIGTERM)
    assert events == expected, running.errors


def test_without_lifespan_events_a_warning_suggests_app_lifespan(caplog: pytest.LogCaptureFixture) -> None:
    """After SIGTERM uvicorn ends the process before the loop ends."""
    server, _ = hooked()

    async def test() -> None:
        async with http_client(server.asgi()) as http:
            await http.post(tool("echo"))
            await http.post(tool("echo"))

    run_on_fake_clock(test())
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "lifespan=app.lifespan" in record.getMessage()


def test_a_failing_startup_hook_prevents_the_start(tmp_path: Path) -> None:
    running = Running(tmp_path, "uvicorn", "failing")
    running.ended()
    assert running.popen.returncode != 0
    assert "a startup hook failed: OSError: no database" in running.errors


# --- event by event ---------------------------------------------------------------------------------------------------


def hooked() -> tuple[Server, list[str]]:
    server, order = Server("x"), list[str]()

    @server.tool
    async def echo() -> str:
        order.append("served")
        return "x"

    server.on_startup(lambda: order.append("started"))

    @server.on_shutdown
    async def stop() -> None:
        order.append("stopped")

    return server, order


def test_without_lifespan_the_first_requests_wait_for_startup() -> None:
    server, order = hooked()
    gate = asyncio.Event()

    @server.on_startup
    async def wait() -> None:
        order.append("waiting")
        await gate.wait()

    async def test() -> None:
        async with http_client(server.asgi()) as http:
            posts = [asyncio.ensure_future(http.post(tool("echo"))) for _ in range(3)]
            while "waiting" not in order:
                await asyncio.sleep(0)
            gone = asyncio.ensure_future(http.open("POST", tool("echo")))
            while len(http.responses) < 4:
                await asyncio.sleep(0)
            http.responses[-1].disconnect()
            gate.set()
            assert [(await post).status for post in posts] == [200] * 3
            await gone

    run_on_fake_clock(test())
    assert order[:2] == ["started", "waiting"]
    assert order[2:5] == ["served"] * 3
    assert order[-1] == "stopped"
    assert order.count("started") == order.count("stopped") == 1
    run_on_fake_clock(test())  # on another loop the hooks run again
    assert order.count("started") == order.count("stopped") == 2


def test_after_a_failed_startup_the_next_request_tries_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, order = hooked()
    failures = [OSError("no database yet")]

    @server.on_startup
    def fail_once() -> None:
        if failures:
            raise failures.pop()

    async def test() -> None:
        async with http_client(server.asgi()) as http:
            refused = await http.post(tool("echo"))
            assert refused.status == 503
            assert refused.json["error"]["data"] == {"retryable": True, "mayHaveRun": False}
            assert "no database" not in refused.body.decode(), "the cause is logged only"
            assert (await http.post(tool("echo"))).status == 200

    run_on_fake_clock(test())
    assert "no database yet" in caplog.text
    assert order == ["started", "served", "stopped"], "a hook that succeeded does not run again"


def test_a_server_drained_during_startup_serves_no_request() -> None:
    server, order = hooked()
    server.on_startup(asyncio.Event().wait)

    async def test() -> None:
        app = server.asgi()
        async with http_client(app) as http:
            post = asyncio.ensure_future(http.post(tool("echo")))
            while "started" not in order:
                await asyncio.sleep(0)
            server.drain()
            assert (await post).status == 503

    run_on_fake_clock(test())
    assert "served" not in order


class Events:
    """The lifespan of an app, event by event."""

    def __init__(self, app: Any) -> None:
        self.sent: asyncio.Queue[Any] = asyncio.Queue()
        self.to_app: asyncio.Queue[Any] = asyncio.Queue()
        self.task = asyncio.ensure_future(app({"type": "lifespan"}, self.to_app.get, self.sent.put))

    async def send(self, event: str) -> dict[str, Any]:
        """Send an event and return the response of the app."""
        self.to_app.put_nowait({"type": f"lifespan.{event}"})
        response: dict[str, Any] = await self.sent.get()
        return response


def test_lifespan_events_run_the_hooks_and_an_app_can_be_started_again() -> None:
    server, order = hooked()

    async def test() -> None:
        app = server.asgi()
        for _ in range(2):
            events = Events(app)
            assert await events.send("startup") == {"type": "lifespan.startup.complete"}
            async with http_client(app) as http:
                assert (await http.post(tool("echo"))).status == 200
            assert await events.send("shutdown") == {"type": "lifespan.shutdown.complete"}
            await events.task

    run_on_fake_clock(test())
    assert order == ["started", "served", "stopped"] * 2


@pytest.mark.parametrize("how", ["raises", "drained"])
def test_a_failed_startup_is_reported_to_the_asgi_server(how: str) -> None:
    server = Server("x")

    @server.on_startup
    async def fail() -> None:
        if how == "raises":
            raise OSError("no database")
        server.drain()
        await asyncio.Event().wait()

    async def test() -> None:
        events = Events(server.asgi())
        answer = await events.send("startup")
        assert answer["type"] == "lifespan.startup.failed"
        expected = {
            "raises": "a startup hook failed: OSError: no database",
            "drained": "the server was drained during startup",
        }
        assert answer["message"] == expected[how]
        await events.task

    run_on_fake_clock(test())


def test_two_apps_of_one_server_share_its_hooks() -> None:
    server, order = hooked()

    async def test() -> None:
        async with server.asgi().lifespan(), server.asgi().lifespan():
            order.append("both")
        order.append("none")

    run_on_fake_clock(test())
    assert order == ["started", "both", "stopped", "none"]
