"""The ledger finds every kind of breach, and reports no false ones."""

import asyncio
import random
from pathlib import Path

import pytest

from chaos.ledger import machines, tasks
from chaos.ledger.ledger import Ledger
from chaos.ledger.redis_faults import Faults
from jackstay.errors import JsonRpcError, McpError, OutcomeUnknownError, ShutdownError, TransportError


@pytest.mark.parametrize(
    ("error", "times", "is_breach"),
    [
        (None, 1, False),
        (None, 0, True),
        (None, 2, True),
        (TransportError("not sent"), 0, False),
        (TransportError("not sent"), 1, True),
        (ShutdownError("stopped"), 1, True),
        (OutcomeUnknownError("lost"), 0, False),
        (OutcomeUnknownError("lost"), 1, False),
        (OutcomeUnknownError("lost"), 2, True),
        (JsonRpcError(-32603, "failed"), 1, False),
        (JsonRpcError(-32603, "failed"), 2, True),
    ],
)
def test_outcomes_are_compared_with_what_ran(
    error: McpError | None, times: int, is_breach: bool, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.path.write_text("n\n" * times)
    with ledger.watch("n", 60) as answers:
        if error is not None:
            raise error
        answers.append("n")
    assert bool(ledger.check()) is is_breach


def test_a_run_without_an_outcome_is_a_breach(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.path.write_text("n\n")
    assert ledger.check() == ["n: ran 1 times without an outcome"]


def test_a_read_may_run_twice_if_a_replay_was_requested(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.path.write_text("n\nn\n")
    with ledger.watch("n", 60, may_replay=True) as answers:
        answers.append("n")
    assert ledger.check() == []


def test_the_result_of_another_call_is_a_breach(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.path.write_text("n\n")
    with ledger.watch("n", 60) as answers:
        answers.append("m")
    assert ledger.check() == ["n got the result ['m']"]


def test_a_late_end_a_second_outcome_and_a_foreign_exception_are_breaches(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    with ledger.watch("n", -100.0):
        raise OutcomeUnknownError("lost")
    with ledger.watch("n", 60):
        raise AttributeError("when")
    late, second, foreign = ledger.check()
    assert "its deadline was -100 s" in late
    assert second == "n got a second outcome"
    assert foreign == "n raised AttributeError('when')"


@pytest.mark.parametrize(
    ("text", "breach"),
    [
        ("created once-1 once\nstart once-1\nend once-1\ncompleted once-1 once-1", ""),
        ("created again-1 again\nstart again-1\nstart again-1\nend again-1\ncompleted again-1 again-1", ""),
        ("created once-1 once\nstart once-1\nend once-1\nunknown once-1", ""),
        ("failed once-1", ""),
        ("created once-1 once", "0 outcomes"),
        ("created once-1 once\nlost once-1\nunknown once-1", "created, but lost"),
        ("start once-1\nstart once-1\nend once-1\nunknown once-1", "ran 2 times"),
        ("start confirm-1\nfailed confirm-1", "reported as not run, but ran"),
        ("start again-1\ncompleted again-1 again-1", "completed, but never ended"),
        ("start once-1\nend once-1\ncompleted once-1 once-2", "the result of another"),
        ("end once-1\ncompleted once-1 once-1\nunknown once-1", "2 outcomes"),
    ],
)
def test_tasks_are_compared_with_what_ran(text: str, breach: str) -> None:
    found = tasks.check(text.splitlines())
    assert (len(found) == 1 and breach in found[0]) if breach else found == []


@pytest.mark.parametrize(
    ("names", "breaches"),
    [(["kill Redis"], ["machines-2026-07-28-2-0-1: OutcomeUnknownError, but only Redis failed"]), ([], [])],
)
def test_stateless_calls_do_not_need_redis(names: list[str], breaches: list[str], tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    for nonce in ("machines-2026-07-28-2-0-1", "machines-2025-11-25-0-0-1"):
        with ledger.watch(nonce, 60):
            raise OutcomeUnknownError("lost")
    assert machines.check(ledger, Faults(random.Random(1), machines.FAULTS, names, 60)) == breaches


async def test_only_the_faults_that_are_named_happen_for_their_whole_time() -> None:
    faults, over, found = Faults(random.Random(1), tasks.FAULTS, ["kill Redis", "lose"], 1), asyncio.Event(), set()
    async for fault in faults.until(over, 0.2):
        found.add(fault)
        if len(found) == 2:
            over.set()
    assert found == {("kill Redis", 2.0), ("lose", 30.0)}
    assert sum(faults.counts.values()) >= 2
