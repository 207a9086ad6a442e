"""Servers that drop sessions, over real sockets: every outcome matches the calls that ran."""

import asyncio
import itertools
import json
import logging
import random
from collections import Counter
from typing import Any

import pytest
import uvloop

from jackstay.client import connect
from jackstay.errors import McpError, SessionLostError, TimeoutError
from jackstay.transport.http import http
from scripted.http import HANDSHAKE, Mcp, Reply, Seen, served

FAST: dict[str, Any] = {
    "backoff_min": 0.001,
    "backoff_max": 0.005,
    "session_attempts": 1000,
    "versions": (HANDSHAKE,),
}
NO_SESSIONS_WARNING = "the server does not keep sessions"


@pytest.fixture(scope="module", autouse=True)
def _open_the_pipe_of_uvloop() -> None:
    """uvloop opens a pipe for signals with its first loop and keeps it."""
    uvloop.new_event_loop().close()


class Workers:
    """Workers that share no session store, behind a balancer without sticky sessions.

    `by`: the balancer distributes connections in turn (as a TCP balancer does), requests in turn (as an HTTP balancer
    does), or requests at random.
    """

    def __init__(self, count: int, by: str = "connection") -> None:
        self.workers = [Mcp(HANDSHAKE, session=f"{name}-") for name in "abcdef"[:count]]
        for worker in self.workers:
            worker.on["tools/call"] = self._call(worker)
        self._rotation = itertools.cycle(self.workers)
        self._by = by
        self._rng = random.Random(count)
        self._worker_of: dict[object, Mcp] = {}
        self.ran: Counter[int] = Counter()
        self.refused = 0

    async def __call__(self, seen: Seen, reply: Any) -> None:
        if self._by == "random":
            worker = self._rng.choice(self.workers)
        elif self._by == "request":
            worker = next(self._rotation)
        else:
            worker = self._worker_of.get(reply.transport) or self._worker_of.setdefault(
                reply.transport, next(self._rotation)
            )
        await worker(seen, reply)

    def _call(self, worker: Mcp) -> Any:
        async def call(seen: Seen, reply: Reply) -> None:
            if worker.is_forgotten(seen):
                self.refused += 1
                reply.send(404)
                return
            number = seen.rpc["params"]["arguments"]["n"]
            self.ran[number] += 1
            await asyncio.sleep(0)
            reply.result(seen.id, {"content": [{"type": "text", "text": json.dumps(number)}]})

        return call


async def outcome(client: Any, number: int, **options: Any) -> object:
    try:
        return int((await client.tools.call("echo", {"n": number}, **options)).text)
    except McpError as error:
        return error


def check_ledger(ran: Counter[int], outcomes: dict[int, object]) -> None:
    """A result means that the call ran once, `may_have_run=False` that it did not run."""
    assert set(ran.values()) <= {1}, "nothing runs twice"
    for number, got in outcomes.items():
        if isinstance(got, McpError):
            assert isinstance(got, SessionLostError | TimeoutError), got
            assert got.may_have_run is False or isinstance(got, TimeoutError), got
            assert number not in ran or got.may_have_run
        else:
            assert got == number
            assert ran[number] == 1


async def lose_two_sessions() -> None:
    script = Mcp(HANDSHAKE, session="s")
    release: dict[int, asyncio.Event] = {1: asyncio.Event(), 2: asyncio.Event()}
    refusals, ran, waiting = Counter[int](), Counter[int](), asyncio.Semaphore(0)

    async def call(seen: Seen, reply: Reply) -> None:
        number = seen.rpc["params"]["arguments"]["n"]
        session = int(seen.headers["mcp-session-id"].removeprefix("s"))
        waiting.release()
        if session <= 2:
            await release[session].wait()
            refusals[session] += 1
            reply.send(404)
            return
        ran[number] += 1
        reply.result(seen.id, {"content": [{"type": "text", "text": json.dumps(number)}]})

    script.on["tools/call"] = call
    async with served(script) as server, connect(http(server.url), **FAST) as client:
        calls = [asyncio.ensure_future(outcome(client, number)) for number in range(20)]
        for session in (1, 2):
            for _ in calls:
                await waiting.acquire()
            release[session].set()
        assert await asyncio.gather(*calls) == list(range(20))
        assert refusals == {1: 20, 2: 20}
        assert ran == Counter(range(20))
        assert len(server.received("initialize")) == 3, "one new session for each that was dropped"


async def test_twenty_calls_with_two_lost_sessions_succeed() -> None:
    await lose_two_sessions()


def test_twenty_calls_with_two_lost_sessions_succeed_on_uvloop() -> None:
    uvloop.run(asyncio.wait_for(lose_two_sessions(), 30))


@pytest.mark.parametrize("by", ["connection", "request", "random"])
@pytest.mark.parametrize("count", [2, 4])
async def test_outcomes_behind_a_balancer_without_sticky_sessions(
    count: int, by: str, caplog: pytest.LogCaptureFixture
) -> None:
    """docs/guarantees.md G4: of 200 calls, rejected ones are sent again, and no outcome is unknown.

    In strict rotation the handshake itself may never reach one worker twice: then the calls end at their deadlines.
    """
    script = Workers(count, by)
    with caplog.at_level(logging.WARNING, "jackstay.client"):
        async with served(script) as server, connect(http(server.url), wait_for_ready=True, **FAST) as client:
            timeout = 25 if by == "random" else 4
            calls = [outcome(client, number, timeout=timeout) for number in range(200)]
            outcomes = dict(enumerate(await asyncio.gather(*calls)))
    check_ledger(script.ran, outcomes)
    if by == "random":
        assert len(script.ran) == 200, "every call arrives"
    assert [record.levelname for record in caplog.records if NO_SESSIONS_WARNING in record.getMessage()] == ["WARNING"]
