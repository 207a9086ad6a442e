"""The driver: what the core decides is done, by handlers of any kind, and told to who listens.

Slow readers and the end are in `test_connection_end`.
"""

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from chaos.servers_own.conversation import STATELESS, Peer, meta, run, talking
from jackstay.errors import FrameTooLargeError, JsonRpcError
from jackstay.protocol.server import ServerConnection, ServerOffer, ServerOptions
from jackstay.protocol.server import events as e
from jackstay.server import Context, Server
from jackstay.server._connection import Connection
from jackstay.server._driver import Terms
from jackstay.server._telemetry import Telemetry
from jackstay.transport import memory_pair
from scripted.echoing import INITIALIZE, call, echoing

# --- receiving --------------------------------------------------------------------------------------------------------


def test_a_request_pipelined_right_after_initialize_is_served() -> None:
    """G20."""

    async def test() -> None:
        async with talking(echoing(), is_fresh=True) as peer:
            peer.say(INITIALIZE)
            peer.say(call(1, text="early"))
            peer.notify("notifications/initialized")
            assert (await peer.answer(0))["result"]["protocolVersion"] == "2025-11-25"
            assert (await peer.answer(1))["result"]["content"][0]["text"] == "early"

    run(test)


@pytest.mark.parametrize(
    ("frame", "code"), [(b"{", -32700), (b"[]", -32600), (b'{"jsonrpc":"1.0"}', -32600), (b"\xff", -32700)]
)
def test_rubbish_is_answered_and_the_connection_goes_on(frame: bytes, code: int) -> None:
    async def test() -> None:
        async with talking(echoing()) as peer:
            peer.say(frame)
            found = await peer.until(lambda: [f for f in peer.frames if "error" in f])
            assert found[0]["error"]["code"] == code
            assert await peer.text("echo", text="on") == "on"

    run(test)


def test_a_flood_of_rubbish_is_warned_of_ever_less_often(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with talking(echoing()) as peer:
            await peer.say_all(b"rubbish" for _ in range(100))
            await peer.result("ping")

    with caplog.at_level(logging.WARNING, "jackstay.server"):
        run(test)
    told = [record.args[-1] for record in caplog.records if isinstance(record.args, tuple)]
    assert told == [*range(1, 9), 16, 32, 64]


def test_a_frame_over_the_limit_is_answered_and_the_connection_goes_on() -> None:
    """G16, without a process."""

    async def test() -> None:
        async with talking(echoing(max_frame_bytes=4096)) as peer:
            peer.say(b" " * 5000)
            found = await peer.until(lambda: [f for f in peer.frames if "error" in f])
            assert found[0]["error"]["code"] == -32600
            assert await peer.text("echo", text="on") == "on"

    run(test)


def test_an_answer_over_the_limit_is_an_error() -> None:
    async def test() -> None:
        async with talking(echoing(max_frame_bytes=4096)) as peer:
            error = await peer.error("tools/call", {"name": "large", "arguments": {"size": 5000}})
            assert error["code"] == -32603

    run(test)


def test_more_quick_requests_than_may_be_in_flight_are_served_when_they_are_pipelined() -> None:
    async def test() -> None:
        async with talking(echoing()) as peer:
            await peer.say_all(call(number, text="x") for number in range(2000))
            await peer.until(lambda: len(peer.frames) == 2000)
            assert all("result" in frame for frame in peer.frames)

    run(test)


@pytest.mark.guard(120)
def test_ten_thousand_requests_at_once_are_served_where_that_many_are_allowed() -> None:
    async def test() -> None:
        server = echoing(max_concurrent=10_000)
        gate, together, waiting = asyncio.Event(), asyncio.Event(), []

        @server.tool
        async def wait() -> None:
            waiting.append(1)
            if len(waiting) == 10_000:
                together.set()
            await gate.wait()

        async with talking(server) as peer:
            await peer.say_all(call(number, "wait") for number in range(10_000))
            await together.wait()
            assert await peer.result("ping") == {}
            gate.set()
            await peer.until(lambda: len(peer.frames) == 10_000)
            assert all("result" in frame for frame in peer.frames)

    run(test)


def test_what_is_too_much_at_once_is_refused_as_busy_and_control_messages_pass() -> None:
    async def test() -> None:
        server = echoing(max_concurrent=2)
        gate = asyncio.Event()

        @server.tool
        async def wait() -> None:
            await gate.wait()

        async with talking(server) as peer:
            for number in range(3):
                peer.say(call(number, "wait"))
            error = (await peer.answer(2))["error"]
            assert error["code"] == -32603
            assert error["data"]["retryable"] is True
            assert await peer.result("ping") == {}
            gate.set()
            assert "result" in await peer.answer(0)

    run(test)


def test_a_batch_of_2025_03_26_is_answered_as_one_array() -> None:
    async def test() -> None:
        async with talking(echoing(), "2025-03-26") as peer:
            peer.say([call("a", text="1"), call("b", "large", size=2), {"jsonrpc": "2.0", "method": "x"}])
            found = await peer.until(lambda: [f for f in peer.frames if isinstance(f, list)])
            assert {one["id"] for one in found[0]} == {"a", "b"}

    run(test)


def test_two_clients_are_two_machines() -> None:
    async def test() -> None:
        server = echoing()
        async with talking(server, "2025-06-18") as one, talking(server, STATELESS) as other:
            other.say(b"rubbish")
            peer_error = await one.error("initialize")
            assert peer_error["code"] == -32001
            assert await one.text("echo", text="1") == "1"
            assert await other.text("echo", text="2") == "2"

    run(test)


# --- handlers of our own ----------------------------------------------------------------------------------------------


class Failing:
    """A dispatch with a defect."""

    def __init__(self, in_task: bool) -> None:
        self.in_task = in_task

    def serve(self, connection: Connection, request: e.Serve) -> Any:
        if not self.in_task:
            raise ValueError("secret")

        async def fail() -> bytes:
            raise ValueError("secret")

        return fail()

    def notified(self, connection: Connection, method: str, params: msgspec.Raw | None) -> None:
        raise AssertionError("not asked for")

    def draining(self, connection: Connection) -> None:
        pass


@pytest.mark.parametrize("in_task", [True, False])
def test_a_defect_of_the_dispatch_is_an_internal_error(
    in_task: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        pair = memory_pair()
        offer = ServerOffer(ServerOptions(server_info=b'{"name":"x","version":"1"}'))
        connection = Connection(Terms(offer, frozenset(), Failing(in_task), Telemetry("x")))
        await connection.open(pair.server)
        peer = Peer()
        peer.transport = await pair.client.open(peer, 1 << 20, 1.0)
        await peer.initialize()
        with caplog.at_level(logging.ERROR, "jackstay.server"):
            assert await peer.error("tools/list") == {"code": -32603, "message": "internal error"}
        assert "secret" in caplog.text
        connection.stop()
        await connection.closed.wait()
        assert repr(connection).startswith("<Connection 0 <ServerConnection closed")

    run(test)


def test_a_core_may_be_brought_along() -> None:
    async def test() -> None:
        offer = ServerOffer(ServerOptions(server_info=b'{"name":"x","version":"1"}'))
        core = ServerConnection(offer, version=STATELESS, is_post=True)
        connection = Connection(Terms(offer, frozenset(), Failing(False), Telemetry("x")), core)
        assert connection.core is core
        connection.frames_arrived()  # nothing is open: nothing happens
        connection._send(e.Send(b"{}"))
        connection.stop()
        await connection.closed.wait()

    run(test)


def test_a_notification_that_is_too_large_is_refused_where_it_is_made() -> None:
    async def test() -> None:
        server = echoing(max_frame_bytes=4096)

        @server.tool
        async def shout(ctx: Context) -> str:
            with pytest.raises(FrameTooLargeError):
                ctx.log("error", "x" * 5000)
            return "refused"

        async with talking(server) as peer:
            assert await peer.text("shout") == "refused"

    run(test)


def test_what_the_core_refuses_is_logged_and_the_connection_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        server = echoing(max_frame_bytes=4096)
        async with talking(server) as peer:
            await peer.result("ping")
            (connection,) = server._connections.values()
            connection.step(e.Notified("notifications/message", b"x" * 5000))
            assert "was not taken" in caplog.text
            assert await peer.text("echo", text="on") == "on"

    run(test)


def asking() -> Server:
    server = Server("asking")

    @server.tool
    async def ask(ctx: Context) -> str:
        ctx.progress(1)
        return str(len(await ctx.roots()))

    @server.tool(blocking=False)
    def report(ctx: Context) -> str:
        ctx.progress(1)
        return "done"

    @server.tool
    async def refuse() -> str:
        raise JsonRpcError(-32000, "no")

    @server.tool
    async def give_up() -> str:
        raise asyncio.CancelledError

    return server


def test_a_handler_asks_the_client_and_is_answered() -> None:
    async def test() -> None:
        async with talking(asking(), capabilities={"roots": {}}) as peer:
            token = {"_meta": {"progressToken": 1}}
            id = peer.ask("tools/call", {"name": "ask", **token})
            question = await peer.question()
            assert len(peer.notes) == 1
            peer.say({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
            assert (await peer.answer(id))["result"]["content"][0]["text"] == "0"
            id = peer.ask("tools/call", {"name": "ask"})
            question = await peer.question()
            peer.say({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "no"}})
            refused = (await peer.answer(id))["result"]
            assert refused["isError"] is True
            assert refused["content"][0]["text"] == "the client refused roots/list: no"
            await peer.result("tools/call", {"name": "report", **token})
            assert len(peer.notes) == 2
            assert (await peer.error("tools/call", {"name": "refuse"}))["code"] == -32000
            assert "cancelled" in (await peer.error("tools/call", {"name": "give_up"}))["message"]

    run(test)


def test_a_question_of_a_request_that_is_cancelled_is_withdrawn() -> None:
    async def test() -> None:
        async with talking(asking(), capabilities={"roots": {}}) as peer:
            id = peer.ask("tools/call", {"name": "ask"})
            question = await peer.question()
            peer.notify("notifications/cancelled", {"requestId": id})
            assert (await peer.note("notifications/cancelled"))["requestId"] == question["id"]
            peer.say({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
            await peer.result("ping")

    run(test)


def test_a_question_that_is_open_at_the_end_ends_with_it() -> None:
    async def test() -> None:
        async with talking(asking(), capabilities={"roots": {}}) as peer:
            peer.ask("tools/call", {"name": "ask"})
            await peer.question()

    run(test)


def test_a_subscription_is_a_request_that_stays_open() -> None:
    async def passing(ctx: Context, call_next: Any) -> bytes:
        return await call_next()  # type: ignore[no-any-return]  # as the type says

    async def test() -> None:
        for middleware in ([], [passing]):
            async with talking(echoing(middleware=middleware), STATELESS) as peer:
                peer.ask("subscriptions/listen", {"notifications": {}}, id="s")
                await peer.note("notifications/subscriptions/acknowledged")
                await peer.text("echo", text="x")
                assert not [frame for frame in peer.frames if frame.get("id") == "s"]

    run(test)


# --- telemetry --------------------------------------------------------------------------------------------------------


def test_every_request_begins_and_ends_in_telemetry() -> None:
    async def test() -> None:
        server = echoing()
        heard: list[tuple[str, Any]] = []
        server.subscribe(lambda name, fields: heard.append((name, fields)))

        @server.tool
        async def wait() -> None:
            await asyncio.Event().wait()

        async with talking(server) as peer:
            await peer.text("echo", text="x")
            await peer.call("large", size=1)
            await peer.error("tools/call", {"name": "nope"})
            id = peer.ask("tools/call", {"name": "wait"})
            peer.notify("notifications/cancelled", {"requestId": id, "reason": "bored"})
            peer.say(b"rubbish")
            await peer.result("ping")
        names = [name.removeprefix("jackstay.server.") for name, _ in heard]
        for kind in ("request.start", "request.stop", "connection.transition", "protocol.violation"):
            assert kind in names
        starts = [fields for name, fields in heard if name.endswith(".start")]
        assert len(starts) == 4
        stops = [fields for name, fields in heard if name.endswith(".stop")]
        assert len(stops) == 2
        assert all(fields["duration_ns"] > 0 for fields in stops)
        reasons = [fields["reason"] for name, fields in heard if name.endswith(".exception")]
        assert reasons == ["unknown tool: nope", "cancelled: bored"]
        assert all(fields["server"] == "echo" and fields["connection"] == 1 for _, fields in heard)

    run(test)


def test_a_listener_that_comes_in_the_middle_hears_the_end_without_a_duration() -> None:
    async def test() -> None:
        server = echoing()
        heard: list[Any] = []
        gate = asyncio.Event()

        @server.tool
        async def wait() -> str:
            await gate.wait()
            return "done"

        async with talking(server) as peer:
            peer.say(call("w", "wait"))
            await peer.result("ping")
            server.subscribe(lambda name, fields: heard.append((name, fields)))
            peer.say(call("x", text="x"))
            gate.set()
            await peer.answer("w")
            await peer.answer("x")
        assert [name for name, _ in heard if "request" in name].count("jackstay.server.request.start") == 1

    run(test)


def test_a_stray_response_is_only_counted() -> None:
    async def test() -> None:
        async with talking(echoing()) as peer:
            peer.say({"jsonrpc": "2.0", "id": 99, "result": {}})
            peer.notify("notifications/roots/list_changed")
            assert await peer.result("ping") == {}

    run(test)


def test_stateless_meta_is_wanted_of_every_request() -> None:
    async def test() -> None:
        async with talking(echoing(), STATELESS) as peer:
            await peer.text("echo", text="x")
            peer.say(call("bare", text="x"))
            assert (await peer.answer("bare"))["error"]["code"] == -32602
            assert meta()["io.modelcontextprotocol/protocolVersion"] == STATELESS

    run(test)


def test_what_a_client_sends_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """Section 8: not above DEBUG, and not there either."""

    async def test() -> None:
        with caplog.at_level(logging.DEBUG, "jackstay"):
            async with talking(echoing()) as peer:
                peer.say(b"a secret that is no JSON")
                peer.say(
                    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":[NaN,"secret"]}}'
                )
                peer.say(call(2, "echo", text="secret"))
                peer.say(call(3, "echo", words="secret"))
                await peer.result("ping")
        assert "refused: JSON is malformed" in caplog.text
        assert "secret" not in caplog.text

    run(test)
