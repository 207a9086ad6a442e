"""All sessions of an endpoint: ids, owners, time to live, the cap, and records that outlive the loop or the worker."""

import asyncio
import contextlib
import logging
import re
from typing import Any

import pytest

from jackstay.protocol.http import Refusal
from jackstay.server import Context, Server
from jackstay.server.http import App, MemoryEvents, MemorySessions, Principal, SessionRecord
from jackstay.server.http import _sessions as sessions_file
from jackstay.testing import run_on_fake_clock
from scripted.asgi import Http, asking, initialize, request, run, tool


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


class Names:
    """A guard that believes what a header says."""

    async def admit(self, method: str, path: str, headers: Any) -> Principal | Refusal:
        return Principal(headers.get("x-user", ""))


class SharedSessions(MemorySessions):
    """As if several workers saw it."""

    @property
    def is_shared(self) -> bool:
        return True


async def status(http: Http, **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return (await http.post(tool("echo", text="a"), headers=named)).status


# --- ids and owners ---------------------------------------------------------------------------------------------------


def test_ids_cannot_be_guessed() -> None:
    """At least 128 bits, from the system's source, each different."""

    async def test() -> None:
        app = serving().asgi(sessions=True)
        ids = set()
        for _ in range(50):
            async with asking(app) as http:
                ids.add(await http.shake_hands())
        assert len(ids) == 50
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{32}", id) for id in ids)
        async with asking(app) as http:
            for guess in ("0" * 32, next(iter(ids))[:-1], next(iter(ids)).swapcase(), "../../etc/passwd"):
                assert await status(http, mcp_session_id=guess) == 404

    run(test)


@pytest.mark.parametrize(
    ("id", "expected"), [("", 400), ("with space", 400), ("\xe9", 400), ("unknown", 404), ("x" * 9000, 404)]
)
def test_an_id_that_is_missing_malformed_or_unknown_is_refused(id: str, expected: int) -> None:
    """protocol.md section 7: missing 400, unknown 404 (G4, G19)."""

    async def test() -> None:
        async with asking(serving().asgi(sessions=True)) as http:
            assert await status(http, mcp_session_id=id) == expected
            headers = {"mcp-session-id": id, "accept": "text/event-stream"}
            assert (await http.ask("GET", headers=headers)).status == expected
            assert (await http.ask("DELETE", headers=headers)).status == expected

    run(test)


def test_a_session_of_somebody_else_is_unknown() -> None:
    """Security: a token that is good for its owner does not open another's session."""

    async def test() -> None:
        app = serving().asgi(sessions=True, guard=Names())
        async with asking(app, x_user="alice") as http:
            await http.shake_hands()
            assert await status(http) == 200
            for thief in ("bob", "", "Alice", "alic\xe9"):
                assert await status(http, x_user=thief) == 404
                stolen = {"x-user": thief, "accept": "text/event-stream"}
                assert (await http.ask("GET", headers=stolen)).status == 404
                assert (await http.ask("DELETE", headers=stolen)).status == 404
            assert await status(http) == 200

    run(test)


def test_what_handlers_keep_lives_as_long_as_the_session() -> None:
    async def test() -> None:
        app = serving().asgi(sessions=True)
        async with asking(app) as one, asking(app) as other:
            await one.shake_hands()
            await other.shake_hands()
            said = [(await http.post(tool("count"))).json for http in (one, one, other)]
            assert [found["result"]["content"][0]["text"] for found in said] == ["1", "2", "1"]

    run(test)


# --- time to live, the cap --------------------------------------------------------------------------------------------


def test_a_session_that_nothing_happens_in_is_forgotten() -> None:
    """G18: idle time to live; within 5 s of it."""

    async def test() -> None:
        store = MemorySessions(asyncio.get_running_loop().time)
        app = serving().asgi(sessions=True, session_ttl=60, session_store=store, event_store=MemoryEvents())
        server = app.server
        async with asking(app) as http:
            await http.shake_hands()
            for _ in range(10):
                await asyncio.sleep(50)
                assert await status(http) == 200, "in use"
            assert app.sessions == 1
            await asyncio.sleep(65)
            assert (app.sessions, len(store), server._connections) == (0, 0, {})
            assert await status(http) == 404

    run_on_fake_clock(test())


def test_a_thousand_sessions_end_in_one_sweep_and_leave_nothing() -> None:
    """1,000 idle sessions expire within TTL + 5 s; also where the store takes its time over each."""

    class Slow(MemorySessions):
        async def delete(self, id: str) -> None:
            await asyncio.sleep(0.0001)
            await super().delete(id)

    async def test() -> None:
        store = Slow(asyncio.get_running_loop().time)
        app = serving().asgi(sessions=True, session_ttl=60, session_store=store, event_store=MemoryEvents())
        async with asking(app) as http:
            for _ in range(1000):
                http.headers.clear()
                await http.shake_hands()
            http.responses.clear()
            assert (app.sessions, len(store)) == (1000, 1000)
            await asyncio.sleep(65)
            assert (app.sessions, len(store), app.server._connections) == (0, 0, {})
            assert app._sessions is not None
            assert not app._sessions._chores

    run_on_fake_clock(test())


def test_an_active_request_or_an_open_stream_keeps_a_session() -> None:
    """G18: an active request is never reaped."""

    async def test() -> None:
        server = serving()
        gate = asyncio.Event()

        @server.tool
        async def wait() -> str:
            await gate.wait()
            return "waited"

        store = MemorySessions(asyncio.get_running_loop().time)
        app = server.asgi(sessions=True, session_ttl=10, keepalive=0, session_store=store)
        async with asking(app) as busy, asking(app) as listening:
            await busy.shake_hands()
            await listening.shake_hands()
            response = busy.start("POST", tool("wait"))
            standing = await listening.open("GET", headers={"accept": "text/event-stream"})
            await asyncio.sleep(100)
            assert app.sessions == 2
            assert await status(listening) == 200, "its record is not forgotten either"
            gate.set()
            await response.end()
            assert response.json["result"]["content"][0]["text"] == "waited"
            standing.leave()
            await standing.end()
            await asyncio.sleep(15)
            assert app.sessions == 0

    run_on_fake_clock(test())


def test_a_handler_whose_client_is_away_keeps_its_session_unless_it_waits_for_the_client() -> None:
    async def test() -> None:
        server = serving()
        gate, cancelled = asyncio.Event(), asyncio.Event()

        @server.tool
        async def works() -> str:
            await gate.wait()
            return "worked"

        @server.tool
        async def asks(ctx: Context) -> str:
            try:
                return str(await ctx.roots())
            except asyncio.CancelledError:
                cancelled.set()
                raise

        app = server.asgi(sessions=True, session_ttl=10, event_store=MemoryEvents())
        async with asking(app) as working, asking(app) as waiting:
            await working.shake_hands()
            await waiting.shake_hands(capabilities={"roots": {}})
            for http, name in ((working, "works"), (waiting, "asks")):
                response = http.start("POST", tool(name))
                await asyncio.sleep(1)
                response.leave()
                await response.end()
            await asyncio.sleep(15)
            assert app.sessions == 1
            assert cancelled.is_set()
            gate.set()
            await asyncio.sleep(15)
            assert app.sessions == 0

    run_on_fake_clock(test())


def test_at_the_cap_the_session_that_was_idle_longest_makes_room(caplog: pytest.LogCaptureFixture) -> None:
    """G18: a cap, on by default."""

    async def test() -> None:
        app = serving().asgi(sessions=True, max_sessions=2)
        async with asking(app) as one, asking(app) as two, asking(app) as three:
            await one.shake_hands()
            await two.shake_hands()
            await asyncio.sleep(0.01)
            assert await status(one) == 200
            await three.shake_hands()
            assert app.sessions == 2
            assert [await status(http) for http in (one, two, three)] == [200, 404, 200]

    with caplog.at_level(logging.WARNING):
        run_on_fake_clock(test())
    assert "idle ones make room" in caplog.text


def test_who_opens_sessions_without_end_costs_the_others_little(caplog: pytest.LogCaptureFixture) -> None:
    """All sessions are looked at, and a line is logged, once for many that make room; each is still the one idle longest."""

    async def test() -> None:
        app = serving().asgi(sessions=True, max_sessions=3)
        async with contextlib.AsyncExitStack() as stack:

            async def opened() -> Any:
                http = await stack.enter_async_context(asking(app))
                await http.shake_hands()
                await asyncio.sleep(0.01)
                return http

            first, used, third = [await opened() for _ in range(3)]
            fourth = await opened()  # in place of the first; the other two are taken note of
            assert await status(used) == 200
            await asyncio.sleep(0.01)
            fifth = await opened()  # in place of the third: what was used since is not idle longest
            assert len(caplog.messages) == 1
            sixth = await opened()  # in place of the fourth
            assert len(caplog.messages) == 2
            rest = (first, used, third, fourth, fifth, sixth)
            assert [await status(http) for http in rest] == [404, 200, 404, 404, 200, 200]

    with caplog.at_level(logging.WARNING):
        run_on_fake_clock(test())


def test_at_the_cap_with_none_idle_a_new_session_is_refused() -> None:
    async def test() -> None:
        app = serving().asgi(sessions=True, max_sessions=1)
        async with asking(app) as one, asking(app) as two:
            await one.shake_hands()
            await one.open("GET", headers={"accept": "text/event-stream"})
            refused = await two.post(initialize())
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert refused.json["error"]["data"]["reason"] == "busy"
            assert await status(one) == 200

    run(test)


# --- records ----------------------------------------------------------------------------------------------------------


def test_a_session_goes_on_at_another_worker() -> None:
    """architecture.md: any worker serves any request, nothing depends on stickiness."""

    async def test() -> None:
        store = SharedSessions()
        workers = [serving().asgi(sessions=True, session_store=store) for _ in range(2)]
        assert not any(worker.needs_one_process for worker in workers)
        async with asking(workers[0]) as http:
            id = await http.shake_hands("2025-06-18", {"roots": {}})
            level = await http.post(request("logging/setLevel", {"level": "error"}))
            assert level.status == 200
            http.app = workers[1]
            assert await status(http) == 200
            (session,) = workers[1]._all_sessions()
            assert (session.core.version, session.log_level) == ("2025-06-18", "error")
            assert session.core.client is not None
            assert b"roots" in session.core.client.capabilities
            assert (await http.ask("DELETE")).status == 204
            http.app = workers[0]
            assert await status(http) == 404, "ended by another worker"
            assert workers[0].sessions == 0
            assert await store.load(id, 1) is None

    run(test)


def test_subscriptions_to_resources_go_along() -> None:
    async def test() -> None:
        store = SharedSessions()
        servers = [serving() for _ in range(2)]
        for server in servers:
            server.resource("memo://{name}")(lambda name: name)
        workers = [server.asgi(sessions=True, session_store=store) for server in servers]
        async with asking(workers[0]) as http:
            await http.shake_hands()
            await http.post(request("resources/subscribe", {"uri": "memo://1"}))
            await http.post(request("resources/subscribe", {"uri": "memo://2"}, 2))
            await http.post(request("resources/unsubscribe", {"uri": "memo://2"}, 3))
            http.app = workers[1]
            standing = await http.open("GET", headers={"accept": "text/event-stream"})
            servers[1].notify_resource_updated("memo://2")
            servers[1].notify_resource_updated("memo://1")
            assert (await standing.message())["params"]["uri"] == "memo://1"

    run(test)


def test_a_session_that_is_in_use_here_is_kept_in_a_shared_store() -> None:
    async def test() -> None:
        store = SharedSessions(asyncio.get_running_loop().time)
        app = serving().asgi(sessions=True, session_ttl=20, session_store=store)
        async with asking(app) as http:
            id = await http.shake_hands()
            await http.open("GET", headers={"accept": "text/event-stream"})
            await asyncio.sleep(100)
            assert await store.load(id, 20) is not None

    run_on_fake_clock(test())


def test_a_worker_that_ends_or_has_not_seen_a_session_for_long_ends_it_for_nobody_else() -> None:
    """Rolling restarts: what workers share stays when one of them goes."""

    async def test() -> None:
        store = SharedSessions(asyncio.get_running_loop().time)
        workers = [serving().asgi(sessions=True, session_ttl=60, session_store=store) for _ in range(3)]
        async with asking(workers[0]) as http:
            await http.shake_hands()
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


def test_a_session_goes_on_when_its_loop_is_gone() -> None:
    """Several loops: what ran is gone with the loop, what is remembered is not."""
    app = serving().asgi(sessions=True)
    kept: dict[str, str] = {}

    async def first() -> None:
        async with asking(app) as http:
            await http.shake_hands()
            kept.update(http.headers)

    async def second() -> None:
        async with asking(app) as http:
            http.headers.update(kept)
            assert await status(http) == 200
            assert app.sessions == 1

    run(first)
    run(second)
    run(second)


def test_a_store_that_fails_refuses_the_request_and_spoils_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemorySessions):
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

    async def test() -> None:
        store = Broken()
        app = serving().asgi(sessions=True, session_store=store)
        async with asking(app) as http:
            await http.shake_hands()
            store.is_broken = True
            answer = await http.post(tool("echo", text="a"))
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            for method in ("GET", "DELETE"):
                assert (await http.ask(method, headers={"accept": "text/event-stream"})).status == 503
            opening = await http.post(initialize(), headers={"mcp-session-id": None})
            assert (opening.status, "mcp-session-id" in opening.headers) == (503, False)
            store.is_broken = False
            assert await status(http) == 200
            await app.drain()
            await asyncio.sleep(0)
            assert app.sessions == 0

    run(test)
    assert "a store failed" in caplog.text


def test_a_process_with_sessions_in_memory_says_that_it_must_be_the_only_one() -> None:
    """connection.md section 6: more than one worker with the in-memory session store is refused at start."""
    server = serving()
    assert not server.asgi().needs_one_process
    assert server.asgi(sessions=True).needs_one_process
    assert server.asgi(sessions=True, session_store=MemorySessions()).needs_one_process
    assert not server.asgi(sessions=True, session_store=SharedSessions()).needs_one_process
    events = MemoryEvents()
    assert server.asgi(sessions=True, session_store=SharedSessions(), event_store=events).needs_one_process


def test_sessions_say_how_many_they_are() -> None:
    async def test() -> None:
        app: App = serving().asgi(sessions=True, max_sessions=7)
        async with asking(app) as http:
            await http.shake_hands()
            assert repr(app._sessions) == "<Sessions 1 of 7>"
            assert sessions_file.ID_BYTES * 8 >= 128

    run(test)
