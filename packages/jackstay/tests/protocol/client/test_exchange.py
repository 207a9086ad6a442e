"""One request and its answer: every cell of the table, and the ids of those who stopped waiting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.protocol._machine import Cell
from jackstay.protocol.client import _calls
from jackstay.protocol.client._exchange import (
    CELLS,
    EXCHANGE,
    ROWS,
    Exchange,
    ExchangeEvent,
    ExchangeState,
    If,
    Role,
    Then,
    Tombstones,
)
from jackstay.protocol.client._settings import MAX_TOMBSTONES

E, X = ExchangeEvent, ExchangeState


def said(cell: Cell) -> str:
    """A cell as text: what is done, where it goes, and what it depends on."""
    if cell.is_impossible:
        return "!"
    parts = [then.name.lower() for then in cell.do]
    if cell.to is not None:
        parts.append(f"-> {cell.to.value}")
    text = " ".join(parts) or "-"
    if cell.when is not None:
        assert cell.otherwise is not None
        return f"{cell.when.name.lower()}? {text} : {said(cell.otherwise)}"
    return text


KEPT = "waits_for_ready? queue -> waiting : fail -> done"

# The cells are waiting, busy, sent, abandoned, done. Sources: rows 2, 14, 18 and 25 and the table of section 2.
TABLE = {
    E.HANDED: ("-> sent", "-> sent", "!", "!", "!"),
    E.REFUSED: (
        "!",
        "!",
        "waits_for_room? queue -> waiting : has_attempts_left? arm_retry -> busy : fail -> done",
        "-",
        "-",
    ),
    E.PROGRESSED: ("-", "-", "extend", "count_late", "-"),
    E.ANSWERED: ("count_unknown", "count_unknown", "complete -> done", "count_late -> done", "count_unknown"),
    E.GIVEN_UP: ("-> done", "-> done", "written? cancel -> abandoned : withdraw -> done", "-", "-"),
    E.EXPIRED: (
        "fail -> done",
        "fail -> done",
        "written? fail cancel -> abandoned : withdraw fail -> done",
        "!",
        "!",
    ),
    E.LOST: (
        "waits_for_ready? - : fail -> done",
        KEPT,
        f"may_replay? mark_sent renew queue -> waiting : written? fail -> abandoned : {KEPT}",
        "-",
        "-",
    ),
    E.TURNED_AWAY: ("!", "!", "has_session_attempts_left? renew queue -> waiting : fail -> done", "-", "-"),
    E.RENEWED: ("-", "queue -> waiting", "written? - : withdraw queue -> waiting", "-", "-"),
    E.ENDED: ("fail -> done", "fail -> done", "written? fail -> abandoned : fail -> done", "-", "-"),
    E.SWEPT: ("!", "!", "!", "-> done", "-"),
}


@pytest.mark.parametrize("event", ExchangeEvent)
def test_each_cell(event):
    assert tuple(said(cell) for cell in ROWS[event]) == TABLE[event]


def test_the_table_is_total():
    assert set(ROWS) == set(ExchangeEvent)
    assert set(CELLS) == {(event, state) for event in ExchangeEvent for state in ExchangeState}
    assert set(EXCHANGE.rows) == {event.value for event in ExchangeEvent}
    for event in ExchangeEvent:
        for column, state in enumerate(ExchangeState):
            assert CELLS[event, state] is ROWS[event][column] is EXCHANGE.cell(event.value, state)


def every_branch():
    return [branch for cell in CELLS.values() for branch in cell.branches()]


def test_every_name_is_used_and_has_a_function():
    assert {then for branch in every_branch() for then in branch.do} == set(Then) == set(_calls._THEN)
    asked = {branch.when for branch in every_branch() if branch.when is not None}
    assert asked == set(If) == set(_calls._IF)


def test_no_two_names_share_their_words():
    for names in (ExchangeState, ExchangeEvent, Then, If, Role):
        assert [name for name, member in names.__members__.items() if member.name != name] == []


def test_every_question_has_both_answers():
    for branch in every_branch():
        assert (branch.when is None) == (branch.otherwise is None)


def test_done_is_the_end():
    """Whatever happens to a call that is over, it stays over and nobody is told."""
    for event in ExchangeEvent:
        for branch in CELLS[event, X.DONE].branches():
            assert branch.to is None
            assert Then.COMPLETE not in branch.do
            assert Then.FAIL not in branch.do


def test_a_caller_is_told_at_most_once_on_every_way_through_the_table():
    tells = {Then.COMPLETE, Then.FAIL}
    for (_, state), cell in CELLS.items():
        for branch in cell.branches():
            told = [then for then in branch.do if then in tells]
            assert len(told) <= 1
            if told:
                assert state in (X.WAITING, X.BUSY, X.SENT)
                assert branch.to in (X.ABANDONED, X.DONE)


def test_a_cancel_is_sent_only_for_what_was_written_and_only_on_leaving_sent():
    """G11: at most once, and never for a call still in our queue."""
    for (_, state), cell in CELLS.items():
        for branch in cell.branches():
            if Then.CANCEL in branch.do:
                assert (state, branch.when, branch.to) == (X.SENT, If.WRITTEN, X.ABANDONED)


def test_every_state_can_be_reached():
    reached = {X.WAITING}
    for _ in ExchangeState:
        for (_, state), cell in CELLS.items():
            if state in reached:
                reached |= {branch.to for branch in cell.branches() if branch.to is not None}
    assert reached == set(ExchangeState)


def test_a_new_exchange_waits_and_was_never_sent():
    exchange = Exchange(1, "ping", b"{}")
    assert (exchange.state, exchange.role, exchange.number, exchange.attempts) == (X.WAITING, Role.CALL, 0, 0)
    assert not exchange.was_sent
    assert exchange.refusals == 0
    assert not exchange.is_unsent


# --- tombstones -------------------------------------------------------------------------------------------------------


def test_a_tombstone_holds_until_its_time_and_the_time_is_checked_on_lookup():
    """Row 18."""
    stones = Tombstones(10)
    stones.bury(1, until=75.0)
    assert stones.holds(1, 0.0)
    assert stones.holds(1, 75.0)
    assert not stones.holds(1, 75.001)
    assert len(stones) == 1  # not swept yet


@pytest.mark.parametrize("id", [2, "1", None, "", 2**70, -1])
def test_what_was_not_buried_is_not_held(id):
    stones = Tombstones(10)
    stones.bury(1, until=75.0)
    assert not stones.holds(id, 0.0)


def test_a_late_answer_takes_its_tombstone_away():
    stones = Tombstones(10)
    stones.bury(1, until=75.0)
    stones.exhume(1)
    stones.exhume(1)
    assert not stones.holds(1, 0.0)
    assert list(stones) == []


def test_there_are_at_most_4096_and_the_oldest_go_first():
    """Row 18: at most 4,096, oldest dropped first."""
    assert MAX_TOMBSTONES == 4096
    stones = Tombstones(MAX_TOMBSTONES)
    for id in range(1, MAX_TOMBSTONES + 11):
        stones.bury(id, until=1000.0)
    assert len(stones) == 4096
    assert next(iter(stones)) == 11
    assert not stones.holds(10, 0.0)


def test_burying_again_makes_it_the_youngest():
    stones = Tombstones(2)
    stones.bury(1, 10.0)
    stones.bury(2, 10.0)
    stones.bury(1, 20.0)
    stones.bury(3, 10.0)
    assert list(stones) == [1, 3]
    assert stones.holds(1, 15.0)


def test_a_sweep_forgets_what_has_expired_and_only_that():
    stones = Tombstones(10)
    stones.bury(1, 10.0)
    stones.bury(2, 20.0)
    stones.sweep(10.0)
    assert list(stones) == [1, 2]
    stones.sweep(10.5)
    assert list(stones) == [2]
    stones.clear()
    assert len(stones) == 0


def test_a_copy_goes_its_own_way():
    stones = Tombstones(5)
    stones.bury(1, 10.0)
    twin = stones.copy()
    twin.bury(2, 10.0)
    twin.exhume(1)
    assert list(stones) == [1]
    assert (list(twin), twin.limit) == ([2], 5)


@given(st.lists(st.tuples(st.integers(1, 30), st.floats(0, 100)), max_size=60), st.integers(1, 10))
def test_the_bound_holds_whatever_is_buried(burials, limit):
    stones = Tombstones(limit)
    for id, until in burials:
        stones.bury(id, until)
        assert len(stones) <= limit
        assert stones.holds(id, until)
