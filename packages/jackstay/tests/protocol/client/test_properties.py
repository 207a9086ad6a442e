"""The three properties that the requirements lock, with their locked parameters, on a fake clock.

Requirement: the client's specification, section 11.1. Iterations 100, at most 50 requests at a time, answers reordered
within 100 ms, 10 attempts to cancel.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jackstay.errors import McpError, TimeoutError
from jackstay.protocol.client import events as e
from model.rig import Rig, S

ITERATIONS = max(100, settings.default.max_examples)  # a soak runs more
MAX_CONCURRENT = 50
REORDER_WINDOW = 0.100
CANCELLATIONS = 10

METHODS = st.sampled_from(["tools/call", "tools/list", "resources/read", "prompts/get"])
DELAYS = st.floats(0.0, REORDER_WINDOW, allow_nan=False)


@settings(max_examples=ITERATIONS)
@given(
    st.lists(
        st.tuples(METHODS, DELAYS, st.integers(1, 3), st.booleans()), min_size=1, max_size=MAX_CONCURRENT
    ),
    st.booleans(),
)
def test_each_request_receives_exactly_one_terminal_outcome(requests, is_http):
    """Property 1: correlation is 1:1 under reordering, duplicates and errors included."""
    rig = Rig(is_http=is_http).ready()
    arrivals = []
    for number, (method, delay, copies, is_error) in enumerate(requests):
        id = rig.call(number, method=method)
        arrivals += [(rig.now + delay + copy * 0.001, number, id, is_error) for copy in range(copies)]
    rig.wrote()
    for at, number, id, is_error in sorted(arrivals):
        rig.wait(max(0.0, at - rig.now))
        if is_error:
            rig.say(id=id, error={"code": number, "message": "no"})
        else:
            rig.answer(id, {"number": number})
    for number, (_, _, _, is_error) in enumerate(requests):
        assert rig.outcomes_of(number) == 1
        if is_error:
            assert rig.error_of(number).code == number
    for effect in rig.effects(e.Complete, rig.history):
        assert bytes(effect.result) == b'{"number": %d}' % effect.caller
    assert rig.core.calls.pending == {}
    duplicates = sum(copies - 1 for _, _, copies, _ in requests)
    assert rig.core.calls.unknown + rig.core.calls.late == duplicates


@settings(max_examples=ITERATIONS)
@given(
    st.lists(
        st.tuples(METHODS, st.floats(0.01, 5.0), st.sampled_from(["answered", "timed out", "answered late"])),
        max_size=MAX_CONCURRENT,
    )
)
def test_the_request_map_is_empty_after_all_timeouts_and_answers(requests):
    """Property 2: timeouts do not leak, and tombstones decay after their TTL."""
    rig = Rig(hang_timeout=None).ready()
    calls = rig.core.calls
    ids = [rig.call(number, method=row[0], timeout=row[1]) for number, row in enumerate(requests)]
    rig.wrote()
    for id, (_, _, fate) in zip(ids, requests, strict=True):
        if fate == "answered":
            rig.answer(id)
    rig.wait(5.1)
    assert calls.pending == {}
    assert calls.queue == {}
    assert not [name for name in calls.timers.armed if isinstance(name, int)]
    timed_out = [number for number, row in enumerate(requests) if row[2] != "answered"]
    assert len(calls.tombstones) == len(timed_out)
    for number in timed_out:
        assert isinstance(rig.error_of(number), TimeoutError)
    late = [id for id, row in zip(ids, requests, strict=True) if row[2] == "answered late"]
    for id in late:
        rig.answer(id)
        assert rig.only(e.Stray).kind == "late"
    assert len(calls.tombstones) == len(timed_out) - len(late)
    rig.wait(rig.core.settings.tombstone_ttl + rig.core.settings.tombstone_sweep)
    assert len(calls.tombstones) == 0
    assert all(rig.outcomes_of(number) == 1 for number in range(len(requests)))
    assert rig.state is S.READY


@settings(max_examples=ITERATIONS)
@given(
    st.integers(1, CANCELLATIONS),
    st.integers(0, MAX_CONCURRENT - 1),
    st.booleans(),
    st.sampled_from(["before", "between", "never"]),
    st.booleans(),
)
def test_cancelling_many_times_is_cancelling_once(times, others, was_written, answer, is_http):
    """Property 3: exactly one terminal outcome, at most one cancel on the wire, nobody else touched."""
    rig = Rig(is_http=is_http).ready()
    for number in range(others):
        rig.call(("other", number))
    rig.wrote()
    id = rig.call("me")
    if was_written:
        rig.wrote()
    if answer == "before":
        rig.answer(id)
    for attempt in range(times):
        rig.step(e.GaveUp(id))
        if answer == "between" and attempt == times // 2:
            rig.answer(id)
    ended_by_answer = rig.outcomes_of("me")
    assert ended_by_answer == (1 if answer == "before" else 0)  # else it ended by being given up
    cancels = [m for m in rig.methods(rig.history) if m == "notifications/cancelled"]
    withdrawn = rig.effects(e.Withdraw, rig.history)
    if answer == "before":
        assert (cancels, withdrawn) == ([], [])
    else:
        assert len(cancels) + len(withdrawn) == 1
        assert bool(cancels) is (was_written or is_http)
    assert len(rig.core.calls.pending) == others
    assert not rig.effects(e.Fail, rig.history)


@pytest.mark.parametrize("times", range(1, CANCELLATIONS + 1))
def test_stopping_many_times_is_stopping_once(times):
    rig = Rig().ready()
    rig.call("me")
    for _ in range(times):
        rig.stop()
    assert rig.outcomes_of("me") == 1
    assert isinstance(rig.error_of("me"), McpError)
    assert len(rig.effects(e.Close, rig.history)) == 1
