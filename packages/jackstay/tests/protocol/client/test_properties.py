"""Three properties of the client with a fake clock: one outcome per call, no leaks, idempotent cancellation."""

from hypothesis import given, settings
from hypothesis import strategies as st

from jackstay.errors import McpError, TimeoutError
from jackstay.protocol.client import events as e
from model.harness import Harness, S

ITERATIONS = max(100, settings.default.max_examples)  # a soak runs more
MAX_CONCURRENT = 50
REORDER_WINDOW = 0.100
CANCELLATIONS = 10

METHODS = st.sampled_from(["tools/call", "tools/list", "resources/read", "prompts/get"])
DELAYS = st.floats(0.0, REORDER_WINDOW, allow_nan=False)


@settings(max_examples=ITERATIONS)
@given(
    st.lists(st.tuples(METHODS, DELAYS, st.integers(1, 3), st.booleans()), min_size=1, max_size=MAX_CONCURRENT),
    st.booleans(),
)
def test_each_request_receives_exactly_one_terminal_outcome(requests, is_http):
    """Responses may be reordered, duplicated or errors."""
    harness = Harness(is_http=is_http).ready()
    arrivals = []
    for number, (method, delay, copies, is_error) in enumerate(requests):
        id = harness.call(number, method=method)
        arrivals += [(harness.now + delay + copy * 0.001, number, id, is_error) for copy in range(copies)]
    harness.wrote()
    for at, number, id, is_error in sorted(arrivals):
        harness.wait(max(0.0, at - harness.now))
        if is_error:
            harness.receive_json(id=id, error={"code": number, "message": "no"})
        else:
            harness.respond(id, {"number": number})
    for number, (_, _, _, is_error) in enumerate(requests):
        assert harness.outcomes_of(number) == 1
        if is_error:
            assert harness.error_of(number).code == number
    for effect in harness.effects(e.Complete, harness.history):
        assert bytes(effect.result) == b'{"number": %d}' % effect.caller
    assert harness.core.calls.pending == {}
    duplicates = sum(copies - 1 for _, _, copies, _ in requests)
    assert harness.core.calls.unknown + harness.core.calls.late == duplicates


@settings(max_examples=ITERATIONS)
@given(
    st.lists(
        st.tuples(METHODS, st.floats(0.01, 5.0), st.sampled_from(["answered", "timed out", "answered late"])),
        max_size=MAX_CONCURRENT,
    )
)
def test_the_request_map_is_empty_after_all_timeouts_and_answers(requests):
    """Timeouts do not leak, and tombstones expire."""
    harness = Harness(hang_timeout=None).ready()
    calls = harness.core.calls
    ids = [harness.call(number, method=row[0], timeout=row[1]) for number, row in enumerate(requests)]
    harness.wrote()
    for id, (_, _, outcome) in zip(ids, requests, strict=True):
        if outcome == "answered":
            harness.respond(id)
    harness.wait(5.1)
    assert calls.pending == {}
    assert calls.queue == {}
    assert not [name for name in calls.timers.armed if isinstance(name, int)]
    timed_out = [number for number, row in enumerate(requests) if row[2] != "answered"]
    assert len(calls.tombstones) == len(timed_out)
    for number in timed_out:
        assert isinstance(harness.error_of(number), TimeoutError)
    late = [id for id, row in zip(ids, requests, strict=True) if row[2] == "answered late"]
    for id in late:
        harness.respond(id)
        assert harness.only(e.Stray).kind == "late"
    assert len(calls.tombstones) == len(timed_out) - len(late)
    harness.wait(harness.core.settings.tombstone_ttl + harness.core.settings.tombstone_sweep)
    assert len(calls.tombstones) == 0
    assert all(harness.outcomes_of(number) == 1 for number in range(len(requests)))
    assert harness.state is S.READY


@settings(max_examples=ITERATIONS)
@given(
    st.integers(1, CANCELLATIONS),
    st.integers(0, MAX_CONCURRENT - 1),
    st.booleans(),
    st.sampled_from(["before", "between", "never"]),
    st.booleans(),
)
def test_cancelling_is_idempotent(times, others, was_written, response, is_http):
    """At most one cancellation is sent, and other calls are not affected."""
    harness = Harness(is_http=is_http).ready()
    for number in range(others):
        harness.call(("other", number))
    harness.wrote()
    id = harness.call("me")
    if was_written:
        harness.wrote()
    if response == "before":
        harness.respond(id)
    for attempt in range(times):
        harness.step(e.CallCancelled(id))
        if response == "between" and attempt == times // 2:
            harness.respond(id)
    ended_by_response = harness.outcomes_of("me")
    assert ended_by_response == (1 if response == "before" else 0)  # else it was cancelled
    cancels = [m for m in harness.methods(harness.history) if m == "notifications/cancelled"]
    withdrawn = harness.effects(e.Withdraw, harness.history)
    if response == "before":
        assert (cancels, withdrawn) == ([], [])
    else:
        assert len(cancels) + len(withdrawn) == 1
        assert bool(cancels) is (was_written or is_http)
    assert len(harness.core.calls.pending) == others
    assert not harness.effects(e.Fail, harness.history)


def test_stopping_is_idempotent():
    harness = Harness().ready()
    harness.call("me")
    for _ in range(CANCELLATIONS):
        harness.stop()
    assert harness.outcomes_of("me") == 1
    assert isinstance(harness.error_of("me"), McpError)
    assert len(harness.effects(e.Close, harness.history)) == 1
