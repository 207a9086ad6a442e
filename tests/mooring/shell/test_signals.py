"""Work that ends in order: cancelled by the first signal; the second has the system's own meaning."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mooring.shell import ending_in_order

SOURCE = Path(__file__).parents[3] / "src"


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


def test_a_second_signal_ends_the_process_without_a_word() -> None:
    """While the first is still obeyed: work that takes its time to end."""
    program = (
        "import asyncio, signal\nfrom mooring.shell import ending_in_order\n"
        # A parent that ignores SIGINT (a background job of a shell) hands that down.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "async def main():\n"
        "    with ending_in_order():\n"
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
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == -signal.SIGINT
