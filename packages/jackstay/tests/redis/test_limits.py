"""Rate limits and cached results that two processes share through Redis."""

import pytest

from jackstay import connect
from jackstay.errors import ToolCallError
from peers.redis_server import RedisServer
from peers.shared_processes import processes


async def test_two_processes_have_one_limit_and_one_cache(redis_server: RedisServer) -> None:
    redis_server.run("FLUSHALL")
    with processes(redis_server) as both:
        urls = [f"http://127.0.0.1:{serving.port}/mcp" for serving in both]
        for version in ("2025-11-25", "2026-07-28"):
            arguments = {"topic": version}
            async with connect(urls[0], versions=[version]) as one, connect(urls[1], versions=[version]) as two:
                clients = (one, two, two, one)
                pids = {(await client.tools.call("cached_pid", arguments)).text for client in clients}
                assert pids == {str(both[0].process.pid)}, "the second process returns the result of the first"
                for client in clients:
                    with pytest.raises(ToolCallError, match="rate limit of 4 requests in 100000 s exceeded"):
                        await client.tools.call("cached_pid", arguments)
                assert (await two.tools.call("pid")).text == str(both[1].process.pid), "others are not limited"
