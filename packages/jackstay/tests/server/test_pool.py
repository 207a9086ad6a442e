"""Threads for blocking functions: bounded, fair, and given back."""

import asyncio
import contextvars
import threading
from collections.abc import Iterable

import pytest

from chaos.servers_own.conversation import run
from jackstay.server._pool import Pool


class Held:
    """A function that says when it runs, and runs until it is let go."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._gate = threading.Event()
        self.begun = asyncio.Event()
        self.let_go = self._gate.set

    def __call__(self) -> bool:
        self._loop.call_soon_threadsafe(self.begun.set)
        return self._gate.wait(5)


def join(threads: Iterable[threading.Thread]) -> None:
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()


def test_a_function_runs_in_a_thread_with_the_callers_context() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    async def test() -> None:
        pool = Pool()
        variable.set("here")
        name, value = await pool.run("a", lambda: (threading.current_thread().name, variable.get()))
        assert (name, value) == ("jackstay-pool", "here")
        assert repr(pool) == "<Pool 1 of 32 threads, 0 busy, 0 queued>"
        pool.close()

    run(test)


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1)])
def test_what_a_function_raises_is_raised_to_whoever_awaits(error: BaseException) -> None:
    def fail() -> None:
        raise error

    async def test() -> None:
        pool = Pool()
        with pytest.raises(type(error)) as raised:
            await pool.run("a", fail)
        assert raised.value is error
        pool.close()

    run(test)


def test_a_stop_iteration_is_told_as_an_error() -> None:
    async def test() -> None:
        pool = Pool()
        with pytest.raises(RuntimeError, match="StopIteration"):
            await pool.run("a", next, iter(()))
        pool.close()

    run(test)


def test_work_that_comes_while_a_thread_is_starting_has_a_thread_of_its_own() -> None:
    async def test() -> None:
        pool = Pool(4)
        together = threading.Barrier(4)
        await asyncio.gather(*(pool.run("a", together.wait, 5) for _ in range(4)))
        pool.close()

    run(test)


def test_there_are_never_more_threads_than_allowed_and_idle_ones_are_used_again() -> None:
    async def test() -> None:
        pool = Pool(2)
        names = await asyncio.gather(*(pool.run("a", threading.get_ident) for _ in range(20)))
        assert len(set(names)) <= 2
        pool.close()

    run(test)


def test_connections_take_turns() -> None:
    async def test() -> None:
        pool = Pool(1)
        held, order = Held(), []
        first = asyncio.create_task(pool.run("greedy", held))
        await held.begun.wait()
        greedy = [asyncio.create_task(pool.run("greedy", order.append, f"g{n}")) for n in range(3)]
        await asyncio.sleep(0)
        modest = asyncio.create_task(pool.run("modest", order.append, "m"))
        await asyncio.sleep(0)
        assert pool.queued == 4
        held.let_go()
        await asyncio.gather(first, modest, *greedy)
        assert order == ["g0", "m", "g1", "g2"]
        pool.close()

    run(test)


def test_work_that_has_not_begun_is_taken_back_by_a_cancelled_caller() -> None:
    async def test() -> None:
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
        assert pool.busy == 1, "what runs goes on"
        held.let_go()
        await waiting[0]
        assert ran == ["a"]
        pool.close()

    run(test)


def test_work_that_was_cancelled_just_before_its_turn_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    # The thread is faster than the caller who takes it back.
    monkeypatch.setattr(Pool, "_take_back", lambda self, owner, work: None)

    async def test() -> None:
        pool, held, ran = Pool(1), Held(), []
        first = asyncio.create_task(pool.run("a", held))
        await held.begun.wait()
        second = asyncio.create_task(pool.run("a", ran.append, 1))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second])
        held.let_go()
        await first
        assert await pool.run("a", int) == 0, "what comes after it"
        assert ran == []
        pool.close()

    run(test)


def test_a_closed_pool_lets_its_threads_go_and_forgets_what_waits() -> None:
    async def test() -> None:
        pool = Pool(1)
        held = Held()
        first = asyncio.create_task(pool.run("a", held))
        await held.begun.wait()
        second = asyncio.create_task(pool.run("a", print))
        await asyncio.sleep(0)
        pool.close()
        assert pool.queued == 0
        assert pool.busy == 1
        held.let_go()
        threads = list(pool._threads)
        await first
        join(threads)
        assert not pool._threads
        second.cancel()
        await asyncio.wait([second])
        assert await pool.run("a", int) == 0, "a server that is run again"
        pool.close()

    run(test)


def test_a_released_pool_does_what_waits_before_its_threads_go() -> None:
    async def test() -> None:
        pool = Pool(1)
        held = Held()
        first = asyncio.create_task(pool.run("a", held))
        await held.begun.wait()
        second = asyncio.create_task(pool.run("b", int))
        await asyncio.sleep(0)
        threads = list(pool._threads)
        pool.release()
        held.let_go()
        assert await first
        assert await second == 0
        join(threads)

    run(test)


def test_a_function_that_outlives_its_loop_tells_nobody() -> None:
    pool, left = Pool(1), []

    async def test() -> None:
        held = Held()
        left.append(held)
        task = asyncio.create_task(pool.run("a", held))
        await held.begun.wait()
        task.cancel()

    run(test)
    threads = list(pool._threads)
    left[0].let_go()
    pool.close()
    join(threads)


def test_who_has_the_result_does_not_find_the_thread_busy_with_it() -> None:
    """A server that ends asks what is left right after its last hook: a thread that is done is not left."""

    async def test() -> None:
        pool = Pool(1)
        for _ in range(200):
            await pool.run("a", int)
            assert pool.busy == 0
        pool.close()

    run(test)
