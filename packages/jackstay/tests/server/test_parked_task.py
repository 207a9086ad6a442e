"""Handlers that run without a task of their own see what they would see in one."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

import pytest

from chaos.servers_own.conversation import connected
from jackstay.server import Server
from jackstay.server._parked_task import NOT_STARTED, ParkedTask

NAME: ContextVar[str] = ContextVar("NAME", default="unset")


async def return_at_once() -> bytes:
    return b"x"


async def parked() -> ParkedTask:
    """Return a task that waits."""
    made = ParkedTask(asyncio.get_running_loop())
    work = return_at_once()
    assert made.start(work) is NOT_STARTED, "its own first step has not run"
    work.close()
    await asyncio.sleep(0)
    return made


def outside(function: Callable[[], Any]) -> "asyncio.Future[Any]":
    """Call a function in a callback of the loop, where no task runs."""
    loop = asyncio.get_running_loop()
    called: asyncio.Future[Any] = loop.create_future()

    def call() -> None:
        try:
            called.set_result(function())
        except Exception as error:  # noqa: BLE001  # raised by whoever awaits it
            called.set_exception(error)

    loop.call_soon(call)
    return called


def begin(task: ParkedTask, work: Coroutine[Any, Any, bytes], results: "list[object]") -> None:
    """Start a coroutine as a connection does; its result or exception is appended to `results`."""
    outcome = task.start(work)
    assert outcome is not NOT_STARTED
    if isinstance(outcome, bytes | BaseException):
        results.append(outcome)
        return

    async def rest() -> None:
        try:
            results.append(await task.remaining_steps(outcome))
        except BaseException as error:  # noqa: BLE001  # recorded
            results.append(error)

    task.assign(rest())


async def run(work: Coroutine[Any, Any, bytes]) -> object:
    """Run a coroutine to its end, and return its result or exception."""
    task = await parked()
    results: list[object] = []
    await outside(lambda: begin(task, work, results))
    if not results:
        await asyncio.wait([task.task])
    else:
        task.discard()
    return results[0]


async def test_coroutines_that_return_at_once_share_a_task() -> None:
    seen: list[object] = []

    async def work() -> bytes:
        seen.append(asyncio.current_task())
        return b"x"

    task = await parked()
    results: list[object] = []
    for _ in range(3):
        await outside(lambda: begin(task, work(), results))
    assert results == [b"x"] * 3
    assert seen == [task.task] * 3
    assert "waiting" in repr(task)
    task.discard()
    await asyncio.wait([task.task])
    assert not task.task.cancelled()
    assert "spent" in repr(task)


async def test_the_current_task_is_the_same_in_every_step() -> None:
    seen: list[object] = []

    async def work() -> bytes:
        for _ in range(3):
            seen.append(asyncio.current_task())
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        seen.append(asyncio.current_task())
        return b"x"

    assert await run(work()) == b"x"
    assert len(set(seen)) == 1
    assert isinstance(seen[0], asyncio.Task)


async def test_exceptions_are_returned_and_the_task_can_be_used_again() -> None:
    async def fail() -> bytes:
        raise ValueError("at once")

    async def fail_later() -> bytes:
        await asyncio.sleep(0)
        raise ValueError("later")

    task = await parked()
    results: list[object] = []
    await outside(lambda: begin(task, fail(), results))
    await outside(lambda: begin(task, fail(), results))
    assert [str(error) for error in results] == ["at once"] * 2
    await outside(lambda: begin(task, fail_later(), results))
    await asyncio.wait([task.task])
    assert str(results[2]) == "later"
    assert task.is_spent


async def test_context_variables_are_isolated() -> None:
    seen: list[object] = []

    async def work(name: str, waits: bool) -> bytes:
        seen.append(NAME.get())
        NAME.set(name)
        if waits:
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)
        seen.append(NAME.get())
        return b"x"

    task = await parked()
    results: list[object] = []
    await outside(lambda: begin(task, work("a", False), results))
    await outside(lambda: begin(task, work("b", False), results))
    await outside(lambda: begin(task, work("c", True), results))
    await asyncio.wait([task.task])
    assert await run(work("d", True)) == b"x"
    assert seen == ["unset", "a", "unset", "b", "unset", "c", "unset", "d"]
    assert NAME.get() == "unset"


async def test_a_reset_of_a_context_variable_after_a_wait() -> None:
    async def work() -> bytes:
        token = NAME.set("x")
        await asyncio.sleep(0)
        NAME.reset(token)  # raises in another context
        return NAME.get().encode()

    assert await run(work()) == b"unset"


@pytest.mark.parametrize("delay", [0, 0.001])
async def test_timeouts(delay: float) -> None:
    async def work() -> bytes:
        try:
            async with asyncio.timeout(delay):
                await asyncio.Event().wait()
        except TimeoutError:
            task = asyncio.current_task()
            assert task is not None
            return b"%d cancellations" % task.cancelling()
        return b"no timeout"

    assert await run(work()) == b"0 cancellations"


async def test_a_timeout_in_a_coroutine_that_returns_at_once() -> None:
    async def work() -> bytes:
        async with asyncio.timeout(0):
            return b"x"

    assert await run(work()) == b"x"
    await asyncio.sleep(0)


async def test_task_groups() -> None:
    async def child(number: int) -> int:
        await asyncio.sleep(0)
        return number

    async def fail() -> None:
        raise ValueError("child")

    async def work() -> bytes:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(child(number)) for number in range(3)]
        with pytest.raises(ExceptionGroup) as failed:  # noqa: PT012  # the whole block raises
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                group.create_task(asyncio.Event().wait())
        assert str(failed.value.exceptions[0]) == "child"
        return bytes(task.result() for task in tasks)

    assert await run(work()) == b"\x00\x01\x02"


@pytest.mark.parametrize("is_first", [True, False], ids=["before the task has continued", "after"])
@pytest.mark.parametrize("awaits", ["future", "done future", "nothing"])
async def test_cancellation(is_first: bool, awaits: str) -> None:
    loop = asyncio.get_running_loop()
    event = loop.create_future()

    async def work() -> bytes:
        try:
            if awaits == "nothing":
                while True:
                    await asyncio.sleep(0)
            await event
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            return repr(error.args).encode()
        return b"not cancelled"

    task = await parked()
    results: list[object] = []

    def begin_and_cancel() -> None:
        begin(task, work(), results)
        if awaits == "done future":
            event.set_result(None)
        if is_first:
            task.task.cancel("no longer needed")

    await outside(begin_and_cancel)
    if not is_first:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.task.cancel("no longer needed")
    await asyncio.wait([task.task])
    assert results == [b"('no longer needed',)"]
    assert task.task.cancelling() == 1


async def test_a_coroutine_that_cancels_its_own_task_and_then_waits() -> None:
    async def work() -> bytes:
        task = asyncio.current_task()
        assert task is not None
        task.cancel("own")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            return repr(error.args).encode()
        return b"not cancelled"

    assert await run(work()) == b"('own',)"


async def test_a_task_that_was_cancelled_or_got_a_callback_is_not_used_again() -> None:
    async def cancel() -> bytes:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return b"cancelled"

    called = asyncio.Event()

    async def add_callback() -> bytes:
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda _: called.set())
        return b"added"

    for work in (cancel, add_callback):
        task = await parked()
        results: list[object] = []
        await outside(lambda task=task, work=work, results=results: begin(task, work(), results))
        assert results
        again = return_at_once()
        assert await outside(lambda task=task, again=again: task.start(again)) is NOT_STARTED
        again.close()
        assert task.is_spent
        task.discard()
    await called.wait()


async def test_no_task_is_entered_inside_another() -> None:
    task = await parked()
    work = return_at_once()
    assert task.start(work) is NOT_STARTED
    work.close()
    assert asyncio.current_task() is not task.task
    task.discard()


async def test_an_exception_that_ends_the_process_ends_the_task() -> None:
    async def work() -> bytes:
        raise SystemExit(3)

    task = await parked()

    def start() -> str:
        with pytest.raises(SystemExit):
            task.start(work())
        return repr(asyncio.current_task())

    assert await outside(start) == "None"
    assert task.is_spent


# --- in a connection --------------------------------------------------------------------------------------------------


async def test_a_handler_that_waits_is_cancelled_by_the_client() -> None:
    server, started, cancelled = Server("test"), asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    @server.tool
    async def quick() -> str:
        return "quick"

    async with connected(server) as peer:
        for _ in range(3):
            assert await peer.text("quick") == "quick"
        id = peer.send_request("tools/call", {"name": "wait"})
        await started.wait()
        peer.notify("notifications/cancelled", {"requestId": id})
        await cancelled.wait()
        assert await peer.text("quick") == "quick"
    assert all(frame.get("id") != id for frame in peer.frames)


async def test_a_handler_cancelled_in_the_batch_that_started_it() -> None:
    server, ended = Server("test"), asyncio.Event()

    @server.tool
    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    @server.tool
    async def quick() -> str:
        return "quick"

    async with connected(server) as peer:
        for _ in range(3):
            assert await peer.text("quick") == "quick"
        id = peer.send_request("tools/call", {"name": "wait"})
        peer.notify("notifications/cancelled", {"requestId": id})
        await ended.wait()
        assert await peer.text("quick") == "quick"


async def test_many_handlers_that_wait_run_concurrently() -> None:
    server, gate, together = Server("test"), asyncio.Event(), asyncio.Event()
    waiting: list[object] = []

    @server.tool
    async def wait() -> str:
        waiting.append(asyncio.current_task())
        if len(waiting) == 50:
            together.set()
        await gate.wait()
        return "done"

    async with connected(server) as peer:
        ids = [peer.send_request("tools/call", {"name": "wait"}) for _ in range(50)]
        await together.wait()
        assert len(set(waiting)) == 50
        gate.set()
        for id in ids:
            assert (await peer.answer(id))["result"]["content"][0]["text"] == "done"
