"""The driver of a connection: received frames, handlers and telemetry.

Slow clients and closing are tested in `test_connection_end`.
"""

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from chaos.servers_own.conversation import STATELESS, Peer, connected, meta
from jackstay.errors import FrameTooLargeError, JsonRpcError, TransportError
from jackstay.protocol.server import ServerConfig, ServerConnection, ServerOptions
from jackstay.protocol.server import events as e
from jackstay.server import Context, Server
from jackstay.server._connection import Connection
from jackstay.server._driver import ConnectionConfig
from jackstay.server._telemetry import Telemetry
from jackstay.transport import memory_pair
from scripted.echoing import INITIALIZE, call, echoing

# --- receiving --------------------------------------------------------------------------------------------------------


async def test_a_request_pipelined_right_after_initialize_is_served() -> None:
    """docs/guarantees.md G20."""
    async with connected(echoing(), is_fresh=True) as peer:
        peer.send(INITIALIZE)
        peer.send(call(1, text="early"))
        peer.notify("notifications/initialized")
        assert (await peer.answer(0))["result"]["protocolVersion"] == "2025-11-25"
        assert (await peer.answer(1))["result"]["content"][0]["text"] == "early"


@pytest.mark.parametrize(
    ("frame", "code"), [(b"{", -32700), (b"[]", -32600), (b'{"jsonrpc":"1.0"}', -32600), (b"\xff", -32700)]
)
async def test_invalid_frames_get_an_error_and_the_connection_continues(frame: bytes, code: int) -> None:
    async with connected(echoing()) as peer:
        peer.send(frame)
        found = await peer.until(lambda: [f for f in peer.frames if "error" in f])
        assert found[0]["error"]["code"] == code
        assert await peer.text("echo", text="on") == "on"


async def test_warnings_about_a_flood_of_invalid_frames_become_rare(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "jackstay.server"):
        async with connected(echoing()) as peer:
            await peer.send_all(b"garbage" for _ in range(100))
            await peer.result("ping")
    counts = [record.args[-1] for record in caplog.records if isinstance(record.args, tuple)]
    assert counts == [*range(1, 9), 16, 32, 64]


async def test_a_frame_over_the_limit_gets_an_error_and_the_connection_continues() -> None:
    """docs/guarantees.md G16."""
    async with connected(echoing(max_frame_bytes=4096)) as peer:
        peer.send(b" " * 5000)
        found = await peer.until(lambda: [f for f in peer.frames if "error" in f])
        assert found[0]["error"]["code"] == -32600
        assert await peer.text("echo", text="on") == "on"


async def test_a_response_over_the_limit_is_an_error() -> None:
    async with connected(echoing(max_frame_bytes=4096)) as peer:
        error = await peer.error("tools/call", {"name": "large", "arguments": {"size": 5000}})
        assert error["code"] == -32603


class SendingTogether:
    """A transport with `send_all`, which accepts up to `room` frames."""

    def __init__(self, frames: list[bytes], room: int) -> None:
        self.arrived = frames[::-1]
        self.room = room
        self.sent: list[list[dict[str, Any]]] = []

    def next_frame(self) -> bytes | None:
        return self.arrived.pop() if self.arrived else None

    def send(self, frame: bytes, number: int) -> bool:
        return self.send_all([frame], number) == 1

    def send_all(self, frames: list[bytes], number: int) -> int:
        assert number == sum(map(len, self.sent)) + 1
        accepted = frames[: self.room]
        self.room -= len(accepted)
        self.sent.append([msgspec.json.decode(frame) for frame in accepted])
        return len(accepted)

    async def flush(self) -> bool:
        return True

    async def close(self) -> None:
        pass


class SendingTogetherTarget:
    name, is_http, init_timeout = "together", False, 1.0

    def __init__(self, transport: SendingTogether) -> None:
        self.transport = transport

    async def open(self, handler: Any, max_frame_bytes: int, close_step: float) -> SendingTogether:
        return self.transport


async def answer_together(requests: list[Any], room: int = 1000) -> list[list[Any]]:
    """Serve requests that were received in one read. Returns the ids or methods of what was sent."""
    server = echoing()

    @server.tool(blocking=False)
    def announce(ctx: Context) -> str:
        ctx.info("now")
        return "announced"

    transport = SendingTogether([msgspec.json.encode(request) for request in (INITIALIZE, *requests)], room)
    serving = asyncio.create_task(server.serve(SendingTogetherTarget(transport)))
    await asyncio.sleep(0)
    (connection,) = server._connections.values()
    while transport.arrived and not connection._backlog:
        await asyncio.sleep(0)
    transport.room = 1000
    connection.room_made()
    connection.went_down(TransportError("gone"), None, False)
    await serving
    return [[frame.get("id", frame.get("method")) for frame in frames] for frames in transport.sent]


async def test_responses_to_one_read_are_sent_together() -> None:
    requests = [call(number, "large", size=10) for number in range(1, 6)]
    assert await answer_together(requests) == [[0], [1, 2, 3, 4, 5]]


async def test_responses_that_wait_are_sent_before_later_frames() -> None:
    requests = [call(1, "large", size=10), call(2, "announce"), call(3, "large", size=5000), call(4, "large", size=10)]
    sent = await answer_together(requests)
    assert [id for frames in sent for id in frames] == [0, 1, "notifications/message", 2, 3, 4]


async def test_responses_that_are_not_accepted_wait_for_room() -> None:
    requests = [call(number, "large", size=10) for number in range(1, 6)]
    assert await answer_together(requests, room=3) == [[0], [1, 2], [3], [4], [5]]


async def test_more_pipelined_requests_than_max_concurrent_are_served() -> None:
    async with connected(echoing()) as peer:
        await peer.send_all(call(number, text="x") for number in range(2000))
        await peer.until(lambda: len(peer.frames) == 2000)
        assert all("result" in frame for frame in peer.frames)


@pytest.mark.no_cover  # ten thousand times what other tests cover
async def test_ten_thousand_concurrent_requests() -> None:
    server = echoing(max_concurrent=10_000)
    gate, together, waiting = asyncio.Event(), asyncio.Event(), []

    @server.tool
    async def wait() -> None:
        waiting.append(1)
        if len(waiting) == 10_000:
            together.set()
        await gate.wait()

    async with connected(server) as peer:
        await peer.send_all(call(number, "wait") for number in range(10_000))
        await together.wait()
        assert await peer.result("ping") == {}
        gate.set()
        await peer.until(lambda: len(peer.frames) == 10_000)
        assert all("result" in frame for frame in peer.frames)


async def test_too_many_concurrent_requests_are_rejected_as_busy_and_ping_is_served() -> None:
    server = echoing(max_concurrent=2)
    gate = asyncio.Event()

    @server.tool
    async def wait() -> None:
        await gate.wait()

    async with connected(server) as peer:
        for number in range(3):
            peer.send(call(number, "wait"))
        error = (await peer.answer(2))["error"]
        assert error["code"] == -32603
        assert error["data"]["retryable"] is True
        assert await peer.result("ping") == {}
        gate.set()
        assert "result" in await peer.answer(0)


async def test_a_batch_of_2025_03_26_gets_one_array() -> None:
    async with connected(echoing(), "2025-03-26") as peer:
        peer.send([call("a", text="1"), call("b", "large", size=2), {"jsonrpc": "2.0", "method": "x"}])
        found = await peer.until(lambda: [f for f in peer.frames if isinstance(f, list)])
        assert {response["id"] for response in found[0]} == {"a", "b"}


async def test_connections_are_independent() -> None:
    server = echoing()
    async with connected(server, "2025-06-18") as first, connected(server, STATELESS) as second:
        second.send(b"garbage")
        peer_error = await first.error("initialize")
        assert peer_error["code"] == -32001
        assert await first.text("echo", text="1") == "1"
        assert await second.text("echo", text="2") == "2"


# --- handlers ---------------------------------------------------------------------------------------------------------


class Failing:
    """Handlers with a defect."""

    def __init__(self, in_task: bool) -> None:
        self.in_task = in_task

    def serve(self, connection: Connection, request: e.Serve) -> Any:
        if not self.in_task:
            raise ValueError("secret")

        async def fail() -> bytes:
            raise ValueError("secret")

        return fail()

    def notified(self, connection: Connection, method: str, params: msgspec.Raw | None) -> None:
        raise AssertionError("not expected")


@pytest.mark.parametrize("in_task", [True, False])
async def test_an_exception_of_the_dispatcher_is_an_internal_error(
    in_task: bool, caplog: pytest.LogCaptureFixture
) -> None:
    pair = memory_pair()
    server_config = ServerConfig(ServerOptions(server_info=b'{"name":"x","version":"1"}'))
    connection = Connection(ConnectionConfig(server_config, frozenset(), Failing(in_task), Telemetry("x")))
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


async def test_a_connection_with_an_existing_core() -> None:
    server_config = ServerConfig(ServerOptions(server_info=b'{"name":"x","version":"1"}'))
    core = ServerConnection(server_config, version=STATELESS, is_post=True)
    connection = Connection(ConnectionConfig(server_config, frozenset(), Failing(False), Telemetry("x")), core)
    assert connection.core is core
    connection.frames_arrived()  # without a transport this does nothing
    connection._send(e.Send(b"{}"))
    connection.stop()
    await connection.closed.wait()


async def test_a_notification_that_is_too_large_is_rejected_in_the_handler() -> None:
    server = echoing(max_frame_bytes=4096)

    @server.tool
    async def shout(ctx: Context) -> str:
        with pytest.raises(FrameTooLargeError):
            ctx.log("error", "x" * 5000)
        return "rejected"

    async with connected(server) as peer:
        assert await peer.text("shout") == "rejected"


async def test_an_event_that_the_core_rejects_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = echoing(max_frame_bytes=4096)
    async with connected(server) as peer:
        await peer.result("ping")
        (connection,) = server._connections.values()
        connection.step(e.Notified("notifications/message", b"x" * 5000))
        assert "was rejected" in caplog.text
        assert await peer.text("echo", text="on") == "on"


def requesting() -> Server:
    server = Server("requesting")

    @server.tool
    async def count_roots(ctx: Context) -> str:
        ctx.progress(1)
        return str(len(await ctx.list_roots()))

    @server.tool(blocking=False)
    def report(ctx: Context) -> str:
        ctx.progress(1)
        return "done"

    @server.tool
    async def reject() -> str:
        raise JsonRpcError(-32000, "no")

    @server.tool
    async def give_up() -> str:
        raise asyncio.CancelledError

    return server


async def test_a_handler_sends_requests_to_the_client() -> None:
    async with connected(requesting(), capabilities={"roots": {}}) as peer:
        token = {"_meta": {"progressToken": 1}}
        id = peer.send_request("tools/call", {"name": "count_roots", **token})
        request = await peer.server_request()
        assert len(peer.notifications) == 1
        peer.send({"jsonrpc": "2.0", "id": request["id"], "result": {"roots": []}})
        assert (await peer.answer(id))["result"]["content"][0]["text"] == "0"
        id = peer.send_request("tools/call", {"name": "count_roots"})
        request = await peer.server_request()
        peer.send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -1, "message": "no"}})
        failed = (await peer.answer(id))["result"]
        assert failed["isError"] is True
        assert failed["content"][0]["text"] == "the client rejected roots/list: no"
        await peer.result("tools/call", {"name": "report", **token})
        assert len(peer.notifications) == 2
        assert (await peer.error("tools/call", {"name": "reject"}))["code"] == -32000
        assert "cancelled" in (await peer.error("tools/call", {"name": "give_up"}))["message"]


async def test_a_cancelled_call_cancels_its_requests_to_the_client() -> None:
    async with connected(requesting(), capabilities={"roots": {}}) as peer:
        id = peer.send_request("tools/call", {"name": "count_roots"})
        request = await peer.server_request()
        peer.notify("notifications/cancelled", {"requestId": id})
        assert (await peer.notification("notifications/cancelled"))["requestId"] == request["id"]
        peer.send({"jsonrpc": "2.0", "id": request["id"], "result": {"roots": []}})
        await peer.result("ping")


async def test_a_pending_request_to_the_client_ends_with_the_connection() -> None:
    async with connected(requesting(), capabilities={"roots": {}}) as peer:
        peer.send_request("tools/call", {"name": "count_roots"})
        await peer.server_request()


async def test_a_subscription_stays_open() -> None:
    async def passing(ctx: Context, call_next: Any) -> bytes:
        return await call_next()  # type: ignore[no-any-return]  # untyped on purpose

    for middleware in ([], [passing]):
        async with connected(echoing(middleware=middleware), STATELESS) as peer:
            peer.send_request("subscriptions/listen", {"notifications": {}}, id="s")
            await peer.notification("notifications/subscriptions/acknowledged")
            await peer.text("echo", text="x")
            assert not [frame for frame in peer.frames if frame.get("id") == "s"]


# --- telemetry --------------------------------------------------------------------------------------------------------


async def test_every_request_has_telemetry_events() -> None:
    server = echoing()
    events: list[tuple[str, Any]] = []
    server.subscribe(lambda name, fields: events.append((name, fields)))

    @server.tool
    async def wait() -> None:
        await asyncio.Event().wait()

    async with connected(server) as peer:
        await peer.text("echo", text="x")
        await peer.call("large", size=1)
        await peer.error("tools/call", {"name": "nope"})
        id = peer.send_request("tools/call", {"name": "wait"})
        peer.notify("notifications/cancelled", {"requestId": id, "reason": "no longer needed"})
        peer.send(b"garbage")
        await peer.result("ping")
    names = [name.removeprefix("jackstay.server.") for name, _ in events]
    for kind in ("request.start", "request.stop", "connection.transition", "protocol.violation"):
        assert kind in names
    starts = [fields for name, fields in events if name.endswith(".start")]
    assert len(starts) == 4
    stops = [fields for name, fields in events if name.endswith(".stop")]
    assert len(stops) == 2
    assert all(fields["duration_ns"] > 0 for fields in stops)
    reasons = [fields["reason"] for name, fields in events if name.endswith(".exception")]
    assert reasons == ["unknown tool: nope", "cancelled: no longer needed"]
    assert all(fields["server"] == "echo" and fields["connection"] == 1 for _, fields in events)


async def test_a_listener_may_subscribe_during_a_request() -> None:
    server = echoing()
    events: list[Any] = []
    gate = asyncio.Event()

    @server.tool
    async def wait() -> str:
        await gate.wait()
        return "done"

    async with connected(server) as peer:
        peer.send(call("w", "wait"))
        await peer.result("ping")
        server.subscribe(lambda name, fields: events.append((name, fields)))
        peer.send(call("x", text="x"))
        gate.set()
        await peer.answer("w")
        await peer.answer("x")
    assert [name for name, _ in events if "request" in name].count("jackstay.server.request.start") == 1


async def test_an_unexpected_response_is_ignored() -> None:
    async with connected(echoing()) as peer:
        peer.send({"jsonrpc": "2.0", "id": 99, "result": {}})
        peer.notify("notifications/roots/list_changed")
        assert await peer.result("ping") == {}


async def test_in_the_stateless_era_every_request_needs_meta() -> None:
    async with connected(echoing(), STATELESS) as peer:
        await peer.text("echo", text="x")
        peer.send(call("bare", text="x"))
        assert (await peer.answer("bare"))["error"]["code"] == -32602
        assert meta()["io.modelcontextprotocol/protocolVersion"] == STATELESS


async def test_the_content_of_messages_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Not even at the level DEBUG."""
    with caplog.at_level(logging.DEBUG, "jackstay"):
        async with connected(echoing()) as peer:
            peer.send(b"a secret that is not JSON")
            peer.send(
                b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":[NaN,"secret"]}}'
            )
            peer.send(call(2, "echo", text="secret"))
            peer.send(call(3, "echo", unknown="secret"))
            await peer.result("ping")
    assert "rejected: JSON is malformed" in caplog.text
    assert "secret" not in caplog.text


async def test_events_are_processed_after_a_handler_has_raised_an_exception_that_ends_the_process() -> None:
    server, loop = Server("test"), asyncio.get_running_loop()
    raised: list[BaseException] = []

    @server.tool(blocking=False)
    def interrupt() -> None:
        raise KeyboardInterrupt

    async with connected(server) as peer:
        (connection,) = server._connections.values()
        assert isinstance(connection, Connection)
        frames_arrived = connection.frames_arrived

        def catch() -> None:
            try:
                frames_arrived(b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"interrupt"}}')
            except KeyboardInterrupt as error:
                raised.append(error)

        loop.call_soon(catch)
        assert await peer.result("ping") == {}
    assert len(raised) == 1
