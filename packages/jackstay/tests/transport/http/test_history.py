"""Reported outcomes compared with the calls that the server ran. Faults are random, by seed, on a fake clock."""

import asyncio
import random
from typing import Any

import pytest

from jackstay.client import connect
from jackstay.errors import McpError, TransportError
from jackstay.testing import on_fake_clock
from jackstay.transport.http import http
from scripted.http import HANDSHAKE, STATELESS, Mcp, MemoryHttp, Reply, Seen

CALLS = 120


class Faulty(Mcp):
    """A faulty server that records the calls it ran."""

    def __init__(self, version: str, rng: random.Random) -> None:
        super().__init__(version, session="s")
        self.rng = rng
        self.ran: dict[int, int] = {}
        self.streams: dict[str, list[dict[str, Any]]] = {}
        self.is_healthy = False

    async def __call__(self, seen: Seen, reply: Reply) -> None:
        rng = self.rng
        if not self.is_healthy:
            await asyncio.sleep(rng.choice((0, 0, 0.01, 0.5)))
            fault = rng.random()
            if fault < 0.05:
                raise TransportError("refused")
            if fault < 0.08:
                reply.send(rng.choice((429, 503)), retry_after="1")
                return
            if fault < 0.10 and seen.what not in ("initialize", "server/discover"):
                self.sessions.clear()
                self.session = f"s{rng.randrange(10**9)}-"
        if seen.what == "tools/call" and not self.is_forgotten(seen):
            await self.call(seen, reply)
        elif seen.method == "GET" and "last-event-id" in seen.headers and not self.is_forgotten(seen):
            await self.resume(seen, reply)
        else:
            await super().__call__(seen, reply)

    async def call(self, seen: Seen, reply: Reply) -> None:
        """Run the call, and respond in one of many ways, or not at all."""
        rng = self.rng
        number = seen.rpc["params"]["arguments"]["n"]
        fault = 1.0 if self.is_healthy else rng.random()
        if fault < 0.05:
            reply.cut()
            return
        self.ran[number] = self.ran.get(number, 0) + 1
        await asyncio.sleep(rng.choice((0, 0.1, 2.0)) if not self.is_healthy else 0)
        content = [{"type": "text", "text": str(number)}]
        answer = {"jsonrpc": "2.0", "id": seen.id, "result": {"content": content, "resultType": "complete"}}
        if fault < 0.10:
            reply.cut()
        elif fault < 0.15:
            reply.sse()
            reply.cut() if rng.random() < 0.5 else reply.end()
        elif fault < 0.25:
            id = f"e{number}-{len(self.ran)}"
            self.streams[id] = [answer]
            reply.sse()
            reply.event(b"", id=id, retry=200)
            reply.end()
        elif fault < 0.30:
            reply.json(b'{"jsonrpc":"2.0","id":999999,"result":{}}')
        elif fault < 0.35:
            await reply.gone.wait()  # never
        elif fault < 0.6:
            reply.sse()
            reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
            reply.event(answer)
            reply.event(answer)  # twice
            reply.end()
        else:
            reply.json(answer)

    async def resume(self, seen: Seen, reply: Reply) -> None:
        reply.sse()
        for answer in self.streams.pop(seen.headers["last-event-id"], []):
            reply.event(answer, id="done")
        reply.end()


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
@pytest.mark.parametrize("seed", range(12))
@on_fake_clock
async def test_reported_outcomes_match_the_calls_that_ran(seed: int, version: str) -> None:
    """docs/guarantees.md G2, G3, G4, G7, G10, G11."""
    rng = random.Random(seed)
    server = Faulty(version, rng)
    wire = MemoryHttp(server)
    client = connect(
        http("http://127.0.0.1/mcp", client=wire, max_connections=5),
        backoff_min=0.05,
        backoff_max=0.2,
        wait_for_ready=True,
        max_attempts=1000,
        request_timeout=5.0,
    )
    outcomes: dict[int, McpError | str] = {}

    async def call(number: int) -> None:
        await asyncio.sleep(rng.random() * 20)
        try:
            outcomes[number] = (await client.tools.call("echo", {"n": number})).text
        except McpError as error:
            outcomes[number] = error

    async with client:
        await asyncio.gather(*(call(number) for number in range(CALLS)))
        server.is_healthy = True
        for number, outcome in outcomes.items():
            ran = server.ran.get(number, 0)
            if isinstance(outcome, str):
                assert (outcome, ran) == (str(number), 1), f"call {number}"
            elif outcome.may_have_run is False:
                assert ran == 0, f"call {number}: {outcome!r}"
            else:
                assert ran <= 1, f"call {number}: {outcome!r}"
        assert len(outcomes) == CALLS
        assert sum(isinstance(outcome, str) for outcome in outcomes.values()) > CALLS / 4
        await asyncio.sleep(20)  # two sessions lost within ten seconds are a failure
        await client.ready(60)
        assert (await client.tools.call("echo", {"n": -1})).text == "-1"
        await asyncio.sleep(120)
        transport: Any = client._connection._transport  # type: ignore[union-attr]  # internals
        assert (transport._running, len(transport._queue), len(transport._by_id)) == (0, 0, 0)
        assert list(transport._open) == []
