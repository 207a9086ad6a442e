"""`RedisBackend`: what servers on several machines share, in one Redis or Valkey."""

import asyncio
import logging
import os
from typing import Any

from jackstay.errors import UsageError
from jackstay.redis._bus import BLOCK, RedisBus, position
from jackstay.redis._engine import REFUSED, UNREACHABLE, Engine, make_client
from jackstay.redis._events import RedisEventStore
from jackstay.redis._limits import RedisMiddlewareStore
from jackstay.redis._sessions import RedisSessionStore
from jackstay.redis._tasks import RedisTaskStore
from jackstay.server import Server, use_backend

logger = logging.getLogger("jackstay.redis")

# Seconds that `open()` waits for a Redis that is down, and between two attempts.
OPEN_TIMEOUT = 5.0
OPEN_INTERVAL = 0.1

# The environment variable with the secret for `requestState`, for servers that are started by a command.
STATE_SECRET = "REQUEST_STATE_SECRET"  # noqa: S105  # the name of a variable

MIN_VERSION = (6, 2)


class RedisBackend:
    """A backend on Redis 6.2 or Valkey 7.2 and newer.

    `target` is a URL, `redis://`, `rediss://` for TLS or `unix://`, with user name, password and database if there are
    any; or a client of redis-py for Sentinel or a cluster, which is not closed. Servers with the same name share their
    state; their keys begin with `jackstay:{name}:`. No request waits for Redis longer than `timeout` seconds.

    Raises: UsageError for a malformed URL.
    """

    def __init__(self, target: Any, *, timeout: float = 0.5) -> None:
        self._client: Any
        if isinstance(target, str):
            # A command is tried twice, because an idle connection may have been closed.
            self._client = make_client(target, socket_timeout=timeout / 2, connect_timeout=timeout, retries=1)
            waiting = BLOCK + 2 * timeout
            self._reader = make_client(target, socket_timeout=waiting, connect_timeout=timeout, retries=0)
            block = BLOCK
        else:
            if target.get_encoder().decode_responses:
                raise UsageError("RedisBackend() needs a client without decode_responses", path="target")
            self._client = self._reader = target
            block = min(BLOCK, _socket_timeout(target) / 2)
        self._is_owner = isinstance(target, str)
        self._engine = Engine(self._client, timeout, is_own=self._is_owner)
        self.sessions = RedisSessionStore(self._engine)
        self.events = RedisEventStore(self._engine)
        self.changes = RedisBus(self._engine, self._reader, block)
        self.limits = RedisMiddlewareStore(self._engine)
        self.tasks = RedisTaskStore(self._engine)

    def __repr__(self) -> str:
        return f"<RedisBackend {self.changes.prefix!r}>"

    @property
    def problem(self) -> str:
        """Why Redis cannot be used now, or an empty string."""
        return self._engine.problem

    async def open(self, name: str) -> None:
        """Connect. A Redis that is down is awaited for `OPEN_TIMEOUT` seconds; then the server begins without it.

        Raises: UsageError if Redis refuses the credentials, or is too old.
        """
        prefix = f"jackstay:{{{name}}}:"
        for part in (self.sessions, self.events, self.changes, self.limits, self.tasks):
            part.prefix = prefix
        self._engine.open()
        run = last = ""
        try:
            async with asyncio.timeout(OPEN_TIMEOUT):
                run, last = await self._connect(f"{prefix}bus")
        except TimeoutError:
            logger.error("Redis is unavailable; serving without it until it responds")
        self.changes.open(run, last)

    async def _connect(self, stream: str) -> tuple[str, str]:
        while True:
            try:
                self.tasks.settings = _check(await self._client.info())
                run, _, last = await position(self._reader, stream)
            except UNREACHABLE as error:
                if isinstance(error, REFUSED) or "password" in str(error):
                    raise UsageError(f"Redis refused the credentials: {error}", path="target") from None
                await asyncio.sleep(OPEN_INTERVAL)
            else:
                return run, last

    async def close(self) -> None:
        """Publish what is pending, and disconnect."""
        await self.changes.close()
        await self._engine.close()
        if self._is_owner:
            await self._client.aclose()
            await self._reader.aclose()


def use_redis(server: Server, target: str) -> None:
    """Make a server share its state through the Redis at a URL, or at the URL in the environment variable of this name.

    The secret for `requestState`, unless the server has its own, is in the environment variable `STATE_SECRET`: it must
    be the same on all machines, and is never stored in Redis.

    Raises: UsageError for a missing variable or a malformed URL, or if the server has a backend.
    """
    url = target if "://" in target else os.environ.get(target, "")
    if not url:
        message = f"the backend must be a URL such as redis://HOST, or a variable that contains one, not {target!r}"
        raise UsageError(message, path="backend")
    secret = os.environ.get(STATE_SECRET, "").encode()
    if not secret and not server.options.request_state_secrets:
        logger.warning(
            "%s is not set: on another machine, clients of 2026-07-28 cannot respond to requests for input",
            STATE_SECRET,
        )
    use_backend(server, RedisBackend(url), request_state_secrets=(secret,) if secret else ())


def _check(info: dict[str, Any]) -> dict[str, Any]:
    """Check the version and the settings of Redis, and return them. Raises: UsageError if it is too old."""
    if "redis_version" not in info:  # a cluster responds with the information of each node
        info = next(iter(info.values()))
    version = str(info["redis_version"])
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_VERSION:
        raise UsageError(f"Redis {version} is too old; use 6.2 or newer, or Valkey", path="target")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        logger.warning("Redis has maxmemory-policy %s: it may evict sessions; use noeviction", policy)
    if not info.get("aof_enabled"):
        logger.warning("Redis has no append-only file: sessions do not survive its restart; use appendonly yes")
    return info


def _socket_timeout(client: Any) -> float:
    """Return the seconds after which a client gives up a read."""
    pool = getattr(client, "connection_pool", None)
    options = pool.connection_kwargs if pool is not None else client.connection_kwargs
    return float(options.get("socket_timeout") or 2 * BLOCK)


__all__ = ["RedisBackend", "use_redis"]
