"""Sessions that several workers serve. Here a worker is a server with an app of its own, on the same event loop."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from jackstay.errors import TransportError
from jackstay.server import GAP, ChangeBus, MemoryChanges
from jackstay.server.http import App, MemoryEventStore, MemorySessionStore, SessionChange, SessionRecord, id_hash
from jackstay.testing import run_on_fake_clock
from scripted.asgi import Http, Response, http_client, initialize, request, tool
from scripted.gate import Gate
from scripted.sessions import ELICITATION, listening, only, serving

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class SharedSessions(MemorySessionStore):
    """Pretends to be shared by several processes."""

    @property
    def is_shared(self) -> bool:
        return True


class SharedChanges(MemoryChanges):
    """Pretends to reach other processes."""

    is_shared = True


class PlainChanges:
    """A bus without mailboxes, as a user may write one."""

    def __init__(self) -> None:
        self._bus = MemoryChanges()
        self.publish, self.listen = self._bus.publish, self._bus.listen


BUSES = pytest.mark.parametrize("make_bus", [SharedChanges, PlainChanges])


class Workers:
    """Two workers that share their sessions. `first` and `second` are clients of one session, at each worker."""

    def __init__(self, first: Http, second: Http, store: SharedSessions) -> None:
        self.first, self.second, self.store = first, second, store

    async def open_session(self, capabilities: Any = None) -> str:
        """Initialize at the first worker and confirm at the second."""
        self.first.headers.pop("mcp-session-id", None)
        opened = await self.first.post(initialize(capabilities=capabilities))
        id: str = opened.headers["mcp-session-id"]
        for http in (self.first, self.second):
            http.headers |= {"mcp-session-id": id, "mcp-protocol-version": "2025-11-25"}
        assert (await self.second.post(INITIALIZED)).status == 202
        return id

    @property
    def apps(self) -> tuple[App, App]:
        return self.first.app, self.second.app


@asynccontextmanager
async def workers(
    bus: ChangeBus | None = None, store: SharedSessions | None = None, **options: Any
) -> AsyncIterator[Workers]:
    store = SharedSessions(asyncio.get_running_loop().time) if store is None else store
    apps = []
    for _ in range(2):
        server = serving(changes=bus)
        server.resource("memo://{name}")(lambda name: name)
        apps.append(server.asgi(sessions=True, session_store=store, **options))
    async with http_client(apps[0]) as first, http_client(apps[1]) as second:
        yield Workers(first, second, store)


def answer(id: int, name: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": {"action": "accept", "content": {"name": name}}}


async def final_text(response: Response) -> str:
    await response.end()
    text: str = response.messages[-1]["result"]["content"][0]["text"]
    return text


# --- requests to the client -------------------------------------------------------------------------------------------


@BUSES
@pytest.mark.parametrize("is_swapped", [False, True], ids=["same worker", "other worker"])
async def test_two_requests_at_once_get_their_own_responses(
    make_bus: Callable[[], ChangeBus], *, is_swapped: bool
) -> None:
    """Each worker sends a request in the same session, and any of them may receive the responses."""
    async with workers(make_bus()) as both:
        await both.open_session(ELICITATION)
        calls = [both.first.start("POST", tool("name", 1)), both.second.start("POST", tool("name", 2))]
        ids = [(await call.message())["id"] for call in calls]
        assert len(set(ids)) == 2
        receivers = (both.second, both.first) if is_swapped else (both.first, both.second)
        for receiver, id, name in zip(receivers, ids, ("ada", "grace"), strict=True):
            assert (await receiver.post(answer(id, name))).status == 202
        assert [await final_text(call) for call in calls] == ["accept: {'name': 'ada'}", "accept: {'name': 'grace'}"]


async def test_an_error_response_and_a_response_in_a_batch_reach_the_worker_of_the_request() -> None:
    async with workers(SharedChanges()) as both:
        opened = await both.first.post(initialize("2025-03-26", ELICITATION | {"roots": {}}))
        for http in (both.first, both.second):
            http.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        assert (await both.second.post(INITIALIZED)).status == 202
        first_app, _ = both.apps

        async def roots() -> Any:
            return await only(first_app).request("roots/list", b"{}", None)

        stream = await listening(both.first)
        for is_batch in (True, False):
            pending = asyncio.ensure_future(roots())
            id = (await stream.message())["id"]
            if is_batch:
                found = {"jsonrpc": "2.0", "id": id, "result": {"roots": []}}
                reply = await both.second.post([found, request("ping", id=9)])
                assert [row["id"] for row in reply.json] == [9]
                assert json.loads(bytes(await pending)) == {"roots": []}
            else:
                error = {"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "no"}}
                assert (await both.second.post(error)).status == 202
                with pytest.raises(Exception, match="no"):
                    await pending


@pytest.mark.parametrize("bus", [None, MemoryChanges()], ids=["none", "of one process"])
async def test_a_request_to_the_client_is_refused_without_a_bus(bus: MemoryChanges | None) -> None:
    """It would wait for a response that another worker may receive."""
    async with workers(bus) as both:
        await both.open_session(ELICITATION)
        reply = (await both.first.post(tool("name"))).json["result"]
        assert reply["isError"]
        assert "another worker may receive the response" in reply["content"][0]["text"]


async def test_a_session_of_one_process_needs_no_bus() -> None:
    async with http_client(serving().asgi(sessions=True)) as http:
        await http.handshake(capabilities=ELICITATION)
        call = http.start("POST", tool("name"))
        await http.post(answer((await call.message())["id"], "ada"))
        assert await final_text(call) == "accept: {'name': 'ada'}"


async def test_a_cancellation_reaches_the_worker_of_the_request() -> None:
    async with workers(SharedChanges()) as both:
        gate = Gate(both.apps[0].server)
        await both.open_session()
        call = both.first.start("POST", tool("wait", 7))
        await gate.began.wait()
        for wrong in ({}, {"requestId": 8}):
            await both.second.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": wrong})
        assert not call.is_over
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert (await both.second.post(cancel)).status == 202
        await call.end()
        assert call.messages == []
        assert not only(both.apps[0]).core.in_flight


async def test_the_stream_of_a_cancelled_request_cannot_be_resumed_at_another_worker() -> None:
    """It never gets a response, so a client that resumed it would do so again and again."""
    async with workers(SharedChanges(), event_store=MemoryEventStore()) as both:
        gate = Gate(both.apps[0].server)
        await both.open_session()
        message = tool("wait", 7)
        message["params"]["_meta"] = {"progressToken": 1}
        call = both.first.start("POST", message)
        await gate.began.wait()
        assert gate.context is not None
        gate.context.progress(1)
        primed, progress = await call.event(), await call.event()
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert (await both.second.post(cancel)).status == 202
        await call.end()
        for http in (both.second, both.first):
            for last in (primed.id, progress.id):
                refused = await http.request("GET", headers={"accept": "text/event-stream", "last-event-id": last})
                assert (refused.status, "cancelled" in refused.json["error"]["message"]) == (400, True)


# --- streams ----------------------------------------------------------------------------------------------------------


async def test_the_get_stream_goes_on_at_another_worker() -> None:
    """It has the events that the client missed, and then those of the worker that now serves it."""
    async with workers(SharedChanges(), event_store=MemoryEventStore()) as both:
        await both.open_session()
        for number in range(3):
            await both.first.post(request("resources/subscribe", {"uri": f"memo://{number}"}, number))
        stream = await listening(both.first)
        both.apps[0].server.notify_resource_updated("memo://0")
        await stream.message()
        last = stream.events[-1].id
        stream.disconnect()
        await stream.end()
        both.apps[0].server.notify_resource_updated("memo://1")
        await asyncio.sleep(0)
        resumed = await listening(both.second, last)
        assert (await resumed.message())["params"]["uri"] == "memo://1"
        both.apps[0].server.notify_resource_updated("memo://2")
        while (await resumed.message())["params"]["uri"] != "memo://2":
            pass  # the second worker has stored the earlier updates as well
        assert not resumed.is_over


@BUSES
def test_the_stream_of_a_dead_worker_ends_with_an_error(make_bus: Callable[[], ChangeBus]) -> None:
    """Its client does not know whether the request completed, and must not wait forever."""

    async def test() -> None:
        bus = make_bus()
        async with workers(bus, event_store=MemoryEventStore()) as both:
            gate = Gate(both.apps[0].server)
            await both.open_session()
            sessions = both.apps[0]._sessions
            call = both.first.start("POST", tool("wait", 7))
            await gate.began.wait()
            last = (await call.event()).id
            call.disconnect()
            await call.end()
            await asyncio.sleep(60)
            while_alive = await listening(both.second, last)
            await while_alive.end()
            assert while_alive.messages == []
            assert sessions._sweep is not None
            sessions._sweep.cancel()  # nothing is received from this worker any more
            if isinstance(bus, SharedChanges):
                bus._workers.discard(both.apps[0]._sessions.workers.name)
            await both.second.post(tool("echo", text="a"))
            await asyncio.sleep(60)
            afterwards = await listening(both.second, last)
            await afterwards.end()
            (response,) = afterwards.messages
            assert response["id"] == 7
            assert response["error"]["data"] == {"outcome": "unknown", "mayHaveRun": True}
            forgotten = await both.second.request(
                "GET", headers={"accept": "text/event-stream", "last-event-id": last.replace(".1-", ".2-")}
            )
            assert forgotten.status == 400
            gate.open.set()

    run_on_fake_clock(test())


# --- the record -------------------------------------------------------------------------------------------------------


async def test_a_worker_learns_that_the_client_confirmed_at_another_one() -> None:
    """Until then it queues notifications. Without a bus it learns it with the next request."""
    for bus in (None, SharedChanges()):
        async with workers(bus) as both:
            await both.open_session()
            stream = await listening(both.first)
            both.apps[0].server.add_tool("new", input_schema={"type": "object"}, handler=lambda _: "x")
            assert (await stream.message())["method"] == "notifications/tools/list_changed"


async def test_a_stream_that_was_opened_before_the_confirmation_gets_what_was_queued() -> None:
    async with workers(SharedChanges()) as both:
        opened = await both.first.post(initialize())
        for http in (both.first, both.second):
            http.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        stream = await listening(both.first)
        both.apps[0].server.add_tool("new", input_schema={"type": "object"}, handler=lambda _: "x")
        await both.second.post(INITIALIZED)
        assert (await stream.message())["method"] == "notifications/tools/list_changed"


async def test_subscriptions_of_one_session_at_two_workers_are_joined() -> None:
    async with workers(SharedChanges()) as both:
        id = await both.open_session()
        for number, http in enumerate((both.first, both.second, both.first)):
            await http.post(request("resources/subscribe", {"uri": f"memo://{number}"}, number))
        await both.second.post(request("resources/unsubscribe", {"uri": "memo://0"}))
        await both.second.post(request("logging/setLevel", {"level": "error"}))
        record = await both.store.load(id, 60)
        assert record is not None
        assert (record.uris, record.log_level, record.is_confirmed) == (("memo://1", "memo://2"), "error", True)
        stream = await listening(both.first)
        assert only(both.apps[0]).log_level == "error"
        for number in range(3):
            both.apps[1].server.notify_resource_updated(f"memo://{number}")
        assert [(await stream.message())["params"]["uri"] for _ in range(2)] == ["memo://1", "memo://2"]


async def test_a_record_that_was_loaded_before_a_change_is_not_adopted() -> None:
    """The change of this worker is newer."""
    async with workers() as both:
        await both.open_session()
        loaded = asyncio.Event()
        go_on = asyncio.Event()
        load = both.store.load

        async def slow_load(id: str, ttl: float) -> Any:
            record = await load(id, ttl)
            loaded.set()
            await go_on.wait()
            return record

        both.store.load = slow_load  # type: ignore[method-assign]
        finding = both.first.start("POST", tool("echo", 1, text="a"))
        await loaded.wait()
        both.store.load = load  # type: ignore[method-assign]
        await both.first.post(request("resources/subscribe", {"uri": "memo://1"}, 2))
        go_on.set()
        await finding.end()
        assert only(both.apps[0]).subscriptions.uris == {"memo://1"}


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_the_end_of_a_session_reaches_every_worker() -> None:
    async with workers(SharedChanges()) as both:
        gate = Gate(both.apps[0].server)
        await both.open_session()
        stream = await listening(both.first)
        call = both.first.start("POST", tool("wait"))
        await gate.began.wait()
        assert (await both.second.request("DELETE")).status == 204
        await stream.end()
        await call.end()
        assert [app.sessions for app in both.apps] == [0, 0]


def test_without_a_bus_a_worker_learns_of_the_end_with_its_next_sweep() -> None:
    async def test() -> None:
        async with workers() as both:
            await both.open_session()
            stream = await listening(both.first)
            assert (await both.second.request("DELETE")).status == 204
            await stream.end()
            assert [app.sessions for app in both.apps] == [0, 0]

    run_on_fake_clock(test())


def test_a_record_that_cannot_be_read_does_not_keep_others_from_being_renewed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Poisoned(SharedSessions):
        poisoned = ""

        async def load(self, id: str, ttl: float) -> SessionRecord | None:
            if id == self.poisoned:
                raise msgspec.DecodeError("not a record")
            return await super().load(id, ttl)

    async def test() -> None:
        store = Poisoned(asyncio.get_running_loop().time)
        async with workers(store=store, session_ttl=20) as both:
            poisoned = await both.open_session()
            first = await listening(both.first)
            store.poisoned = poisoned
            other = await both.open_session()
            second = await listening(both.first)
            await asyncio.sleep(100)
            assert await store.load(other, 20) is not None
            assert "the session store or event store failed" in caplog.text
            first.disconnect()
            second.disconnect()

    run_on_fake_clock(test())


async def test_the_limit_of_sessions_holds_for_those_of_other_workers() -> None:
    async with workers(max_sessions=3) as both:
        ids = [await both.open_session() for _ in range(3)]
        for id in ids:
            both.second.headers["mcp-session-id"] = id
            assert (await both.second.post(tool("echo", text="a"))).status == 200
        assert both.apps[1].sessions == 3
        await both.open_session()
        assert both.apps[1].sessions == 3
        streams = []
        for session in both.apps[1]._sessions.all:
            both.second.headers["mcp-session-id"] = session.id
            streams.append(await listening(both.second))
        missing = next(id for id in ids if id not in {session.id for session in both.apps[1]._sessions.all})
        both.second.headers["mcp-session-id"] = missing
        refused = await both.second.post(tool("echo", text="a"))
        assert (refused.status, refused.json["error"]["data"]["reason"]) == (503, "busy")
        streams[0].disconnect()
        await streams[0].end()
        assert (await both.second.post(tool("echo", text="a"))).status == 200


# --- the bus ----------------------------------------------------------------------------------------------------------


async def test_only_a_server_that_runs_uses_the_bus() -> None:
    """Importing a program, for example in the supervisor of the workers, is not a change for clients."""
    bus = SharedChanges()
    published: list[str] = []
    bus.listen(lambda method, _: published.append(method))
    async with workers(bus, event_store=MemoryEventStore()) as both:
        server = both.apps[0].server
        assert published == []
        assert "1 listeners" in repr(bus)
        await both.open_session()
        server.add_tool("new", input_schema={"type": "object"}, handler=lambda _: "x")
        assert published.count("notifications/tools/list_changed") == 1
        await server.shutdown()
        await both.apps[1].server.shutdown()
        server.remove_tool("new")
        assert published.count("notifications/tools/list_changed") == 1
        assert "1 listeners" in repr(bus)
        assert "BusLink" in repr(server._bus)


async def test_the_bus_carries_no_session_ids() -> None:
    bus = SharedChanges()
    published: list[tuple[str, str]] = []
    bus.listen(lambda *message: published.append(message))
    async with workers(bus) as both:
        await both.open_session(ELICITATION)
        call = both.first.start("POST", tool("name", 1))
        assert (await both.second.post(answer((await call.message())["id"], "ada"))).status == 202
        await call.end()
        id = both.first.headers["mcp-session-id"]
        assert (await both.first.request("DELETE")).status in (200, 204)
    kinds = {method for method, _ in published}
    assert {"jackstay/session_changed", "jackstay/session_message", "jackstay/session_deleted"} <= kinds
    assert not [text for _, text in published if id in text]


async def test_a_message_for_an_unknown_session_is_ignored() -> None:
    bus = SharedChanges()
    async with workers(bus) as both:
        await both.open_session()
        bus.publish("jackstay/session_changed", json.dumps(["worker", "unknown", {}]))
        bus.publish("jackstay/session_changed", "malformed")
        bus.publish("jackstay/session_deleted", "unknown")
        bus.publish("jackstay/session_message", json.dumps(["unknown", "{}"]))
        bus.publish("jackstay/of_a_later_version", "anything")
        assert (await both.first.post(tool("echo", text="a"))).status == 200


# --- mailboxes, and stores that are down ------------------------------------------------------------------------------


class Unreliable(SharedSessions):
    """Counts how often a record is loaded, and fails while it is down."""

    is_down = False
    loaded = 0

    async def load(self, id: str, ttl: float) -> SessionRecord | None:
        self.loaded += 1
        if self.is_down:
            raise TransportError("the store is down")
        return await super().load(id, ttl)

    async def delete(self, id: str) -> None:
        if self.is_down:
            raise TransportError("the store is down")
        await super().delete(id)


async def test_a_response_for_a_worker_that_died_is_refused() -> None:
    bus = SharedChanges()
    async with workers(bus) as both:
        await both.open_session(ELICITATION)
        call = both.first.start("POST", tool("name", 1))
        id = (await call.message())["id"]
        bus._workers.discard(both.apps[0]._sessions.workers.name)
        refused = await both.second.post(answer(id, "ada"))
        assert refused.status == 400
        assert "no worker waits for this response" in refused.json["error"]["message"]
        # What is not a response to any of us is ignored, as in one process.
        assert (await both.second.post({"jsonrpc": "2.0", "id": "a", "result": {}})).status == 202
        assert (await both.first.post(answer(id, "ada"))).status == 202
        assert await final_text(call) == "accept: {'name': 'ada'}"


async def test_a_response_reaches_a_worker_that_only_seems_to_be_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that is busy, a worker may not renew its lease in time."""
    bus = SharedChanges()

    async def send(*_: str) -> bool:
        return False

    monkeypatch.setattr(bus, "send", send)
    async with workers(bus) as both:
        await both.open_session(ELICITATION)
        call = both.first.start("POST", tool("name", 1))
        id = (await call.message())["id"]
        assert (await both.second.post(answer(id, "ada"))).status == 400
        assert await final_text(call) == "accept: {'name': 'ada'}"


async def test_a_response_that_cannot_be_passed_on_now_may_be_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = SharedChanges()

    async def fail(*_: str) -> bool:
        raise TransportError("the bus is down")

    async with workers(bus) as both:
        await both.open_session(ELICITATION)
        call = both.first.start("POST", tool("name", 1))
        id = (await call.message())["id"]
        with monkeypatch.context() as patch:
            patch.setattr(bus, "send", fail)
            refused = await both.second.post(answer(id, "ada"))
            assert refused.status == 503
            assert refused.json["error"]["data"] == {"retryable": True, "mayHaveRun": False}
        assert (await both.second.post(answer(id, "ada"))).status == 202
        assert await final_text(call) == "accept: {'name': 'ada'}"


def test_with_mailboxes_a_record_is_loaded_once_a_second() -> None:
    async def test() -> None:
        store = Unreliable(asyncio.get_running_loop().time)
        async with workers(SharedChanges(), store=store) as both:
            await both.open_session()
            await both.first.post(tool("echo", text="a"))
            before = store.loaded
            for _ in range(5):
                await both.first.post(tool("echo", text="a"))
            assert store.loaded == before
            await asyncio.sleep(1.5)
            await both.first.post(tool("echo", text="a"))
            assert store.loaded == before + 1

    run_on_fake_clock(test())


def test_while_the_store_is_down_a_session_is_served_where_it_runs() -> None:
    async def test() -> None:
        store = Unreliable(asyncio.get_running_loop().time)
        async with workers(SharedChanges(), store=store) as both:
            id = await both.open_session()
            await both.first.post(tool("echo", text="a"))
            await asyncio.sleep(1.5)
            store.is_down = True
            assert (await both.first.post(tool("echo", text="a"))).status == 200
            await both.apps[1].server.shutdown()
            both.first.headers["mcp-session-id"] = "unknown"
            assert (await both.first.post(tool("echo", text="a"))).status == 503
            both.first.headers["mcp-session-id"] = id
            # It cannot be ended now, because other workers would serve it further.
            assert (await both.first.request("DELETE")).status == 503
            store.is_down = False
            assert (await both.first.post(tool("echo", text="a"))).status == 200
            assert (await both.first.request("DELETE")).status == 204
            assert (await both.first.post(tool("echo", text="a"))).status == 404

    run_on_fake_clock(test())


async def test_a_change_that_arrives_while_the_record_is_being_changed_is_loaded_later() -> None:
    bus = SharedChanges()
    async with workers(bus) as both:
        id = await both.open_session()
        session = only(both.apps[0])
        change = SessionChange(subscribed=("memo://1",))
        session.unsaved += 1
        bus.publish("jackstay/session_changed", msgspec.json.encode(("other", id_hash(id), change)).decode())
        session.unsaved -= 1
        assert session.record.uris == ()
        assert session.checked_at == float("-inf")
        bus.publish("jackstay/session_changed", msgspec.json.encode(("other", id_hash(id), change)).decode())
        assert session.record.uris == ("memo://1",)


async def test_a_gap_is_announced_as_a_change_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jackstay.server._subscriptions.GAP_SPREAD", 0.0)
    bus = SharedChanges()
    async with workers(bus) as both:
        await both.open_session()
        stream = await listening(both.first)
        subscribe = {"jsonrpc": "2.0", "id": 5, "method": "resources/subscribe", "params": {"uri": "memo://1"}}
        assert (await both.first.post(subscribe)).status == 200
        bus.publish(GAP, "")
        found = [(await stream.message()) for _ in range(3)]
        assert [(row["method"], row["params"]) for row in found] == [
            ("notifications/tools/list_changed", {}),
            ("notifications/resources/list_changed", {}),
            ("notifications/resources/updated", {"uri": "memo://1"}),
        ]
