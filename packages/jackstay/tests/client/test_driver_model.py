"""Every interleaving of small actions around the client's driver, and planted defects that the search finds."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jackstay.client._driver import _PERFORM, Driver
from jackstay.protocol.client import events as e
from model.driver import BEGINNINGS, Violation, run_on_real_loop, search
from model.harness import receive

# The search covers nothing that other tests do not, and coverage makes it much slower.
pytestmark = [pytest.mark.no_cover, pytest.mark.long]


@pytest.fixture(autouse=True)
def _no_logs() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


# Beginning -> how many actions follow, and how many states are reached at least.
DEPTHS = {
    "new": (5, 200),
    "ready": (4, 500),
    "listening": (4, 500),
    "one call": (4, 1000),
    "two calls": (4, 1500),
    "reconnecting": (5, 150),
}


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_no_interleaving_breaks_an_invariant(beginning: str) -> None:
    depth, states = DEPTHS[beginning]
    assert search(BEGINNINGS[beginning], depth) >= states


# --- real event loops -------------------------------------------------------------------------------------------------

ACTIONS = (
    *("call", "call", "cancel", "stop", "stall", "resume", "die", "respond", "respond", "notify", "request"),
    *("tick", "iterate", "iterate"),
)


def loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.SelectorEventLoop}
    try:
        import uvloop
    except ImportError:
        return factories
    return {**factories, "uvloop": uvloop.new_event_loop}


LOOPS = loop_factories()


def run_samples(loop: str, count: int) -> None:
    rng = random.Random(2)
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        for _ in range(count):
            actions = tuple(rng.choice(ACTIONS) for _ in range(rng.randrange(1, 10)))
            try:
                runner.run(run_on_real_loop(actions))
            except Violation as violation:
                raise Violation(f"{' '.join(actions)}: {violation}") from None


@pytest.mark.parametrize("loop", LOOPS)
def test_the_invariants_hold_on_real_event_loops(loop: str) -> None:
    run_samples(loop, 150)


# --- the proof that the search can fail -------------------------------------------------------------------------------


def tick_without_queue(self: Any) -> None:
    """A step that raises loses the other due timers."""
    self._wake, self._wake_at = None, float("inf")
    for event in self.core.due(self._loop.time()):
        self.step(event)


def tick_without_rearming(self: Any) -> None:
    """The handle of the expired timer counts as armed."""
    self._queued_events += self.core.due(self._loop.time())
    self._process_events()


def process_without_rest(self: Any) -> None:
    """A step that raises leaves the queued events behind it without a wake-up."""
    while self._queued_events:
        self._perform(self.core.step(self._queued_events.popleft(), self._loop.time(), 0.5))
    self._arm()


def pull_without_rest(self: Any, transport: Any, epoch: int, max_frames: int = 0) -> None:
    """A step that raises leaves the received frames behind it without a wake-up."""
    while self._transport is transport and (frame := transport.next_frame()) is not None:
        self._perform(receive(self.core, frame, epoch, self._loop.time(), 0.5))
        self._process_events()
    self._arm()


def perform_without_rest(self: Any, effects: Any) -> None:
    """An effect that raises loses the effects behind it."""
    self._is_stepping = True
    try:
        for effect in effects:
            _PERFORM[effect.__class__](self, effect)
    finally:
        self._is_stepping = False


def cancel_after_event(self: Any, call: Any) -> None:
    """A listener that raises leaves the call in flight."""
    exchange = self.core.calls.pending.get(call.id)
    if exchange is not None and exchange.caller is call:
        call.may_have_run = self.core.calls.may_have_run(exchange)
        call.emit_end(self.telemetry, "jackstay.request.exception", reason=None, may_have_run=call.may_have_run)
        self.step(e.CallCancelled(call.id))


def close_and_flush(self: Any, effect: Any) -> None:
    """The transport still writes in the iteration in which it is closed: calls that "were not sent" run."""
    transport = self._opened.pop(effect.epoch, None)
    if transport is not None:
        if transport is self._transport:
            self._transport = None
        self._task(self._end(transport, effect.epoch))
    elif effect.epoch in self._openings:
        self._openings[effect.epoch].cancel()


def forget_opening(self: Any, epoch: int, task: Any) -> None:
    """A start that is cancelled before its first step is not reported."""
    self._openings.pop(epoch, None)


def keep_serving(self: Any, effect: Any) -> None:
    """A handler of a request of the server is not cancelled."""
    self._handlers.pop(effect.id, None)


def arm_without_cancel(self: Any) -> None:
    """The timer stays armed after the last deadline."""
    at = self.core.wake_at
    if at is not None and at < self._wake_at:
        self._wake, self._wake_at = self._loop.call_at(at, self._tick), at


# Defect -> the name of the replaced method or effect, and the beginnings from which the search finds it.
DEFECTS: dict[Callable[..., None], tuple[str | type[e.Effect], str]] = {
    tick_without_queue: ("_tick", "two calls"),
    tick_without_rearming: ("_tick", "two calls"),
    process_without_rest: ("_process_events", "two calls"),
    pull_without_rest: ("pull", "two calls"),
    perform_without_rest: ("_perform", "two calls"),
    cancel_after_event: ("cancel_call", "listening"),
    close_and_flush: (e.Close, "ready"),
    forget_opening: ("_settle_opening", "new"),
    keep_serving: (e.StopServing, "ready"),
    arm_without_cancel: ("_arm", "one call"),
}


def plant(monkeypatch: pytest.MonkeyPatch, defect: Callable[..., None]) -> str:
    place, beginning = DEFECTS[defect]
    if isinstance(place, str):
        monkeypatch.setattr(Driver, place, defect)
    else:
        monkeypatch.setitem(_PERFORM, place, defect)
    return beginning


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_a_planted_defect_is_found(monkeypatch: pytest.MonkeyPatch, defect: Callable[..., None]) -> None:
    beginning = plant(monkeypatch, defect)
    with pytest.raises(Violation):
        search(BEGINNINGS[beginning], 4)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("defect", [close_and_flush, arm_without_cancel])
def test_a_planted_defect_is_found_on_real_event_loops(
    monkeypatch: pytest.MonkeyPatch, defect: Callable[..., None], loop: str
) -> None:
    plant(monkeypatch, defect)
    with pytest.raises(Violation):
        run_samples(loop, 150)
