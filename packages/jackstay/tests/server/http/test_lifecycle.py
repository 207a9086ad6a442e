"""Startup and shutdown hooks under ASGI: on real servers, mounted or not, and event by event."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from jackstay.server import Server
from jackstay.server.http._run import END_MARGIN, _end_timeout
from jackstay.testing import run_on_fake_clock
from peers.http_process import Serving
from scripted.asgi import http_client, stateless, tool
from scripted.places import PYTHONPATH

# Each event prints a line with the process to stderr.
PROGRAM = """
import asyncio, json, os, sys
sys.path.insert(0, {source!r})
from contextlib import asynccontextmanager
from jackstay import Context, Server

def report(event):
    os.write(2, f"event {{os.getpid()}} {{event}}\\n".encode())

@asynccontextmanager
async def lifespan(server):
    report("entered")
    async with asyncio.TaskGroup():  # must be left in the task that entered it
        yield asyncio.get_running_loop()
    await asyncio.sleep(0.2)  # closing a connection pool takes longer than 50 ms
    report("left")

server = Server("hooked", lifespan=lifespan, drain_timeout=60, shutdown_timeout=60)
loops = []

@server.on_startup
async def start():
    loops.append(asyncio.get_running_loop())
    await asyncio.sleep(0)
    report("started")

@server.on_shutdown
async def stop():
    assert asyncio.get_running_loop() is loops[0]  # resources must be closed on the loop they were opened on
    report("stopped")

@server.tool
async def serve(ctx: Context) -> str:
    assert ctx.state is asyncio.get_running_loop()
    report("served")
    return "served"

@asynccontextmanager
async def own(app):
    report("parent-started")
    yield
    report("parent-stopped")

app = server.asgi()
name = os.environ.get("PARENT", "")
if name.startswith("fastapi"):
    from fastapi import FastAPI
    parent = FastAPI(lifespan=app.lifespan if name.endswith("with") else own)
    parent.mount("/", app)
elif name.startswith("starlette"):
    from starlette.applications import Starlette
    from starlette.routing import Mount
    parent = Starlette(routes=[Mount("/", app=app)], lifespan=app.lifespan if name.endswith("with") else None)
else:
    parent = app

if name == "failing":
    @server.on_startup
    def fail():
        raise OSError("no database")

if __name__ == "__main__":
    sys.exit(server.run(**json.loads(sys.argv[1])))
"""

GUNICORN = "gunicorn program:parent --no-control-socket --timeout 200 --graceful-timeout 200 --bind fd://{fd}"
COMMANDS = {
    "uvicorn": "uvicorn program:parent --loop asyncio --fd {fd}",
    "uvicorn on uvloop": "uvicorn program:parent --loop uvloop --fd {fd}",
    "hypercorn": "hypercorn program:parent --bind fd://{fd}",
    "gunicorn": f"{GUNICORN} -k uvicorn_worker.UvicornWorker",
    "gunicorn with its own worker": f"{GUNICORN} -k asgi",
}


class Running:
    """An ASGI server in a process of its own."""

    def __init__(self, tmp_path: Path, kind: str, parent: str = "", workers: int = 1) -> None:
        (tmp_path / "program.py").write_text(PROGRAM.format(source=PYTHONPATH))
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen(16)
            self.port = listening.getsockname()[1]
            fd = listening.fileno()
            arguments = [*COMMANDS[kind].format(fd=fd).split(), *(["--workers", str(workers)] if workers > 1 else [])]
            self.popen = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                bufsize=0,  # a test reads some lines before `communicate()` reads the rest
                cwd=tmp_path,
                pass_fds=[fd],
                env={**os.environ, "PARENT": parent},
            )

    def call(self) -> None:
        """Call the tool; the connection waits until the server accepts it."""
        call_tool(self.port)

    def ended(self, *numbers: signal.Signals) -> list[list[str]]:
        """Send the signals, wait for the exit, and return the events of each process."""
        for number in numbers:
            self.popen.send_signal(number)
        try:
            _, errors = self.popen.communicate(timeout=240)
        finally:
            self.popen.kill()
            self.popen.communicate()
        self.errors = errors.decode()
        return events_of(self.errors)


def events_of(errors: str) -> list[list[str]]:
    """Return the reported events of each process."""
    found: dict[str, list[str]] = {}
    for process, event in re.findall(r"^event (\d+) (\S+)$", errors, re.MULTILINE):
        found.setdefault(process, []).append(event)
    return list(found.values())


def call_tool(port: int) -> None:
    body = {**stateless("tools/call", {"name": "serve", "arguments": {}})}
    request = urllib.request.Request(
        f"http://localhost:{port}/mcp",
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


EVENTS = ["entered", "started", "served", "served", "stopped", "left"]
PARENTS = ("", "starlette with", "starlette without", "fastapi with", "fastapi without")


@pytest.mark.parametrize(
    ("kind", "parent"),
    [
        *(("uvicorn", parent) for parent in PARENTS),
        *(("hypercorn", parent) for parent in PARENTS[:3]),
        *(("gunicorn", parent) for parent in PARENTS[:3]),
        ("uvicorn on uvloop", "starlette without"),
        ("gunicorn with its own worker", ""),
    ],
)
def test_hooks_and_the_lifespan_run_once_on_real_servers_mounted_or_not(tmp_path: Path, kind: str, parent: str) -> None:
    running = Running(tmp_path, kind, parent)
    try:
        running.call()
        running.call()
    finally:
        (events,) = running.ended(signal.SIGTERM)
    assert [event for event in events if not event.startswith("parent")] == EVENTS, running.errors
    if parent == "fastapi without":
        assert (events[0], events.count("parent-stopped")) == ("parent-started", 1)


def test_ctrl_c_runs_the_shutdown_hooks_of_a_mounted_server(tmp_path: Path) -> None:
    running = Running(tmp_path, "uvicorn", "starlette without")
    running.call()
    running.call()
    assert running.ended(signal.SIGINT) == [EVENTS], running.errors


def test_each_worker_of_gunicorn_runs_the_hooks(tmp_path: Path) -> None:
    running = Running(tmp_path, "gunicorn", workers=2)
    running.call()
    assert running.popen.stderr is not None
    seen = b""
    while seen.count(b" started\n") < 2:
        line = running.popen.stderr.readline()
        assert line, seen.decode()
        seen += line
    running.ended(signal.SIGTERM)
    check_workers(seen.decode() + running.errors)


def test_each_worker_of_run_runs_the_hooks(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.format(source=PYTHONPATH))
    options = json.dumps({"transport": "http", "port": 0, "workers": 2})
    with Serving(sys.executable, str(tmp_path / "program.py"), options) as serving:
        call_tool(serving.port)
        serving.wait_for_line("started", 2)
        serving.signal(signal.SIGTERM)
        assert serving.ended() == 0
        serving.wait_for_line(" left", 2)
    check_workers(serving.stderr)


def check_workers(errors: str) -> None:
    events = events_of(errors)
    assert sorted(events) == [["entered", "started", "served", "stopped", "left"], [*EVENTS[:2], *EVENTS[-2:]]], errors


def test_hooks_and_the_lifespan_run_over_stdio(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(source=PYTHONPATH))
    calls = [json.dumps({**stateless("tools/call", {"name": "serve", "arguments": {}}), "id": id}) for id in (1, 2)]
    done = subprocess.run(
        [sys.executable, str(program), "{}"],
        input="\n".join([*calls, ""]),
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert len(done.stdout.splitlines()) == 2
    assert events_of(done.stderr) == [EVENTS]


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


async def test_before_uvicorn_handles_a_signal_the_hooks_of_every_mounted_server_run() -> None:
    (first, first_order), (second, second_order) = hooked(), hooked()
    uvicorn_server = uvicorn.Server(uvicorn.Config("x"))
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, uvicorn_server.handle_exit)
    try:
        async with http_client(first.asgi()) as one, http_client(second.asgi()) as other:
            assert [(await http.post(tool("echo"))).status for http in (one, other)] == [200, 200]
            signal.raise_signal(signal.SIGTERM)
            assert not uvicorn_server.should_exit
            while not uvicorn_server.should_exit:
                await asyncio.sleep(0)
            assert first_order == second_order == ["started", "served", "stopped"]
            assert (await one.post(tool("echo"))).status == 503
            signal.raise_signal(signal.SIGTERM)  # is handled at once
            assert len(uvicorn_server._captured_signals) == 2
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_budget_of_a_shutdown_includes_the_lifespan() -> None:
    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        yield

    assert _end_timeout(Server("x", lifespan=lifespan, drain_timeout=1)) == 6 + END_MARGIN
    assert _end_timeout(Server("x", drain_timeout=1, shutdown_timeout=30)) == 31 + END_MARGIN


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
