"""The server's table itself: total, without a word that nothing uses, and drawn under the names it is known by."""

import pytest

from jackstay.errors import InvalidEventError, NoTransitionError, UnknownEventError
from jackstay.protocol._machine import IGNORE, Cell, words
from jackstay.protocol.server import events as e
from jackstay.protocol.server._table import CELLS, ENTRIES, ROWS, SERVER, Do, ServerState, When, destination

S = ServerState
BASES = {e.Event, e.RequestEvent}
EVENTS = [
    kind
    for kind in vars(e).values()
    if isinstance(kind, type) and issubclass(kind, e.Event) and kind not in BASES
]
PAIRS = [(event, state) for event in ROWS for state in S]

# (state, event, where it can lead). Every other pair keeps its state or cannot happen.
MOVES = {
    (S.FRESH, e.InitializeRequested): S.HANDSHAKE,
    (S.FRESH, e.StatelessRequested): S.STATELESS,
    (S.HANDSHAKE, e.InitializedReceived): S.OPERATING,
    **{(state, e.ClientGone): S.DRAINING for state in (S.FRESH, S.HANDSHAKE, S.OPERATING, S.STATELESS)},
    **{(state, e.DrainAsked): S.DRAINING for state in (S.FRESH, S.HANDSHAKE, S.OPERATING, S.STATELESS)},
    **{(state, e.StopAsked): S.CLOSED for state in S if state is not S.CLOSED},
    (S.DRAINING, e.DrainExpired): S.CLOSED,
    (S.DRAINING, e.Emptied): S.CLOSED,
}

# Pairs that are refused whatever the guards say, and pairs that cannot happen.
INVALID = {
    (S.FRESH, e.MethodRequested),
    (S.HANDSHAKE, e.InitializeRequested),
    (S.HANDSHAKE, e.StatelessRequested),
    (S.OPERATING, e.StatelessRequested),
    *((S.FRESH, event) for event in (e.Finished, e.Failed, e.Progressed)),
    *((state, e.ArrayEnded) for state in (S.FRESH, S.HANDSHAKE, S.STATELESS, S.CLOSED)),
    *((state, event) for state in S if state is not S.DRAINING for event in (e.DrainExpired, e.Emptied)),
}


def branches(event: type[e.Event], state: S) -> tuple[Cell, ...]:
    return CELLS[event][state].branches()


def test_every_event_has_a_row_and_every_row_a_cell_for_every_state() -> None:
    assert set(ROWS) == set(EVENTS)
    assert all(len(cells) == len(S) for cells in ROWS.values())
    assert {(event, state) for event in CELLS for state in CELLS[event]} == set(PAIRS)


def test_every_question_has_two_answers() -> None:
    for event, state in PAIRS:
        *asking, last = branches(event, state)
        assert all(cell.when is not None and cell.otherwise is not None for cell in asking)
        assert last.when is None


def test_every_name_of_the_table_is_used_and_means_one_thing() -> None:
    used = {name for event, state in PAIRS for cell in branches(event, state) for name in cell.do}
    used |= {name for names in ENTRIES.values() for name in names}
    assert used == set(Do)
    asked = {cell.when for event, state in PAIRS for cell in branches(event, state)} - {None}
    assert asked == set(When)
    for names in (Do, When, S):
        assert len(names) == len(
            names.__members__
        )  # equal words would be an alias: one meaning for two names


def test_closed_answers_nothing_but_a_question_of_ours() -> None:
    speaks = {event for event in ROWS if CELLS[event][S.CLOSED].do}
    assert speaks == {e.Asked, e.Finished, e.Failed}
    assert CELLS[e.Finished][S.CLOSED].do == (Do.COUNT_LATE,)
    assert all(cell.to is None for event in ROWS for cell in branches(event, S.CLOSED))


@pytest.mark.parametrize(("event", "state"), PAIRS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_every_pair_says_where_it_leads(event: type[e.Event], state: S) -> None:
    if (state, event) in MOVES:
        assert destination(event, state) is MOVES[state, event]
    elif (state, event) in INVALID:
        with pytest.raises(InvalidEventError) as invalid:
            destination(event, state)
        assert (invalid.value.event, invalid.value.state) == (event.__name__, state.value)
    else:
        with pytest.raises(NoTransitionError) as kept:
            destination(event, state)
        assert (kept.value.event, kept.value.state) == (event.__name__, state.value)


def test_an_event_of_another_machine_is_unknown() -> None:
    with pytest.raises(UnknownEventError) as unknown:
        destination(e.Event, S.FRESH)
    assert (unknown.value.event, unknown.value.state, unknown.value.code) == ("Event", "fresh", -32601)


def test_the_end_is_reached_from_everywhere_and_left_by_nothing() -> None:
    ways = {state: {destination(event, here) for here, event in MOVES if here is state} for state in S}
    for state in S:
        reached, before = {state}, set[S]()
        while reached != before:
            before = set(reached)
            reached |= {target for here in before for target in ways[here]}
        assert (S.CLOSED in reached) is True
    assert not ways[S.CLOSED]


def test_the_machine_is_drawn_under_the_names_that_run() -> None:
    assert (SERVER.name, SERVER.start, SERVER.finals) == ("server", S.FRESH, {S.CLOSED})
    assert list(SERVER.rows) == [words(event.__name__) for event in ROWS] == list(SERVER.events)
    assert all(SERVER.events.values())
    assert SERVER.cell("ping requested", S.CLOSED) == IGNORE
    assert SERVER.entries == {state.value: names for state, names in ENTRIES.items()}
