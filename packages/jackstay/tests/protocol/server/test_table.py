"""The state table of a server: it is total, and every action and guard is used."""

from inspect import isfunction

import pytest

from jackstay.errors import InvalidEventError, NoTransitionError, UnknownEventError
from jackstay.protocol._machine import IGNORE, Cell, readable_name
from jackstay.protocol.server import _actions as a
from jackstay.protocol.server import events as e
from jackstay.protocol.server._states import ServerState
from jackstay.protocol.server._table import CELLS, ENTRIES, ROWS, SERVER, destination

S = ServerState
BASES = {e.Event, e.RequestEvent}
EVENTS = [
    kind for kind in vars(e).values() if isinstance(kind, type) and issubclass(kind, e.Event) and kind not in BASES
]
PAIRS = [(event, state) for event in ROWS for state in S]

# (state, event): the target. Every other pair keeps its state or cannot happen.
MOVES = {
    (S.FRESH, e.InitializeRequested): S.HANDSHAKE,
    (S.FRESH, e.StatelessRequested): S.STATELESS,
    (S.HANDSHAKE, e.InitializedReceived): S.OPERATING,
    **{(state, e.ClientDisconnected): S.DRAINING for state in (S.FRESH, S.HANDSHAKE, S.OPERATING, S.STATELESS)},
    **{(state, e.DrainRequested): S.DRAINING for state in (S.FRESH, S.HANDSHAKE, S.OPERATING, S.STATELESS)},
    **{(state, e.StopRequested): S.CLOSED for state in S if state is not S.CLOSED},
    (S.DRAINING, e.DrainExpired): S.CLOSED,
    (S.DRAINING, e.Drained): S.CLOSED,
}

# Pairs that are refused whatever the guards return, and pairs that cannot happen.
INVALID = {
    (S.FRESH, e.MethodRequested),
    (S.HANDSHAKE, e.InitializeRequested),
    (S.HANDSHAKE, e.StatelessRequested),
    (S.OPERATING, e.StatelessRequested),
    *((S.FRESH, event) for event in (e.Finished, e.Failed, e.Progressed)),
    *((state, event) for state in S if state is not S.DRAINING for event in (e.DrainExpired, e.Drained)),
}


def branches(event: type[e.Event], state: S) -> tuple[Cell, ...]:
    return CELLS[event][state].branches()


def test_every_event_has_a_row_and_every_row_a_cell_for_every_state() -> None:
    assert set(ROWS) == set(EVENTS)
    assert all(len(cells) == len(S) for cells in ROWS.values())
    assert {(event, state) for event in CELLS for state in CELLS[event]} == set(PAIRS)


def test_every_guard_has_an_alternative() -> None:
    for event, state in PAIRS:
        *guarded, last = branches(event, state)
        assert all(cell.guard is not None and cell.otherwise is not None for cell in guarded)
        assert last.guard is None


def test_every_action_and_guard_is_used_and_described() -> None:
    public = {function for name, function in vars(a).items() if isfunction(function) and not name.startswith("_")}
    public = {function for function in public if function.__module__ == a.__name__}
    used = {action for event, state in PAIRS for cell in branches(event, state) for action in cell.actions}
    used |= {action for actions in ENTRIES.values() for action in actions}
    guards = {cell.guard for event, state in PAIRS for cell in branches(event, state)} - {None}
    assert used | guards == public
    assert not used & guards
    assert all(function.__doc__ for function in public)
    assert len({guard.__doc__ for guard in guards}) == len(guards)


def test_the_actions_in_closed() -> None:
    active = {event for event in ROWS if CELLS[event][S.CLOSED].actions}
    assert active == {e.OutgoingRequested, e.Finished, e.Failed}
    assert CELLS[e.Finished][S.CLOSED].actions == (a.count_late,)
    assert all(cell.to is None for event in ROWS for cell in branches(event, S.CLOSED))


def test_the_destination_of_every_pair(subtests: pytest.Subtests) -> None:
    for event, state in PAIRS:
        with subtests.test(event=event, state=state):
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


def test_closed_is_reachable_from_every_state_and_final() -> None:
    targets = {state: {destination(event, here) for here, event in MOVES if here is state} for state in S}
    for state in S:
        reached, before = {state}, set[S]()
        while reached != before:
            before = set(reached)
            reached |= {target for here in before for target in targets[here]}
        assert S.CLOSED in reached
    assert not targets[S.CLOSED]


def test_the_machine_has_the_names_of_the_table() -> None:
    assert (SERVER.name, SERVER.states[0], SERVER.states[-1]) == ("server", S.FRESH, S.CLOSED)
    assert list(SERVER.rows) == [readable_name(event.__name__) for event in ROWS] == list(SERVER.events)
    assert all(SERVER.events.values())
    assert SERVER.cell("ping requested", S.CLOSED) == IGNORE
    assert SERVER.entries == {state.value: names for state, names in ENTRIES.items()}
