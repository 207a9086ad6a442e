"""Rolling restarts: workers are restarted and killed under load; no call hangs or runs twice.

A client with `wait_for_ready` calls all the time, and the outcomes are compared with the ledger of all workers: with
and without sessions, which the workers share in a store.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from chaos.http.callers import Callers
from chaos.http.process import LedgerServer
from chaos.http.raw import (
    HANDSHAKE,
    INITIALIZE,
    STATELESS,
    call,
    fetch,
    in_session,
    open_session,
    request,
    stateless_call,
)
from jackstay.client import Client, connect
from jackstay.transport.http import http

IS_SOAK = os.environ.get("JACKSTAY_PROFILE") == "soak"
ROUNDS = 2 if IS_SOAK else 1  # the restart delay of workers grows with each round
CALLERS = 6
DEADLINE = 10.0
KINDS = {
    "sessions": (HANDSHAKE, {"shared_sessions": True}),
    "stateless": (STATELESS, {}),
    **({"handshake": (HANDSHAKE, {})} if IS_SOAK else {}),
}
TOOLS = ("record", "record_in_steps", "record_and_wait")


class Load(Callers):
    """Callers that call until `stop()`."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._is_over = False
        self._tasks = [asyncio.get_running_loop().create_task(self._call_on(n)) for n in range(CALLERS)]

    async def _call_on(self, caller: int) -> None:
        number = 0
        while not self._is_over:
            tool = TOOLS[number % len(TOOLS)]
            more = {"seconds": 0.05} if tool == "record_and_wait" else {}
            await self.call(self._client, tool, f"{caller}-{number}", DEADLINE, **more)
            number += 1

    async def stop(self) -> None:
        """Wait for the last calls."""
        self._is_over = True
        await asyncio.gather(*self._tasks)


@asynccontextmanager
async def loaded(url: str, version: str, loads: list[Load]) -> AsyncIterator[Client]:
    """Connect a client that waits for its server to be ready, with callers that use it all the time."""
    async with connect(
        http(url), versions=(version,), wait_for_ready=True, backoff_min=0.01, backoff_max=0.1
    ) as client:
        loads.append(Load(client))
        try:
            yield client
        finally:
            await loads[-1].stop()


async def wait_for_other_workers(server: LedgerServer, *gone: int) -> None:
    """Wait until two workers serve new connections, none of which is in `gone`."""
    answered: set[int] = set()
    async with asyncio.timeout(20):
        while True:
            answered.add(await get_pid(server.port))
            workers = server.workers
            if len(workers) == 2 and workers <= answered and workers.isdisjoint(gone):
                return


async def get_pid(port: int) -> int:
    """Return the pid of the worker that accepts a new connection, or 0 if it refuses or closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(stateless_call("pid", headers={"Connection": "close"}))
        response = await reader.read()
        return int(json.loads(response.partition(b"\r\n\r\n")[2])["result"]["content"][0]["text"])
    except (OSError, ValueError, KeyError):
        return 0
    finally:
        writer.close()


@pytest.mark.parametrize(("version", "options"), KINDS.values(), ids=KINDS)
async def test_restarting_and_killing_workers_under_load_loses_and_duplicates_no_call(
    version: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """docs/guarantees.md G4, G7, G19: SIGTERM to each worker in turn, then SIGKILL to one."""

    async def test() -> None:
        async with loaded(server.url, version, loads):
            await wait_for_other_workers(server)
            for _ in range(ROUNDS):
                for pid in server.workers:
                    os.kill(pid, signal.SIGTERM)
                    await wait_for_other_workers(server, pid)
                killed = min(server.workers)
                os.kill(killed, signal.SIGKILL)
                await wait_for_other_workers(server, killed)

    loads: list[Load] = []
    with LedgerServer(tmp_path, workers=2, drain_timeout=2, **options) as server:
        await test()
        server.process.terminate()
        server.ended()
    (load,) = loads
    counts = load.check(server.runs)
    assert counts["ok"] > 50
    # At most the one call of each caller that was in flight when a worker ended.
    assert counts["unknown"] <= CALLERS * 3 * ROUNDS
    assert load.longest < DEADLINE, "a call hung"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
async def test_after_a_redeployment_clients_open_a_new_session(how: signal.Signals, tmp_path: Path) -> None:
    """docs/guarantees.md G4: sessions in memory end with the process, and the new process returns 404 for them."""

    async def test() -> None:
        in_thread = asyncio.get_running_loop().run_in_executor
        async with loaded(first.url, HANDSHAKE, loads) as client:
            await client.tools.call("echo", {"text": "here"})
            for _ in range(2 * CALLERS):
                await loads[0].answered.acquire()
            first.signal(how)
            await in_thread(None, first.ended)
            unknown.append(list(loads[0].outcomes.values()).count("unknown"))
            with LedgerServer(tmp_path, sessions=True, port=first.port, health=True) as again:
                await in_thread(None, again.wait_for_line, "serves")
                for text in ("first", "second"):  # the first one finds that the session is gone
                    assert (await client.tools.call("echo", {"text": text}, timeout=DEADLINE)).text == text
                health = await in_thread(None, again.request, "GET", "/health")
                assert health.json["sessions"] == 1, "one new session for all callers"
                await loads[0].stop()

    loads: list[Load] = []
    unknown: list[int] = []  # when the process has ended: until then the system accepts connections and resets them
    with LedgerServer(tmp_path, sessions=True, drain_timeout=2) as first:
        await test()
    (load,) = loads
    counts = load.check(first.runs)
    assert counts["ok"] > CALLERS
    assert counts["unknown"] <= unknown[0] + CALLERS, "more than the one call of each caller that was in flight"
    assert load.longest < DEADLINE, "a call hung"


def test_any_worker_serves_any_request(tmp_path: Path) -> None:
    """docs/guarantees.md G19: without sticky routing, in every revision, and in a session that they share."""
    with LedgerServer(tmp_path, workers=2, shared_sessions=True) as server:
        session = open_session(server.port)
        by: dict[str, set[int]] = {"handshake": set(), "stateless": set()}
        started_at = time.monotonic()
        while not all(found == server.workers for found in by.values()):
            assert time.monotonic() < started_at + 50, by
            for name, data in (
                ("handshake", in_session(session, body=call("pid"))),
                ("stateless", stateless_call("pid")),
            ):
                by[name].add(int(fetch(server.port, data).text))
            assert fetch(server.port, in_session("x" * 32, body=call("pid"))).status == 404


def test_without_sessions_any_worker_serves_earlier_revisions(tmp_path: Path) -> None:
    """docs/guarantees.md G19: no request depends on state of an earlier `initialize`."""
    with LedgerServer(tmp_path, workers=2) as server:
        found: set[int] = set()
        started_at = time.monotonic()
        while found != server.workers:
            assert time.monotonic() < started_at + 50, found
            assert "mcp-session-id" not in fetch(server.port, request(body=INITIALIZE)).headers
            found.add(int(fetch(server.port, request(body=call("pid"), MCP_Protocol_Version=HANDSHAKE)).text))
