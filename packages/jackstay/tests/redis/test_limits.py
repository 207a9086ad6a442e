"""Rate limits and cached results of two servers on one Redis, as in two processes."""

import pytest

from jackstay import connect
from jackstay.errors import ToolCallError
from jackstay.redis import RedisBackend
from jackstay.server import RateLimit, ResponseCache, Server
from peers.redis_server import RedisServer


def make(redis: RedisServer, answer: str) -> Server:
    server = Server("limited", backend=RedisBackend(redis.url, timeout=100.0))
    server.add_middleware(RateLimit(2, 100_000, by="tool"))
    server.add_middleware(ResponseCache(100_000))
    server.tool(name="read", read_only=True, blocking=False)(lambda: answer)
    return server


async def test_two_servers_have_one_limit_and_one_cache(redis_server: RedisServer) -> None:
    redis_server.run("FLUSHALL")
    first, second = make(redis_server, "first"), make(redis_server, "second")
    async with connect(first) as one, connect(second) as two:
        assert (await one.tools.call("read")).text == "first"
        assert (await two.tools.call("read")).text == "first", "the result of the other server"
        for client in (one, two):
            with pytest.raises(ToolCallError, match="rate limit of 2 requests"):
                await client.tools.call("read")
