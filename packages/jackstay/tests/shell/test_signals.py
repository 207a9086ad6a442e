"""`cancel_on_signal()`: the first signal cancels the task, the second has its default action."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from jackstay.shell import cancel_on_signal
from scripted.places import PYTHONPATH

SOURCE = PYTHONPATH
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def interrupted_by(number: int) -> list[int]:
    """Send a signal to a task that waits, and return the received signals."""
    loop = asyncio.get_running_loop()
    with cancel_on_signal() as received:
        loop.call_soon(os.kill, os.getpid(), number)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(50)
        for each in SIGNALS:
            assert signal.getsignal(each) == signal.SIG_DFL  # the next one terminates
    return received


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_the_first_signal_cancels_the_task_and_is_reported(number: signal.Signals) -> None:
    before = [signal.signal(each, signal.SIG_DFL) for each in SIGNALS]
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        assert asyncio.run(interrupted_by(number)) == [number]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        for each, handler in zip(SIGNALS, before, strict=True):
            signal.signal(each, handler)


def test_the_callback_runs_before_the_second_signal_terminates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[object] = []
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)

    async def work() -> None:
        with cancel_on_signal(lambda: done.append(signal.getsignal(signal.SIGTERM))) as received:
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(50)
            assert received == [signal.SIGTERM]
            assert done == []
            again = signal.getsignal(signal.SIGTERM)
            assert callable(again)
            monkeypatch.setattr(os, "kill", lambda pid, number: done.append((pid, number)))
            again(signal.SIGTERM, None)
        assert done == [signal.SIG_DFL, (os.getpid(), signal.SIGTERM)], "a third signal has its default action"

    try:
        asyncio.run(work())
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_ignored_signal_stays_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def work() -> list[int]:
        with cancel_on_signal() as received:
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0)
        return received

    try:
        assert asyncio.run(work()) == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_another_thread_signal_handlers_are_unchanged() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    async def work() -> None:
        with cancel_on_signal() as received:
            seen.append((received, signal.getsignal(signal.SIGTERM) is before))

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    thread.join()
    assert seen == [([], True)]


@pytest.mark.parametrize(
    ("last", "output"),
    [("", ""), ("lambda: print('last', flush=True)", "last\n")],
    ids=["no callback", "callback"],
)
def test_a_second_signal_terminates_silently(last: str, output: str) -> None:
    """While the task is still handling its cancellation."""
    program = (
        "import asyncio, signal\nfrom jackstay.shell import cancel_on_signal\n"
        # A parent that ignores SIGINT (a background job of a shell) passes that on.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "async def main():\n"
        f"    with cancel_on_signal({last}):\n"
        "        try:\n            print('started', flush=True)\n            await asyncio.sleep(50)\n"
        "        finally:\n            print('ending', flush=True)\n            await asyncio.sleep(50)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    ) as process:
        assert process.stdout is not None
        for line in ("started\n", "ending\n"):
            assert process.stdout.readline() == line
            process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=240) == (output, "")
    assert process.returncode == -signal.SIGINT
