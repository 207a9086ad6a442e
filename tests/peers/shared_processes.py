"""Two server processes that share their sessions, behind a proxy that alternates between them."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from peers.http_process import GUARD, Serving
from peers.nginx import Nginx
from peers.redis_server import RedisServer
from peers.round_robin import RoundRobin
from peers.shared_state import Hub

PROGRAM = Path(__file__).with_name("shared_server.py")


class SharedServers:
    """The processes, the proxy, and the hub of the bus (None: no bus)."""

    def __init__(self, processes: tuple[Serving, ...], proxy: RoundRobin | Nginx, hub: Hub | None) -> None:
        self.processes = processes
        self.proxy = proxy
        self.hub = hub
        self._seen = [0] * len(processes)

    def wait_for_next(self, line: str) -> int:
        """Wait until one of the processes prints this line once more, and return the index of the process."""
        deadline = time.monotonic() + GUARD
        while time.monotonic() < deadline:
            for index, serving in enumerate(self.processes):
                if serving.lines.count(line) > self._seen[index]:
                    self._seen[index] += 1
                    return index
            time.sleep(0.01)
        raise AssertionError(f"{line!r} was not printed")


@contextmanager
def redis_servers(redis: RedisServer, **options: object) -> Iterator[SharedServers]:
    """Start two processes that share a Redis. They are killed at the end. `options` are those of `run()`."""
    with processes(redis, **options) as (first, second), RoundRobin(first.port, second.port) as proxy:
        yield SharedServers((first, second), proxy, None)


@contextmanager
def nginx_servers(redis: RedisServer) -> Iterator[SharedServers]:
    """As `redis_servers()`, behind nginx."""
    with processes(redis) as (first, second), Nginx(first.port, second.port) as proxy:
        yield SharedServers((first, second), proxy, None)


@contextmanager
def processes(redis: RedisServer, count: int = 2, **options: object) -> Iterator[tuple[Serving, ...]]:
    with ExitStack() as stack:
        command = (sys.executable, str(PROGRAM), json.dumps({"redis": redis.url, **options}))
        yield tuple([stack.enter_context(Serving(*command)) for _ in range(count)])


@contextmanager
def shared_servers(directory: Path, *, has_bus: bool = True, has_events: bool = False) -> Iterator[SharedServers]:
    """Start both processes. They are killed at the end."""
    with ExitStack() as stack:
        hub = stack.enter_context(Hub()) if has_bus else None
        options = {"file": str(directory / "shared.db"), "hub": hub and hub.port, "events": has_events}
        command = (sys.executable, str(PROGRAM), json.dumps(options))
        first, second = (stack.enter_context(Serving(*command)) for _ in range(2))
        proxy = stack.enter_context(RoundRobin(first.port, second.port))
        yield SharedServers((first, second), proxy, hub)
