"""The rule that decides whether a client told the truth: ok ran once, failed never, unknown at most once."""

import pytest
from demo.ledger import Books, Row, Told, compare

# (what was told, whether it was sent again, how often it ran, whether that is true)
ROWS = [
    (Told.OK, False, 0, False),
    (Told.OK, False, 1, True),
    (Told.OK, False, 2, False),
    (Told.OK, True, 0, False),
    (Told.OK, True, 2, True),
    (Told.OK, True, 3, False),
    (Told.FAILED, False, 0, True),
    (Told.FAILED, False, 1, False),
    (Told.FAILED, True, 1, False),
    (Told.UNKNOWN, False, 0, True),
    (Told.UNKNOWN, False, 1, True),
    (Told.UNKNOWN, False, 2, False),
    (Told.UNKNOWN, True, 2, True),
    (Told.UNKNOWN, True, 3, False),
]


@pytest.mark.parametrize(("told", "is_sent_again", "times", "is_true"), ROWS)
def test_what_was_told_is_held_against_what_ran(
    told: Told, is_sent_again: bool, times: int, is_true: bool
) -> None:
    """G7."""
    books = compare({"pay-0.0": told}, ["pay-0.0"] if is_sent_again else [], {"pay-0.0": times})
    assert books.rows == (Row("pay", told, 1, times),)
    assert (books.untruths == ()) is is_true
    if not is_true:
        assert books.untruths == (f"pay-0.0 was told {told.value} and ran {times} times",)


def test_a_run_that_nobody_was_told_of_is_an_untruth() -> None:
    assert compare({}, (), {"look-1.2": 1}) == Books((), ("look-1.2 ran, and nobody was told",))


def test_rows_are_counted_by_tool_and_outcome() -> None:
    told = {"pay-0.0": Told.OK, "pay-0.1": Told.OK, "pay-1.0": Told.UNKNOWN, "look-2.0": Told.OK}
    books = compare(told, ["look-2.0"], {"pay-0.0": 1, "pay-0.1": 1, "look-2.0": 2})
    assert books.row("pay", Told.OK) == Row("pay", Told.OK, 2, 2)
    assert books.row("pay", Told.UNKNOWN) == Row("pay", Told.UNKNOWN, 1, 0)
    assert books.row("look", Told.OK) == Row("look", Told.OK, 1, 2)
    assert books.row("look", Told.FAILED) == Row("look", Told.FAILED, 0, 0)
    assert books.untruths == ()
