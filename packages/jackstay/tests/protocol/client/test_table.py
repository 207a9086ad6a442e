"""The table of a client's lifecycle against the design's, cell by cell: where each pair of state and event leads."""

import pytest

from jackstay.protocol._machine import Cell, words
from jackstay.protocol.client import events as e
from jackstay.protocol.client._connection import _TIMER_EVENTS, ClientConnection
from jackstay.protocol.client._table import CELLS, CLIENT, ENTRIES, ROWS, TIMERS, ClientState, Do, Timer, When

S = ClientState
LETTERS = {S.STARTING: "s", S.INITIALIZING: "i", S.READY: "r", S.BACKOFF: "b", S.CLOSING: "c", S.CLOSED: "x"}

# One row an event, one cell a state: starting, initializing, ready, backoff, closing, closed.
#   -   ignored and counted        !  cannot happen           .  something is done, the state stays
#   s i r b c x                    goes there                 a/b  one or the other, by what it depends on
# Source: docs/design/connection.md, section 2. Where a letter differs from that page, the comment says why.
LEADS_TO = {
    e.Called: ". . . . . .",
    e.Notified: ". . . . . .",
    e.Replied: "- - . - - -",
    e.Subscribed: ". . . . - -",
    e.Unsubscribed: ". . . . . -",
    e.ReadyAsked: ". . . . . .",
    e.WaitGivenUp: ". . - . - -",
    e.ServerAsked: ". . . . . .",
    e.GaveUp: ". . . . - -",
    e.Expired: ". . . . - -",
    e.RetryDue: "- . . - - -",  # initializing: the probe's and the handshake's frames may meet a busy transport too
    e.Refused: "- . . - - -",
    e.FrameRefused: "- . . - - -",
    e.RoomMade: "- . . - - -",  # initializing: an answer to `ping` that found no room
    e.Resumed: "- - . - - -",
    e.Wrote: ". . . . . -",
    e.PostQueued: "- - . - - -",
    e.PostStarted: ". . . . - -",
    e.Spawned: "i ! ! . . .",
    e.SpawnFailed: "b ! ! s/. x -",  # backoff: a late failure is also the news that nothing is left to reap
    e.SpawnRefused: "x ! ! s/. x -",
    e.CameUp: "i . - - - -",
    e.ProbeExpired: "! . - - - -",
    e.Negotiated: "! r - - - -",
    e.Offered: "! . ! - - -",
    e.NegotiationFailed: "! b/b ! - - -",  # with POSTs of an earlier session open, the HTTP client is kept
    e.NegotiationRefused: "! c ! - - -",
    e.ConnectExpired: "b b/b ! - - -",
    e.AnswerReceived: "./! ./. . ./- - -",  # starting, backoff: HTTP, the answer of a POST left open by a session loss
    e.StrayReceived: "- . . - - -",
    e.CancelReceived: "- - . - - -",
    e.NotificationReceived: "- . . ./- - -",
    e.RequestReceived: "- . . - - -",
    e.InitializeReceived: "- b b - - -",
    e.ResetReceived: "- b b - - -",
    e.GarbageReceived: ". . . - - -",
    e.StruckOut: "b b b - - -",
    e.OversizeReceived: "b b b - - -",
    e.WentDown: "b b/c/b b ./- - -",  # closing: the transport is reaped next, and that is the end
    e.StaleHappened: ". . . . . .",
    e.ExchangeLost: ". ./. . ./- - -",
    e.SessionLost: ". ./. b/s ./- - -",
    e.KeepaliveDue: "- - . - - -",
    e.CheckExpired: "- - b/. - - -",
    e.KeepaliveMissed: "- - b - - -",
    e.Settled: "- - . - - -",
    e.BackoffElapsed: "- - - s/s/. - -",
    e.AttemptsExhausted: "- - - x/c - -",  # through closing while the old transport is not reaped
    e.SweepDue: ". . . . - -",
    e.StopAsked: "c c c x/c - -",
    e.Reaped: "- - - s/. x -",
    e.CloseExpired: "- - - s/. x -",  # backoff: the leak is reported, and it goes on
}


def letter(cell: Cell) -> str:
    if cell.is_impossible:
        return "!"
    if cell.to is not None:
        return LETTERS[ClientState(cell.to)]
    return "." if cell.do else "-"


@pytest.mark.parametrize("event", LEADS_TO, ids=lambda event: event.__name__)
def test_where_each_pair_leads(event):
    cells = ["/".join(letter(branch) for branch in cell.branches()) for cell in ROWS[event]]
    assert " ".join(cells) == LEADS_TO[event]


def events_there_are():
    def below(cls):
        for child in cls.__subclasses__():
            yield child
            yield from below(child)

    return set(below(e.Event)) - {e.TransportEvent}


def test_every_event_has_a_row_and_every_row_a_cell_for_every_state():
    assert set(ROWS) == set(CELLS) == set(LEADS_TO) == events_there_are()
    for event, cells in ROWS.items():
        assert list(CELLS[event]) == list(ClientState)
        assert tuple(CELLS[event].values()) == cells


def test_the_machine_shown_is_the_machine_that_runs():
    assert CLIENT.states == tuple(ClientState)
    assert set(CLIENT.rows) == {words(event.__name__) for event in ROWS}
    assert len(CLIENT.rows) == len(ROWS)
    for event in ROWS:
        name = words(event.__name__)
        assert CLIENT.events[name] == event.__doc__
        for state in ClientState:
            assert CLIENT.cell(name, state) is CELLS[event][state]
    assert CLIENT.entries == {state.value: do for state, do in ENTRIES.items()}
    assert CLIENT.start is S.STARTING
    assert CLIENT.finals == {S.CLOSED}


def every_branch():
    return [branch for cells in ROWS.values() for cell in cells for branch in cell.branches()]


def test_every_name_is_used_and_has_a_function():
    done = {do for branch in every_branch() for do in branch.do} | {
        do for row in ENTRIES.values() for do in row
    }
    assert done == set(Do) == set(ClientConnection.DO)
    asked = {branch.when for branch in every_branch() if branch.when is not None}
    assert asked == set(When) == set(ClientConnection.WHEN)
    assert all(
        callable(function) for function in [*ClientConnection.DO.values(), *ClientConnection.WHEN.values()]
    )


def test_every_question_has_both_answers():
    for branch in every_branch():
        assert (branch.when is None) == (branch.otherwise is None)


def test_closed_is_the_end():
    for event, cells in ROWS.items():
        for branch in cells[-1].branches():
            assert branch.to is None, event


def test_closing_leads_to_closed_alone():
    assert {branch.to for cells in ROWS.values() for branch in cells[4].branches()} == {None, S.CLOSED}


def test_every_state_can_be_stopped_or_has_stopped():
    for state in ClientState:
        leads = {branch.to for branch in CELLS[e.StopAsked][state].branches()}
        assert leads <= {S.CLOSING, S.CLOSED} or state in (S.CLOSING, S.CLOSED)


def test_every_failure_that_leads_to_backoff_is_counted_or_is_the_fatal_probe():
    """BACK counts a failure and arms the backoff timer."""
    counting = {Do.BACK, Do.BACK_SOON, Do.SKIP_PROBE}
    for branch in every_branch():
        if branch.to is S.BACKOFF:
            assert len(counting & set(branch.do)) == 1
            assert Do.NOTE_CAUSE in branch.do


def test_what_is_done_on_entering_each_state():
    """Table: the row "enter"."""
    assert ENTRIES == {
        S.STARTING: (Do.ARM_CONNECT, Do.SPAWN),
        S.INITIALIZING: (Do.OPEN_NEGOTIATION,),
        # Row 15: waiting calls are flushed after subscriptions were re-sent.
        S.READY: (Do.ARM_READY_TIMERS, Do.REOPEN, Do.RELEASE_WAITERS, Do.FLUSH),
        S.BACKOFF: (Do.LET_GO, Do.CHECK_ATTEMPTS),
        # Row 22: callers are released at once, then the ladder.
        S.CLOSING: (Do.END_CALLS, Do.END_WAITERS, Do.CLOSE),
        S.CLOSED: (Do.END_CALLS, Do.END_WAITERS, Do.REST),
    }


def test_every_timer_has_an_event_that_something_is_done_about_wherever_it_may_run():
    assert set(TIMERS) == set(Timer) == set(_TIMER_EVENTS)
    for timer, states in TIMERS.items():
        for state in ClientState:
            cell = CELLS[_TIMER_EVENTS[timer]][state]
            is_handled = bool(cell.do or cell.to or cell.when)
            assert is_handled is (state in states), (timer, state)


def test_a_timer_that_ran_out_just_before_the_state_changed_is_harmless():
    """Timers are disarmed on leaving; what was already due may still be stepped in a state reached by a timer."""
    by_timer = {
        branch.to for event in _TIMER_EVENTS.values() for cell in ROWS[event] for branch in cell.branches()
    }
    for event in _TIMER_EVENTS.values():
        for state in by_timer - {None, S.STARTING}:
            assert not CELLS[event][state].is_impossible, (event, state)


def test_every_transport_event_carries_its_epoch():
    """Row 26: every transport event carries the connection's epoch; old epochs are dropped."""
    from_a_transport = {
        e.Spawned, e.SpawnFailed, e.SpawnRefused, e.CameUp, e.WentDown, e.Reaped, e.Wrote, e.Refused, e.RoomMade,
        e.ExchangeLost, e.SessionLost, e.PostQueued, e.PostStarted, e.OversizeReceived,
    }  # fmt: skip
    assert {event.__name__ for event in from_a_transport if not issubclass(event, e.TransportEvent)} == set()


def test_no_two_names_share_their_words():
    """Members of an Enum with equal values are one member: the second would do what the first does."""
    for names in (ClientState, Do, When, Timer):
        assert [name for name, member in names.__members__.items() if member.name != name] == []
