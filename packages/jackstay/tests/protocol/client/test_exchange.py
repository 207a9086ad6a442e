"""The state machine of a request: every cell of its table."""

import inspect

from jackstay.protocol._machine import Cell
from jackstay.protocol.client import _exchange
from jackstay.protocol.client._exchange import (
    CELLS,
    EXCHANGE,
    ROWS,
    Exchange,
    ExchangeEvent,
    ExchangeState,
    Role,
)

E, X = ExchangeEvent, ExchangeState


def describe(cell: Cell) -> str:
    """Return a cell as text: guard, actions, next state."""
    if cell.is_impossible:
        return "!"
    parts = [action.__name__ for action in cell.actions]
    if cell.to is not None:
        parts.append(f"-> {cell.to.value}")
    text = " ".join(parts) or "-"
    if cell.guard is not None:
        assert cell.otherwise is not None
        return f"{cell.guard.__name__}? {text} : {describe(cell.otherwise)}"
    return text


KEPT = "waits_for_ready? enqueue -> waiting : fail -> done"

# The cells are waiting, busy, sent, abandoned, done.
TABLE = {
    E.SENT: ("-> sent", "-> sent", "!", "!", "!"),
    E.REFUSED: (
        "!",
        "!",
        "waits_if_busy? enqueue -> waiting : has_attempts_left? arm_retry -> busy : fail -> done",
        "-",
        "-",
    ),
    E.PROGRESSED: ("-", "-", "extend_deadline", "count_late", "-"),
    E.ANSWERED: ("count_unknown", "count_unknown", "complete -> done", "count_late -> done", "count_unknown"),
    E.CANCELLED: ("-> done", "-> done", "is_written? cancel -> abandoned : withdraw -> done", "-", "-"),
    E.EXPIRED: (
        "fail -> done",
        "fail -> done",
        "is_written? fail cancel -> abandoned : withdraw fail -> done",
        "!",
        "!",
    ),
    E.LOST: (
        "waits_for_ready? - : fail -> done",
        KEPT,
        f"may_replay? mark_sent assign_new_id enqueue -> waiting : is_written? fail -> abandoned : {KEPT}",
        "-",
        "-",
    ),
    E.SESSION_UNKNOWN: (
        "!",
        "!",
        "has_session_attempts_left? assign_new_id enqueue -> waiting : fail -> done",
        "-",
        "-",
    ),
    E.SESSION_RENEWED: ("-", "enqueue -> waiting", "is_written? - : withdraw enqueue -> waiting", "-", "-"),
    E.ENDED: ("fail -> done", "fail -> done", "is_written? fail -> abandoned : fail -> done", "-", "-"),
    E.SWEPT: ("!", "!", "!", "-> done", "-"),
}


def test_each_cell():
    for event in ExchangeEvent:
        assert tuple(describe(cell) for cell in ROWS[event]) == TABLE[event]


def test_the_table_is_complete():
    assert set(ROWS) == set(ExchangeEvent)
    assert set(CELLS) == {(event, state) for event in ExchangeEvent for state in ExchangeState}
    assert set(EXCHANGE.rows) == set(EXCHANGE.events) == {event.value for event in ExchangeEvent}
    for event in ExchangeEvent:
        for column, state in enumerate(ExchangeState):
            assert CELLS[event, state] is ROWS[event][column] is EXCHANGE.cell(event.value, state)


def every_branch():
    return [branch for cell in CELLS.values() for branch in cell.branches()]


def test_every_action_and_guard_is_used():
    used = {action for branch in every_branch() for action in branch.actions}
    used |= {branch.guard for branch in every_branch() if branch.guard is not None}
    functions = [value for value in vars(_exchange).values() if inspect.isfunction(value)]
    assert used == {function for function in functions if function.__module__ == _exchange.__name__}


def test_names_have_distinct_values():
    for names in (ExchangeState, ExchangeEvent, Role):
        assert [name for name, member in names.__members__.items() if member.name != name] == []


def test_every_guard_has_an_alternative():
    for branch in every_branch():
        assert (branch.guard is None) == (branch.otherwise is None)


def test_done_is_final():
    """No event changes a call that is done, or completes or fails it again."""
    for event in ExchangeEvent:
        for branch in CELLS[event, X.DONE].branches():
            assert branch.to is None
            assert _exchange.complete not in branch.actions
            assert _exchange.fail not in branch.actions


def test_a_call_has_at_most_one_outcome_on_every_path_through_the_table():
    outcomes = {_exchange.complete, _exchange.fail}
    for (_, state), cell in CELLS.items():
        for branch in cell.branches():
            ends = [action for action in branch.actions if action in outcomes]
            assert len(ends) <= 1
            if ends:
                assert state in (X.WAITING, X.BUSY, X.SENT)
                assert branch.to in (X.ABANDONED, X.DONE)


def test_a_cancellation_is_sent_only_for_written_calls():
    """docs/guarantees.md G11."""
    for (_, state), cell in CELLS.items():
        for branch in cell.branches():
            if _exchange.cancel in branch.actions:
                assert (state, branch.guard, branch.to) == (X.SENT, _exchange.is_written, X.ABANDONED)


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
