"""A Redis with a replica and a proxy for each machine, and what happens to them: crashes, partitions, a promotion."""

import asyncio
import random
import time
from collections import Counter
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import redis

from peers.redis_proxy import Fault, RedisProxy
from peers.redis_server import RedisServer, free_port

# What is done, with weights, and what is done to the connections of one machine.
FAULTS = {"kill": 3, "stop": 2, "fill": 1, "promote": 1, "partition": 4}
PARTITIONS: tuple[Fault, ...] = ("stall", "slow", "lose", "cut")
# Seconds that Redis is down for all machines, at most.
OUTAGE_SECONDS = 3.0
GUARD = 60.0


def longest_fault(seconds: float) -> float:
    """Return how long a partition may last in a run of so many seconds: up to 20 in a long one."""
    return min(20.0, max(2.0, seconds / 10))


class FaultyRedis:
    """The processes. `urls` are those of the machines."""

    def __init__(self, machines: int) -> None:
        options = {"appendonly": "yes", "appendfsync": "always", "repl_diskless_sync_delay": "0"}
        self.primary, self.replica = RedisServer(**options), RedisServer(**options)
        self._count = machines
        # How often each fault happened.
        self.faults: Counter[str] = Counter()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for server in (self.primary, self.replica):
                _silence(stack.enter_context(server))
            self._proxies = [stack.enter_context(RedisProxy(self.primary.socket)) for _ in range(self._count)]
            self._replicate()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def urls(self) -> list[str]:
        return [proxy.url for proxy in self._proxies]

    async def disturb(self, rng: random.Random, longest: float) -> None:
        """Let one fault happen, for `longest` seconds at most. Afterwards everything works."""
        fault, seconds = rng.choices(list(FAULTS), list(FAULTS.values()))[0], rng.uniform(0, longest)
        if fault != "partition":
            seconds = min(seconds, OUTAGE_SECONDS)
        partition = rng.choice(PARTITIONS)
        self.faults[partition if fault == "partition" else fault] += 1
        if fault == "kill":
            await asyncio.to_thread(self.primary.kill)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self._restart)
        elif fault == "stop":
            self.primary.stop()
            await asyncio.sleep(seconds)
            self.primary.resume()
        elif fault == "fill":
            await asyncio.to_thread(self.primary.run, "CONFIG", "SET", "maxmemory", "1")
            await asyncio.sleep(min(seconds, 1.0))
            await asyncio.to_thread(self.primary.run, "CONFIG", "SET", "maxmemory", "0")
        elif fault == "promote":
            await asyncio.to_thread(self._promote)
        else:
            proxy = rng.choice(self._proxies)
            await asyncio.to_thread(proxy.set, partition)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(proxy.set, "")

    def _restart(self) -> None:
        self.primary.start()
        _silence(self.primary)
        self._replicate()

    def _replicate(self) -> None:
        self.replica.run("REPLICAOF", "127.0.0.1", free_port(self.primary))

    def _promote(self) -> None:
        """Kill the primary and promote its replica, once that has everything. The old one becomes its replica."""
        deadline = time.monotonic() + GUARD
        while _role(self.replica)[3:4] != [b"connected"]:
            assert time.monotonic() < deadline, "the replica does not connect"
            time.sleep(0.01)
        self.primary.run("CLIENT", "PAUSE", str(int(GUARD * 1000)), "WRITE")
        written = _role(self.primary)[1]
        while _role(self.replica)[4:5] < [written]:
            assert time.monotonic() < deadline, "the replica lags"
            time.sleep(0.001)
        self.primary.kill()
        self.replica.run("REPLICAOF", "NO", "ONE")
        self.primary, self.replica = self.replica, self.primary
        for proxy in self._proxies:
            proxy.set("", self.primary.socket)
        self.replica.start()
        _silence(self.replica)
        self._replicate()


def _silence(server: RedisServer) -> None:
    """Log only warnings: nobody reads them, and the pipe has an end."""
    server.run("CONFIG", "SET", "loglevel", "warning")


def _role(server: RedisServer) -> list[object]:
    try:
        return list(server.run("ROLE"))
    except redis.exceptions.RedisError:
        return []  # it is loading what the primary has sent


__all__ = ["FaultyRedis", "longest_fault"]
