"""Work that ends in order: cancelled by the first signal; the second has the system's own meaning."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from jackstay.shell import ending_in_order
from scripted.places import PYTHONPATH

SOURCE = PYTHONPATH


async def interrupted_by(number: int) -> list[int]:
    """Which signals came, after this one was sent and the work was cancelled; signals are then as they were."""
    loop = asyncio.get_running_loop()
    with ending_in_order() as came:
        loop.call_soon(os.kill, os.getpid(), number)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(50)
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            assert signal.getsignal(one) == signal.SIG_DFL  # the next one is at once
    return came


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_the_first_signal_cancels_the_task_and_says_which_it_was(number: signal.Signals) -> None:
    before = [signal.signal(one, signal.SIG_DFL) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        assert asyncio.run(interrupted_by(number)) == [number]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        for one, handler in zip((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), before, strict=True):
            signal.signal(one, handler)


def test_what_must_not_outlive_the_process_is_ended_before_the_second_signal_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[object] = []
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)

    async def work() -> None:
        with ending_in_order(lambda: done.append(signal.getsignal(signal.SIGTERM))) as came:
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(50)
            assert came == [signal.SIGTERM]
            assert done == []
            again = signal.getsignal(signal.SIGTERM)
            assert callable(again)
            monkeypatch.setattr(os, "kill", lambda pid, number: done.append((pid, number)))
            again(signal.SIGTERM, None)
        assert done == [signal.SIG_DFL, (os.getpid(), signal.SIGTERM)], (
            "a third one is the system's, whatever hangs"
        )

    try:
        asyncio.run(work())
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_ignored_signal_stays_ignored() -> None:
    """nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def work() -> list[int]:
        with ending_in_order() as came:
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0)
        return came

    try:
        assert asyncio.run(work()) == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_off_the_main_thread_nothing_is_taken_over() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    async def work() -> None:
        with ending_in_order() as came:
            seen.append((came, signal.getsignal(signal.SIGTERM) is before))

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    thread.join()
    assert seen == [([], True)]


@pytest.mark.parametrize(
    ("last", "said"),
    [("", ""), ("lambda: print('last', flush=True)", "last\n")],
    ids=["nothing to do", "something to do"],
)
def test_a_second_signal_ends_the_process_without_a_word(last: str, said: str) -> None:
    """While the first is still obeyed: work that takes its time to end. What must not outlive it is ended first."""
    program = (
        "import asyncio, signal\nfrom jackstay.shell import ending_in_order\n"
        # A parent that ignores SIGINT (a background job of a shell) hands that down.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "async def main():\n"
        f"    with ending_in_order({last}):\n"
        "        try:\n            print('begun', flush=True)\n            await asyncio.sleep(50)\n"
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
        for line in ("begun\n", "ending\n"):
            assert process.stdout.readline() == line
            process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == (said, "")
    assert process.returncode == -signal.SIGINT
