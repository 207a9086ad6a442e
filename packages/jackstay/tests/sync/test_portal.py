"""The one thread: started by the first, gone with the last, and never a place to wait for oneself."""

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
from jackstay.sync._portal import Passage, Portal, portal
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
        timeout=30,
        check=False,
    )


@pytest.fixture(autouse=True)
def _nothing_is_left() -> object:
    assert threads() == []
    yield
    assert threads() == []
    assert repr(portal()) == "<Portal idle, 0 open, 0 waiting>"


# --- its life ---------------------------------------------------------------------------------------------------------


def test_there_is_no_thread_before_work_and_none_after_it() -> None:
    assert portal().wait(where) != threading.get_ident()


def test_it_is_one_thread_for_all_who_hold_it_and_ends_with_the_last() -> None:
    assert portal().hold("one", nothing) is True
    assert portal().hold("one", nothing) is False
    assert portal().hold("two", nothing) is True
    (thread,) = threads()
    assert thread.daemon
    assert portal().wait(where) == portal().wait(where) == thread.ident
    assert repr(portal()) == "<Portal running, 2 open, 0 waiting>"
    portal().drop("one")
    assert threads() == [thread]
    portal().drop("one")
    portal().drop("two")
    assert threads() == []


def test_it_is_started_again_after_it_ended() -> None:
    for _ in range(3):
        portal().hold("one", nothing)
        assert len(threads()) == 1
        portal().drop("one")
        assert threads() == []


def test_many_threads_share_it_while_it_comes_and_goes() -> None:
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


def test_what_a_handler_began_and_nobody_awaits_is_cancelled_at_the_end() -> None:
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


# --- work -------------------------------------------------------------------------------------------------------------


def test_work_returns_and_raises_what_it_would_there() -> None:
    async def add(one: int, two: int = 1) -> int:
        return one + two

    async def fail() -> None:
        raise ValueError("why")

    assert portal().wait(add, 1, two=2) == 3
    with pytest.raises(ValueError, match="why"):
        portal().wait(fail)
    assert portal().ask(lambda number: number + 1, 1) == 2


def test_work_sees_the_context_of_who_brought_it() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("mine")

    async def look() -> str:
        return variable.get()

    assert portal().wait(look) == "mine"


def test_it_works_under_a_running_loop() -> None:
    async def main() -> int:
        return portal().wait(where)

    assert asyncio.run(main()) != threading.get_ident()


def test_work_that_was_cancelled_over_there_is_a_shutdown() -> None:
    async def cancel_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    with pytest.raises(ShutdownError, match="cancelled"):
        portal().wait(cancel_itself)


def test_a_wait_that_is_interrupted_cancels_the_work_and_sees_it_end() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # what it takes to tell a server
            ended.set()
            raise

    def interrupt() -> None:
        begun.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    worker = threading.Thread(target=interrupt)
    worker.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            portal().wait(work)
    finally:
        signal.signal(signal.SIGINT, before)
        worker.join()
    assert ended.is_set()


def test_work_that_ended_well_in_spite_of_the_interruption_is_still_an_interruption() -> None:
    begun = threading.Event()

    async def work() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        return "done"

    def interrupt() -> None:
        begun.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    worker = threading.Thread(target=interrupt)
    worker.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            portal().wait(work)
    finally:
        signal.signal(signal.SIGINT, before)
        worker.join()


@pytest.mark.parametrize("is_begun", [False, True])
def test_an_interruption_while_the_work_is_brought_over_neither_hangs_nor_loses_it(
    is_begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    portal().hold("one", nothing)
    loop = portal()._loop
    assert loop is not None
    bring = loop.call_soon_threadsafe

    def interrupted(callback: Callable[..., object], *args: object, context: object = None) -> object:
        monkeypatch.undo()
        if is_begun:
            bring(callback, *args)
            begun.wait(10)
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "call_soon_threadsafe", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            portal().wait(work)
        assert begun.is_set() == ended.is_set() == is_begun
        assert portal().wait(where) == threads()[0].ident
    finally:
        portal().drop("one")


# --- what would wait for ever -----------------------------------------------------------------------------------------


def test_a_blocking_call_on_the_thread_itself_is_refused() -> None:
    async def handler() -> None:
        portal().wait(nothing)

    async def holder() -> None:
        portal().hold("one", nothing)

    for work in (handler, holder):
        with pytest.raises(StateError, match="inside a handler would wait for itself"):
            portal().wait(work)


def test_what_does_not_wait_may_be_asked_there() -> None:
    async def handler() -> int:
        return portal().ask(threading.get_ident)

    assert portal().wait(handler) != threading.get_ident()


def test_a_handler_may_wait_on_another_thread() -> None:
    async def handler() -> int:
        return await asyncio.to_thread(portal().wait, where)

    assert portal().wait(handler) != threading.get_ident()


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_a_handler_that_ends_the_program_ends_only_itself(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler() -> None:
        raise error

    portal().hold("one", nothing)
    try:
        with caplog.at_level(logging.ERROR), pytest.raises(type(error)):
            portal().wait(handler)
        assert portal().wait(where) == threads()[0].ident
    finally:
        portal().drop("one")
    assert "a handler tried to end the program" in caplog.text


# --- fork -------------------------------------------------------------------------------------------------------------


def test_in_the_child_of_a_fork_the_old_one_is_refused_and_a_new_one_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = portal()
    monkeypatch.setattr(_portal, "_portal", old)
    monkeypatch.setattr(_portal, "_abandoned", [])
    _portal._forget()
    assert portal() is not old
    with pytest.raises(StateError, match=r"made before fork\(\)"):
        old.wait(nothing)
    with pytest.raises(StateError, match=r"made before fork\(\)"):
        old.hold("one", nothing)
    assert portal().wait(where) != threading.get_ident()


def test_a_real_fork_while_the_lock_is_held_does_not_hang_the_child() -> None:
    done = run_fresh(
        "import os, sys, warnings\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"
        "from jackstay.errors import StateError\n"
        "from jackstay.sync._portal import portal\n"
        "async def nothing(): return 'worked'\n"
        "old = portal()\n"
        "old.hold('one', nothing)\n"
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
        "old.drop('one')\n"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("worked\n7\nworked\n", "", 0)


def test_what_a_handler_began_and_does_not_end_is_left_after_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever stops the last client waits for the thread: nobody's handler may make that for ever."""
    monkeypatch.setattr(_portal, "STUBBORN_SECONDS", 0.01)

    async def stubborn() -> None:
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
        kept.extend(asyncio.get_running_loop().create_task(work()) for work in (stubborn, failing))
        await asyncio.sleep(0)

    kept: list[asyncio.Task[None]] = []
    portal().wait(begin)
    assert "a handler does not end, and is left: <Task" in caplog.text
    assert kept[1].done()


# --- the passage of one client ----------------------------------------------------------------------------------------


def test_a_passage_leads_to_the_portal_until_its_end() -> None:
    passage = Passage()
    assert passage.portal is portal()
    assert passage.wait(where) != threading.get_ident()
    assert passage.submit(lambda number: number + 1, 1) == 2
    passage.end = ShutdownError()
    for use in (lambda: passage.wait(where), lambda: passage.submit(threading.get_ident)):
        with pytest.raises(ClosedError, match="the client was stopped"):
            use()


def test_a_passage_that_another_thread_shuts_on_the_way_is_shut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client has ended and its loop is gone, between our look and our arrival: not an error about loops."""
    passage = Passage()

    def too_late(function: Callable[..., object]) -> object:
        passage.end = ShutdownError()
        return wait(function)

    wait = portal().wait
    monkeypatch.setattr(portal(), "wait", too_late)
    for use in (lambda: passage.wait(where), lambda: passage.submit(threading.get_ident)):
        passage.end = None
        with pytest.raises(ClosedError, match="the client was stopped"):
            use()


# --- the interpreter's exit -------------------------------------------------------------------------------------------


def test_a_pool_that_cannot_be_shut_down_any_more_is_left_to_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From Python 3.12 on an interpreter that exits starts no thread, and the pool of a loop needs one to end."""

    async def refuse(_: asyncio.AbstractEventLoop) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(asyncio.BaseEventLoop, "shutdown_default_executor", refuse)
    assert portal().wait(where) != threading.get_ident()
    assert capsys.readouterr().err == ""


def test_a_pool_that_was_used_does_not_disturb_the_exit() -> None:
    done = run_fresh(
        "import asyncio\n"
        "from jackstay.sync._portal import portal\n"
        "async def end(): print('ended', flush=True)\n"
        "async def use(): await asyncio.to_thread(print, 'used', flush=True)\n"
        "portal().hold('one', end)\n"
        "portal().wait(use)\n"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("used\nended\n", "", 0)


def test_what_is_open_when_the_interpreter_exits_is_stopped() -> None:
    done = run_fresh(
        "from jackstay.sync._portal import portal\n"
        "async def end(): print('ended', flush=True)\n"
        "async def fail(): raise ValueError\n"
        "portal().hold('one', fail)\n"
        "portal().hold('two', end)\n"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("ended\n", "", 0)


def test_at_the_end_everything_is_stopped_and_nothing_held() -> None:
    ended: list[str] = []

    async def end() -> None:
        ended.append("one")

    portal().hold("one", end)
    portal().end_all()
    portal().end_all()
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


def test_a_portal_is_the_processes_own() -> None:
    with pytest.raises(StateError):
        Portal().wait(nothing)
