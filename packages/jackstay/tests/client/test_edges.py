"""Every edge of the client's state table is taken with the real driver, a scripted transport and a fake clock.

A scenario brings a connection into a state and triggers one event; the core's `fire` records which branches were taken.
Every branch of every cell must be taken, except those that the table calls impossible. Events that the driver drops
before the core sees them are stepped by hand, each with a reason.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from jackstay.client import _driver as driver
from jackstay.protocol import Era
from jackstay.protocol.client import ClientState, ServerFacts
from jackstay.protocol.client import events as e
from jackstay.protocol.client._table import CELLS, ROWS
from jackstay.testing import run_on_fake_clock
from scripted.edge_cases import scenarios
from scripted.transport_harness import LOST, Edge, S, TransportHarness, Watched


@functools.cache
def walked() -> dict[Edge, str]:
    """Return every branch that a scenario took, with the name of the scenario."""
    found: dict[Edge, str] = {}
    for name, scenario in scenarios().items():
        seen = play(scenario)
        for edge in seen:
            found.setdefault(edge, name)
    return found


def play(scenario: Callable[[], Awaitable[None]]) -> set[Edge]:
    with pytest.MonkeyPatch.context() as patch:
        seen: set[Edge] = set()
        patch.setattr(Watched, "seen", seen, raising=False)
        patch.setattr(driver, "ClientConnection", partial(Watched, is_strict=True))

        async def whole() -> None:
            await scenario()
            await asyncio.sleep(0)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert left == set(), f"tasks are left: {left}"

        run_on_fake_clock(whole())
    return seen


# --- events without an external cause ---------------------------------------------------------------------------------

EARLIER, LATER = (S.STARTING, S.INITIALIZING), (S.BACKOFF, S.CLOSING, S.CLOSED)
FACTS = ServerFacts("2025-11-25", Era.HANDSHAKE)

# By reason: how to make the event, and the states.
STEPPED: dict[str, tuple[tuple[Callable[[int], e.Event], tuple[ClientState, ...]], ...]] = {
    "the driver discards the handlers of a lost connection": ((lambda epoch: e.Finished("q"), (*EARLIER, *LATER)),),
    "`cancel_call()` ignores a call that has ended": ((lambda epoch: e.CallCancelled(1), (S.CLOSING, S.CLOSED)),),
    "a timer that expired at the same time as the one that led here": (
        (lambda epoch: e.Expired(1), (S.CLOSING, S.CLOSED)),
        (lambda epoch: e.RetryDue(1), (S.STARTING, *LATER)),
        (lambda epoch: e.ProbeExpired(), (S.READY, *LATER)),
        (lambda epoch: e.ConnectExpired(), LATER),
        (lambda epoch: e.KeepaliveDue(), (*EARLIER, *LATER)),
        (lambda epoch: e.CheckExpired(), (*EARLIER, *LATER)),
        (lambda epoch: e.BecameStable(), (*EARLIER, *LATER)),
        (lambda epoch: e.BackoffElapsed(), (*EARLIER, S.READY, S.CLOSING, S.CLOSED)),
        (lambda epoch: e.SweepDue(), (S.CLOSING, S.CLOSED)),
        (lambda epoch: e.CloseExpired(), (*EARLIER, S.READY, S.CLOSED)),
    ),
    "a frame was refused in the step that led here": (
        (lambda epoch: e.Refused(epoch, 1), (S.STARTING, S.CLOSING, S.CLOSED)),
        (lambda epoch: e.FrameRefused(epoch, b"{}"), (S.STARTING, S.CLOSING, S.CLOSED)),
        (lambda epoch: e.Resumed(), (*EARLIER, S.CLOSING, S.CLOSED)),
    ),
    "requests are queued and started while ready; queued ones are withdrawn when the session or connection is lost": (
        (lambda epoch: e.PostQueued(epoch, 1), (*EARLIER, *LATER)),
        (lambda epoch: e.PostStarted(epoch, 1), (*EARLIER, *LATER)),
    ),
    "the driver steps the event itself, and the core finds that it is late": (
        (lambda epoch: e.SpawnedLate(epoch - 1), (S.STARTING, S.READY, *LATER)),
        (lambda epoch: e.OldSessionLost(epoch - 1, 1), tuple(S)),
    ),
    "the end of a replaced transport is stale": ((lambda epoch: e.Reaped(epoch), (*EARLIER, S.READY)),),
    "frames are only pulled from the current transport": (
        (lambda epoch: e.MessageReceived(), (S.STARTING, S.CLOSING, S.CLOSED)),
        (lambda epoch: e.BatchReceived((), 2), (S.STARTING, *LATER)),
        (lambda epoch: e.ResponseReceived(1, None, LOST), LATER),
        (lambda epoch: e.StrayReceived(1), (S.STARTING, *LATER)),
        (lambda epoch: e.CancelReceived(1), (S.STARTING, *LATER)),
        (lambda epoch: e.NotificationReceived("notifications/message", None), (S.STARTING, *LATER)),
        (lambda epoch: e.RequestReceived("q", "ping", None), (S.STARTING, *LATER)),
        (lambda epoch: e.InitializeReceived(), (S.STARTING, *LATER)),
        (lambda epoch: e.ResetReceived(), (S.STARTING, *LATER)),
        (lambda epoch: e.InvalidFrameReceived(LOST, 1), (S.STARTING, *LATER)),
        (lambda epoch: e.TooManyInvalidFrames(LOST), (S.STARTING, *LATER)),
        (lambda epoch: e.OversizeReceived(epoch, LOST), (S.STARTING, *LATER)),
    ),
    "the core creates it in another state": (
        (lambda epoch: e.Negotiated(FACTS), (S.READY, *LATER)),
        (lambda epoch: e.VersionProposed(Era.HANDSHAKE, "2025-11-25"), LATER),
        (lambda epoch: e.NegotiationFailed(LOST), LATER),
        (lambda epoch: e.NegotiationRefused(LOST), LATER),
        (lambda epoch: e.KeepaliveMissed(), (*EARLIER, *LATER)),
        (lambda epoch: e.AttemptsExhausted(), (*EARLIER, S.READY, S.CLOSING, S.CLOSED)),
    ),
}


async def an_answer_while_a_session_is_renewed() -> None:
    """Renewing a session is one step of the core, so a response in between is stepped by hand."""

    class Slow(TransportHarness):
        """An HTTP target whose transports cannot renew a session, so that opening a new one takes a while."""

        async def open(self, handler: Any, max_frame_bytes: int, close_step: float) -> Any:
            self.is_http = False  # then `open()` returns a transport that cannot renew
            wire = await TransportHarness.open(self, handler, max_frame_bytes, close_step)
            self.open_results.append(asyncio.Event())
            return wire

    harness = Slow(is_http=True)
    harness.closing.set()
    await harness.go(S.READY)
    refused, open_post = harness.call(), harness.call()
    harness.handler.session_lost(refused.id)
    assert harness.state is S.STARTING
    harness.connection.step(e.ResponseReceived(open_post.id, None, LOST))
    assert open_post.future.done()
    await harness.end()


@functools.cache
def stepped() -> dict[Edge, str]:
    """Return every branch that was stepped by hand, with the reason."""

    async def step(make: Callable[[int], e.Event], state: ClientState) -> None:
        harness = await TransportHarness().go(state)
        harness.connection.step(make(harness.connection.core.epoch))
        await harness.turn()
        await harness.end()

    found: dict[Edge, str] = {}
    for reason, pairs in STEPPED.items():
        for make, states in pairs:
            for state in states:
                taken = {edge for edge in play(partial(step, make, state)) if edge[0] is type(make(1))}
                assert any(edge[1] is state for edge in taken), (make(1), state)
                found |= {edge: reason for edge in taken if edge[1] is state}
    renewing = play(an_answer_while_a_session_is_renewed)
    found |= {edge: "renewing takes no time" for edge in renewing if edge[:2] == (e.ResponseReceived, S.STARTING)}
    return found


# --- coverage ---------------------------------------------------------------------------------------------------------


def test_every_edge_is_taken_through_the_driver_or_impossible(subtests: pytest.Subtests) -> None:
    taken = walked().keys() | stepped().keys()
    for event in ROWS:
        with subtests.test(event=event.__name__):
            for state, cell in CELLS[event].items():
                for branch, target in enumerate(cell.branches()):
                    is_walked = (event, state, branch) in taken
                    assert is_walked is not target.is_impossible, f"{event.__name__} in {state.value}, branch {branch}"


def test_edges_stepped_by_hand_are_reached_by_no_scenario() -> None:
    assert {edge: walked()[edge] for edge in stepped() if edge in walked()} == {}


def test_edges_stepped_by_hand_lead_to_no_other_state() -> None:
    """Events stepped by hand are ignored, counted or refused by the table."""
    leading = {
        edge for edge in stepped() if list(CELLS[edge[0]][edge[1]].branches())[edge[2]].to not in (None, S.BACKOFF)
    }
    assert leading == set()
