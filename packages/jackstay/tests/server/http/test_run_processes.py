"""HTTP servers in processes of their own: signals, drains, ports and logs."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from jackstay.server.http._sockets import bind_sockets, port_of
from peers.http_process import GUARD, META, HttpReply, Serving
from scripted.places import PYTHONPATH


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)])
def test_a_signal_drains_and_ends_the_process(number: signal.Signals, code: int) -> None:
    with Serving() as serving:
        assert serving.call("pid").text == str(serving.process.pid)
        serving.signal(number)
        assert serving.ended() == code
        serving.wait_for_line("hook ran")
        assert serving.process.stdout is not None
        assert serving.process.stdout.read() == ""


def test_a_drain_waits_for_running_calls_and_closes_the_port() -> None:
    with Serving(drain_timeout=60) as serving:
        answers: list[HttpReply] = []
        calling = threading.Thread(target=lambda: answers.append(serving.call("slow", seconds=0.6)))
        calling.start()
        serving.wait_for_line("begun")
        serving.signal(signal.SIGTERM)
        with pytest.raises(OSError):  # noqa: PT012  # until the port is closed
            while True:
                socket.create_connection(("127.0.0.1", serving.port), timeout=5).close()
                time.sleep(0.01)
        calling.join(GUARD)
        assert answers[0].text == "done"
        assert serving.ended() == 0
        serving.wait_for_line("hook ran")


def test_a_drain_ends_streams_properly() -> None:
    """A client gets the response to its request, or the regular end of its stream, and knows that nothing was lost."""
    with Serving(sessions=True, drain_timeout=60) as serving:
        listening, session = serving.connection(), serving.connection()
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen"}
        body["params"] = {"notifications": {"toolsListChanged": True}, "_meta": META}
        stateless = {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
        listening.request("POST", "/mcp", json.dumps(body), {**headers, **stateless})
        stream = listening.getresponse()
        assert b"acknowledged" in stream.readline()
        info = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "0"},
        }
        opened = serving.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": info})
        in_session = {
            "mcp-session-id": opened.headers["mcp-session-id"],
            "mcp-protocol-version": "2025-11-25",
        }
        session.request("GET", "/mcp", headers={**headers, **in_session})
        events = session.getresponse()
        assert events.status == 200
        serving.signal(signal.SIGTERM)
        rest = stream.read()  # http.client raises IncompleteRead for an aborted stream
        assert json.loads(rest.rstrip().rpartition(b"data: ")[2])["id"] == 5
        events.read()
        assert serving.ended() == 0
        listening.close()
        session.close()


@pytest.mark.parametrize("tool", ["slow", "block"])
def test_a_hung_handler_does_not_delay_the_exit_beyond_the_limit(tool: str) -> None:
    """docs/guarantees.md G12 over HTTP: handlers get `drain_timeout`, then the process ends."""
    with Serving(drain_timeout=0.3) as serving:
        outcome: list[object] = []

        def calling() -> None:
            try:
                outcome.append(serving.call(tool, seconds=600))
            except (OSError, http.client.HTTPException) as error:
                outcome.append(error)

        thread = threading.Thread(target=calling)
        thread.start()
        serving.wait_for_line("begun")
        serving.signal(signal.SIGTERM)
        assert serving.ended() == 0  # the handler would run for longer than `ended()` waits
        thread.join(GUARD)
        assert not thread.is_alive()
        assert outcome  # a response or a closed connection


def test_a_second_signal_ends_it_at_once() -> None:
    with Serving(drain_timeout=20) as serving:
        thread = threading.Thread(target=lambda: _swallow(serving))
        thread.start()
        serving.wait_for_line("begun")
        serving.signal(signal.SIGTERM)
        serving.signal(signal.SIGTERM)
        # Two pending signals are delivered as one.
        while serving.process.poll() is None:
            time.sleep(0.05)
            serving.signal(signal.SIGTERM)
        assert serving.ended() == 128 + signal.SIGTERM
        thread.join(GUARD)


def _swallow(serving: Serving) -> None:
    try:
        serving.call("slow", seconds=30)
    except (OSError, http.client.HTTPException):
        pass


def test_a_port_in_use_ends_a_program_with_the_reason() -> None:
    taken = bind_sockets("127.0.0.1", 0)
    try:
        with Serving(port=port_of(taken)) as serving:
            assert serving.ended() == 1
            serving.wait_for_line("TransportError: cannot listen on 127.0.0.1:.*the port is already in use")
    finally:
        taken[0].close()


def test_run_does_not_configure_logging() -> None:
    """Without logging a program prints one line; with logging it also gets the records of this package."""
    with Serving() as serving:
        serving.call("pid")
        serving.signal(signal.SIGTERM)
        assert serving.ended() == 0
    assert [line for line in serving.lines if "serves" not in line and "hook" not in line] == []
    with Serving(log_level="DEBUG") as serving:
        serving.call("pid")
        serving.signal(signal.SIGTERM)
        assert serving.ended() == 0
    assert "DEBUG jackstay.server.http" in serving.stderr
    assert "uvicorn" not in serving.stderr


STOPS_ITSELF = """
import asyncio, os, signal, sys
from jackstay.server import Server
server = Server("x")

@server.on_startup
async def end() -> None:
    asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGTERM)

status = server.run(transport="http", port=0, loop=sys.argv[1])
with open(sys.argv[2], "w") as file:
    file.write(str(status))
"""


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("redirections", ["<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_server_with_closed_standard_descriptors_ends_normally(redirections: str, loop: str, tmp_path: Path) -> None:
    """libuv aborts the process if it closes one of its own descriptors whose number is below 3."""
    done = subprocess.run(
        [
            "/bin/sh",
            "-c",
            f'exec "$0" "$@" {redirections}',
            sys.executable,
            "-c",
            STOPS_ITSELF,
            loop,
            str(tmp_path / "status"),
        ],
        timeout=240,
        check=False,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )
    assert done.returncode == 0
    assert (tmp_path / "status").read_text() == "0"


def test_the_http_stack_is_imported_only_if_it_is_used() -> None:
    code = (
        "import sys; from jackstay.server import Server; Server('x');"
        "print('uvicorn' in sys.modules, 'jackstay.server.http' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )
    assert done.stdout.split() == ["False", "False"]
