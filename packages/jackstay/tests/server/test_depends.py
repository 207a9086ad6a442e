"""`Depends`: providers, scopes, cleanup, replacement in tests, and errors at registration."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from jackstay import Context, Depends, Server, connect
from jackstay.errors import ToolCallError, UsageError

LOG: list[str] = []


@pytest.fixture(autouse=True)
def _empty_log() -> None:
    LOG.clear()


def settings() -> dict[str, str]:
    LOG.append("settings")
    return {"table": "orders"}


async def session(values: dict[str, str] = Depends(settings)) -> AsyncIterator[str]:
    LOG.append("open")
    try:
        yield f"session of {values['table']}"
    except ValueError:
        LOG.append("rolled back")
        raise
    finally:
        LOG.append("close")


def cursor(of: str = Depends(session)) -> Iterator[str]:
    yield f"cursor of {of}"
    LOG.append("cursor closed")


async def user(ctx: Context) -> str:
    return f"request {ctx.request_id}"


class Clock:
    def __init__(self, values: dict[str, str] = Depends(settings)) -> None:
        self.table = values["table"]

    def __call__(self) -> str:
        return "noon"


async def call(server: Server, name: str, **arguments: Any) -> Any:
    async with connect(server) as client:
        return await client.tools.call(name, arguments)


async def test_providers_are_called_once_a_request_and_closed_in_reverse_order() -> None:
    server = Server("x")

    @server.tool
    async def find(
        query: str,
        first: str = Depends(cursor),
        limit: int = 3,
        *,
        second: str = Depends(session),
        who: str = Depends(user),
        clock: Clock = Depends(Clock),
        time: str = Depends(Clock.__call__.__get__(Clock({"table": "x"}))),
        ctx: Context,
    ) -> list[str]:
        LOG.append("handler")
        assert asyncio.current_task() is not None
        return [query, str(limit), first, second, who, clock.table, time, ctx.method]

    async with connect(server) as client:
        (tool,) = await client.tools.list()
        assert list(tool.input_schema["properties"]) == ["query", "limit"]  # type: ignore[arg-type]
        result = await client.tools.call("find", {"query": "q", "limit": 5})
    assert result.structured_content == {
        "result": [
            "q",
            "5",
            "cursor of session of orders",
            "session of orders",
            "request 3",
            "orders",
            "noon",
            "tools/call",
        ]
    }
    assert LOG == ["settings", "open", "handler", "cursor closed", "close"]


async def test_a_plain_function_runs_in_a_thread_unless_it_never_blocks() -> None:
    server = Server("x")

    @server.tool
    def blocks(of: str = Depends(session)) -> bool:
        return threading.current_thread() is threading.main_thread()

    @server.tool(blocking=False)
    def never_blocks(of: str = Depends(session)) -> bool:
        return threading.current_thread() is threading.main_thread()

    assert (await call(server, "blocks")).text == "false"
    assert (await call(server, "never_blocks")).text == "true"


async def test_an_error_of_the_handler_reaches_the_generator() -> None:
    server = Server("x")

    @server.tool
    async def fail(of: str = Depends(session)) -> None:
        raise ValueError("no")

    with pytest.raises(ToolCallError):
        await call(server, "fail")
    assert LOG == ["settings", "open", "rolled back", "close"]


async def test_a_dependency_of_the_server_lives_until_it_shuts_down() -> None:
    server = Server("x")

    async def pool(values: dict[str, str] = Depends(settings, scope="server")) -> AsyncIterator[object]:
        LOG.append("pool")
        yield object()
        LOG.append("pool closed")

    seen: list[object] = []

    @server.tool
    async def use(pool: object = Depends(pool, scope="server")) -> None:
        seen.append(pool)

    async with connect(server) as client:
        await asyncio.gather(*(client.tools.call("use") for _ in range(3)))
        assert LOG == ["settings", "pool"]
    assert LOG == ["settings", "pool", "pool closed"]
    assert len(seen) == 3
    assert len(set(map(id, seen))) == 1


async def test_prompts_resources_and_completions_have_dependencies_too() -> None:
    server = Server("x")

    @server.resource("table://{name}")
    async def table(name: str, of: str = Depends(session)) -> str:
        return f"{name}: {of}"

    @server.prompt
    def greeting(name: str, of: str = Depends(session)) -> str:
        return f"{name}: {of}"

    async with connect(server) as client:
        (read,) = (await client.resources.read("table://a")).contents
        assert read.text == "a: session of orders"  # type: ignore[attr-defined]
        prompt = await client.prompts.get("greeting", {"name": "b"})
    assert prompt.messages[0].content.text == "b: session of orders"  # type: ignore[union-attr]


async def test_a_provider_is_replaced_inside_a_with_block() -> None:
    server = Server("x")

    @server.tool
    async def find(of: str = Depends(cursor)) -> str:
        return of

    def other(values: dict[str, str] = Depends(settings)) -> str:
        return f"other {values['table']}"

    with server.override(session, other):
        assert (await call(server, "find")).text == "cursor of other orders"
        with server.override(session, lambda: "third"):
            assert (await call(server, "find")).text == "cursor of third"
        assert (await call(server, "find")).text == "cursor of other orders"
    assert (await call(server, "find")).text == "cursor of session of orders"


async def test_two_clients_that_cancel_close_their_dependencies() -> None:
    server, started, closed = Server("x"), asyncio.Event(), asyncio.Event()

    async def lock() -> AsyncIterator[None]:
        try:
            yield
        finally:
            closed.set()

    @server.tool
    async def wait(lock: None = Depends(lock)) -> None:
        started.set()
        await asyncio.Event().wait()

    async with connect(server) as client:
        waiting = asyncio.create_task(client.tools.call("wait"))
        await started.wait()
        waiting.cancel()
        await closed.wait()


async def test_a_function_in_a_thread_keeps_its_dependencies_until_it_returns() -> None:
    server, started, closed = Server("x"), asyncio.Event(), asyncio.Event()
    loop, proceed = asyncio.get_running_loop(), threading.Event()

    async def connection() -> AsyncIterator[str]:
        try:
            yield "connection"
        except asyncio.CancelledError:
            LOG.append("rolled back")
            raise
        finally:
            LOG.append("close")
            closed.set()

    @server.tool
    def work(of: str = Depends(connection)) -> None:
        loop.call_soon_threadsafe(started.set)
        proceed.wait()
        LOG.append(f"used {of}")

    async with connect(server) as client:
        waiting = asyncio.create_task(client.tools.call("work"))
        await started.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        await client.ping()
        assert LOG == []
        proceed.set()
        await closed.wait()
    assert LOG == ["used connection", "rolled back", "close"]


async def test_a_server_that_ends_does_not_wait_for_functions_in_threads(caplog: pytest.LogCaptureFixture) -> None:
    server, started, proceed = Server("x"), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    async def connection() -> AsyncIterator[str]:
        try:
            yield "connection"
        finally:
            LOG.append("close")
            raise OSError("lost")

    @server.tool
    def work(of: str = Depends(connection)) -> None:
        loop.call_soon_threadsafe(started.set)
        proceed.wait()

    try:
        async with connect(server) as client:
            waiting = asyncio.create_task(client.tools.call("work"))
            await started.wait()
            waiting.cancel()
            await asyncio.wait([waiting])
            await client.ping()
        assert LOG == ["close"]
        assert "a dependency of a cancelled request failed when it ended" in caplog.text
    finally:
        proceed.set()


def test_errors_at_registration() -> None:
    server = Server("x")

    def needs_argument(query: str) -> str:
        return query

    def of_request(ctx: Context) -> str:
        return ctx.method

    def of_server(of: str = Depends(user)) -> str:
        return of

    def unresolved(of: "Missing") -> None:  # type: ignore[name-defined]  # noqa: F821
        pass

    def again() -> None: ...

    again.__defaults__ = ()

    def first(of: Any = None) -> None: ...
    def second(of: Any = Depends(first)) -> None: ...

    first.__defaults__ = (Depends(second),)
    for marker, message in [
        (Depends(needs_argument), "a provider gets only a Context and other dependencies"),
        (Depends(of_request, scope="server"), "a dependency of the server has no Context"),
        (Depends(of_server, scope="server"), "a dependency of the server cannot depend on one of a request"),
        (Depends(unresolved), "cannot resolve an annotation"),
        (Depends(first), "dependency cycle: .*first -> .*second -> .*first"),
    ]:

        def tool(of: Any = marker) -> None: ...

        with pytest.raises(UsageError, match=message):
            server.tool(tool)
    for wrong, options in ((5, {}), (settings, {"scope": "session"})):
        with pytest.raises(UsageError):
            Depends(wrong, **options)  # type: ignore[arg-type]
    assert repr(Depends(settings)) == "Depends(settings, scope='request')"


async def test_a_server_dependency_is_entered_and_left_in_one_task() -> None:
    tasks: list[Any] = []

    async def pool() -> AsyncIterator[str]:
        async with asyncio.timeout(None), asyncio.TaskGroup():  # can be left only in the task that entered them
            tasks.append(asyncio.current_task())
            yield "pool"
            tasks.append(asyncio.current_task())

    server = Server("x")

    @server.tool
    async def use(of: str = Depends(pool, scope="server")) -> str:
        assert asyncio.current_task() not in tasks
        return of

    async with connect(server) as client:
        results = await asyncio.gather(*(client.tools.call("use") for _ in range(3)))
        assert [result.text for result in results] == ["pool"] * 3
    assert len(tasks) == 2
    assert tasks[0] is tasks[1]


async def test_a_server_dependency_that_fails_is_made_again_and_logged_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    can_start, must_fail = False, asyncio.Event()
    failed = asyncio.Event()

    async def watch() -> None:
        await must_fail.wait()
        raise ValueError("the pool died")

    async def pool() -> AsyncIterator[str]:
        if not can_start:
            raise ValueError("no database")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(watch())
                yield "pool"
        finally:
            failed.set()

    server = Server("x")

    @server.tool
    async def use(of: str = Depends(pool, scope="server")) -> str:
        return of

    async with connect(server) as client:
        with pytest.raises(ToolCallError, match="use failed"):
            await client.tools.call("use")
        can_start = True
        assert (await client.tools.call("use")).text == "pool"
        must_fail.set()
        await failed.wait()
    assert "a dependency of the server failed while the server runs" in caplog.text


async def test_what_an_overridden_provider_made_for_the_server_ends_with_the_block() -> None:
    made: list[str] = []

    def url() -> str:
        return "real"

    def other() -> str:
        made.append("other")
        return "other"

    def pool(of: str = Depends(url, scope="server")) -> str:
        made.append(f"pool of {of}")
        return f"pool of {of}"

    server = Server("x")

    @server.tool
    async def use(of: str = Depends(pool, scope="server"), more: str = Depends(other, scope="server")) -> str:
        return of

    async with connect(server) as client:
        assert (await client.tools.call("use")).text == "pool of real"
        with server.override(url, lambda: "fake"):
            assert (await client.tools.call("use")).text == "pool of fake"
            assert (await client.tools.call("use")).text == "pool of fake"
        assert (await client.tools.call("use")).text == "pool of real"
    assert made == ["pool of real", "other", "pool of fake"]


async def test_a_server_dependency_that_does_not_end_is_cancelled_at_the_timeout() -> None:
    was_cancelled = asyncio.Event()

    async def pool() -> AsyncIterator[str]:
        yield "pool"
        try:
            await asyncio.Event().wait()
        finally:
            was_cancelled.set()

    server = Server("x", shutdown_timeout=0.05)

    @server.tool
    async def use(of: str = Depends(pool, scope="server")) -> str:
        return of

    assert (await server.call_tool("use")).text == "pool"
    await was_cancelled.wait()
