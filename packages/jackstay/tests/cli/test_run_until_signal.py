"""`run_until_signal()`: exit codes and signals."""

import asyncio
import os
import signal

import pytest

from jackstay.cli._run_until_signal import run_until_signal


def test_the_result_is_the_exit_code() -> None:
    async def work() -> int:
        return 7

    assert run_until_signal(work()) == 7


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, 0)])
def test_a_signal_cancels_the_work(number: int, code: int) -> None:
    ended = []

    async def work() -> int:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("finished")
        return 7

    assert run_until_signal(work()) == code
    assert ended == ["finished"]


def test_another_cancellation_is_raised() -> None:
    async def work() -> int:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_until_signal(work())
