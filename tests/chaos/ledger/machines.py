"""Two servers that share a Redis, behind a proxy that alternates between them, while each part is killed or stopped,
one of the servers is partitioned from Redis, or a replica is promoted.

Callers of both eras record nonces, with a plain call, with a stream of events, and after an elicitation that returns
the nonce: a response that reached another request would be the result of another call.
"""

import asyncio
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from chaos.http.process import LedgerServer
from chaos.ledger.ledger import Ledger
from chaos.ledger.redis_faults import WEIGHTS, Faults, FaultyRedis
from jackstay.client import Client, connect
from jackstay.types import ElicitResult
from peers.round_robin import RoundRobin

STATELESS = "2026-07-28"
VERSIONS = ("2025-11-25", STATELESS)
CALLERS = 4
TOOLS = ("record", "record_in_steps", "record_confirmed")
KILL = "kill a server"
FAULTS = {KILL: 6, **WEIGHTS}


class Servers:
    """The processes. Each keeps its port when it is restarted."""

    def __init__(self, directory: Path, redis: FaultyRedis) -> None:
        self.redis = redis
        self.each = [LedgerServer(directory, redis=url, sessions=True) for url in redis.urls]

    def start(self) -> list[int]:
        """Return the ports."""
        for server in self.each:
            server.__enter__()
        ports = [server.port for server in self.each]
        for server, port in zip(self.each, ports, strict=True):
            server.command = (*server.command[:-1], server.command[-1].replace('"port": 0', f'"port": {port}'))
        return ports

    def restart(self, server: LedgerServer) -> None:
        """Kill a server and start another one."""
        server.__exit__(None, None, None)
        server.lines.clear()
        server.__enter__()
        _ = server.port  # it accepts connections

    def close(self) -> None:
        """Kill them all."""
        for server in self.each:
            server.__exit__(None, None, None)


async def disturb(servers: Servers, faults: Faults, over: asyncio.Event) -> None:
    """Disturb one part after the other until `over`. In the end all of them run."""
    async for fault, seconds in faults.until(over, 1.5):
        if fault == KILL:
            await asyncio.to_thread(servers.restart, faults.rng.choice(servers.each))
        else:
            await servers.redis.disturb(faults.rng, fault, seconds)


def check(ledger: Ledger, faults: Faults) -> list[str]:
    """Return the calls of 2026-07-28 that failed while only Redis did: they need none. Late ones are not counted."""
    if KILL in faults.weights:
        return []
    failures = {nonce: kind for nonce, kind in ledger.failures.items() if kind != "TimeoutError"}
    return [f"{nonce}: {kind}, but only Redis failed" for nonce, kind in failures.items() if STATELESS in nonce]


async def call_until(over: asyncio.Event, client: Client, ledger: Ledger, rng: random.Random, prefix: str) -> None:
    """Make calls, one after the other."""
    count = 0
    while not over.is_set():
        count += 1
        nonce = f"{prefix}-{count}"
        deadline = rng.choice([1.0, 3.0, 8.0])
        with ledger.watch(nonce, deadline) as answers:
            result = await client.tools.call(
                rng.choice(TOOLS), {"nonce": nonce}, timeout=deadline, max_timeout=deadline
            )
            answers.append(result.text)
        await asyncio.sleep(0.02)


def connected(url: str, version: str) -> Client:
    """Return a client that responds to an elicitation with its message."""
    client = connect(url, versions=(version,), backoff_min=0.02, backoff_max=0.2, max_attempts=1_000_000)

    @client.elicitation.handle
    async def elicit(params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"nonce": params.message})

    return client


async def run(ledger: Ledger, rng: random.Random, seconds: float, names: Sequence[str] = ()) -> None:
    """Call and disturb for so many seconds, only by the faults that are named."""
    faults = Faults(rng, FAULTS, names, seconds)
    with tempfile.TemporaryDirectory() as directory, FaultyRedis(2) as redis, ExitStack() as stack:
        os.symlink(ledger.path, Path(directory) / "ledger")
        servers = Servers(Path(directory), redis)
        stack.callback(servers.close)
        ports = await asyncio.to_thread(servers.start)
        proxy = stack.enter_context(RoundRobin(*ports))
        over = asyncio.Event()
        versions = [version for version in VERSIONS for _ in range(2)]
        clients = [connected(proxy.url, version) for version in versions]
        work: list[Coroutine[Any, Any, None]] = [disturb(servers, faults, over)]
        for number, client in enumerate(clients):
            await client.open()
            for caller in range(CALLERS):
                chance = random.Random(rng.random())
                work.append(call_until(over, client, ledger, chance, f"machines-{versions[number]}-{number}-{caller}"))
        asyncio.get_running_loop().call_later(seconds, over.set)
        started_at = time.monotonic()
        try:
            await asyncio.gather(*work)
        finally:
            for client in clients:
                await client.stop()
        took = time.monotonic() - started_at
        print(f"machines: {len(proxy.log)} requests in {took:.1f} s; {dict(faults.counts)}", flush=True)
        failed = Counter(kind for nonce, kind in ledger.failures.items() if STATELESS in nonce)
        print(f"machines: calls of {STATELESS} that failed: {dict(failed)}", flush=True)
    ledger.breaches += check(ledger, faults)
