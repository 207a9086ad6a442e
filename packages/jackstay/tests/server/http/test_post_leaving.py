"""One POST that is a connection of its own: a client that leaves, reads too slowly, or does anything at all, in both eras."""

import asyncio
import logging
import random
from typing import Any

import pytest

from jackstay.errors import JsonRpcError
from jackstay.server import Context, Server
from jackstay.testing import run_on_fake_clock
from scripted.asgi import asking, request, run, stateless, tool
from scripted.gate import Gate
from scripted.posts import serving

# --- the client leaves ------------------------------------------------------------------------------------------------


def test_in_the_stateless_era_a_client_that_leaves_has_cancelled() -> None:
    """protocol.md section 6: client disconnect is cancellation; G11, also where the answer would have been JSON."""

    async def test() -> None:
        server = serving()
        gate = Gate(server)
        async with asking(server.asgi()) as http:
            response = http.start("POST", stateless("tools/call", {"name": "wait"}))
            await gate.began.wait()
            response.leave()
            await gate.cancelled.wait()
            await response.end()
            assert response.status == 0

    run(test)


def test_a_client_that_leaves_a_stream_has_cancelled_too() -> None:
    async def test() -> None:
        server = serving()
        gate = Gate(server)
        async with asking(server.asgi(keepalive=0.05)) as http:
            response = await http.open("POST", stateless("tools/call", {"name": "wait"}))
            assert response.kind == "text/event-stream"
            response.leave()
            await gate.cancelled.wait()
            await response.end()

    run(test)


def test_a_handler_that_will_not_be_cancelled_ends_unheard() -> None:
    async def test() -> None:
        server = serving()
        gate = Gate(server, stays=True)
        async with asking(server.asgi()) as http:
            response = http.start("POST", stateless("tools/call", {"name": "wait"}))
            await gate.began.wait()
            response.leave()
            await response.end()
            assert gate.ended.is_set()
            assert response.task is not None
            assert not response.task.cancelling()

    run(test)


def test_in_the_handshake_era_a_client_that_leaves_has_not_cancelled() -> None:
    """2025-11-25 basic/transports: a disconnect SHOULD NOT be taken for a cancel."""

    async def test() -> None:
        server = serving()
        gate = Gate(server)
        async with asking(server.asgi()) as http:
            response = http.start("POST", tool("wait"))
            await gate.began.wait()
            response.leave()
            gate.open.set()
            await gate.ended.wait()
            await response.end()
            assert not gate.cancelled.is_set()

    run(test)


def test_a_server_that_cancels_the_request_cancels_the_handler() -> None:
    """The ASGI server's own cancel must come through, whatever the driver makes of cancelled handlers."""

    async def test() -> None:
        server = serving()
        gate = Gate(server)
        app = server.asgi()
        async with asking(app) as http:
            response = http.start("POST", tool("wait"))
            await gate.began.wait()
            assert response.task is not None
            response.task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await response.task
            assert gate.cancelled.is_set()
            assert app.connections == 0

    run(test)


def test_a_handler_that_cancels_itself_is_answered() -> None:
    async def test() -> None:
        server = serving()

        @server.tool
        async def gives_up() -> str:
            raise asyncio.CancelledError

        async with asking(server.asgi()) as http:
            answer = await http.post(stateless("tools/call", {"name": "gives_up"}))
            assert answer.json["error"]["code"] == -32603

    run(test)


def test_a_client_that_reads_too_slowly_loses_its_stream(caplog: pytest.LogCaptureFixture) -> None:
    """The slow stream of issue and brief: bounded, then closed, with a line in the log; others go on."""

    async def test() -> None:
        server = serving()
        taken: list[int] = []

        @server.tool
        async def chatter(ctx: Context) -> str:
            for number in range(10_000):
                ctx.log("warning", "x" * 1000)
                taken.append(number)
                await asyncio.sleep(0)
            return "never"

        log = {"io.modelcontextprotocol/logLevel": "info"}
        async with asking(server.asgi(max_stream_bytes=65_536)) as http:
            response = http.start("POST", stateless("tools/call", {"name": "chatter"}, **log))
            response.hold()
            await response.end()
            assert 50 < len(taken) < 80
            assert not response.is_complete
            answer = await http.post(tool("echo", text="still here"))
            assert answer.status == 200
        assert "reads too slowly" in caplog.text

    with caplog.at_level(logging.WARNING, "jackstay.server.http"):
        run(test)


def test_in_the_handshake_era_a_slow_reader_cancels_nothing() -> None:
    async def test() -> None:
        server = serving()
        done = asyncio.Event()

        @server.tool
        async def chatter(ctx: Context) -> str:
            for _ in range(200):
                ctx.log("warning", "x" * 1000)
                await asyncio.sleep(0)
            done.set()
            return "unheard"

        async with asking(server.asgi(max_stream_bytes=65_536)) as http:
            response = http.start("POST", tool("chatter"))
            response.hold()
            await done.wait()
            await response.end()

    run(test)


# --- anything at all --------------------------------------------------------------------------------------------------


def offer_work(server: Server, luck: random.Random, ended: dict[int, str]) -> None:
    """A tool that does anything a handler may do, and tells how it ended."""

    @server.tool
    async def work(ctx: Context, id: int) -> str:
        try:
            for step in range(luck.randrange(4)):
                ctx.progress(step + 1)
                await asyncio.sleep(luck.choice([0, 0.01, 0.5, 20]))
            if luck.random() < 0.1:
                raise JsonRpcError(-32000, "mine")
            ended[id] = "done"
        except asyncio.CancelledError:
            ended[id] = "cancelled"
            if luck.random() < 0.8:
                raise
        except JsonRpcError:
            ended[id] = "failed"
            raise
        return "x" * luck.choice([1, 100_000])


@pytest.mark.parametrize("seed", range(50))
def test_whatever_clients_do_each_call_ends_once_and_nothing_is_left(seed: int) -> None:
    """Clients of both eras leave, stall, and read on; handlers say much or nothing, fail, ignore their cancel.

    Invariant: every handler ends; of those whose client stayed the answer is heard once, after what was said before it;
    a stateless client that left has cancelled; and when all is over no task, connection or registration is left.
    """

    async def test() -> None:
        luck = random.Random(seed)
        server = serving()
        ended: dict[int, str] = {}

        offer_work(server, luck, ended)

        async def call(http: Any, id: int) -> None:
            is_stateless, stays = luck.random() < 0.7, luck.random() < 0.5
            params = {"name": "work", "arguments": {"id": id}}
            asked = stateless("tools/call", params, id, progressToken=id)
            if not is_stateless:
                asked = request("tools/call", {**params, "_meta": {"progressToken": id}}, id)
            response = http.start("POST", asked, headers={"accept": luck.choice(["*/*", "application/json"])})
            for _ in range(luck.randrange(3)):
                await asyncio.sleep(luck.choice([0, 0.02, 1]))
                response.hold()
                await asyncio.sleep(luck.choice([0, 1]))
                response.flow()
            if not stays:
                await asyncio.sleep(luck.choice([0, 0.03, 2, 30]))
                response.leave()
            await response.end()
            if response.is_complete and response.status == 200:
                said = response.messages if "event" in response.kind else [response.json]
                *progress, answer = said
                assert answer["id"] == id
                assert [found["params"]["progressToken"] for found in progress] == [id] * len(progress)
            else:
                assert not stays
            if stays or not is_stateless:
                assert ended[id] != "cancelled"

        app = server.asgi(max_stream_bytes=200_000)
        async with asking(app) as http:
            await asyncio.gather(*(call(http, id) for id in range(12)))
            await asyncio.sleep(1)
            assert (app.connections, app._requests, server._connections) == (0, 0, {})
            assert asyncio.all_tasks() == {asyncio.current_task()}

    run_on_fake_clock(test())
