"""Whole processes that are HTTP servers: signals, drains, ports, certificates (connection.md section 8)."""

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
from peers.http_process import GUARD, META, Answer, Serving
from scripted.places import PYTHONPATH

# --- whole processes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)])
def test_a_signal_ends_it_in_order(number: signal.Signals, code: int) -> None:
    with Serving() as serving:
        assert serving.call("pid").text == str(serving.process.pid)
        serving.signal(number)
        assert serving.ended() == code
        serving.told("hook ran")
        assert serving.process.stdout is not None
        assert serving.process.stdout.read() == ""


def test_a_call_that_runs_is_answered_and_nobody_new_is_let_in() -> None:
    """No new requests; running handlers get their time (drain_timeout)."""
    with Serving(drain_timeout=5) as serving:
        answers: list[Answer] = []
        calling = threading.Thread(target=lambda: answers.append(serving.call("slow", seconds=0.6)))
        calling.start()
        serving.told("begun")
        serving.signal(signal.SIGTERM)
        with pytest.raises(OSError):  # noqa: PT012  # until the port is closed, some tenths of a second later
            for _ in range(200):
                socket.create_connection(("127.0.0.1", serving.port), timeout=5).close()
                time.sleep(0.01)
        calling.join(GUARD)
        assert answers[0].text == "done"
        assert serving.ended() == 0
        serving.told("hook ran")


def test_streams_are_ended_and_not_cut() -> None:
    """A client that listens gets the answer to its request, or the end of its stream: it knows that nothing was lost."""
    with Serving(sessions=True, drain_timeout=5) as serving:
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
        opened = serving.ask(
            "POST", "/mcp", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": info}
        )
        in_session = {
            "mcp-session-id": opened.headers["mcp-session-id"],
            "mcp-protocol-version": "2025-11-25",
        }
        session.request("GET", "/mcp", headers={**headers, **in_session})
        events = session.getresponse()
        assert events.status == 200
        serving.signal(signal.SIGTERM)
        rest = stream.read()  # http.client raises IncompleteRead for a stream that was cut
        assert json.loads(rest.rstrip().rpartition(b"data: ")[2])["id"] == 5
        events.read()
        assert serving.ended() == 0
        listening.close()
        session.close()


@pytest.mark.parametrize("tool", ["slow", "block"])
def test_a_handler_that_takes_too_long_does_not_hold_the_end(tool: str) -> None:
    """G12's limit over HTTP: handlers get `drain_timeout`, and the process is gone within half a second more."""
    with Serving(drain_timeout=0.3) as serving:
        outcome: list[object] = []

        def calling() -> None:
            try:
                outcome.append(serving.call(tool, seconds=600))
            except (OSError, http.client.HTTPException) as error:
                outcome.append(error)

        thread = threading.Thread(target=calling)
        thread.start()
        serving.told("begun")
        serving.signal(signal.SIGTERM)
        assert serving.ended() == 0  # the handler hangs for longer than that waits
        thread.join(GUARD)
        assert not thread.is_alive()
        assert outcome  # an answer or a closed connection: never a hang


def test_a_second_signal_ends_it_at_once() -> None:
    with Serving(drain_timeout=20) as serving:
        thread = threading.Thread(target=lambda: _swallow(serving))
        thread.start()
        serving.told("begun")
        serving.signal(signal.SIGTERM)
        serving.signal(signal.SIGTERM)
        # One signal may overtake the other before the first is handled: then they count as one.
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


def test_a_taken_port_ends_a_program_with_the_reason() -> None:
    taken = bind_sockets("127.0.0.1", 0)
    try:
        with Serving(port=port_of(taken)) as serving:
            assert serving.ended() == 1
            serving.told("TransportError: cannot listen on 127.0.0.1:.*the port is taken")
    finally:
        taken[0].close()


def test_logs_are_the_programs_own_affair() -> None:
    """Nothing is configured: a program that did not ask for logs sees one line, and one that did sees ours."""
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
def test_a_server_whose_standard_descriptors_are_closed_ends_as_any_other(
    redirections: str, loop: str, tmp_path: Path
) -> None:
    """libuv aborts the process when it closes a descriptor of its own whose number is below 3."""
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
        timeout=50,
        check=False,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )
    assert done.returncode == 0
    assert (tmp_path / "status").read_text() == "0"


def test_the_http_stack_is_loaded_by_who_runs_it_and_by_nobody_else() -> None:
    code = "import sys; from jackstay.server import Server; Server('x'); print('uvicorn' in sys.modules, 'jackstay.server.http' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )
    assert done.stdout.split() == ["False", "False"]
