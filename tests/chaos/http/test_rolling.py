"""Several workers behind one address, restarted one after the other under load, and killed: nothing hangs, nothing runs twice.

Our client calls all the time, with `wait_for_ready`; the ledger of all workers says who told the truth. Both eras; the
handshake era also with sessions, which the workers share in a store.
"""

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from chaos.http.process import LedgerServer, check_ledger
from chaos.http.raw import HANDSHAKE, INITIALIZE, STATELESS, Raw, call, request, stateless_call
from mooring.client import Client, connect
from mooring.errors import JsonRpcError, McpError
from mooring.transport.http import http
from scripted.loop import timed

IS_SOAK = os.environ.get("MOORING_PROFILE") == "soak"
ROUNDS = 10 if IS_SOAK else 1
CALLERS = 6
DEADLINE = 10.0
KINDS = [(HANDSHAKE, {}), (HANDSHAKE, {"shared_sessions": True}), (STATELESS, {})]
TOOLS = ("record", "record_in_steps", "record_and_wait")


class Load:
    """Callers that call until they are told to stop, and what they were told."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.outcomes: dict[str, str] = {}
        self.errors: list[McpError] = []
        self.longest = 0.0
        self.is_over = False

    async def call(self, caller: int) -> None:
        loop = asyncio.get_running_loop()
        number = 0
        while not self.is_over:
            nonce = f"{caller}-{number}"
            tool = TOOLS[number % len(TOOLS)]
            number += 1
            arguments: dict[str, Any] = {"nonce": nonce}
            if tool == "record_and_wait":
                arguments["seconds"] = 0.05
            begun = loop.time()
            try:
                result = await self.client.tools.call(tool, arguments, timeout=DEADLINE, max_timeout=DEADLINE)
            except McpError as error:
                self.outcomes[nonce] = "unknown" if error.may_have_run else "failed"
                self.errors.append(error)
                if error.may_have_run is None:  # the server's word, and there is one that means: it did not run
                    assert isinstance(error, JsonRpcError)
                    assert error.data == {"retryable": True}, error
                await asyncio.sleep(0)
            else:
                assert result.text == nonce, "somebody else's answer"
                self.outcomes[nonce] = "ok"
            self.longest = max(self.longest, loop.time() - begun)


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
@pytest.mark.parametrize(("version", "options"), KINDS, ids=["handshake", "sessions", "stateless"])
def test_workers_that_are_restarted_or_killed_under_load_hang_and_double_nothing(
    version: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """G4, G7, G19: SIGTERM to each worker in turn, then SIGKILL to one; everybody is told the truth, and soon."""

    @timed
    async def test() -> None:
        async with connect(
            http(server.url), versions=(version,), wait_for_ready=True, backoff_min=0.01, backoff_max=0.1
        ) as client:
            load = Load(client)
            callers = [asyncio.get_running_loop().create_task(load.call(number)) for number in range(CALLERS)]
            try:
                await served_by_others_than(server)
                for _ in range(ROUNDS):
                    for pid in server.workers:
                        os.kill(pid, signal.SIGTERM)
                        await served_by_others_than(server, pid)
                    killed = min(server.workers)
                    os.kill(killed, signal.SIGKILL)
                    await served_by_others_than(server, killed)
            finally:
                load.is_over = True
                await asyncio.gather(*callers)
            loads.append(load)

    loads: list[Load] = []
    with LedgerServer(tmp_path, workers=2, drain_timeout=2, **options) as server:
        test()
        server.process.terminate()
        server.ended()
    (load,) = loads
    told = check_ledger(server.runs, load.outcomes)
    print(told, f"longest {load.longest:.2f} s", *map(repr, load.errors), sep="\n")
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
    servers: list[LedgerServer] = []

    @timed
    async def test() -> None:
        async with connect(
            http(servers[0].url), versions=(HANDSHAKE,), wait_for_ready=True, backoff_min=0.01, backoff_max=0.1
        ) as client:
            load = Load(client)
            callers = [asyncio.get_running_loop().create_task(load.call(number)) for number in range(CALLERS)]
            try:
                await client.tools.call("echo", {"text": "here"})
                port = servers[0].port
                servers[0].signal(how)
                await asyncio.get_running_loop().run_in_executor(None, servers[0].ended)
                with LedgerServer(tmp_path, sessions=True, port=port, health=True) as again:
                    for text in ("first", "second"):  # one is the first after it, and neither is lost
                        assert (await client.tools.call("echo", {"text": text}, timeout=DEADLINE)).text == text
                    health = await asyncio.get_running_loop().run_in_executor(None, again.ask, "GET", "/health")
                    assert health.json["sessions"] == 1, "one new session for everybody"
                    load.is_over = True
                    await asyncio.gather(*callers)
            finally:
                load.is_over = True
                await asyncio.gather(*callers)
            loads.append(load)

    loads: list[Load] = []
    with LedgerServer(tmp_path, sessions=True, drain_timeout=2) as first:
        servers.append(first)
        test()
    (load,) = loads
    told = check_ledger(first.runs, load.outcomes)
    print(told, f"longest {load.longest:.2f} s", *map(repr, load.errors), sep="\n")
    assert told["ok"] > CALLERS
    assert told["unknown"] <= 2 * CALLERS
    assert load.longest < DEADLINE, "a call hung"


def test_any_worker_serves_any_request_and_none_knows_a_session_that_nobody_opened(tmp_path: Path) -> None:
    """G19: several workers behind one address and nothing sticky; in both eras, and in a session that they share."""
    with LedgerServer(tmp_path, workers=2, shared_sessions=True) as server:
        with Raw(server.port) as raw:
            raw.say(request(body=INITIALIZE))
            session = {"Mcp-Session-Id": raw.answer().headers["mcp-session-id"], "MCP-Protocol-Version": HANDSHAKE}
        unknown = {**session, "Mcp-Session-Id": "x" * 32}
        by: dict[str, set[int]] = {"handshake": set(), "stateless": set()}
        begun = time.monotonic()
        while not all(found == server.workers for found in by.values()):
            assert time.monotonic() < begun + 20, by
            for name, data in (
                ("handshake", request(body=call("pid"), **session)),
                ("stateless", stateless_call("pid")),
            ):
                with Raw(server.port) as raw:
                    raw.say(data)
                    by[name].add(int(raw.answer().json["result"]["content"][0]["text"]))
            with Raw(server.port) as raw:
                raw.say(request(body=call("pid"), **unknown))
                assert raw.answer().status == 404


def test_without_sessions_any_worker_serves_the_handshake_era_too(tmp_path: Path) -> None:
    """G19: stateless by default: nothing that `initialize` left behind is needed by the next request."""
    with LedgerServer(tmp_path, workers=2) as server:
        found: set[int] = set()
        begun = time.monotonic()
        while found != server.workers:
            assert time.monotonic() < begun + 20, found
            with Raw(server.port) as raw:
                raw.say(request(body=INITIALIZE))
                assert "mcp-session-id" not in raw.answer().headers
            with Raw(server.port) as raw:
                raw.say(request(body=call("pid"), MCP_Protocol_Version=HANDSHAKE))
                found.add(int(raw.answer().json["result"]["content"][0]["text"]))
