"""What has happened, kept as it was seen."""

import asyncio

import pytest
from demo.chronicle import Mark
from demo.ledger import Told

from demonstration.moments import beginning, outage


def test_outcomes_are_counted_by_what_a_strip_shows() -> None:
    chronicle = outage()
    assert chronicle.counts == {Mark.OK: 1, Mark.FAILED: 1, Mark.UNKNOWN: 1, Mark.SENT_AGAIN: 1}
    assert [call.nonce for call in chronicle.open_calls] == ["pay-4.0"]
    assert chronicle.state == "backoff"


def test_a_new_state_ends_the_wait_of_the_last_one() -> None:
    chronicle = outage()
    chronicle.enter(14.0, "starting", 3)
    assert chronicle.wait is None


def test_a_second_outcome_for_one_call_is_not_taken() -> None:
    chronicle = beginning()
    with pytest.raises(AssertionError, match="without a call"):
        chronicle.end(0, Told.OK, 1.0)
    chronicle.begin(0, "pay-0.0", 1.0)
    chronicle.end(0, Told.OK, 2.0)
    chronicle.begin(0, "pay-0.0", 3.0)
    with pytest.raises(AssertionError, match="a second outcome"):
        chronicle.end(0, Told.OK, 4.0)


def test_who_waits_for_a_change_is_woken_by_the_next_one() -> None:
    async def test() -> None:
        chronicle = beginning()
        waiting = asyncio.create_task(chronicle.changed())
        await asyncio.sleep(0)
        assert not waiting.done()
        chronicle.say(1.0, "something")
        await waiting

    asyncio.run(test())
