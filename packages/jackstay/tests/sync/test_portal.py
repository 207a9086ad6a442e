"""The event loop thread: started by the first owner, ended with the last, and protected against deadlocks."""

import asyncio
import contextvars
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from jackstay.errors import ClosedError, ShutdownError, StateError
from jackstay.sync import _portal
from jackstay.sync._portal import ClientPortal, Portal, portal
from scripted.places import PYTHONPATH

SOURCE = PYTHONPATH


async def nothing() -> None: ...


async def where() -> int:
    return threading.get_ident()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "jackstay-sync"]


def run_fresh(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        timeout=240,
        check=False,
    )


def interrupt(started: threading.Event, ended: threading.Event) -> None:
    """Send SIGINT to this process after `started` until `ended`.

    CPython can miss a signal that arrives right before a blocking wait, so it is repeated.
    """
    started.wait(120)
    os.kill(os.getpid(), signal.SIGINT)
    while not ended.wait(2):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> object:
    assert threads() == []
    yield
    assert threads() == []
    assert repr(portal()) == "<Portal idle, 0 open, 0 waiting>"


# --- lifetime ---------------------------------------------------------------------------------------------------------


def test_there_is_no_thread_before_and_after_use() -> None:
    assert portal().wait(where) != threading.get_ident()


def test_one_thread_serves_all_owners_and_ends_with_the_last() -> None:
    assert portal().register("one", nothing) is True
    assert portal().register("one", nothing) is False
    assert portal().register("two", nothing) is True
    (thread,) = threads()
    assert thread.daemon
    assert portal().wait(where) == portal().wait(where) == thread.ident
    assert repr(portal()) == "<Portal running, 2 open, 0 waiting>"
    portal().unregister("one")
    assert threads() == [thread]
    portal().unregister("one")
    portal().unregister("two")
    assert threads() == []


def test_a_submitted_coroutine_runs_on_the_thread_and_can_be_cancelled() -> None:
    started, cancelled = threading.Event(), threading.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    portal().register("one", nothing)
    (thread,) = threads()
    assert portal().submit(where).result(60) == thread.ident
    future = portal().submit(wait)
    assert started.wait(60)
    future.cancel()
    assert cancelled.wait(60)
    portal().unregister("one")


def test_it_is_started_again_after_it_ended() -> None:
    for _ in range(3):
        portal().register("one", nothing)
        assert len(threads()) == 1
        portal().unregister("one")
        assert threads() == []


def test_many_threads_share_it_while_it_starts_and_ends() -> None:
    seen: list[int] = []
    begin = threading.Barrier(8)

    def work() -> None:
        begin.wait()
        for _ in range(50):
            seen.append(portal().wait(where))
            assert len(threads()) <= 1

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(seen) == 400


def test_tasks_left_by_handlers_are_cancelled_at_the_end() -> None:
    ended = threading.Event()

    async def forgotten() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def begin() -> None:
        task = asyncio.get_running_loop().create_task(forgotten())
        kept.append(task)
        await asyncio.sleep(0)

    kept: list[asyncio.Task[None]] = []
    portal().wait(begin)
    assert ended.is_set()
    assert kept[0].cancelled()


# --- running coroutines -----------------------------------------------------------------------------------------------


def test_wait_returns_the_result_and_raises_the_exception() -> None:
    async def add(first: int, second: int = 1) -> int:
        return first + second

    async def fail() -> None:
        raise ValueError("why")

    assert portal().wait(add, 1, second=2) == 3
    with pytest.raises(ValueError, match="why"):
        portal().wait(fail)
    assert portal().run_on_loop(lambda number: number + 1, 1) == 2


def test_context_variables_of_the_caller_are_visible() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("value")

    async def read() -> str:
        return variable.get()

    assert portal().wait(read) == "value"


def test_it_works_under_a_running_loop() -> None:
    async def main() -> int:
        return portal().wait(where)

    assert asyncio.run(main()) != threading.get_ident()


def test_a_coroutine_cancelled_on_the_loop_is_a_shutdown() -> None:
    async def cancel_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    with pytest.raises(ShutdownError, match="cancelled"):
        portal().wait(cancel_itself)


def test_an_interrupted_wait_cancels_the_coroutine_and_waits_for_its_end() -> None:
    started, ended = threading.Event(), threading.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # as a notification to the server takes
            ended.set()
            raise

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    worker = threading.Thread(target=interrupt, args=(started, ended))
    worker.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            portal().wait(work)
    finally:
        signal.signal(signal.SIGINT, before)
        worker.join()
    assert ended.is_set()


def test_an_interrupted_wait_raises_even_if_the_coroutine_succeeds() -> None:
    started, ended = threading.Event(), threading.Event()

    async def work() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set()
        return "done"

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    worker = threading.Thread(target=interrupt, args=(started, ended))
    worker.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            portal().wait(work)
    finally:
        signal.signal(signal.SIGINT, before)
        worker.join()


@pytest.mark.parametrize("is_scheduled", [False, True])
def test_an_interruption_while_the_coroutine_is_scheduled_neither_hangs_nor_leaks(
    is_scheduled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, ended = threading.Event(), threading.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    portal().register("one", nothing)
    loop = portal()._loop
    assert loop is not None
    schedule = loop.call_soon_threadsafe

    def interrupted(callback: Callable[..., object], *args: object, context: object = None) -> object:
        monkeypatch.undo()
        if is_scheduled:
            schedule(callback, *args)
            started.wait(120)
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "call_soon_threadsafe", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            portal().wait(work)
        assert started.is_set() == ended.is_set() == is_scheduled
        assert portal().wait(where) == threads()[0].ident
    finally:
        portal().unregister("one")


# --- deadlocks --------------------------------------------------------------------------------------------------------


def test_a_blocking_call_on_the_thread_itself_is_refused() -> None:
    async def handler() -> None:
        portal().wait(nothing)

    async def owner() -> None:
        portal().register("one", nothing)

    for work in (handler, owner):
        with pytest.raises(StateError, match="inside a handler would deadlock"):
            portal().wait(work)


def test_run_on_loop_works_on_the_event_loop_thread() -> None:
    async def handler() -> int:
        return portal().run_on_loop(threading.get_ident)

    assert portal().wait(handler) != threading.get_ident()


def test_a_handler_may_wait_on_another_thread() -> None:
    async def handler() -> int:
        return await asyncio.to_thread(portal().wait, where)

    assert portal().wait(handler) != threading.get_ident()


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_system_exit_in_a_handler_does_not_end_the_thread(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler() -> None:
        raise error

    portal().register("one", nothing)
    try:
        with caplog.at_level(logging.ERROR), pytest.raises(type(error)):
            portal().wait(handler)
        assert portal().wait(where) == threads()[0].ident
    finally:
        portal().unregister("one")
    assert "a handler raised KeyboardInterrupt or SystemExit" in caplog.text


# --- fork -------------------------------------------------------------------------------------------------------------


def test_in_the_child_of_a_fork_the_old_portal_is_refused_and_a_new_one_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = portal()
    monkeypatch.setattr(_portal, "_portal", old)
    monkeypatch.setattr(_portal, "_parent_portals", [])
    _portal._reset_after_fork()
    assert portal() is not old
    with pytest.raises(StateError, match=r"created before fork\(\)"):
        old.wait(nothing)
    with pytest.raises(StateError, match=r"created before fork\(\)"):
        old.register("one", nothing)
    assert portal().wait(where) != threading.get_ident()


def test_a_real_fork_while_the_lock_is_held_does_not_hang_the_child() -> None:
    done = run_fresh(
        "import os, sys, warnings\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"
        "from jackstay.errors import StateError\n"
        "from jackstay.sync._portal import portal\n"
        "async def nothing(): return 'worked'\n"
        "old = portal()\n"
        "old.register('one', nothing)\n"
        "old._lock.acquire()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        old.wait(nothing)\n"
        "    except StateError:\n"
        "        print(portal().wait(nothing), flush=True)\n"
        "    sys.exit(7)\n"  # through the exit hooks, as a program would
        "old._lock.release()\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "print(old.wait(nothing))\n"
        "old.unregister('one')\n"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("worked\n7\nworked\n", "", 0)


def test_a_task_that_ignores_cancellation_is_abandoned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`stop()` of the last client waits for the thread and must not hang."""
    monkeypatch.setattr(_portal, "CANCEL_GRACE_SECONDS", 0.01)

    async def ignoring() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    async def failing() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError

    async def begin() -> None:
        kept.extend(asyncio.get_running_loop().create_task(work()) for work in (ignoring, failing))
        await asyncio.sleep(0)

    kept: list[asyncio.Task[None]] = []
    portal().wait(begin)
    assert "a task of a handler did not end after cancellation: <Task" in caplog.text
    assert kept[1].done()


# --- the portal of one client -----------------------------------------------------------------------------------------


def test_a_client_portal_works_until_the_client_is_closed() -> None:
    client_portal = ClientPortal()
    assert client_portal.portal is portal()
    assert client_portal.wait(where) != threading.get_ident()
    assert client_portal.submit(lambda: 2) == 2
    client_portal.closed_by = ShutdownError()
    for use in (lambda: client_portal.wait(where), lambda: client_portal.submit(threading.get_ident)):
        with pytest.raises(ClosedError, match="the client was stopped"):
            use()


def test_a_client_portal_closed_by_another_thread_meanwhile_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is closed after the first check and before the coroutine runs."""
    client_portal = ClientPortal()

    def too_late(function: Callable[..., object]) -> object:
        client_portal.closed_by = ShutdownError()
        return wait(function)

    wait = portal().wait
    monkeypatch.setattr(portal(), "wait", too_late)
    for use in (lambda: client_portal.wait(where), lambda: client_portal.submit(threading.get_ident)):
        client_portal.closed_by = None
        with pytest.raises(ClosedError, match="the client was stopped"):
            use()


# --- interpreter exit -------------------------------------------------------------------------------------------------


def test_an_executor_that_cannot_be_shut_down_is_left_to_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From Python 3.12 on no thread can be started at exit, which shutting down the executor needs."""

    async def refuse(_: asyncio.AbstractEventLoop) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(asyncio.BaseEventLoop, "shutdown_default_executor", refuse)
    assert portal().wait(where) != threading.get_ident()
    assert capsys.readouterr().err == ""


def test_the_default_executor_does_not_block_the_exit() -> None:
    done = run_fresh(
        "import asyncio\n"
        "from jackstay.sync._portal import portal\n"
        "async def end(): print('ended', flush=True)\n"
        "async def use(): await asyncio.to_thread(print, 'used', flush=True)\n"
        "portal().register('one', end)\n"
        "portal().wait(use)\n"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("used\nended\n", "", 0)


def test_open_clients_are_closed_at_interpreter_exit() -> None:
    done = run_fresh(
        "from jackstay.sync._portal import portal\n"
        "async def end(): print('ended', flush=True)\n"
        "async def fail(): raise ValueError\n"
        "portal().register('one', fail)\n"
        "portal().register('two', end)\n"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("ended\n", "", 0)


def test_use_after_interpreter_exit_is_refused() -> None:
    """In `__del__`, where a new thread would never run."""
    done = run_fresh(
        "import builtins\n"
        "from jackstay.sync._portal import portal\n"
        "async def end(): print('ended', flush=True)\n"
        "class Late:\n"
        "    def __init__(self): self.portal, self.end, self.print = portal(), end, print\n"
        "    def __del__(self):\n"
        "        self.portal.unregister('one')\n"
        "        try: self.portal.wait(self.end)\n"
        "        except Exception as error: self.print(error, flush=True)\n"
        "portal().register('one', end)\n"
        "builtins.late = Late()\n"
    )
    late = "the interpreter is exiting, and all clients are closed"
    assert (done.stdout, done.stderr, done.returncode) == (f"ended\n{late}\n", "", 0)


def test_close_all_closes_and_unregisters_all_owners() -> None:
    ended: list[str] = []

    async def end() -> None:
        ended.append("one")

    portal().register("one", end)
    portal().close_all()
    portal().close_all()
    assert ended == ["one"]


def test_importing_registers_nothing() -> None:
    done = run_fresh(
        "import asyncio, atexit, logging, subprocess, threading\n"
        "before = atexit._ncallbacks()\n"
        "import jackstay.sync\n"
        "assert atexit._ncallbacks() == before, 'exit hooks'\n"
        "assert threading.active_count() == 1\n"
    )
    assert done.stderr == ""


def test_another_portal_of_the_process_is_refused() -> None:
    with pytest.raises(StateError):
        Portal().wait(nothing)
