"""Several workers behind one address, restarted one after the other under load, and killed: nothing hangs, nothing runs twice.

Our client calls all the time, with `wait_for_ready`; the ledger of all workers says who told the truth. Both eras; the
handshake era also with sessions, which the workers share in a store.
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
    ask,
    call,
    in_session,
    open_session,
    request,
    stateless_call,
)
from jackstay.client import Client, connect
from jackstay.transport.http import http
from scripted.loop import timed

IS_SOAK = os.environ.get("JACKSTAY_PROFILE") == "soak"
ROUNDS = 2 if IS_SOAK else 1  # more would be slowed down by how workers that die often are started
CALLERS = 6
DEADLINE = 10.0
KINDS = {
    "sessions": (HANDSHAKE, {"shared_sessions": True}),
    "stateless": (STATELESS, {}),
    **({"handshake": (HANDSHAKE, {})} if IS_SOAK else {}),
}
TOOLS = ("record", "record_in_steps", "record_and_wait")


class Load(Callers):
    """Callers that call until they are told to stop."""

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
        """Let the last calls end."""
        self._is_over = True
        await asyncio.gather(*self._tasks)


@asynccontextmanager
async def loaded(url: str, version: str, loads: list[Load]) -> AsyncIterator[Client]:
    """A client that waits for its server to be ready, and callers who use it all the time."""
    async with connect(
        http(url), versions=(version,), wait_for_ready=True, backoff_min=0.01, backoff_max=0.1
    ) as client:
        loads.append(Load(client))
        try:
            yield client
        finally:
            await loads[-1].stop()


async def served_by_others_than(server: LedgerServer, *gone: int) -> None:
    """Wait until two workers serve new connections, and none of those named does."""
    answered: set[int] = set()
    async with asyncio.timeout(20):
        while True:
            answered.add(await ask_pid(server.port))
            workers = server.workers
            if len(workers) == 2 and workers <= answered and workers.isdisjoint(gone):
                return


async def ask_pid(port: int) -> int:
    """Who takes a new connection. One that is about to end may refuse, or close it: 0."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(stateless_call("pid", headers={"Connection": "close"}))
        said = await reader.read()
        return int(json.loads(said.partition(b"\r\n\r\n")[2])["result"]["content"][0]["text"])
    except (OSError, ValueError, KeyError):
        return 0
    finally:
        writer.close()


@pytest.mark.guard(120)
@pytest.mark.parametrize(("version", "options"), KINDS.values(), ids=KINDS)
def test_workers_that_are_restarted_or_killed_under_load_hang_and_double_nothing(
    version: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """G4, G7, G19: SIGTERM to each worker in turn, then SIGKILL to one; everybody is told the truth, and soon."""

    @timed
    async def test() -> None:
        async with loaded(server.url, version, loads):
            await served_by_others_than(server)
            for _ in range(ROUNDS):
                for pid in server.workers:
                    os.kill(pid, signal.SIGTERM)
                    await served_by_others_than(server, pid)
                killed = min(server.workers)
                os.kill(killed, signal.SIGKILL)
                await served_by_others_than(server, killed)

    loads: list[Load] = []
    with LedgerServer(tmp_path, workers=2, drain_timeout=2, **options) as server:
        test()
        server.process.terminate()
        server.ended()
    (load,) = loads
    told = load.check(server.runs)
    assert told["ok"] > 50
    # What a worker had in its hands when it was killed, or was sent to it in that moment: one for each caller, no more.
    assert told["unknown"] <= CALLERS * 3 * ROUNDS
    assert load.longest < DEADLINE, "a call hung"


@pytest.mark.guard(120)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_a_redeployed_server_has_forgotten_every_session_and_callers_get_a_new_one(
    how: signal.Signals, tmp_path: Path
) -> None:
    """G4: sessions in memory are gone with the process; the next has none of them, and answers 404 to each."""

    @timed
    async def test() -> None:
        in_thread = asyncio.get_running_loop().run_in_executor
        async with loaded(first.url, HANDSHAKE, loads) as client:
            await client.tools.call("echo", {"text": "here"})
            for _ in range(2 * CALLERS):
                await loads[0].answered.acquire()
            first.signal(how)
            await in_thread(None, first.ended)
            with LedgerServer(tmp_path, sessions=True, port=first.port, health=True) as again:
                await in_thread(None, again.told, "serves")
                for text in ("first", "second"):  # one is the first after it, and neither is lost
                    assert (await client.tools.call("echo", {"text": text}, timeout=DEADLINE)).text == text
                health = await in_thread(None, again.ask, "GET", "/health")
                assert health.json["sessions"] == 1, "one new session for everybody"
                await loads[0].stop()

    loads: list[Load] = []
    with LedgerServer(tmp_path, sessions=True, drain_timeout=2) as first:
        test()
    (load,) = loads
    told = load.check(first.runs)
    assert told["ok"] > CALLERS
    assert told["unknown"] <= 2 * CALLERS
    assert load.longest < DEADLINE, "a call hung"


def test_any_worker_serves_any_request_and_none_knows_a_session_that_nobody_opened(tmp_path: Path) -> None:
    """G19: several workers behind one address and nothing sticky; in both eras, and in a session that they share."""
    with LedgerServer(tmp_path, workers=2, shared_sessions=True) as server:
        session = open_session(server.port)
        by: dict[str, set[int]] = {"handshake": set(), "stateless": set()}
        begun = time.monotonic()
        while not all(found == server.workers for found in by.values()):
            assert time.monotonic() < begun + 50, by
            for name, data in (
                ("handshake", in_session(session, body=call("pid"))),
                ("stateless", stateless_call("pid")),
            ):
                by[name].add(int(ask(server.port, data).text))
            assert ask(server.port, in_session("x" * 32, body=call("pid"))).status == 404


def test_without_sessions_any_worker_serves_the_handshake_era_too(tmp_path: Path) -> None:
    """G19: stateless by default: nothing that `initialize` left behind is needed by the next request."""
    with LedgerServer(tmp_path, workers=2) as server:
        found: set[int] = set()
        begun = time.monotonic()
        while found != server.workers:
            assert time.monotonic() < begun + 50, found
            assert "mcp-session-id" not in ask(server.port, request(body=INITIALIZE)).headers
            found.add(int(ask(server.port, request(body=call("pid"), MCP_Protocol_Version=HANDSHAKE)).text))
