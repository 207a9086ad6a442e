"""The log of a run."""

import asyncio

import pytest
from demo.ledger import Outcome
from demo.log import Mark

from demonstration.run_logs import beginning, outage


def test_outcomes_are_counted_by_mark() -> None:
    log = outage()
    assert log.counts == {Mark.OK: 1, Mark.FAILED: 1, Mark.UNKNOWN: 1, Mark.RETRIED: 1}
    assert [call.nonce for call in log.open_calls] == ["pay-4.0"]
    assert log.state == "backoff"


def test_a_new_state_ends_the_backoff() -> None:
    log = outage()
    log.enter(14.0, "starting", 3)
    assert log.wait is None


def test_a_second_outcome_for_one_call_is_rejected() -> None:
    log = beginning()
    with pytest.raises(AssertionError, match="without a call"):
        log.end(0, Outcome.OK, 1.0)
    log.begin(0, "pay-0.0", 1.0)
    log.end(0, Outcome.OK, 2.0)
    log.begin(0, "pay-0.0", 3.0)
    with pytest.raises(AssertionError, match="a second outcome"):
        log.end(0, Outcome.OK, 4.0)


async def test_a_change_wakes_the_waiting_task() -> None:
    log = beginning()
    waiting = asyncio.create_task(log.changed())
    await asyncio.sleep(0)
    assert not waiting.done()
    log.add_line(1.0, "something")
    await waiting
