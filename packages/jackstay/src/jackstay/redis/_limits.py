"""Counters and values of middleware in Redis, such as those of rate limits.

While Redis is down each process counts for itself: a rate limit must not stop the calls that need no Redis.
"""

from jackstay.errors import TransportError
from jackstay.redis._engine import Engine
from jackstay.redis._sessions import milliseconds
from jackstay.server import MemoryMiddlewareStore

_INCREMENT = """
local number = redis.call('INCR', KEYS[1])
if number == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return {number, redis.call('PTTL', KEYS[1])}
"""


class RedisMiddlewareStore:
    """Implements `MiddlewareStore` on Redis."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._local = MemoryMiddlewareStore()
        self.prefix = ""

    def __repr__(self) -> str:
        return f"<RedisMiddlewareStore {self.prefix!r}>"

    async def increment(self, key: str, window: float) -> tuple[int, float]:
        """Count one event. Returns the number in the current window, and the seconds left of it."""
        try:
            number, left = await self._engine.run("EVAL", _INCREMENT, 1, f"{self.prefix}l:{key}", milliseconds(window))
        except TransportError:
            return await self._local.increment(key, window)
        return int(number), max(0, int(left)) / 1000

    async def get(self, key: str) -> bytes | None:
        """Return a value, or None."""
        try:
            value: bytes | None = await self._engine.run("GET", f"{self.prefix}v:{key}")
        except TransportError:
            return await self._local.get(key)
        return value

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Store a value for so many seconds."""
        try:
            await self._engine.run("SET", f"{self.prefix}v:{key}", value, "PX", milliseconds(ttl))
        except TransportError:
            await self._local.set(key, value, ttl)


__all__ = ["RedisMiddlewareStore"]
