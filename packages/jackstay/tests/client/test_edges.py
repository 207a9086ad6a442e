"""Every edge of the client's table, walked through the real driver: `Connection`, a scripted transport, a clock that jumps.

A scene brings a connection into a state as a user, a transport, a server or the clock would, and then lets one thing happen.
The core's `fire` is watched, so what counts is what the table was asked, not what a scene meant to ask. Every branch of every
cell must have been walked; a cell the table calls impossible must not have been, and raises here if it is.

Some pairs have no cause from outside, because the driver drops the event before the core sees it. They are stepped by hand,
each with the reason why nothing else brings them about; a pair that a scene does bring about may not be among them.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from jackstay.client import _connection as driver
from jackstay.protocol import Era
from jackstay.protocol.client import ClientState, ServerFacts
from jackstay.protocol.client import events as e
from jackstay.protocol.client._table import CELLS, ROWS
from jackstay.testing import run_on_fake_clock
from scripted.edge_scenes import scenes
from scripted.stage import LOST, Edge, S, Stage, Watched


@functools.cache
def walked() -> dict[Edge, str]:
    """Every branch that a scene walked, with the scene."""
    found: dict[Edge, str] = {}
    for name, scene in scenes().items():
        seen = play(scene)
        for edge in seen:
            found.setdefault(edge, name)
    return found


def play(scene: Callable[[], Awaitable[None]]) -> set[Edge]:
    with pytest.MonkeyPatch.context() as patch:
        seen: set[Edge] = set()
        patch.setattr(Watched, "seen", seen, raising=False)
        patch.setattr(driver, "ClientConnection", partial(Watched, is_strict=True))

        async def whole() -> None:
            await scene()
            await asyncio.sleep(0)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert left == set(), f"tasks are left: {left}"

        run_on_fake_clock(whole())
    return seen


# --- what nothing outside brings about --------------------------------------------------------------------------------

EARLIER, LATER = (S.STARTING, S.INITIALIZING), (S.BACKOFF, S.CLOSING, S.CLOSED)
FACTS = ServerFacts("2025-11-25", Era.HANDSHAKE)

# The reason, and the pairs: how to make the event, and the states.
BY_HAND: dict[str, tuple[tuple[Callable[[int], e.Event], tuple[ClientState, ...]], ...]] = {
    "the driver forgets a handler when its server is gone": (
        (lambda epoch: e.Replied("q"), (*EARLIER, *LATER)),
    ),
    "`give_up()` looks first whether the call is still open": (
        (lambda epoch: e.GaveUp(1), (S.CLOSING, S.CLOSED)),
    ),
    "a timer that ran out in the same moment as the one that led here": (
        (lambda epoch: e.Expired(1), (S.CLOSING, S.CLOSED)),
        (lambda epoch: e.RetryDue(1), (S.STARTING, *LATER)),
        (lambda epoch: e.ProbeExpired(), (S.READY, *LATER)),
        (lambda epoch: e.ConnectExpired(), LATER),
        (lambda epoch: e.KeepaliveDue(), (*EARLIER, *LATER)),
        (lambda epoch: e.CheckExpired(), (*EARLIER, *LATER)),
        (lambda epoch: e.Settled(), (*EARLIER, *LATER)),
        (lambda epoch: e.BackoffElapsed(), (*EARLIER, S.READY, S.CLOSING, S.CLOSED)),
        (lambda epoch: e.SweepDue(), (S.CLOSING, S.CLOSED)),
        (lambda epoch: e.CloseExpired(), (*EARLIER, S.READY, S.CLOSED)),
    ),
    "a frame was offered and refused in the turn that led here": (
        (lambda epoch: e.Refused(epoch, 1), (S.STARTING, S.CLOSING, S.CLOSED)),
        (lambda epoch: e.FrameRefused(epoch, b"{}"), (S.STARTING, S.CLOSING, S.CLOSED)),
        (lambda epoch: e.Resumed(), (*EARLIER, S.CLOSING, S.CLOSED)),
    ),
    "a request waits and is begun while ready; what waits when the session or the connection is lost is withdrawn": (
        (lambda epoch: e.PostQueued(epoch, 1), (*EARLIER, *LATER)),
        (lambda epoch: e.PostStarted(epoch, 1), (*EARLIER, *LATER)),
    ),
    "the driver says that it was spawned first, and then that it is up, in one turn": (
        (lambda epoch: e.CameUp(epoch), (S.STARTING, S.READY)),
    ),
    "the end of a transport that a later one has replaced is stale": (
        (lambda epoch: e.Reaped(epoch), (*EARLIER, S.READY)),
    ),
    "frames are pulled from the live transport only": (
        (lambda epoch: e.AnswerReceived(1, None, LOST), LATER),
        (lambda epoch: e.StrayReceived(1), (S.STARTING, *LATER)),
        (lambda epoch: e.CancelReceived(1), (S.STARTING, *LATER)),
        (lambda epoch: e.NotificationReceived("notifications/message", None), (S.STARTING, *LATER)),
        (lambda epoch: e.RequestReceived("q", "ping", None), (S.STARTING, *LATER)),
        (lambda epoch: e.InitializeReceived(), (S.STARTING, *LATER)),
        (lambda epoch: e.ResetReceived(), (S.STARTING, *LATER)),
        (lambda epoch: e.GarbageReceived(LOST, 1), (S.STARTING, *LATER)),
        (lambda epoch: e.StruckOut(LOST), (S.STARTING, *LATER)),
        (lambda epoch: e.OversizeReceived(epoch, LOST), (S.STARTING, *LATER)),
    ),
    "the core makes it of something that happens in another state": (
        (lambda epoch: e.Negotiated(version="2025-11-25", server=FACTS), (S.READY, *LATER)),
        (lambda epoch: e.Offered(Era.HANDSHAKE, "2025-11-25"), LATER),
        (lambda epoch: e.NegotiationFailed(LOST), LATER),
        (lambda epoch: e.NegotiationRefused(LOST), LATER),
        (lambda epoch: e.KeepaliveMissed(), (*EARLIER, *LATER)),
        (lambda epoch: e.AttemptsExhausted(), (*EARLIER, S.READY, S.CLOSING, S.CLOSED)),
    ),
}


async def an_answer_while_a_session_is_renewed() -> None:
    """Renewing is one turn of the core's, so an answer cannot come between; it is stepped in the middle of it by hand."""

    class Slow(Stage):
        """A target over HTTP whose transports cannot renew: each session is opened anew, which takes a while."""

        async def open(self, owner: Any, max_frame_bytes: int, close_step: float) -> Any:
            self.is_http = False  # what `open()` makes is then no transport that could renew
            wire = await Stage.open(self, owner, max_frame_bytes, close_step)
            self.fates.append(asyncio.Event())
            return wire

    stage = Slow(is_http=True)
    stage.closing.set()
    await stage.go(S.READY)
    refused, open_post = stage.call(), stage.call()
    stage.owner.session_lost(refused.id)
    assert stage.state is S.STARTING
    stage.connection.step(e.AnswerReceived(open_post.id, None, LOST))
    assert open_post.future.done()
    await stage.end()


@functools.cache
def stepped() -> dict[Edge, str]:
    """Every branch that was walked by hand, with the reason."""

    async def step(make: Callable[[int], e.Event], state: ClientState) -> None:
        stage = await Stage().go(state)
        stage.connection.step(make(stage.connection.core.epoch))
        await stage.turn()
        await stage.end()

    found: dict[Edge, str] = {}
    for reason, pairs in BY_HAND.items():
        for make, states in pairs:
            for state in states:
                mine = {edge for edge in play(partial(step, make, state)) if edge[0] is type(make(1))}
                assert any(edge[1] is state for edge in mine), (make(1), state)
                found |= {edge: reason for edge in mine if edge[1] is state}
    renewing = play(an_answer_while_a_session_is_renewed)
    found |= {
        edge: "renewing takes no time" for edge in renewing if edge[:2] == (e.AnswerReceived, S.STARTING)
    }
    return found


# --- the proof --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", ROWS, ids=lambda event: event.__name__)
def test_every_edge_of_this_row_is_walked_through_the_driver_or_impossible(event: type[e.Event]) -> None:
    """Section 2, the whole table: each pair, and each answer to each question of a pair."""
    for state, cell in CELLS[event].items():
        for branch, each in enumerate(cell.branches()):
            is_walked = (event, state, branch) in walked() or (event, state, branch) in stepped()
            assert is_walked is not each.is_impossible, f"{event.__name__} in {state.value}, branch {branch}"


def test_what_is_stepped_by_hand_is_brought_about_by_nothing_else() -> None:
    """The list of exceptions stays short: a pair that a scene reaches leaves it."""
    assert {edge: walked()[edge] for edge in stepped() if edge in walked()} == {}


def test_most_of_what_can_happen_happened_by_itself() -> None:
    """What is done about by hand are pairs that the table ignores, counts or refuses: none that leads on."""
    leading = {
        edge
        for edge in stepped()
        if list(CELLS[edge[0]][edge[1]].branches())[edge[2]].to not in (None, S.BACKOFF)
    }
    assert leading == {(e.CameUp, S.STARTING, 0)}
