"""A Redis with a replica and a proxy for each machine, and what happens to them: crashes, partitions, a promotion."""

import asyncio
import random
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import redis

from peers.redis_proxy import Fault, RedisProxy
from peers.redis_server import RedisServer, free_port

# What is done to Redis, or to the connections of one machine with it, with weights.
WEIGHTS = {
    "kill Redis": 3,
    "empty Redis": 1,
    "pause Redis": 1,
    "stop Redis": 1,
    "fill Redis": 1,
    "promote a replica": 1,
    "stall": 1,
    "slow": 1,
    "lose": 1,
    "cut": 1,
}
# How many seconds it lasts in a run that has only this fault, and at most in any other.
SECONDS = {
    "kill Redis": 2.0,
    "empty Redis": 2.0,
    "pause Redis": 3.0,
    "stop Redis": 3.0,
    "fill Redis": 1.0,
    "promote a replica": 0.0,
    "stall": 3.0,
    "slow": 3.0,
    "lose": 30.0,
    "cut": 20.0,
    "stop a worker": 4.0,
}
PARTITIONS: tuple[Fault, ...] = ("stall", "slow", "lose", "cut")
GUARD = 60.0


class Faults:
    """What happens in a run of so many seconds: by weight, or only the faults that are named, for their whole time.

    `counts` has how often each of them happened.
    """

    def __init__(self, rng: random.Random, weights: Mapping[str, int], names: Sequence[str], seconds: float) -> None:
        self.rng = rng
        self.weights = {name: weight for name, weight in weights.items() if not names or name in names}
        self.is_whole = bool(names)
        # A partition of up to 20 s in a long run.
        self._longest = min(20.0, max(2.0, seconds / 10))
        self.counts: Counter[str] = Counter()

    async def until(self, over: asyncio.Event, longest_pause: float) -> AsyncIterator[tuple[str, float]]:
        """Return one fault after the other and its seconds, with pauses, until `over`."""
        while True:
            try:
                async with asyncio.timeout(self.rng.uniform(0.2, longest_pause)):
                    await over.wait()
                return
            except TimeoutError:
                pass
            name = self.rng.choices(list(self.weights), list(self.weights.values()))[0]
            seconds = SECONDS.get(name, 0.0)
            yield name, seconds if self.is_whole else self.rng.uniform(0, min(seconds, self._longest))
            self.counts[name] += 1


class FaultyRedis:
    """The processes. `urls` are those of the machines."""

    def __init__(self, machines: int) -> None:
        options = {"appendonly": "yes", "appendfsync": "always", "repl_diskless_sync_delay": "0"}
        self.primary, self.replica = RedisServer(**options), RedisServer(**options)
        self._count = machines

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

    async def disturb(self, rng: random.Random, fault: str, seconds: float) -> None:
        """Let this fault happen. Afterwards everything works."""
        if fault in ("kill Redis", "empty Redis"):
            await asyncio.to_thread(self.primary.kill)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self._restart, is_empty=fault == "empty Redis")
        elif fault == "pause Redis":
            await asyncio.to_thread(self.primary.run, "CLIENT", "PAUSE", int(seconds * 1000))
            await asyncio.sleep(seconds)
        elif fault == "stop Redis":
            self.primary.stop()
            await asyncio.sleep(seconds)
            self.primary.resume()
        elif fault == "fill Redis":
            await asyncio.to_thread(self.primary.run, "CONFIG", "SET", "maxmemory", "1")
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.primary.run, "CONFIG", "SET", "maxmemory", "0")
        elif fault == "promote a replica":
            await asyncio.to_thread(self._promote)
        else:
            proxy = rng.choice(self._proxies)
            await asyncio.to_thread(proxy.set, next(row for row in PARTITIONS if row == fault))
            await asyncio.sleep(seconds)
            await asyncio.to_thread(proxy.set, "")

    def _restart(self, *, is_empty: bool) -> None:
        if is_empty:
            shutil.rmtree(self.primary.directory / "appendonlydir")
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


__all__ = ["WEIGHTS", "Faults", "FaultyRedis"]
