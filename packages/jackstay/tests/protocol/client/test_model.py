"""The client's machine searched breadth first on the real object, and proof that the search finds what it looks for."""

from __future__ import annotations

import gc
import inspect
import os
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from jackstay.protocol._machine import IGNORE, Cell
from jackstay.protocol._timers import Timers
from jackstay.protocol.client import _calls, _exchange
from jackstay.protocol.client import _frames as _client_frames
from jackstay.protocol.client import events as _client_events
from jackstay.protocol.client._calls import Calls, Retry
from jackstay.protocol.client._connection import ClientConnection
from jackstay.protocol.client._core import ClientCore
from jackstay.protocol.client._exchange import ExchangeEvent, ExchangeState, If, Role, Then
from jackstay.protocol.client._negotiation import Negotiation
from jackstay.protocol.client._settings import Settings
from jackstay.protocol.client._table import CELLS, ENTRIES, ClientState, Do, Timer, When
from model import client_world
from model.client import Search, Violation
from model.client_world import Scene

# A search measures nothing that other tests do not, and being measured makes it five times as long.
pytestmark = [pytest.mark.no_cover, pytest.mark.long]

e = _client_events
S = ClientState

ONE_ERA = ("2025-11-25",)
STATELESS = ("2026-07-28",)
WAITS: dict[str, object] = {"wait_for_ready": True}
PLAIN: dict[str, object] = {}
SAFE: dict[str, object] = {"may_replay": True}
PATIENT: dict[str, object] = {"busy": "wait"}


def settings(**changes: Any) -> Settings:
    # Two attempts before the first ready and for a session: counts are only compared, more would make the search longer.
    # Waiting for ready is off here, so that a scene has calls of both kinds; hangs have scenes of their own.
    common = {"max_attempts": 2, "session_attempts": 2, "wait_for_ready": False, "hang_timeout": None}
    return Settings(**{**common, **changes})


FOUR = (PLAIN, WAITS, SAFE, PLAIN)

SCENES = {
    # Both eras, every way to start and to fail, stale events of earlier transports.
    "lifecycle": Scene(
        settings(),
        (WAITS, PLAIN),
        peer=frozenset({"unknown", "reset", "initialize"}),
        transport=frozenset({"fail", "refuse", "down", "stale"}),
    ),
    # Four requests of every temper, any number of reconnects.
    "calls": Scene(settings(versions=ONE_ERA), FOUR, transport=frozenset({"down"})),
    "five epochs": Scene(settings(versions=ONE_ERA), FOUR, transport=frozenset({"down"}), epochs=5),
    "stateless": Scene(settings(versions=STATELESS), FOUR, transport=frozenset({"fail", "down"})),
    # A transport that is busy: retries by time, waits for room.
    "busy": Scene(
        settings(versions=ONE_ERA, retry_attempts=2),
        (PLAIN, PATIENT, WAITS, SAFE),
        transport=frozenset({"down", "busy", "room"}),
    ),
    # A server that forgets its sessions, soon and late, and loses single requests.
    "session loss": Scene(
        settings(versions=ONE_ERA),
        (PLAIN, WAITS, SAFE),
        is_http=True,
        peer=frozenset({"session", "alone"}),
        transport=frozenset({"down"}),
    ),
    # A server that may stop answering: it is checked after a call timed out, and earlier for calls that may be sent again.
    "hang": Scene(
        settings(versions=ONE_ERA, hang_timeout=5.0),
        (PLAIN, SAFE, WAITS),
        peer=frozenset({"unknown"}),
        transport=frozenset({"down"}),
    ),
    "hang, busy": Scene(
        settings(versions=ONE_ERA, hang_timeout=5.0, retry_attempts=2),
        (PLAIN, WAITS),
        transport=frozenset({"down", "busy", "room"}),
    ),
    "hang, keepalive, stateless": Scene(
        settings(versions=STATELESS, hang_timeout=5.0, keepalive=5.0),
        (PLAIN, WAITS),
        transport=frozenset({"down"}),
    ),
    # The clock jumps over the window of session losses here, and must not reach a deadline by that.
    "hang over sessions": Scene(
        settings(versions=ONE_ERA, hang_timeout=5.0, request_timeout=1e9, max_timeout=None),
        (SAFE,),
        is_http=True,
        peer=frozenset({"session", "alone"}),
        transport=frozenset({"down"}),
    ),
    # One connection for calls: the others wait for it, and nothing of them was sent.
    "queued over sessions": Scene(
        settings(versions=ONE_ERA),
        (PLAIN, SAFE),
        is_http=True,
        peer=frozenset({"session", "alone"}),
        transport=frozenset({"down", "queue"}),
    ),
    "queued without sessions": Scene(
        settings(versions=STATELESS),
        FOUR,
        is_http=True,
        peer=frozenset({"alone"}),
        transport=frozenset({"down", "queue"}),
    ),
    "keepalive": Scene(
        settings(versions=ONE_ERA, keepalive=5.0), FOUR, transport=frozenset({"fail", "down"})
    ),
    "keepalive over sessions": Scene(
        settings(versions=ONE_ERA, keepalive=5.0),
        (SAFE,),
        is_http=True,
        peer=frozenset({"session"}),
        transport=frozenset({"down"}),
    ),
    "server requests": Scene(
        settings(versions=ONE_ERA), FOUR, peer=frozenset({"ask", "cancel"}), transport=frozenset({"down"})
    ),
    "garbage": Scene(
        settings(versions=ONE_ERA),
        FOUR,
        peer=frozenset({"garbage", "progress"}),
        transport=frozenset({"down"}),
    ),
}

# Too long for every run: `make soak`.
LONG_SCENES = {
    "keepalive, five epochs": Scene(
        settings(versions=ONE_ERA, keepalive=5.0), FOUR, transport=frozenset({"down"}), epochs=5
    ),
    "four requests of both eras": Scene(
        settings(),
        FOUR,
        peer=frozenset({"unknown", "reset", "initialize"}),
        transport=frozenset({"fail", "refuse", "down", "stale"}),
        limit=2_000_000,
    ),
    "five busy requests": Scene(
        settings(versions=ONE_ERA, retry_attempts=3),
        (PLAIN, PATIENT, SAFE, WAITS, PATIENT),
        transport=frozenset({"down", "busy", "room"}),
        limit=2_000_000,
    ),
    "busy requests, and a server that asks": Scene(
        settings(versions=ONE_ERA, retry_attempts=2),
        (PATIENT, SAFE),
        peer=frozenset({"ask", "cancel"}),
        transport=frozenset({"fail", "down", "busy", "room"}),
        limit=2_000_000,
    ),
    "two requests kept alive over sessions": Scene(
        settings(versions=ONE_ERA, keepalive=5.0),
        (PLAIN, SAFE),
        is_http=True,
        peer=frozenset({"session", "alone"}),
        transport=frozenset({"fail", "down"}),
        limit=2_000_000,
    ),
    "two requests of a hung server over sessions": Scene(
        settings(versions=ONE_ERA, hang_timeout=5.0, request_timeout=1e9, max_timeout=None),
        (PLAIN, SAFE),
        is_http=True,
        peer=frozenset({"session", "alone"}),
        transport=frozenset({"down"}),
        limit=2_000_000,
    ),
    "four requests over sessions": Scene(
        settings(versions=ONE_ERA, session_attempts=3),
        FOUR,
        is_http=True,
        peer=frozenset({"session", "alone"}),
        transport=frozenset({"down"}),
        limit=2_000_000,
    ),
    "four requests over sessions, five epochs": Scene(
        settings(versions=ONE_ERA),
        FOUR,
        is_http=True,
        peer=frozenset({"session"}),
        transport=frozenset({"down"}),
        epochs=5,
        limit=2_000_000,
    ),
}


@pytest.fixture(autouse=True)
def _small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    # Twenty bad lines in a row behave as two do, and twenty times as many states tell nothing more; so do answers that
    # wait for room.
    monkeypatch.setattr(_client_frames, "MAX_STRIKES", 2)
    monkeypatch.setattr(_client_frames, "MAX_HANDLERS", 2)


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    # A search makes many objects and keeps most: looking for rubbish among them takes a sixth of its time.
    gc.disable()
    yield
    gc.enable()


def search_of(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Search:
    """A search in which four requests are more than are offered at once, where the transport may refuse any of them."""
    if "busy" in scene.transport:
        monkeypatch.setattr(_calls, "BITE", 2)
    return Search(scene)


@pytest.mark.guard(1200)  # 20,000 states take half a minute; a busy machine gives a twentieth of itself
@pytest.mark.parametrize("name", SCENES)
def test_no_reachable_state_breaks_a_promise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Safety in every state, liveness from each; then merges of states are tried by walks that merge nothing.

    Epochs are compared and not counted, which covers any number of them: walks come through more than four. In the
    scenes "five epochs" each is a state of its own, and all of the first five are searched.
    """
    search = search_of(SCENES[name], monkeypatch)
    search.prove()
    assert search.visited == set(ClientState)
    if search.scene.epochs is not None:
        assert search.epochs > search.scene.epochs
    assert search.compare(1_000, random.Random(name)) > 500
    assert search.walk(12, 80, random.Random(name)) > 200
    assert search.epochs > 4


def forget_replay(facts: Any) -> Any:
    return facts if facts[0] else (*facts[:7], None, *facts[8:])


def forget_who_waits_for_ready(facts: Any) -> Any:
    return facts if facts[0] else (*facts[:5], None, *facts[6:])


def forget_attempts(facts: Any) -> Any:
    return facts if facts[0] else (*facts[:8], None, *facts[9:])


@pytest.mark.guard(300)
@pytest.mark.parametrize(
    ("forget", "scene"),
    [(forget_replay, "calls"), (forget_who_waits_for_ready, "calls"), (forget_attempts, "busy")],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_merge_of_states_that_differ_is_found(
    forget: Callable[[Any], Any], scene: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search is worth what its notion of sameness is worth: forget one thing that matters, and a walk must tell."""
    original = client_world.request_key
    monkeypatch.setattr(
        client_world, "request_key", lambda *given, **named: forget(original(*given, **named))
    )
    search = search_of(SCENES[scene], monkeypatch)
    search.run()
    with pytest.raises(Violation, match=r"overlooked|merged"):
        search.compare(10_000, random.Random(1))


if os.environ.get("JACKSTAY_PROFILE") == "soak":

    @pytest.mark.guard(1200)
    @pytest.mark.parametrize("name", LONG_SCENES)
    def test_no_state_of_the_long_searches_breaks_a_promise(
        name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        search = search_of(LONG_SCENES[name], monkeypatch)
        search.prove()
        assert search.compare(10_000, random.Random(name)) > 1_000
        assert search.walk(100, 100, random.Random(name)) > 1_000


def test_every_field_of_the_core_is_compared_or_left_out_for_a_reason() -> None:
    """A field that the core learns and the search does not would merge states that differ."""
    fields = {
        *ClientCore.__slots__,
        *Calls.__slots__,
        *_exchange.Exchange.__struct_fields__,
        *Negotiation.__struct_fields__,
    }
    compared = {name for name in fields if re.search(rf"\.{name}\b", inspect.getsource(client_world))}
    assert fields - compared - client_world.LEFT_OUT.keys() == set()
    assert client_world.LEFT_OUT.keys() <= fields


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
    patch.setitem(ClientConnection.DO, Do.LET_GO, ClientConnection._close)


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


def a_check_of_the_server_has_no_end(patch: Patch) -> None:
    original = ClientConnection.DO[Do.CHECK_IF_SILENT]

    def check(self: ClientConnection, event: e.Expired) -> None:
        original(self, event)
        self.calls.timers.disarm(Timer.CHECK)

    patch.setitem(ClientConnection.DO, Do.CHECK_IF_SILENT, check)


def an_early_check_forgets_the_deadline(patch: Patch) -> None:
    original = Calls.expire

    def expire(self: Calls, exchange: Any) -> None:
        is_early = exchange.due_at is not None
        original(self, exchange)
        if is_early:
            self.timers.disarm(exchange.id)

    patch.setattr(Calls, "expire", expire)


def queued_calls_are_sent_before_ready(patch: Patch) -> None:
    patch.setitem(ENTRIES, S.INITIALIZING, (Do.OPEN_NEGOTIATION, Do.FLUSH))


def a_keepalive_answer_ends_the_second_open_call(patch: Patch) -> None:
    original = ClientConnection.DO[Do.COMPLETE]

    def complete(self: ClientConnection, event: e.AnswerReceived) -> None:
        pending = self.calls.pending
        calls = [exchange for exchange in pending.values() if exchange.role is Role.CALL]
        if pending[event.id].role is Role.KEEPALIVE and len(calls) > 1 and event.result is not None:
            self.calls.complete(calls[1], event.result)
        original(self, event)

    patch.setitem(ClientConnection.DO, Do.COMPLETE, complete)


def a_keepalive_buries_what_is_open(patch: Patch) -> None:
    original = ClientConnection.DO[Do.KEEP_ALIVE]

    def keep_alive(self: ClientConnection, event: e.Event) -> None:
        sent = [x for x in self.calls.pending.values() if x.state is ExchangeState.SENT]
        if len(sent) > 3 and not self.calls.received_after:
            self.calls.bury(sent[0])
        original(self, event)

    patch.setitem(ClientConnection.DO, Do.KEEP_ALIVE, keep_alive)


def a_lost_session_repeats_every_open_call(patch: Patch) -> None:
    again = Cell((Then.RENEW, Then.QUEUE), ExchangeState.WAITING)
    patch.setitem(_exchange.CELLS, (ExchangeEvent.RENEWED, ExchangeState.SENT), again)


def a_refused_call_is_sent_again_for_ever(patch: Patch) -> None:
    patch.setitem(_calls._IF, If.HAS_SESSION_ATTEMPTS_LEFT, lambda calls, exchange: True)


def a_refused_call_fails_at_once(patch: Patch) -> None:
    patch.setitem(_calls._IF, If.HAS_SESSION_ATTEMPTS_LEFT, lambda calls, exchange: False)


def a_frequent_loss_closes_the_client(patch: Patch) -> None:
    lost = CELLS[e.SessionLost][S.READY]
    frequent = Cell((Do.TURN_AWAY, Do.NOTE_CAUSE, Do.BACK), S.BACKOFF, lost.when, lost.otherwise)
    patch.setitem(CELLS[e.SessionLost], S.READY, frequent)


def a_failed_renewal_closes_the_client(patch: Patch) -> None:
    patch.setitem(ClientConnection.WHEN, When.HAS_OPEN_POSTS, lambda self, event: False)


def a_refusal_in_backoff_is_ignored(patch: Patch) -> None:
    patch.setitem(CELLS[e.SessionLost], S.BACKOFF, IGNORE)


def a_kept_client_is_forgotten_by_stop(patch: Patch) -> None:
    patch.setitem(CELLS[e.StopAsked], S.BACKOFF, Cell((Do.NOTE_CAUSE,), S.CLOSED))


def a_start_is_not_noticed(patch: Patch) -> None:
    patch.setitem(ClientConnection.DO, Do.MARK_SENT, lambda self, event: None)


def what_waits_counts_as_sent(patch: Patch) -> None:
    patch.setitem(ClientConnection.DO, Do.MARK_UNSENT, lambda self, event: None)


def a_call_of_an_old_session_renews_the_new_one(patch: Patch) -> None:
    original = ClientConnection._fire

    def fire(self: ClientConnection, event: e.Event) -> None:
        if isinstance(event, e.SessionLost):
            event = msgspec.structs.replace(event, epoch=self.epoch)
        original(self, event)

    patch.setattr(ClientConnection, "_fire", fire)


def a_replay_may_be_repeated(patch: Patch) -> None:
    original = _calls._THEN[Then.MARK_SENT]

    def mark_sent(self: Calls, exchange: _exchange.Exchange, said: _calls.Said) -> None:
        original(self, exchange, said)
        exchange.may_replay = True

    patch.setitem(_calls._THEN, Then.MARK_SENT, mark_sent)


def closing_stops_the_writing_a_turn_later(patch: Patch) -> None:
    """The driver's part: it performs `Close` by starting a task, and what is queued is flushed before that runs."""
    patch.setattr(Search, "stop_writing", lambda self, world: None)


def a_call_that_is_reported_as_not_sent_stays_in_the_queue(patch: Patch) -> None:
    patch.setitem(_calls._THEN, Then.WITHDRAW, lambda calls, exchange, said: None)


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
    (a_check_of_the_server_has_no_end, "hang"),
    (an_early_check_forgets_the_deadline, "hang"),
    (queued_calls_are_sent_before_ready, "calls"),
    (a_keepalive_answer_ends_the_second_open_call, "keepalive"),
    (a_keepalive_buries_what_is_open, "keepalive"),
    (a_lost_session_repeats_every_open_call, "session loss"),
    (a_refused_call_is_sent_again_for_ever, "session loss"),
    (a_refused_call_fails_at_once, "session loss"),
    (a_frequent_loss_closes_the_client, "session loss"),
    (a_failed_renewal_closes_the_client, "session loss"),
    (a_refusal_in_backoff_is_ignored, "session loss"),
    (a_kept_client_is_forgotten_by_stop, "session loss"),
    (a_start_is_not_noticed, "queued without sessions"),
    (what_waits_counts_as_sent, "queued without sessions"),
    (a_call_of_an_old_session_renews_the_new_one, "session loss"),
    (a_replay_may_be_repeated, "calls"),
    (closing_stops_the_writing_a_turn_later, "lifecycle"),
    (closing_stops_the_writing_a_turn_later, "calls"),
    (closing_stops_the_writing_a_turn_later, "keepalive"),
    (closing_stops_the_writing_a_turn_later, "garbage"),
    (a_call_that_is_reported_as_not_sent_stays_in_the_queue, "calls"),
]


@pytest.mark.guard(300)
@pytest.mark.parametrize(("plant", "scene"), DEFECTS, ids=lambda value: getattr(value, "__name__", value))
def test_a_planted_defect_is_found(
    plant: Callable[[Patch], None], scene: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    search = search_of(SCENES[scene], monkeypatch)
    with pytest.raises(Violation):
        search.prove()
