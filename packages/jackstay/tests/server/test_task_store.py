"""The changes that the record of a task may undergo."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from jackstay.server import TaskRecord
from jackstay.server import _task_store as t

LEASE = 10.0


def record(state: t.TaskState = "queued", **fields: Any) -> TaskRecord:
    times = {"created_at": 100.0, "updated_at": 100.0, "expires_at": 1_000.0, "due_at": 100.0}
    known: dict[str, Any] = {"call": b"{}", **times, "attempt": 1 if state == "running" else 0, **fields}
    return TaskRecord(id="one", tool="build", state=state, **known)


def unknown_outcome(found: TaskRecord) -> bool:
    error = msgspec.json.decode(found.error)
    return bool(error["code"] == -32603 and error["data"] == {"outcome": "unknown"})


def test_a_queued_task_is_claimed_once() -> None:
    claimed = t.claim(record(), 101.0, LEASE)
    assert claimed is not None
    assert (claimed.state, claimed.attempt, claimed.revision) == ("running", 1, 2)
    assert claimed.due_at == 101.0 + LEASE * t.ONCE_LEASES
    assert claimed.updated_at == 100.0  # nothing that clients see has changed
    assert t.claim(claimed, 102.0, LEASE) is None
    assert t.claim(record(), 1_000.0, LEASE) is None  # expired


def test_a_lease_is_short_for_repeatable_tasks_and_never_longer_than_the_task() -> None:
    repeatable = t.claim(record(is_repeatable=True), 101.0, LEASE)
    assert repeatable is not None
    assert repeatable.due_at == 111.0
    renewed = t.renew(repeatable, 1, 995.0, LEASE)
    assert renewed is not None
    assert renewed.due_at == 1_000.0


def test_a_status_message_changes_the_time_of_the_last_update() -> None:
    running = record("running", due_at=110.0)
    silent = t.renew(running, 1, 105.0, LEASE)
    assert silent is not None
    assert silent.updated_at == 100.0
    reported = t.renew(running, 1, 105.0, LEASE, "half done")
    assert reported is not None
    assert (reported.updated_at, reported.status_message) == (105.0, "half done")


def test_a_run_that_is_not_current_changes_nothing() -> None:
    for other in (record("running", attempt=2), record("queued", attempt=1), record("completed", attempt=1)):
        assert t.renew(other, 1, 105.0, LEASE) is None
        assert t.park(other, 1, 105.0, {"a": b"{}"}, "s") is None
        assert t.finish(other, 1, 105.0, result=b"{}") is None
        assert t.stop(other, 1, 105.0, "why") is None


def test_a_task_has_one_end() -> None:
    done = t.finish(record("running", call=b"{...}"), 1, 150.0, result=b'{"content":[]}')
    assert done is not None
    assert (done.state, done.result, done.updated_at, done.due_at) == ("completed", b'{"content":[]}', 150.0, 1_000.0)
    assert done.call == b""  # only the end is kept
    assert t.finish(done, 1, 151.0, error=b"{}") is None
    assert t.cancel(done, 151.0) is None
    failed = t.finish(record("running"), 1, 150.0, error=b'{"code":1}')
    assert failed is not None
    assert (failed.state, failed.error) == ("failed", b'{"code":1}')


def test_an_end_can_be_read_for_a_minute_at_least() -> None:
    done = t.finish(record("running"), 1, 990.0, result=b"{}")
    assert done is not None
    assert done.expires_at == done.due_at == 1_050.0


def test_a_parked_task_is_queued_when_every_request_has_a_response() -> None:
    parked = t.park(record("running"), 1, 110.0, {"a": b"1", "b": b"2"}, "state")
    assert parked is not None
    assert (parked.state, parked.due_at, parked.updated_at) == ("parked", 1_000.0, 110.0)
    assert t.answer(parked, 111.0, {"unknown": b"0"}) is None
    partly = t.answer(parked, 111.0, {"a": b"yes", "unknown": b"0"})
    assert partly is not None
    assert (partly.state, dict(partly.input_requests)) == ("parked", {"b": b"2"})
    assert t.answer(partly, 112.0, {"a": b"no"}) is None  # it has a response
    whole = t.answer(partly, 112.0, {"b": b"no"})
    assert whole is not None
    assert (whole.state, whole.due_at) == ("queued", 112.0)
    assert dict(whole.input_responses) == {"a": b"yes", "b": b"no"}
    assert t.answer(whole, 113.0, {"b": b"other"}) is None
    again = t.park(msgspec.structs.replace(whole, state="running", attempt=2), 2, 114.0, {"c": b"3"}, "next")
    assert again is not None
    assert (dict(again.input_responses), again.request_state) == ({}, "next")


@pytest.mark.parametrize("state", ["queued", "parked"])
def test_a_task_that_does_not_run_is_cancelled_at_once(state: t.TaskState) -> None:
    cancelled = t.cancel(record(state), 105.0)
    assert cancelled is not None
    assert cancelled.state == "cancelled"


def test_a_running_task_is_cancelled_by_its_worker() -> None:
    requested = t.cancel(record("running"), 105.0)
    assert requested is not None
    assert (requested.state, requested.is_cancelled) == ("running", True)
    assert t.cancel(requested, 106.0) is None
    assert t.renew(requested, 1, 106.0, LEASE) is None
    stopped = t.stop(requested, 1, 107.0, "why")
    assert stopped is not None
    assert stopped.state == "cancelled"
    parked = t.park(requested, 1, 107.0, {"a": b"1"}, "s")
    assert parked is not None
    assert parked.state == "cancelled"
    finished = t.finish(requested, 1, 107.0, result=b"{}")  # the tool ended before it was stopped
    assert finished is not None
    assert finished.state == "completed"


def test_the_outcome_of_a_lost_run_is_unknown() -> None:
    running = record("running", due_at=140.0)
    assert t.lose(running, 139.0) is None
    lost = t.lose(running, 140.0)
    assert lost is not None
    assert lost.state == "failed"
    assert unknown_outcome(lost)
    assert t.lose(record("parked", due_at=140.0), 140.0) is None


def test_a_lost_run_is_repeated_if_the_tool_allows_it_but_not_for_ever() -> None:
    running = record("running", is_repeatable=True, due_at=110.0)
    for loss in range(1, t.MAX_LOSSES):
        lost = t.lose(running, 110.0)
        assert lost is not None
        assert (lost.state, lost.losses, lost.due_at) == ("queued", loss, 110.0)
        assert f"attempt {loss + 1}" in lost.status_message
        claimed = t.claim(lost, 110.0, 0.0)
        assert claimed is not None
        running = claimed
    last = t.lose(running, 110.0)
    assert last is not None
    assert last.state == "failed"
    assert unknown_outcome(last)


def test_a_worker_that_stops_ends_or_requeues_its_runs() -> None:
    once = t.stop(record("running"), 1, 105.0, "the server shut down")
    assert once is not None
    assert (once.state, unknown_outcome(once)) == ("failed", True)
    repeatable = t.stop(record("running", is_repeatable=True), 1, 105.0, "the server shut down")
    assert repeatable is not None
    assert repeatable.state == "queued"


def test_a_lease_can_begin_again() -> None:
    later = t.postpone(record("running", due_at=110.0), 500.0, LEASE)
    assert later is not None
    assert later.due_at == 500.0 + LEASE * t.ONCE_LEASES
    assert t.postpone(later, 501.0, LEASE) is None
    assert t.postpone(record("parked"), 500.0, LEASE) is None


# Every change, as a worker with this attempt applies it.
CHANGES: tuple[Callable[[TaskRecord, int, float], TaskRecord | None], ...] = (
    lambda task, _, now: t.claim(task, now, LEASE),
    lambda task, attempt, now: t.renew(task, attempt, now, LEASE),
    lambda task, attempt, now: t.park(task, attempt, now, {"a": b"1"}, "s"),
    lambda task, _, now: t.answer(task, now, {"a": b"1"}),
    lambda task, attempt, now: t.finish(task, attempt, now, result=b"{}"),
    lambda task, attempt, now: t.stop(task, attempt, now, "why"),
    lambda task, _, now: t.cancel(task, now),
    lambda task, _, now: t.lose(task, now),
    lambda task, _, now: t.postpone(task, now, LEASE),
)


def test_whatever_happens_a_task_ends_once_and_a_once_task_runs_once() -> None:
    """G24: A random walk over every change, by two workers of which one may believe that it still owns the task."""
    rng = random.Random(17)
    for _ in range(300):
        task, now, starts, ends = record(is_repeatable=False), 100.0, 0, 0
        attempts = [0]
        for _ in range(30):
            now += rng.choice((1.0, 60.0))
            attempt = rng.choice(attempts)
            changed = rng.choice(CHANGES)(task, attempt, now)
            if changed is None:
                continue
            assert changed.revision == task.revision + 1
            assert not task.has_ended
            if changed.state == "running" and task.state != "running":
                starts += 1
                attempts.append(changed.attempt)
            # Another run begins only after the last one ended by itself, with a request for input.
            assert not (changed.state == "queued" and task.state == "running")
            ends += changed.has_ended
            task = changed
        assert ends <= 1
        assert starts == task.attempt
