"""Outcomes compared with the ledger: ok ran once, failed never, unknown at most once."""

from demo.ledger import Comparison, Outcome, Row, compare

# (what was outcome, whether it was sent again, how often it ran, whether that is true)
ROWS = [
    (Outcome.OK, False, 0, False),
    (Outcome.OK, False, 1, True),
    (Outcome.OK, False, 2, False),
    (Outcome.OK, True, 0, False),
    (Outcome.OK, True, 2, True),
    (Outcome.OK, True, 3, False),
    (Outcome.FAILED, False, 0, True),
    (Outcome.FAILED, False, 1, False),
    (Outcome.FAILED, True, 1, False),
    (Outcome.UNKNOWN, False, 0, True),
    (Outcome.UNKNOWN, False, 1, True),
    (Outcome.UNKNOWN, False, 2, False),
    (Outcome.UNKNOWN, True, 2, True),
    (Outcome.UNKNOWN, True, 3, False),
]


def test_every_outcome_and_number_of_runs() -> None:
    """docs/guarantees.md G7."""
    for outcome, is_retried, times, is_allowed in ROWS:
        comparison = compare({"pay-0.0": outcome}, ["pay-0.0"] if is_retried else [], {"pay-0.0": times})
        assert comparison.rows == (Row("pay", outcome, 1, times),)
        violations = () if is_allowed else (f"pay-0.0 was {outcome.value} and ran {times} times",)
        assert comparison.violations == violations


def test_a_run_without_an_outcome_is_a_violation() -> None:
    assert compare({}, (), {"read-1.2": 1}) == Comparison((), ("read-1.2 ran without an outcome",))


def test_rows_are_counted_by_tool_and_outcome() -> None:
    outcomes = {"pay-0.0": Outcome.OK, "pay-0.1": Outcome.OK, "pay-1.0": Outcome.UNKNOWN, "read-2.0": Outcome.OK}
    comparison = compare(outcomes, ["read-2.0"], {"pay-0.0": 1, "pay-0.1": 1, "read-2.0": 2})
    assert comparison.row("pay", Outcome.OK) == Row("pay", Outcome.OK, 2, 2)
    assert comparison.row("pay", Outcome.UNKNOWN) == Row("pay", Outcome.UNKNOWN, 1, 0)
    assert comparison.row("read", Outcome.OK) == Row("read", Outcome.OK, 1, 2)
    assert comparison.row("read", Outcome.FAILED) == Row("read", Outcome.FAILED, 0, 0)
    assert comparison.violations == ()
