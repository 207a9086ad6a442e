"""The table of a client's lifecycle: it is complete, and its actions, guards and timers are consistent."""

from jackstay.protocol._machine import readable_name
from jackstay.protocol.client import events as e
from jackstay.protocol.client._connection import _TIMER_EVENTS, ClientConnection
from jackstay.protocol.client._table import CELLS, CLIENT, ENTRIES, ROWS, TIMERS, Action, ClientState, Guard, Timer

S = ClientState


def all_events():
    def subclasses(cls):
        for child in cls.__subclasses__():
            yield child
            yield from subclasses(child)

    return set(subclasses(e.Event)) - {e.TransportEvent}


def test_every_event_has_a_row_and_every_row_a_cell_for_every_state():
    assert set(ROWS) == set(CELLS) == all_events()
    for event, cells in ROWS.items():
        assert list(CELLS[event]) == list(ClientState)
        assert tuple(CELLS[event].values()) == cells


def test_the_documented_machine_is_the_one_that_runs():
    assert CLIENT.states == tuple(ClientState)
    assert set(CLIENT.rows) == {readable_name(event.__name__) for event in ROWS}
    assert len(CLIENT.rows) == len(ROWS)
    for event in ROWS:
        name = readable_name(event.__name__)
        assert CLIENT.events[name] == event.__doc__
        for state in ClientState:
            assert CLIENT.cell(name, state) is CELLS[event][state]
    assert CLIENT.entries == {state.value: actions for state, actions in ENTRIES.items()}
    assert CLIENT.start is S.STARTING
    assert CLIENT.finals == {S.CLOSED}


def every_branch():
    return [branch for cells in ROWS.values() for cell in cells for branch in cell.branches()]


def test_every_action_and_guard_is_used_and_implemented():
    actions = {action for branch in every_branch() for action in branch.actions}
    actions |= {action for row in ENTRIES.values() for action in row}
    assert actions == set(Action) == set(ClientConnection.ACTIONS)
    guards = {branch.guard for branch in every_branch() if branch.guard is not None}
    assert guards == set(Guard) == set(ClientConnection.GUARDS)
    assert all(
        callable(function) for function in [*ClientConnection.ACTIONS.values(), *ClientConnection.GUARDS.values()]
    )


def test_every_guard_has_an_alternative():
    for branch in every_branch():
        assert (branch.guard is None) == (branch.otherwise is None)


def test_closed_is_final():
    for event, cells in ROWS.items():
        for branch in cells[-1].branches():
            assert branch.to is None, event


def test_closing_leads_only_to_closed():
    assert {branch.to for cells in ROWS.values() for branch in cells[4].branches()} == {None, S.CLOSED}


def test_every_state_can_be_stopped_or_has_stopped():
    for state in ClientState:
        leads = {branch.to for branch in CELLS[e.StopRequested][state].branches()}
        assert leads <= {S.CLOSING, S.CLOSED} or state in (S.CLOSING, S.CLOSED)


def test_every_transition_to_backoff_counts_a_failure_or_skips_the_probe():
    counting = {Action.START_BACKOFF, Action.START_MIN_BACKOFF, Action.SKIP_PROBE}
    for branch in every_branch():
        if branch.to is S.BACKOFF:
            assert len(counting & set(branch.actions)) == 1
            assert Action.RECORD_CAUSE in branch.actions


def test_the_actions_on_entering_each_state():
    assert ENTRIES == {
        S.STARTING: (Action.ARM_CONNECT, Action.SPAWN),
        S.INITIALIZING: (Action.OPEN_NEGOTIATION,),
        # Queued calls are sent after subscriptions were opened again.
        S.READY: (Action.ARM_READY_TIMERS, Action.REOPEN, Action.RELEASE_WAITERS, Action.FLUSH),
        S.BACKOFF: (Action.DROP_UNLESS_KEPT, Action.CHECK_ATTEMPTS),
        # Callers are released before the transport is closed.
        S.CLOSING: (Action.END_CALLS, Action.END_WAITERS, Action.CLOSE),
        S.CLOSED: (Action.END_CALLS, Action.END_WAITERS, Action.CLEAR),
    }


def test_every_timer_has_an_event_that_is_handled_in_exactly_its_states():
    assert set(TIMERS) == set(Timer) == set(_TIMER_EVENTS)
    for timer, states in TIMERS.items():
        for state in ClientState:
            cell = CELLS[_TIMER_EVENTS[timer]][state]
            is_handled = bool(cell.actions or cell.to or cell.guard)
            assert is_handled is (state in states), (timer, state)


def test_a_timer_that_expired_just_before_the_state_changed_is_ignored():
    """Timers are disarmed on leaving a state; one that was already due may still be stepped in the next state."""
    by_timer = {branch.to for event in _TIMER_EVENTS.values() for cell in ROWS[event] for branch in cell.branches()}
    for event in _TIMER_EVENTS.values():
        for state in by_timer - {None, S.STARTING}:
            assert not CELLS[event][state].is_impossible, (event, state)


def test_every_transport_event_has_its_epoch():
    from_a_transport = {
        e.Spawned, e.SpawnFailed, e.SpawnRefused, e.CameUp, e.WentDown, e.Reaped, e.Refused, e.BecameWritable,
        e.ExchangeLost, e.SessionLost, e.PostQueued, e.PostStarted, e.OversizeReceived,
    }  # fmt: skip
    assert {event.__name__ for event in from_a_transport if not issubclass(event, e.TransportEvent)} == set()


def test_names_have_distinct_values():
    """Enum members with equal values are aliases: both would run the same action."""
    for names in (ClientState, Action, Guard, Timer):
        assert [name for name, member in names.__members__.items() if member.name != name] == []
