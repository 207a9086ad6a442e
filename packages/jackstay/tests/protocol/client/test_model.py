"""Explore the reachable states of a client's connection, and check that the search finds planted defects."""

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
from jackstay.protocol._versions import Era
from jackstay.protocol.client import _actions as a
from jackstay.protocol.client import _calls, _exchange, _negotiation, _peer_requests
from jackstay.protocol.client import events as _client_events
from jackstay.protocol.client._calls import Calls
from jackstay.protocol.client._connection import ClientConnection
from jackstay.protocol.client._exchange import ExchangeEvent, ExchangeState, Role
from jackstay.protocol.client._health import Health
from jackstay.protocol.client._negotiation import Negotiation, ProbeHistory
from jackstay.protocol.client._peer_requests import PeerRequests
from jackstay.protocol.client._recovery import Recovery
from jackstay.protocol.client._settings import Settings
from jackstay.protocol.client._states import ClientState
from jackstay.protocol.client._subscriptions import Subscriptions
from jackstay.protocol.client._table import CELLS, ENTRIES
from jackstay.protocol.client._transport import TransportLink
from jackstay.protocol.client._waiters import Waiters
from model import client_world
from model.client import Search, Violation
from model.client_defects import replace_function
from model.client_world import Scenario

# The search covers nothing that other tests do not, and coverage makes it five times slower.
pytestmark = [pytest.mark.no_cover, pytest.mark.long]

e = _client_events
S = ClientState

ONE_ERA = ("2025-11-25",)
STATELESS = ("2026-07-28",)
WAITS: dict[str, object] = {"wait_for_ready": True}
PLAIN: dict[str, object] = {}
SAFE: dict[str, object] = {"may_replay": True}
WAITS_IF_BUSY: dict[str, object] = {"busy": "wait"}


def settings(**changes: Any) -> Settings:
    # Two attempts before the first ready and for a session: more would only make the search longer. Waiting for ready
    # is off, so that a scenario can have both kinds of calls; health checks have their own scenarios.
    common = {"max_attempts": 2, "session_attempts": 2, "wait_for_ready": False, "hang_timeout": None}
    return Settings(**{**common, **changes})


FOUR = (PLAIN, WAITS, SAFE, PLAIN)

SCENARIOS = {
    # Both eras, every way to start and fail, stale events of earlier transports.
    "lifecycle": Scenario(
        settings(),
        (WAITS, PLAIN),
        peer=frozenset({"unknown", "reset", "initialize"}),
        transport=frozenset({"fail", "refuse", "down", "stale"}),
    ),
    # Four calls of every kind, any number of reconnects.
    "calls": Scenario(settings(versions=ONE_ERA), FOUR, transport=frozenset({"down"})),
    "five epochs": Scenario(settings(versions=ONE_ERA), FOUR, transport=frozenset({"down"}), epochs=5),
    "stateless": Scenario(settings(versions=STATELESS), FOUR, transport=frozenset({"fail", "down"})),
    # A busy transport: retries, and calls that wait.
    "busy": Scenario(
        settings(versions=ONE_ERA, retry_attempts=2),
        (PLAIN, WAITS_IF_BUSY, WAITS, SAFE),
        transport=frozenset({"down", "busy", "room"}),
    ),
    # A server that forgets its sessions, soon and late, and loses single requests.
    "session loss": Scenario(
        settings(versions=ONE_ERA),
        (PLAIN, WAITS, SAFE),
        is_http=True,
        peer=frozenset({"session", "alone"}),
        transport=frozenset({"down"}),
    ),
    # A server that may stop responding: a health check after a timeout, and earlier for calls that are safe to repeat.
    "hang": Scenario(
        settings(versions=ONE_ERA, hang_timeout=5.0),
        (PLAIN, SAFE, WAITS),
        peer=frozenset({"unknown"}),
        transport=frozenset({"down"}),
    ),
    "hang, busy": Scenario(
        settings(versions=ONE_ERA, hang_timeout=5.0, retry_attempts=2),
        (PLAIN, WAITS),
        transport=frozenset({"down", "busy", "room"}),
    ),
    "hang, keepalive, stateless": Scenario(
        settings(versions=STATELESS, hang_timeout=5.0, keepalive=5.0),
        (PLAIN, WAITS),
        transport=frozenset({"down"}),
    ),
    # The clock jumps over the window of session losses, and must not reach a deadline by that.
    "hang over sessions": Scenario(
        settings(versions=ONE_ERA, hang_timeout=5.0, request_timeout=1e9, max_timeout=None),
        (SAFE,),
        is_http=True,
        peer=frozenset({"session", "alone"}),
        transport=frozenset({"down"}),
    ),
    # One connection for calls: the others wait for it, and no byte of them was sent.
    "queued over sessions": Scenario(
        settings(versions=ONE_ERA),
        (PLAIN, SAFE),
        is_http=True,
        peer=frozenset({"session", "alone"}),
        transport=frozenset({"down", "queue"}),
    ),
    "queued without sessions": Scenario(
        settings(versions=STATELESS),
        FOUR,
        is_http=True,
        peer=frozenset({"alone"}),
        transport=frozenset({"down", "queue"}),
    ),
    "keepalive": Scenario(settings(versions=ONE_ERA, keepalive=5.0), FOUR, transport=frozenset({"fail", "down"})),
    "keepalive over sessions": Scenario(
        settings(versions=ONE_ERA, keepalive=5.0),
        (SAFE,),
        is_http=True,
        peer=frozenset({"session"}),
        transport=frozenset({"down"}),
    ),
    "server requests": Scenario(
        settings(versions=ONE_ERA), FOUR, peer=frozenset({"request", "cancel"}), transport=frozenset({"down"})
    ),
    # A subscription that is opened and ended at any time, in both eras.
    "subscriptions": Scenario(
        settings(versions=ONE_ERA, retry_attempts=2),
        (PLAIN,),
        transport=frozenset({"down", "busy", "room"}),
        user=frozenset({"subscribe", "unsubscribe"}),
    ),
    "subscriptions, stateless": Scenario(
        settings(versions=STATELESS),
        (PLAIN, SAFE),
        transport=frozenset({"fail", "down"}),
        user=frozenset({"subscribe", "unsubscribe"}),
    ),
    # A client that drains and changes its mind; a further request of a call that began before is accepted.
    "draining": Scenario(
        settings(versions=ONE_ERA),
        (PLAIN, WAITS, {"began_at": -1.0}, PLAIN),
        transport=frozenset({"fail", "down"}),
        user=frozenset({"drain", "cancel drain"}),
    ),
    "garbage": Scenario(
        settings(versions=ONE_ERA),
        FOUR,
        peer=frozenset({"garbage", "progress"}),
        transport=frozenset({"down"}),
    ),
}

# Too long for every run: `make soak`.
LONG_SCENARIOS = {
    "keepalive, five epochs": Scenario(
        settings(versions=ONE_ERA, keepalive=5.0), FOUR, transport=frozenset({"down"}), epochs=5
    ),
    "four requests of both eras": Scenario(
        settings(),
        FOUR,
        peer=frozenset({"unknown", "reset", "initialize"}),
        transport=frozenset({"fail", "refuse", "down", "stale"}),
        limit=2_000_000,
    ),
    "five busy requests": Scenario(
        settings(versions=ONE_ERA, retry_attempts=3),
        (PLAIN, WAITS_IF_BUSY, SAFE, WAITS, WAITS_IF_BUSY),
        transport=frozenset({"down", "busy", "room"}),
        limit=2_000_000,
    ),
    "busy requests, and a server that sends requests": Scenario(
        settings(versions=ONE_ERA, retry_attempts=2),
        (WAITS_IF_BUSY, SAFE),
        peer=frozenset({"request", "cancel"}),
        transport=frozenset({"fail", "down", "busy", "room"}),
        limit=2_000_000,
    ),
    "two requests kept alive over sessions": Scenario(
        settings(versions=ONE_ERA, keepalive=5.0),
        (PLAIN, SAFE),
        is_http=True,
        peer=frozenset({"session", "alone"}),
        transport=frozenset({"fail", "down"}),
        limit=2_000_000,
    ),
    "two requests of a hung server over sessions": Scenario(
        settings(versions=ONE_ERA, hang_timeout=5.0, request_timeout=1e9, max_timeout=None),
        (PLAIN, SAFE),
        is_http=True,
        peer=frozenset({"session", "alone"}),
        transport=frozenset({"down"}),
        limit=2_000_000,
    ),
    "four requests over sessions": Scenario(
        settings(versions=ONE_ERA, session_attempts=3),
        FOUR,
        is_http=True,
        peer=frozenset({"session", "alone"}),
        transport=frozenset({"down"}),
        limit=2_000_000,
    ),
    "four requests over sessions, five epochs": Scenario(
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
    # Twenty invalid frames in a row, or kept responses, behave as two do and only make the search longer. Three steps
    # of a negotiation behave as two do: the first, another one, and none left.
    monkeypatch.setattr(a, "MAX_INVALID_FRAMES", 2)
    monkeypatch.setattr(_negotiation, "MAX_NEGOTIATION_STEPS", 2)
    monkeypatch.setattr(_peer_requests, "MAX_HANDLERS", 2)


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    # A search creates many objects and keeps most: garbage collection takes a sixth of its time.
    gc.disable()
    yield
    gc.enable()


def search_of(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> Search:
    """Return a search; if the transport may be busy, four calls are more than one batch."""
    if "busy" in scenario.transport:
        monkeypatch.setattr(_calls, "FLUSH_BATCH_SIZE", 2)
    return Search(scenario)


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_reachable_state_violates_an_invariant(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check safety in every state and liveness from each; then test the merging of states by walks that merge nothing.

    Epochs are compared and not counted, which covers any number of them: walks pass through more than four. In the
    scenario "five epochs" each is a state of its own, and all of the first five are searched.
    """
    search = search_of(SCENARIOS[name], monkeypatch)
    search.verify()
    assert search.visited == set(ClientState)
    if search.scenario.epochs is not None:
        assert search.epochs > search.scenario.epochs
    assert search.compare(1_000, random.Random(name)) > 500
    assert search.walk(12, 80, random.Random(name)) > 200
    assert search.epochs > 4


def forget_replay(facts: Any) -> Any:
    return facts if facts[0] else (*facts[:7], None, *facts[8:])


def forget_wait_for_ready(facts: Any) -> Any:
    return facts if facts[0] else (*facts[:5], None, *facts[6:])


def forget_attempts(facts: Any) -> Any:
    return facts if facts[0] else (*facts[:8], None, *facts[9:])


@pytest.mark.parametrize(
    ("forget", "scenario"),
    [(forget_replay, "calls"), (forget_wait_for_ready, "calls"), (forget_attempts, "hang, busy")],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_merge_of_different_states_is_found(
    forget: Callable[[Any], Any], scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the key of a state omits something that matters, the comparison must find it."""
    original = client_world.request_key
    monkeypatch.setattr(client_world, "request_key", lambda *given, **named: forget(original(*given, **named)))
    search = search_of(SCENARIOS[scenario], monkeypatch)
    search.run()
    with pytest.raises(Violation, match=r"did not find|merged"):
        search.compare(10_000, random.Random(1))


if os.environ.get("JACKSTAY_PROFILE") == "soak":

    @pytest.mark.guard(1200)
    @pytest.mark.parametrize("name", LONG_SCENARIOS)
    def test_no_state_of_the_long_searches_violates_an_invariant(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        search = search_of(LONG_SCENARIOS[name], monkeypatch)
        search.verify()
        assert search.compare(10_000, random.Random(name)) > 1_000
        assert search.walk(100, 100, random.Random(name)) > 1_000


COMPONENTS = (Health, Negotiation, PeerRequests, Recovery, Subscriptions, TransportLink, Waiters)


def test_every_field_of_the_core_is_compared_or_omitted_for_a_reason() -> None:
    """A new field of the core that the search ignores could merge states that differ."""
    core = ClientConnection(Settings())
    fields = {
        *vars(core),
        *vars(core.calls),
        *_exchange.Exchange.__struct_fields__,
        *(name for component in COMPONENTS for name in component.__struct_fields__),
    }
    compared = {name for name in fields if re.search(rf"\.{name}\b", inspect.getsource(client_world))}
    assert fields - compared - client_world.OMITTED.keys() == set()
    assert client_world.OMITTED.keys() <= fields


# --- planted defects --------------------------------------------------------------------------------------------------

Patch = pytest.MonkeyPatch


def no_connect_deadline(patch: Patch) -> None:
    patch.setitem(ENTRIES, S.STARTING, (a.spawn,))


def stop_in_starting_exits(patch: Patch) -> None:
    patch.setitem(CELLS[e.StopRequested], S.STARTING, Cell((a.record_cause,), S.CLOSED))


def ids_are_reused(patch: Patch) -> None:
    original = Calls.make

    def make(self: Calls, event: e.Called, *, may_send: bool) -> None:
        self.last_id = max(self.pending, default=0)
        original(self, event, may_send=may_send)

    patch.setattr(Calls, "make", make)


def calls_share_one_timer(patch: Patch) -> None:
    original = Calls.arm_deadline

    def arm(self: Calls, exchange: _exchange.Exchange, moved_at: float) -> None:
        for name in list(self.timers.armed):
            if isinstance(name, int):
                self.timers.disarm(name)
        original(self, exchange, moved_at)

    patch.setattr(Calls, "arm_deadline", arm)


def respawns_over_a_live_process(patch: Patch) -> None:
    patch.setitem(CELLS[e.BackoffElapsed], S.BACKOFF, Cell((), S.STARTING))


def no_epoch_fence(patch: Patch) -> None:
    original = ClientConnection.step

    def step(self: ClientConnection, event: e.Event, now: float, jitter: float = 0.5) -> e.Effects:
        if isinstance(event, e.TransportEvent):
            event = msgspec.structs.replace(event, epoch=self.epoch)
        return original(self, event, now, jitter)

    patch.setattr(ClientConnection, "step", step)


def cancels_unwritten_calls(patch: Patch) -> None:
    replace_function(patch, _exchange.is_written, lambda calls, exchange: exchange.number > 0)


def reports_nothing_as_written(patch: Patch) -> None:
    replace_function(patch, _exchange.is_written, lambda calls, exchange: False)
    patch.setattr(Calls, "is_written", lambda self, exchange: False)


def a_replayed_call_forgets_that_it_was_sent(patch: Patch) -> None:
    replace_function(patch, _exchange.mark_sent, lambda calls, exchange, outcome: None)


def busy_calls_survive_a_loss(patch: Patch) -> None:
    patch.setitem(_exchange.CELLS, (ExchangeEvent.LOST, ExchangeState.BUSY), IGNORE)


def a_loss_fails_no_call(patch: Patch) -> None:
    replace_function(patch, a.drop_transport, a.close)


def a_retry_outlives_its_call(patch: Patch) -> None:
    original = Timers.disarm

    def disarm(self: Timers[object], name: object) -> None:
        if not isinstance(name, e.RetryDue):
            original(self, name)

    patch.setattr(Timers, "disarm", disarm)


def a_response_leaves_the_call_open(patch: Patch) -> None:
    def complete(self: Calls, exchange: _exchange.Exchange, result: msgspec.Raw) -> e.Complete:
        return e.Complete(exchange.caller, exchange.id, result)

    patch.setattr(Calls, "complete", complete)


def closing_fails_no_call(patch: Patch) -> None:
    patch.setitem(ENTRIES, S.CLOSING, (a.end_waiters, a.close))


def timers_outlive_the_connection(patch: Patch) -> None:
    patch.setitem(ENTRIES, S.CLOSED, (a.end_calls, a.end_waiters))


def closing_has_no_deadline(patch: Patch) -> None:
    patch.setitem(CELLS[e.CloseExpired], S.CLOSING, IGNORE)


def a_fatal_probe_is_repeated_forever(patch: Patch) -> None:
    original = a.open_negotiation

    def open_negotiation(self: ClientConnection, event: e.Event) -> None:
        self.negotiation.probe_history = ProbeHistory.HARMLESS
        original(self, event)

    replace_function(patch, a.open_negotiation, open_negotiation)


def session_losses_never_count(patch: Patch) -> None:
    replace_function(patch, a.is_session_too_new, lambda self, event: False)


def a_late_spawn_is_used(patch: Patch) -> None:
    patch.setitem(CELLS[e.Spawned], S.BACKOFF, Cell((), S.INITIALIZING))


def keepalive_runs_once(patch: Patch) -> None:
    original = a.keep_alive

    def keep_alive(self: ClientConnection, event: e.Event) -> None:
        original(self, event)
        self.calls.timers.disarm(e.KeepaliveDue)

    replace_function(patch, a.keep_alive, keep_alive)


def a_health_check_has_no_deadline(patch: Patch) -> None:
    original = a.check_if_silent

    def check(self: ClientConnection, event: e.Expired) -> None:
        original(self, event)
        self.calls.timers.disarm(e.CheckExpired)

    replace_function(patch, a.check_if_silent, check)


def an_early_check_forgets_the_deadline(patch: Patch) -> None:
    original = Calls.expire

    def expire(self: Calls, exchange: Any) -> None:
        is_early = exchange.due_at is not None
        original(self, exchange)
        if is_early:
            self.timers.disarm(exchange.id)

    patch.setattr(Calls, "expire", expire)


def queued_calls_are_sent_before_ready(patch: Patch) -> None:
    def flush(self: ClientConnection, event: e.Event) -> None:
        self.calls.flush()

    patch.setitem(ENTRIES, S.INITIALIZING, (a.open_negotiation, flush))


def a_response_to_a_keepalive_ends_the_second_open_call(patch: Patch) -> None:
    original = a.end_keepalive

    def end_keepalive(self: ClientConnection, event: e.ResponseReceived) -> None:
        pending = self.calls.pending
        calls = [exchange for exchange in pending.values() if exchange.role is Role.CALL]
        if pending[event.id].role is Role.KEEPALIVE and len(calls) > 1 and event.result is not None:
            self.emit(self.calls.complete(calls[1], event.result))
        original(self, event)

    replace_function(patch, a.end_keepalive, end_keepalive)


def a_keepalive_abandons_an_open_call(patch: Patch) -> None:
    original = a.keep_alive

    def keep_alive(self: ClientConnection, event: e.Event) -> None:
        sent = [x for x in self.calls.pending.values() if x.state is ExchangeState.SENT]
        if len(sent) > 3 and not self.health.received_after:
            self.calls.abandon(sent[0])
        original(self, event)

    replace_function(patch, a.keep_alive, keep_alive)


def a_lost_session_repeats_every_open_call(patch: Patch) -> None:
    again = Cell((_exchange.assign_new_id, _exchange.enqueue), ExchangeState.WAITING)
    patch.setitem(_exchange.CELLS, (ExchangeEvent.SESSION_RENEWED, ExchangeState.SENT), again)


def a_refused_call_is_sent_again_forever(patch: Patch) -> None:
    replace_function(patch, _exchange.has_session_attempts_left, lambda calls, exchange: True)


def a_refused_call_fails_immediately(patch: Patch) -> None:
    replace_function(patch, _exchange.has_session_attempts_left, lambda calls, exchange: False)


def a_frequent_loss_closes_the_client(patch: Patch) -> None:
    lost = CELLS[e.SessionLost][S.READY]
    frequent = Cell((a.requeue, a.record_cause, a.start_backoff), S.BACKOFF, lost.guard, lost.otherwise)
    patch.setitem(CELLS[e.SessionLost], S.READY, frequent)


def a_failed_renewal_closes_the_client(patch: Patch) -> None:
    replace_function(patch, a.has_open_posts, lambda self, event: False)


def a_refusal_in_backoff_is_ignored(patch: Patch) -> None:
    patch.setitem(CELLS[e.SessionLost], S.BACKOFF, IGNORE)


def a_kept_client_is_forgotten_by_stop(patch: Patch) -> None:
    patch.setitem(CELLS[e.StopRequested], S.BACKOFF, Cell((a.record_cause,), S.CLOSED))


def post_started_is_ignored(patch: Patch) -> None:
    replace_function(patch, a.mark_sent, lambda self, event: None)


def post_queued_is_ignored(patch: Patch) -> None:
    replace_function(patch, a.mark_unsent, lambda self, event: None)


def a_call_of_an_old_session_renews_the_new_one(patch: Patch) -> None:
    original = ClientConnection.step

    def step(self: ClientConnection, event: e.Event, now: float, jitter: float = 0.5) -> e.Effects:
        if isinstance(event, e.SessionLost):
            event = msgspec.structs.replace(event, epoch=self.epoch)
        return original(self, event, now, jitter)

    patch.setattr(ClientConnection, "step", step)


def a_replay_may_be_repeated(patch: Patch) -> None:
    original = _exchange.mark_sent

    def mark_sent(self: Calls, exchange: _exchange.Exchange, outcome: _calls.Outcome) -> None:
        original(self, exchange, outcome)
        exchange.may_replay = True

    replace_function(patch, _exchange.mark_sent, mark_sent)


def closing_stops_writing_a_turn_later(patch: Patch) -> None:
    """A defect of the driver: it performs `Close` in a task, and the queue is flushed before that runs."""
    patch.setattr(Search, "stop_writing", lambda self, world: None)


def a_call_that_is_reported_as_not_sent_stays_in_the_queue(patch: Patch) -> None:
    replace_function(patch, _exchange.withdraw, lambda calls, exchange, outcome: None)


def a_plain_call_has_no_deadline(patch: Patch) -> None:
    original = Calls.make_plain

    def make_plain(self: Calls, caller: object, method: str, params: bytes, now: float) -> e.Send | None:
        send = original(self, caller, method, params, now)
        self.timers.disarm(self.last_id)
        return send

    patch.setattr(Calls, "make_plain", make_plain)


def a_result_does_not_count_as_received(patch: Patch) -> None:
    original = ClientConnection.accept

    def accept(self: ClientConnection, frame: bytes, epoch: int) -> Any:
        before = self.health.received_after
        message = original(self, frame, epoch)
        if isinstance(message, e.Complete):
            self.health.received_after = before
        return message

    patch.setattr(ClientConnection, "accept", accept)


def subscriptions_are_not_opened_again(patch: Patch) -> None:
    patch.setitem(ENTRIES, S.READY, (a.arm_ready_timers, a.release_waiters, a.flush))


def a_subscription_is_requested_twice(patch: Patch) -> None:
    original = Subscriptions.open

    def open(self: Subscriptions, event: e.Subscribed, era: Era) -> None:
        self.ids.pop(event.key, None)
        original(self, event, era)

    patch.setattr(Subscriptions, "open", open)


def a_forgotten_subscription_stays_open(patch: Patch) -> None:
    patch.setattr(Subscriptions, "forget", lambda self, key: self.kept.pop(key, None))


def draining_accepts_new_calls(patch: Patch) -> None:
    replace_function(patch, a.is_draining, lambda self, event: False)


def draining_refuses_further_requests(patch: Patch) -> None:
    replace_function(patch, a.is_draining, lambda self, event: self.calls.now >= self.drain_at)


def a_cancelled_drain_refuses_calls(patch: Patch) -> None:
    replace_function(patch, a.end_drain, a.drain)


def a_plain_call_is_made_while_draining(patch: Patch) -> None:
    def call(self: ClientConnection, caller: object, method: str, params: bytes, now: float) -> e.Send | None:
        return self.calls.make_plain(caller, method, params, now) if self.state is S.READY else None

    patch.setattr(ClientConnection, "call", call)


DEFECTS: list[tuple[Callable[[Patch], None], str]] = [
    (no_connect_deadline, "lifecycle"),
    (stop_in_starting_exits, "lifecycle"),
    (ids_are_reused, "calls"),
    (calls_share_one_timer, "calls"),
    (respawns_over_a_live_process, "lifecycle"),
    (no_epoch_fence, "lifecycle"),
    (cancels_unwritten_calls, "calls"),
    (reports_nothing_as_written, "calls"),
    (a_replayed_call_forgets_that_it_was_sent, "calls"),
    (busy_calls_survive_a_loss, "busy"),
    (a_loss_fails_no_call, "calls"),
    (a_retry_outlives_its_call, "busy"),
    (a_response_leaves_the_call_open, "calls"),
    (closing_fails_no_call, "calls"),
    (timers_outlive_the_connection, "lifecycle"),
    (closing_has_no_deadline, "lifecycle"),
    (a_fatal_probe_is_repeated_forever, "lifecycle"),
    (session_losses_never_count, "session loss"),
    (a_late_spawn_is_used, "lifecycle"),
    (keepalive_runs_once, "keepalive"),
    (a_health_check_has_no_deadline, "hang"),
    (an_early_check_forgets_the_deadline, "hang"),
    (queued_calls_are_sent_before_ready, "calls"),
    (a_response_to_a_keepalive_ends_the_second_open_call, "keepalive"),
    (a_keepalive_abandons_an_open_call, "keepalive"),
    (a_lost_session_repeats_every_open_call, "session loss"),
    (a_refused_call_is_sent_again_forever, "session loss"),
    (a_refused_call_fails_immediately, "session loss"),
    (a_frequent_loss_closes_the_client, "session loss"),
    (a_failed_renewal_closes_the_client, "session loss"),
    (a_refusal_in_backoff_is_ignored, "session loss"),
    (a_kept_client_is_forgotten_by_stop, "session loss"),
    (post_started_is_ignored, "queued without sessions"),
    (post_queued_is_ignored, "queued without sessions"),
    (a_call_of_an_old_session_renews_the_new_one, "session loss"),
    (a_replay_may_be_repeated, "calls"),
    (closing_stops_writing_a_turn_later, "lifecycle"),
    (closing_stops_writing_a_turn_later, "calls"),
    (closing_stops_writing_a_turn_later, "keepalive"),
    (closing_stops_writing_a_turn_later, "garbage"),
    (a_call_that_is_reported_as_not_sent_stays_in_the_queue, "calls"),
    (a_plain_call_has_no_deadline, "calls"),
    (a_result_does_not_count_as_received, "calls"),
    (draining_accepts_new_calls, "draining"),
    (draining_refuses_further_requests, "draining"),
    (a_cancelled_drain_refuses_calls, "draining"),
    (a_plain_call_is_made_while_draining, "draining"),
    (subscriptions_are_not_opened_again, "subscriptions, stateless"),
    (a_subscription_is_requested_twice, "subscriptions, stateless"),
    (a_forgotten_subscription_stays_open, "subscriptions"),
]


@pytest.mark.parametrize(("plant", "scenario"), DEFECTS, ids=lambda value: getattr(value, "__name__", value))
def test_a_planted_defect_is_found(
    plant: Callable[[Patch], None], scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    search = search_of(SCENARIOS[scenario], monkeypatch)
    with pytest.raises(Violation):
        search.verify()
