"""The thread pool: limits, fairness, cancellation and closing."""

import asyncio
import contextvars
import threading
from collections.abc import Iterable

import pytest

from jackstay.server._pool import Pool


class Held:
    """A function that signals when it runs, and runs until it is released."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._gate = threading.Event()
        self.begun = asyncio.Event()
        self.release = self._gate.set

    def __call__(self) -> bool:
        self._loop.call_soon_threadsafe(self.begun.set)
        return self._gate.wait(120)


def join(threads: Iterable[threading.Thread]) -> None:
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()


async def test_a_function_runs_in_a_thread_with_the_context_variables_of_the_caller() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    pool = Pool()
    variable.set("here")
    name, value = await pool.run("a", lambda: (threading.current_thread().name, variable.get()))
    assert (name, value) == ("jackstay-pool", "here")
    assert repr(pool) == "<Pool 1 of 32 threads, 0 busy, 0 queued>"
    pool.close()


async def test_exceptions_are_raised_in_the_awaiting_task() -> None:
    def fail(error: BaseException) -> None:
        raise error

    pool = Pool()
    for error in (ValueError("x"), SystemExit(1)):
        with pytest.raises(type(error)) as raised:
            await pool.run("a", fail, error)
        assert raised.value is error
    pool.close()


async def test_stop_iteration_becomes_a_runtime_error() -> None:
    pool = Pool()
    with pytest.raises(RuntimeError, match="StopIteration"):
        await pool.run("a", next, iter(()))
    pool.close()


async def test_work_submitted_while_a_thread_starts_gets_another_thread() -> None:
    pool = Pool(4)
    together = threading.Barrier(4)
    await asyncio.gather(*(pool.run("a", together.wait, 5) for _ in range(4)))
    pool.close()


async def test_the_number_of_threads_is_limited_and_idle_threads_are_reused() -> None:
    """docs/guarantees.md G20."""
    pool = Pool(2)
    names = await asyncio.gather(*(pool.run("a", threading.get_ident) for _ in range(20)))
    assert len(set(names)) <= 2
    pool.close()


async def test_owners_are_served_in_turn() -> None:
    pool = Pool(1)
    held, order = Held(), []
    first = asyncio.create_task(pool.run("greedy", held))
    await held.begun.wait()
    greedy = [asyncio.create_task(pool.run("greedy", order.append, f"g{n}")) for n in range(3)]
    await asyncio.sleep(0)
    modest = asyncio.create_task(pool.run("modest", order.append, "m"))
    await asyncio.sleep(0)
    assert pool.queued == 4
    held.release()
    await asyncio.gather(first, modest, *greedy)
    assert order == ["g0", "m", "g1", "g2"]
    pool.close()


async def test_cancelled_work_that_has_not_started_is_removed() -> None:
    pool = Pool(1)
    held, ran = Held(), []
    first = asyncio.create_task(pool.run("a", held))
    await held.begun.wait()
    waiting = [asyncio.create_task(pool.run(owner, ran.append, owner)) for owner in ("a", "b", "b")]
    await asyncio.sleep(0)
    waiting[1].cancel()
    await asyncio.wait([waiting[1]])
    assert pool.queued == 2
    waiting[2].cancel()
    await asyncio.wait([waiting[2]])
    assert pool.queued == 1
    first.cancel()
    await asyncio.wait([first])
    assert pool.busy == 1, "a running function continues"
    held.release()
    await waiting[0]
    assert ran == ["a"]
    pool.close()


async def test_work_that_is_cancelled_just_before_its_turn_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the thread got the work before the cancelled caller could remove it.
    monkeypatch.setattr(Pool, "_remove", lambda self, owner, work: None)

    pool, held, ran = Pool(1), Held(), []
    first = asyncio.create_task(pool.run("a", held))
    await held.begun.wait()
    second = asyncio.create_task(pool.run("a", ran.append, 1))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    held.release()
    await first
    assert await pool.run("a", int) == 0, "later work runs"
    assert ran == []
    pool.close()


async def test_close_ends_idle_threads_and_discards_queued_work() -> None:
    pool = Pool(1)
    held = Held()
    first = asyncio.create_task(pool.run("a", held))
    await held.begun.wait()
    second = asyncio.create_task(pool.run("a", print))
    await asyncio.sleep(0)
    pool.close()
    assert pool.queued == 0
    assert pool.busy == 1
    held.release()
    threads = list(pool._threads)
    await first
    join(threads)
    assert not pool._threads
    second.cancel()
    await asyncio.wait([second])
    assert await pool.run("a", int) == 0, "the pool can be used again"
    pool.close()


async def test_release_finishes_queued_work_before_threads_end() -> None:
    pool = Pool(1)
    held = Held()
    first = asyncio.create_task(pool.run("a", held))
    await held.begun.wait()
    second = asyncio.create_task(pool.run("b", int))
    await asyncio.sleep(0)
    threads = list(pool._threads)
    pool.release()
    held.release()
    assert await first
    assert await second == 0
    join(threads)


def test_the_result_of_a_function_that_outlives_its_loop_is_discarded() -> None:
    pool, functions = Pool(1), list[Held]()

    async def begin() -> None:
        functions.append(Held())
        task = asyncio.create_task(pool.run("a", functions[0]))
        await functions[0].begun.wait()
        task.cancel()

    asyncio.run(begin())
    threads = list(pool._threads)
    functions[0].release()
    pool.close()
    join(threads)


async def test_a_thread_is_idle_when_its_result_is_visible() -> None:
    """At shutdown `busy` is read right after the last hook."""
    pool = Pool(1)
    for _ in range(200):
        await pool.run("a", int)
        assert pool.busy == 0
    pool.close()
