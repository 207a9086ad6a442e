"""A POST that is a connection of its own: clients that disconnect, read too slowly, or do both at random."""

import asyncio
import logging
import random
from typing import Any

import pytest

from jackstay.errors import JsonRpcError
from jackstay.server import Context, Server
from jackstay.testing import run_on_fake_clock
from scripted.asgi import http_client, request, stateless, tool
from scripted.gate import Gate
from scripted.posts import serving

# --- disconnects ------------------------------------------------------------------------------------------------------


async def test_a_disconnect_cancels_a_stateless_request() -> None:
    """2026-07-28 basic/patterns/cancellation; docs/guarantees.md G11. Also if the response would have been JSON."""
    server = serving()
    gate = Gate(server)
    async with http_client(server.asgi()) as http:
        response = http.start("POST", stateless("tools/call", {"name": "wait"}))
        await gate.began.wait()
        response.disconnect()
        await gate.cancelled.wait()
        await response.end()
        assert response.status == 0


async def test_closing_a_stream_cancels_a_stateless_request() -> None:
    server = serving()
    gate = Gate(server)
    async with http_client(server.asgi(keepalive=0.05)) as http:
        response = await http.open("POST", stateless("tools/call", {"name": "wait"}))
        assert response.kind == "text/event-stream"
        response.disconnect()
        await gate.cancelled.wait()
        await response.end()


async def test_a_handler_that_ignores_its_cancellation_runs_to_its_end() -> None:
    server = serving()
    gate = Gate(server, stays=True)
    async with http_client(server.asgi()) as http:
        response = http.start("POST", stateless("tools/call", {"name": "wait"}))
        await gate.began.wait()
        response.disconnect()
        await response.end()
        assert gate.ended.is_set()
        assert response.task is not None
        assert not response.task.cancelling()


async def test_a_disconnect_does_not_cancel_a_request_of_an_earlier_revision() -> None:
    """2025-11-25 basic/transports: a disconnect SHOULD NOT be interpreted as a cancellation."""
    server = serving()
    gate = Gate(server)
    async with http_client(server.asgi()) as http:
        response = http.start("POST", tool("wait"))
        await gate.began.wait()
        response.disconnect()
        gate.open.set()
        await gate.ended.wait()
        await response.end()
        assert not gate.cancelled.is_set()


async def test_a_cancellation_by_the_asgi_server_propagates() -> None:
    """It must not be mistaken for the end of a cancelled handler."""
    server = serving()
    gate = Gate(server)
    app = server.asgi()
    async with http_client(app) as http:
        response = http.start("POST", tool("wait"))
        await gate.began.wait()
        assert response.task is not None
        response.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await response.task
        assert gate.cancelled.is_set()
        assert app.connections == 0


async def test_a_handler_that_cancels_itself_is_an_internal_error() -> None:
    server = serving()

    @server.tool
    async def gives_up() -> str:
        raise asyncio.CancelledError

    async with http_client(server.asgi()) as http:
        answer = await http.post(stateless("tools/call", {"name": "gives_up"}))
        assert answer.json["error"]["code"] == -32603


async def test_the_stream_of_a_slow_reader_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    """Its buffer is bounded, the closing is logged, and other requests are served."""
    caplog.set_level(logging.WARNING, "jackstay.server.http")
    server = serving()
    sent: list[int] = []

    @server.tool
    async def chatter(ctx: Context) -> str:
        for number in range(10_000):
            ctx.log("warning", "x" * 1000)
            sent.append(number)
            await asyncio.sleep(0)
        return "never"

    log = {"io.modelcontextprotocol/logLevel": "info"}
    async with http_client(server.asgi(max_stream_bytes=65_536)) as http:
        response = http.start("POST", stateless("tools/call", {"name": "chatter"}, **log))
        response.pause()
        await response.end()
        assert 50 < len(sent) < 80
        assert not response.is_complete
        answer = await http.post(tool("echo", text="still here"))
        assert answer.status == 200
    assert "reads too slowly" in caplog.text


async def test_a_slow_reader_does_not_cancel_a_request_of_an_earlier_revision() -> None:
    server = serving()
    done = asyncio.Event()

    @server.tool
    async def chatter(ctx: Context) -> str:
        for _ in range(200):
            ctx.log("warning", "x" * 1000)
            await asyncio.sleep(0)
        done.set()
        return "not delivered"

    async with http_client(server.asgi(max_stream_bytes=65_536)) as http:
        response = http.start("POST", tool("chatter"))
        response.pause()
        await done.wait()
        await response.end()


# --- random clients ---------------------------------------------------------------------------------------------------


def add_work_tool(server: Server, rng: random.Random, ended: dict[int, str]) -> None:
    """Add a tool that behaves at random, and records how each call ended."""

    @server.tool
    async def work(ctx: Context, id: int) -> str:
        try:
            for step in range(rng.randrange(4)):
                ctx.progress(step + 1)
                await asyncio.sleep(rng.choice([0, 0.01, 0.5, 20]))
            if rng.random() < 0.1:
                raise JsonRpcError(-32000, "mine")
            ended[id] = "done"
        except asyncio.CancelledError:
            ended[id] = "cancelled"
            if rng.random() < 0.8:
                raise
        except JsonRpcError:
            ended[id] = "failed"
            raise
        return "x" * rng.choice([1, 100_000])


async def run_random_clients(seed: int) -> None:
    rng = random.Random(seed)
    server = serving()
    ended: dict[int, str] = {}

    add_work_tool(server, rng, ended)

    async def call(http: Any, id: int) -> None:
        is_stateless, stays = rng.random() < 0.7, rng.random() < 0.5
        params = {"name": "work", "arguments": {"id": id}}
        message = stateless("tools/call", params, id, progressToken=id)
        if not is_stateless:
            message = request("tools/call", {**params, "_meta": {"progressToken": id}}, id)
        response = http.start("POST", message, headers={"accept": rng.choice(["*/*", "application/json"])})
        for _ in range(rng.randrange(3)):
            await asyncio.sleep(rng.choice([0, 0.02, 1]))
            response.pause()
            await asyncio.sleep(rng.choice([0, 1]))
            response.resume()
        if not stays:
            await asyncio.sleep(rng.choice([0, 0.03, 2, 30]))
            response.disconnect()
        await response.end()
        if response.is_complete and response.status == 200:
            *progress, answer = response.messages if "event" in response.kind else [response.json]
            assert answer["id"] == id
            assert [found["params"]["progressToken"] for found in progress] == [id] * len(progress)
        else:
            assert not stays
        if stays or not is_stateless:
            assert ended[id] != "cancelled"

    app = server.asgi(max_stream_bytes=200_000)
    async with http_client(app) as http:
        await asyncio.gather(*(call(http, id) for id in range(12)))
        await asyncio.sleep(1)
        assert (app.connections, app._requests, server._connections) == (0, 0, {})
        assert asyncio.all_tasks() == {asyncio.current_task()}


def test_with_random_clients_each_call_ends_once_and_nothing_is_left(subtests: pytest.Subtests) -> None:
    """Clients of all revisions disconnect, stall and resume reading; handlers send progress, fail, ignore cancellation.

    Invariants: every handler ends; a client that stayed gets its response once, after the progress; a disconnect
    cancels a stateless request; and in the end no task, connection or registration is left.
    """
    for seed in range(50):
        with subtests.test(seed=seed):
            run_on_fake_clock(run_random_clients(seed))
