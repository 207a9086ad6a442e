"""The table of a client's lifecycle: it is complete, and its actions, guards and timers are consistent."""

import inspect

from jackstay.protocol._machine import readable_name
from jackstay.protocol.client import _actions as a
from jackstay.protocol.client import events as e
from jackstay.protocol.client._states import TIMERS, ClientState
from jackstay.protocol.client._table import CELLS, CLIENT, ENTRIES, ROWS, STALE

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
    assert (CLIENT.states[0], CLIENT.states[-1]) == (S.STARTING, S.CLOSED)


def every_branch():
    return [branch for cells in ROWS.values() for cell in cells for branch in cell.branches()]


def test_every_action_and_guard_is_used_and_described():
    used = {action for branch in every_branch() for action in branch.actions}
    used |= {action for row in ENTRIES.values() for action in row}
    used |= {branch.guard for branch in every_branch() if branch.guard is not None}
    functions = {name: function for name, function in vars(a).items() if inspect.isfunction(function)}
    public = {x for name, x in functions.items() if x.__module__ == a.__name__ and not name.startswith("_")}
    assert used == public
    assert [function.__name__ for function in used if not function.__doc__ or "\n" in function.__doc__] == []


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


def test_every_transition_to_backoff_counts_a_failure_unless_only_the_probe_was_sent():
    for branch in every_branch():
        if branch.to is S.BACKOFF:
            counted = {a.start_backoff} & set(branch.actions)
            assert len(counted) == (branch.guard is not a.may_have_exited_on_probe)
            assert a.record_cause in branch.actions


def test_the_actions_on_entering_each_state():
    assert {
        S.STARTING: (a.arm_connect, a.spawn),
        S.INITIALIZING: (a.open_negotiation,),
        # Queued calls are sent after subscriptions were opened again.
        S.READY: (a.arm_ready_timers, a.reopen, a.release_waiters, a.flush),
        S.BACKOFF: (a.drop_transport, a.check_attempts),
        # Callers are released before the transport is closed.
        S.CLOSING: (a.end_calls, a.end_waiters, a.close),
        S.CLOSED: (a.end_calls, a.end_waiters, a.clear),
    } == ENTRIES


def test_every_timer_has_an_event_that_is_handled_in_exactly_its_states():
    for timer, states in TIMERS.items():
        for state in ClientState:
            cell = CELLS[timer][state]
            is_handled = bool(cell.actions or cell.to or cell.guard)
            assert is_handled is (state in states), (timer, state)


def test_a_timer_that_expired_just_before_the_state_changed_is_ignored():
    """Timers are disarmed on leaving a state; one that was already due may still be stepped in the next state."""
    by_timer = {branch.to for event in TIMERS for cell in ROWS[event] for branch in cell.branches()}
    for event in TIMERS:
        for state in by_timer - {None, S.STARTING}:
            assert not CELLS[event][state].is_impossible, (event, state)


def test_every_event_of_a_transport_has_its_epoch_and_a_row_for_a_late_one():
    """Events about one request are valid in any epoch: a request over HTTP outlives its session."""
    with_epoch = {event for event in ROWS if "epoch" in event.__struct_fields__}
    assert with_epoch - {event for event in ROWS if issubclass(event, e.TransportEvent)} == {
        e.ExchangeLost,
        e.PostStarted,
        *STALE.values(),
    }
    for event, late in STALE.items():
        assert event.__struct_fields__ == late.__struct_fields__
        assert all(a.count in cell.actions for cell in ROWS[late])


def test_names_have_distinct_values():
    """Enum members with equal values are aliases: one would replace the other."""
    for names in (ClientState,):
        assert [name for name, member in names.__members__.items() if member.name != name] == []
