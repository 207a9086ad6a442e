"""A command that stands: its exit code, and what a signal makes of it. With real processes: test_record, test_replay."""

import asyncio
import os
import signal

import pytest

from jackstay.cli._standing import stand


def test_its_own_code_is_the_exit_code() -> None:
    async def work() -> int:
        return 7

    assert stand(work()) == 7


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, 0)])
def test_a_signal_cancels_it_in_order(number: int, code: int) -> None:
    ended = []

    async def work() -> int:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("in order")
        return 7

    assert stand(work()) == code
    assert ended == ["in order"]


def test_a_cancellation_that_no_signal_made_is_passed_on() -> None:
    async def work() -> int:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        stand(work())
