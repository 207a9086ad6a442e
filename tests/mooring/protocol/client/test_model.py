"""The client's machine searched breadth first on the real object, and proof that the search finds what it looks for."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from model.client import Scene, Search, Violation
from mooring.protocol._machine import IGNORE, Cell
from mooring.protocol._timers import Timers
from mooring.protocol.client import _calls, _exchange
from mooring.protocol.client import _frames as _client_frames
from mooring.protocol.client import events as _client_events
from mooring.protocol.client._calls import Calls, Retry
from mooring.protocol.client._connection import ClientConnection
from mooring.protocol.client._exchange import ExchangeEvent, ExchangeState, If, Then
from mooring.protocol.client._settings import Settings
from mooring.protocol.client._table import CELLS, ENTRIES, ClientState, Do, Timer, When

# A search measures nothing that other tests do not, and being measured makes it five times as long.
pytestmark = [pytest.mark.no_cover, pytest.mark.long]

e = _client_events
S = ClientState

ONE_ERA = ("2025-11-25",)
WAITS: dict[str, object] = {"wait_for_ready": True}
PLAIN: dict[str, object] = {}
SAFE: dict[str, object] = {"may_replay": True}
PATIENT: dict[str, object] = {"busy": "wait"}


def settings(**changes: Any) -> Settings:
    # Two attempts before the first ready: the count is only compared, so more would only make the search longer.
    return Settings(**{"max_attempts": 2, **changes})


SCENES = {
    # Both eras, every way to start and to fail, stale events of earlier transports.
    "lifecycle": Scene(
        settings(),
        (WAITS,),
        peer=frozenset({"unknown", "reset", "initialize"}),
        transport=frozenset({"fail", "refuse", "down", "stale"}),
    ),
    # Four requests of every temper, any number of reconnects.
    "calls": Scene(settings(versions=ONE_ERA), (WAITS, PLAIN, SAFE, PLAIN), transport=frozenset({"down"})),
    # A transport that is busy: retries by time, waits for room.
    "busy": Scene(
        settings(versions=ONE_ERA, retry_attempts=2, max_attempts=1),
        (PLAIN, PATIENT, WAITS, PLAIN),
        transport=frozenset({"down", "busy", "room"}),
    ),
    "session loss": Scene(
        settings(versions=ONE_ERA),
        (PLAIN, WAITS),
        is_http=True,
        peer=frozenset({"session"}),
        transport=frozenset({"down"}),
    ),
    "keepalive": Scene(settings(versions=ONE_ERA, keepalive=5.0), (PLAIN,), transport=frozenset({"down"})),
    "server requests": Scene(
        settings(versions=ONE_ERA), (PLAIN,), peer=frozenset({"ask", "cancel"}), transport=frozenset({"down"})
    ),
    "garbage": Scene(
        settings(versions=ONE_ERA),
        (PLAIN,),
        peer=frozenset({"garbage", "progress"}),
        transport=frozenset({"down"}),
    ),
}

# Too long for every run: `make soak`.
LONG_SCENES = {
    "four busy requests": Scene(
        settings(versions=ONE_ERA, retry_attempts=2),
        (PLAIN, PATIENT, SAFE, PLAIN),
        transport=frozenset({"down", "busy", "room"}),
        limit=2_000_000,
    ),
    "four requests over sessions": Scene(
        settings(versions=ONE_ERA),
        (PLAIN, WAITS, SAFE, PLAIN),
        is_http=True,
        peer=frozenset({"session"}),
        transport=frozenset({"down"}),
        limit=2_000_000,
    ),
    "two requests kept alive": Scene(
        settings(versions=ONE_ERA, keepalive=5.0),
        (PLAIN, WAITS),
        peer=frozenset({"ask", "cancel"}),
        transport=frozenset({"down", "fail"}),
        limit=2_000_000,
    ),
}


@pytest.fixture(autouse=True)
def _few_strikes(monkeypatch: pytest.MonkeyPatch) -> None:
    # Twenty bad lines in a row behave as two do, and twenty times as many states tell nothing more.
    monkeypatch.setattr(_client_frames, "MAX_STRIKES", 2)


@pytest.mark.guard(300)  # 70,000 states take a minute on a busy machine
@pytest.mark.parametrize("name", SCENES)
def test_no_reachable_state_breaks_a_promise(name: str) -> None:
    search = Search(SCENES[name])
    search.prove()
    assert search.visited == set(ClientState)


if os.environ.get("MOORING_PROFILE") == "soak":

    @pytest.mark.parametrize("name", LONG_SCENES)
    def test_no_state_of_the_long_searches_breaks_a_promise(name: str) -> None:
        Search(LONG_SCENES[name]).prove()


# --- planted defects --------------------------------------------------------------------------------------------------

Patch = pytest.MonkeyPatch


def no_connect_deadline(patch: Patch) -> None:
    patch.setitem(ENTRIES, S.STARTING, (Do.SPAWN,))


def stop_in_starting_exits(patch: Patch) -> None:
    patch.setitem(CELLS[e.StopAsked], S.STARTING, Cell((Do.NOTE_CAUSE,), S.CLOSED))


def ids_are_reused(patch: Patch) -> None:
    original = Calls.make

    def make(self: Calls, event: e.Called, *, may_send: bool) -> None:
        self.last_id = max(self.pending, default=0)
        original(self, event, may_send=may_send)

    patch.setattr(Calls, "make", make)


def calls_share_one_timer(patch: Patch) -> None:
    original = Calls._arm_deadline

    def arm(self: Calls, exchange: _exchange.Exchange) -> None:
        for name in list(self.timers.armed):
            if isinstance(name, int):
                self.timers.disarm(name)
        original(self, exchange)

    patch.setattr(Calls, "_arm_deadline", arm)


def respawns_over_a_live_process(patch: Patch) -> None:
    patch.setitem(CELLS[e.BackoffElapsed], S.BACKOFF, Cell((), S.STARTING))


def no_epoch_fence(patch: Patch) -> None:
    original = ClientConnection._fire

    def fire(self: ClientConnection, event: e.Event) -> None:
        if isinstance(event, e.TransportEvent):
            event = msgspec.structs.replace(event, epoch=self.epoch)
        original(self, event)

    patch.setattr(ClientConnection, "_fire", fire)


def cancels_what_was_never_written(patch: Patch) -> None:
    patch.setitem(_calls._IF, If.WRITTEN, lambda calls, exchange: exchange.number > 0)


def says_that_nothing_was_written(patch: Patch) -> None:
    patch.setitem(_calls._IF, If.WRITTEN, lambda calls, exchange: False)
    patch.setattr(Calls, "is_written", lambda self, exchange: False)


def a_replayed_call_forgets_that_it_was_sent(patch: Patch) -> None:
    patch.setitem(_calls._THEN, Then.MARK_SENT, lambda calls, exchange, said: None)


def busy_calls_survive_a_loss(patch: Patch) -> None:
    patch.setitem(_exchange.CELLS, (ExchangeEvent.LOST, ExchangeState.BUSY), IGNORE)


def a_loss_fails_nobody(patch: Patch) -> None:
    patch.setitem(ENTRIES, S.BACKOFF, (Do.CLOSE, Do.CHECK_ATTEMPTS))


def a_retry_outlives_its_call(patch: Patch) -> None:
    original = Timers.disarm

    def disarm(self: Timers[object], name: object) -> None:
        if not isinstance(name, Retry):
            original(self, name)

    patch.setattr(Timers, "disarm", disarm)


def an_answer_leaves_the_call_open(patch: Patch) -> None:
    def complete(self: Calls, exchange: _exchange.Exchange, result: msgspec.Raw) -> None:
        self.out.append(e.Complete(exchange.caller, exchange.id, result))

    patch.setattr(Calls, "complete", complete)


def closing_fails_nobody(patch: Patch) -> None:
    patch.setitem(ENTRIES, S.CLOSING, (Do.END_WAITERS, Do.CLOSE))


def timers_outlive_the_connection(patch: Patch) -> None:
    patch.setitem(ENTRIES, S.CLOSED, (Do.END_CALLS, Do.END_WAITERS))


def closing_has_no_deadline(patch: Patch) -> None:
    patch.setitem(CELLS[e.CloseExpired], S.CLOSING, IGNORE)


def a_fatal_probe_is_tried_for_ever(patch: Patch) -> None:
    original = ClientConnection.DO[Do.OPEN_NEGOTIATION]

    def open_negotiation(self: ClientConnection, event: e.Event) -> None:
        self._was_probe_fatal = self._skips_probe = False
        original(self, event)

    patch.setitem(ClientConnection.DO, Do.OPEN_NEGOTIATION, open_negotiation)


def session_losses_never_count(patch: Patch) -> None:
    patch.setitem(ClientConnection.WHEN, When.FREQUENT, lambda self, event: False)


def a_late_spawn_is_adopted(patch: Patch) -> None:
    patch.setitem(CELLS[e.Spawned], S.BACKOFF, Cell((), S.INITIALIZING))


def keepalive_runs_once(patch: Patch) -> None:
    original = ClientConnection._keep_alive

    def keep_alive(self: ClientConnection, event: e.Event) -> None:
        original(self, event)
        self.calls.timers.disarm(Timer.KEEPALIVE)

    patch.setitem(ClientConnection.DO, Do.KEEP_ALIVE, keep_alive)


def queued_calls_are_sent_before_ready(patch: Patch) -> None:
    patch.setitem(ENTRIES, S.INITIALIZING, (Do.OPEN_NEGOTIATION, Do.FLUSH))


DEFECTS: list[tuple[Callable[[Patch], None], str]] = [
    (no_connect_deadline, "lifecycle"),
    (stop_in_starting_exits, "lifecycle"),
    (ids_are_reused, "calls"),
    (calls_share_one_timer, "calls"),
    (respawns_over_a_live_process, "lifecycle"),
    (no_epoch_fence, "lifecycle"),
    (cancels_what_was_never_written, "calls"),
    (says_that_nothing_was_written, "calls"),
    (a_replayed_call_forgets_that_it_was_sent, "calls"),
    (busy_calls_survive_a_loss, "busy"),
    (a_loss_fails_nobody, "calls"),
    (a_retry_outlives_its_call, "busy"),
    (an_answer_leaves_the_call_open, "calls"),
    (closing_fails_nobody, "calls"),
    (timers_outlive_the_connection, "lifecycle"),
    (closing_has_no_deadline, "lifecycle"),
    (a_fatal_probe_is_tried_for_ever, "lifecycle"),
    (session_losses_never_count, "session loss"),
    (a_late_spawn_is_adopted, "lifecycle"),
    (keepalive_runs_once, "keepalive"),
    (queued_calls_are_sent_before_ready, "calls"),
]


@pytest.mark.parametrize(("plant", "scene"), DEFECTS, ids=lambda value: getattr(value, "__name__", value))
def test_a_planted_defect_is_found(
    plant: Callable[[Patch], None], scene: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    search = Search(SCENES[scene])
    with pytest.raises(Violation):
        search.prove()
