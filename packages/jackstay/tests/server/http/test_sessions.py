"""The sessions of an endpoint: ids, principals, expiry, the limit, and records that outlive a loop or a worker."""

import asyncio
import contextlib
import logging
import re
from typing import Any

import msgspec
import pytest

from jackstay.protocol.http import ErrorResponse
from jackstay.server import Context, Server
from jackstay.server.http import App, MemoryEventStore, MemorySessionStore, Principal, SessionRecord
from jackstay.server.http import _sessions as sessions_file
from jackstay.testing import run_on_fake_clock
from scripted.asgi import Http, http_client, initialize, request, tool


def serving(**options: Any) -> Server:
    server = Server("sessions", **options)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def count(ctx: Context) -> str:
        ctx.store["count"] = ctx.store.get("count", 0) + 1
        return str(ctx.store["count"])

    return server


class HeaderGuard:
    """A guard that trusts a header."""

    async def authenticate(self, method: str, path: str, headers: Any) -> Principal | ErrorResponse:
        return Principal(headers.get("x-user", ""))


class SharedSessions(MemorySessionStore):
    """Pretends to be shared by several workers."""

    @property
    def is_shared(self) -> bool:
        return True


async def status(http: Http, **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return (await http.post(tool("echo", text="a"), headers=named)).status


# --- ids and principals -----------------------------------------------------------------------------------------------


async def test_ids_cannot_be_guessed() -> None:
    """At least 128 random bits."""
    app = serving().asgi(sessions=True)
    ids = set()
    for _ in range(50):
        async with http_client(app) as http:
            ids.add(await http.handshake())
    assert len(ids) == 50
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{32}", id) for id in ids)
    async with http_client(app) as http:
        for guess in ("0" * 32, next(iter(ids))[:-1], next(iter(ids)).swapcase(), "../../etc/passwd"):
            assert await status(http, mcp_session_id=guess) == 404


async def test_an_id_that_is_missing_malformed_or_unknown_is_refused(subtests: pytest.Subtests) -> None:
    """2025-11-25 basic/transports, "Session Management"; docs/guarantees.md G4 and G19."""
    cases: list[tuple[str, int]] = [("", 400), ("with space", 400), ("\xe9", 400), ("unknown", 404), ("x" * 9000, 404)]
    for id, expected in cases:
        with subtests.test(id=id, expected=expected):
            async with http_client(serving().asgi(sessions=True)) as http:
                assert await status(http, mcp_session_id=id) == expected
                headers = {"mcp-session-id": id, "accept": "text/event-stream"}
                assert (await http.request("GET", headers=headers)).status == expected
                assert (await http.request("DELETE", headers=headers)).status == expected


async def test_a_session_of_another_principal_is_unknown() -> None:
    """Security: a valid token gives no access to the session of another principal."""
    app = serving().asgi(sessions=True, guard=HeaderGuard())
    async with http_client(app, x_user="alice") as http:
        await http.handshake()
        assert await status(http) == 200
        for attacker in ("bob", "", "Alice", "alic\xe9"):
            assert await status(http, x_user=attacker) == 404
            stolen = {"x-user": attacker, "accept": "text/event-stream"}
            assert (await http.request("GET", headers=stolen)).status == 404
            assert (await http.request("DELETE", headers=stolen)).status == 404
        assert await status(http) == 200


async def test_ctx_store_lives_as_long_as_the_session() -> None:
    app = serving().asgi(sessions=True)
    async with http_client(app) as first, http_client(app) as second:
        await first.handshake()
        await second.handshake()
        results = [(await http.post(tool("count"))).json for http in (first, first, second)]
        assert [result["result"]["content"][0]["text"] for result in results] == ["1", "2", "1"]


# --- expiry, the limit ------------------------------------------------------------------------------------------------


def test_a_session_without_activity_expires() -> None:
    """docs/guarantees.md G18: within 5 s after its TTL."""

    async def test() -> None:
        store = MemorySessionStore(asyncio.get_running_loop().time)
        app = serving().asgi(sessions=True, session_ttl=60, session_store=store, event_store=MemoryEventStore())
        server = app.server
        async with http_client(app) as http:
            await http.handshake()
            for _ in range(10):
                await asyncio.sleep(50)
                assert await status(http) == 200, "in use"
            assert app.sessions == 1
            await asyncio.sleep(65)
            assert (app.sessions, len(store), server._connections) == (0, 0, {})
            assert await status(http) == 404

    run_on_fake_clock(test())


def test_a_thousand_sessions_expire_in_one_sweep_and_leave_nothing() -> None:
    """Within TTL + 5 s, also with a slow store."""

    class Slow(MemorySessionStore):
        async def delete(self, id: str) -> None:
            await asyncio.sleep(0.0001)
            await super().delete(id)

    async def test() -> None:
        store = Slow(asyncio.get_running_loop().time)
        app = serving().asgi(sessions=True, session_ttl=60, session_store=store, event_store=MemoryEventStore())
        async with http_client(app) as http:
            for _ in range(1000):
                http.headers.clear()
                await http.handshake()
            http.responses.clear()
            assert (app.sessions, len(store)) == (1000, 1000)
            await asyncio.sleep(65)
            assert (app.sessions, len(store), app.server._connections) == (0, 0, {})
            assert not app._sessions._background_tasks

    run_on_fake_clock(test())


def test_an_active_request_or_an_open_stream_keeps_a_session() -> None:
    """docs/guarantees.md G18: an active request never expires."""

    async def test() -> None:
        server = serving()
        gate = asyncio.Event()

        @server.tool
        async def wait() -> str:
            await gate.wait()
            return "waited"

        store = MemorySessionStore(asyncio.get_running_loop().time)
        app = server.asgi(sessions=True, session_ttl=10, keepalive=0, session_store=store)
        async with http_client(app) as busy, http_client(app) as listening:
            await busy.handshake()
            await listening.handshake()
            response = busy.start("POST", tool("wait"))
            standalone = await listening.open("GET", headers={"accept": "text/event-stream"})
            await asyncio.sleep(100)
            assert app.sessions == 2
            assert await status(listening) == 200, "its record is kept as well"
            gate.set()
            await response.end()
            assert response.json["result"]["content"][0]["text"] == "waited"
            standalone.disconnect()
            await standalone.end()
            await asyncio.sleep(15)
            assert app.sessions == 0

    run_on_fake_clock(test())


def test_a_handler_of_a_disconnected_client_keeps_its_session_unless_it_waits_for_the_client() -> None:
    async def test() -> None:
        server = serving()
        gate, cancelled = asyncio.Event(), asyncio.Event()

        @server.tool
        async def work() -> str:
            await gate.wait()
            return "worked"

        @server.tool
        async def roots(ctx: Context) -> str:
            try:
                return str(await ctx.list_roots())
            except asyncio.CancelledError:
                cancelled.set()
                raise

        app = server.asgi(sessions=True, session_ttl=10, event_store=MemoryEventStore())
        async with http_client(app) as working, http_client(app) as waiting:
            await working.handshake()
            await waiting.handshake(capabilities={"roots": {}})
            for http, name in ((working, "work"), (waiting, "roots")):
                response = http.start("POST", tool(name))
                await asyncio.sleep(1)
                response.disconnect()
                await response.end()
            await asyncio.sleep(15)
            assert app.sessions == 1
            assert cancelled.is_set()
            gate.set()
            await asyncio.sleep(15)
            assert app.sessions == 0

    run_on_fake_clock(test())


def test_at_the_limit_the_longest_idle_session_is_evicted(caplog: pytest.LogCaptureFixture) -> None:
    """docs/guarantees.md G18: a limit, on by default."""

    async def test() -> None:
        app = serving().asgi(sessions=True, max_sessions=2)
        async with http_client(app) as first, http_client(app) as second, http_client(app) as third:
            await first.handshake()
            await second.handshake()
            await asyncio.sleep(0.01)
            assert await status(first) == 200
            await third.handshake()
            assert app.sessions == 2
            assert [await status(http) for http in (first, second, third)] == [200, 404, 200]

    with caplog.at_level(logging.WARNING):
        run_on_fake_clock(test())
    assert "evicting idle ones" in caplog.text


def test_evictions_are_selected_and_logged_in_batches(caplog: pytest.LogCaptureFixture) -> None:
    """Each evicted session is still the one that was idle longest."""

    async def test() -> None:
        app = serving().asgi(sessions=True, max_sessions=3)
        async with contextlib.AsyncExitStack() as stack:

            async def opened() -> Any:
                http = await stack.enter_async_context(http_client(app))
                await http.handshake()
                await asyncio.sleep(0.01)
                return http

            first, used, third = [await opened() for _ in range(3)]
            fourth = await opened()  # evicts the first, and selects the other two
            assert await status(used) == 200
            await asyncio.sleep(0.01)
            fifth = await opened()  # evicts the third: the second was used since
            assert len(caplog.messages) == 1
            sixth = await opened()  # evicts the fourth
            assert len(caplog.messages) == 2
            rest = (first, used, third, fourth, fifth, sixth)
            assert [await status(http) for http in rest] == [404, 200, 404, 404, 200, 200]

    with caplog.at_level(logging.WARNING):
        run_on_fake_clock(test())


async def test_at_the_limit_without_an_idle_session_a_new_one_is_refused() -> None:
    app = serving().asgi(sessions=True, max_sessions=1)
    async with http_client(app) as first, http_client(app) as second:
        await first.handshake()
        await first.open("GET", headers={"accept": "text/event-stream"})
        refused = await second.post(initialize())
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert refused.json["error"]["data"]["reason"] == "busy"
        assert await status(first) == 200


# --- records ----------------------------------------------------------------------------------------------------------


async def test_another_worker_can_serve_a_session() -> None:
    """Without sticky routing any worker serves any request."""
    store = SharedSessions()
    workers = [serving().asgi(sessions=True, session_store=store) for _ in range(2)]
    assert not any(worker.needs_one_process for worker in workers)
    async with http_client(workers[0]) as http:
        id = await http.handshake("2025-06-18", {"roots": {}})
        level = await http.post(request("logging/setLevel", {"level": "error"}))
        assert level.status == 200
        http.app = workers[1]
        assert await status(http) == 200
        (session,) = workers[1]._sessions.all
        assert (session.core.version, session.log_level) == ("2025-06-18", "error")
        assert session.core.client is not None
        assert b"roots" in session.core.client.capabilities
        assert (await http.request("DELETE")).status == 204
        http.app = workers[0]
        assert await status(http) == 404, "ended by another worker"
        assert workers[0].sessions == 0
        assert await store.load(id, 1) is None


async def test_subscriptions_are_part_of_the_record() -> None:
    store = SharedSessions()
    servers = [serving() for _ in range(2)]
    for server in servers:
        server.resource("memo://{name}")(lambda name: name)
    workers = [server.asgi(sessions=True, session_store=store) for server in servers]
    async with http_client(workers[0]) as http:
        await http.handshake()
        await http.post(request("resources/subscribe", {"uri": "memo://1"}))
        await http.post(request("resources/subscribe", {"uri": "memo://2"}, 2))
        await http.post(request("resources/unsubscribe", {"uri": "memo://2"}, 3))
        http.app = workers[1]
        standalone = await http.open("GET", headers={"accept": "text/event-stream"})
        servers[1].notify_resource_updated("memo://2")
        servers[1].notify_resource_updated("memo://1")
        assert (await standalone.message())["params"]["uri"] == "memo://1"


def test_a_session_in_use_does_not_expire_in_a_shared_store() -> None:
    async def test() -> None:
        store = SharedSessions(asyncio.get_running_loop().time)
        app = serving().asgi(sessions=True, session_ttl=20, session_store=store)
        async with http_client(app) as http:
            id = await http.handshake()
            await http.open("GET", headers={"accept": "text/event-stream"})
            await asyncio.sleep(100)
            assert await store.load(id, 20) is not None

    run_on_fake_clock(test())


def test_a_session_that_ends_in_one_worker_stays_in_the_shared_store() -> None:
    """Rolling restarts: shared sessions survive the end of a worker."""

    async def test() -> None:
        store = SharedSessions(asyncio.get_running_loop().time)
        workers = [serving().asgi(sessions=True, session_ttl=60, session_store=store) for _ in range(3)]
        async with http_client(workers[0]) as http:
            await http.handshake()
            http.app = workers[1]
            for _ in range(5):
                await asyncio.sleep(30)
                assert await status(http) == 200
            assert [worker.sessions for worker in workers] == [0, 1, 0], "idle at the first"
            await workers[1].drain()
            http.app = workers[2]
            assert await status(http) == 200
            await asyncio.sleep(100)
            assert await status(http) == 404

    run_on_fake_clock(test())


def test_a_session_survives_its_loop() -> None:
    """Its handlers end with the loop, its record does not."""
    app = serving().asgi(sessions=True)
    session_headers: dict[str, str] = {}

    async def first() -> None:
        async with http_client(app) as http:
            await http.handshake()
            session_headers.update(http.headers)

    async def second() -> None:
        async with http_client(app) as http:
            http.headers.update(session_headers)
            assert await status(http) == 200
            assert app.sessions == 1

    asyncio.run(first())
    asyncio.run(second())
    asyncio.run(second())


async def test_a_failing_store_refuses_requests_until_it_recovers(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemorySessionStore):
        is_broken = False

        async def save(self, id: str, record: SessionRecord, ttl: float) -> None:
            if self.is_broken:
                raise OSError("no route to the store")
            await super().save(id, record, ttl)

        async def load(self, id: str, ttl: float) -> SessionRecord | None:
            if self.is_broken:
                raise OSError("no route to the store")
            return await super().load(id, ttl)

        async def delete(self, id: str) -> None:
            raise OSError("no route to the store")

    store = Broken()
    app = serving().asgi(sessions=True, session_store=store)
    async with http_client(app) as http:
        await http.handshake()
        store.is_broken = True
        answer = await http.post(tool("echo", text="a"))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        for method in ("GET", "DELETE"):
            assert (await http.request(method, headers={"accept": "text/event-stream"})).status == 503
        opening = await http.post(initialize(), headers={"mcp-session-id": None})
        assert (opening.status, "mcp-session-id" in opening.headers) == (503, False)
        store.is_broken = False
        assert await status(http) == 200
        await app.drain()
        await asyncio.sleep(0)
        assert app.sessions == 0
    assert "store failed" in caplog.text


async def test_a_record_of_a_worker_with_another_revision_is_refused_as_a_failure_of_the_store() -> None:
    class Newer(SharedSessions):
        async def load(self, id: str, ttl: float) -> SessionRecord | None:
            record = await super().load(id, ttl)
            assert record is not None
            return msgspec.structs.replace(record, client=msgspec.structs.replace(record.client, version="2099-01-01"))

    store = Newer()
    first, second = (serving().asgi(sessions=True, session_store=store) for _ in range(2))
    async with http_client(first) as http, http_client(second) as other:
        await http.handshake()
        other.headers = http.headers
        assert await status(other) == 503
        assert second.sessions == 0


async def test_a_store_that_raises_when_it_is_called_refuses_the_session() -> None:
    class Plain(MemorySessionStore):
        def save(self, id: str, record: SessionRecord, ttl: float) -> Any:
            raise OSError("no route to the store")

    async with http_client(serving().asgi(sessions=True, session_store=Plain())) as http:
        opening = await http.post(initialize())
        assert (opening.status, opening.headers["retry-after"]) == (503, "1")
        assert "mcp-session-id" not in opening.headers


async def test_a_change_is_answered_though_the_store_raises_when_it_is_called(caplog: pytest.LogCaptureFixture) -> None:
    class Plain(MemorySessionStore):
        def change(self, id: str, change: object, ttl: float) -> Any:
            raise OSError("no route to the store")

    async with http_client(serving().asgi(sessions=True, session_store=Plain())) as http:
        await http.handshake()
    assert "store failed" in caplog.text


async def test_a_store_that_returns_a_dict_is_refused_as_a_failing_store(caplog: pytest.LogCaptureFixture) -> None:
    class Undecoded(MemorySessionStore):
        async def load(self, id: str, ttl: float) -> Any:
            return msgspec.to_builtins(await super().load(id, ttl))

    store = Undecoded()
    first, second = (serving().asgi(sessions=True, session_store=store) for _ in range(2))
    async with http_client(first) as http, http_client(second) as other:
        opening = await http.post(initialize())
        for worker in (http, other):
            headers = {"mcp-session-id": opening.headers["mcp-session-id"]}
            answer = await worker.post(tool("echo", text="a"), headers=headers)
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert "the session store returned dict, not a SessionRecord" in caplog.text


def test_sessions_in_memory_need_one_process() -> None:
    """`run()` refuses several workers then."""
    server = serving()
    assert not server.asgi().needs_one_process
    assert server.asgi(sessions=True).needs_one_process
    assert server.asgi(sessions=True, session_store=MemorySessionStore()).needs_one_process
    assert not server.asgi(sessions=True, session_store=SharedSessions()).needs_one_process
    events = MemoryEventStore()
    assert server.asgi(sessions=True, session_store=SharedSessions(), event_store=events).needs_one_process


async def test_repr() -> None:
    app: App = serving().asgi(sessions=True, max_sessions=7)
    async with http_client(app) as http:
        await http.handshake()
        assert repr(app._sessions) == "<Sessions 1 of 7>"
        assert sessions_file.ID_BYTES * 8 >= 128
