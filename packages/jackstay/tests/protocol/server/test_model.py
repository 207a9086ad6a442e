"""Model check: a search over every reachable state of a server's connection, and defects that the search must find.

The search is breadth-first over copies of the core, with every class of message, handlers that finish in any order, and
a simulated clock. A ledger (`model.server`) computes the owed responses, and a second connection must not change. From
every state the connection must reach `closed`, also with a silent client and hung handlers.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from jackstay.protocol._machine import Action, Cell
from jackstay.protocol.server import _actions as a
from jackstay.protocol.server import _connection
from jackstay.protocol.server import events as e
from jackstay.protocol.server._config import ServerConfig
from jackstay.protocol.server._connection import ServerConnection
from jackstay.protocol.server._peer_requests import PeerRequests
from jackstay.protocol.server._states import ServerState as S
from jackstay.protocol.server._table import CELLS, ENTRIES
from jackstay.protocol.wire._jsonrpc import Message, Request, encode_result
from model.server import (
    INITIALIZED,
    ComparedConnection,
    Input,
    InvariantError,
    Ledger,
    SlowConnection,
    array,
    call,
    cancel,
    copied,
    frame,
    initialize,
    require,
    server_config,
    snapshot,
    stateless,
)

# Other tests cover the same code, and coverage makes this test five times as slow.
pytestmark = [pytest.mark.no_cover, pytest.mark.long]

NOW = 10.0


@dataclass(frozen=True)
class Scenario:
    """The start of a search, and its inputs."""

    name: str
    server_config: ServerConfig
    ids: tuple[int | str, ...]
    version: str = "2025-11-25"
    start: str | None = None
    is_post: bool = False
    has_batches: bool = False
    has_progress: bool = False
    max_requests: int = 0
    max_zombies: int = 1


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("stream", server_config(), (1, 2, "1"), max_requests=1),
        Scenario("outgoing", server_config(), (1,), max_requests=3, has_progress=True),
        Scenario("batches", server_config(), (1, 2, 3), "2025-03-26", has_batches=True),
        Scenario("busy", server_config(max_concurrent=2), (1, 2, 3), max_requests=1),
        Scenario("strict", server_config(strict=True), (1, 2, 3)),
        Scenario("post", server_config(), (1, 2, 3), "2025-03-26", "2025-03-26", is_post=True, has_batches=True),
        Scenario("stateless post", server_config(), (1, 2, 3), start="2026-07-28", is_post=True, has_progress=True),
        Scenario("handshake only", server_config(versions=("2025-06-18",)), (1, 2), "2025-06-18"),
        Scenario("stateless only", server_config(versions=("2026-07-28",)), (1, 2, "2")),
    )
}


def now(core: ServerConnection) -> float:
    """Return the time, which advances only while draining."""
    return NOW if core.wake_at is None else NOW + 0.5


def received(name: str, data: bytes, **expectations: Any) -> Input:
    return Input(name, lambda core: core.receive(data), **expectations)


def stepped(name: str, event: e.Event, **expectations: Any) -> Input:
    return Input(name, lambda core: core.step(event, now(core)), **expectations)


def finished(id: int | str, serial: int) -> Input:
    return Input(f"finish {id!r}", lambda core: core.finish(id, serial, b"{}"), finished=(id, serial))


def expire(core: ServerConnection) -> e.Effects:
    assert core.wake_at is not None
    effects: e.Effects = []
    for event in core.due(core.wake_at):
        effects += core.step(event, core.wake_at or NOW)
    return effects


EXPIRED = Input("expired", expire, ends=True, stops=True)
DISCONNECT = stepped("disconnect", e.ClientDisconnected(), ends=True, stops=True)
DRAIN = stepped("drain", e.DrainRequested(), ends=True)


def fixed_inputs(scenario: Scenario) -> list[Input]:
    """Return the inputs for every state: every message class of the table, in both eras."""
    inputs = [
        stepped("oversize", e.OversizeReceived(1 << 25)),
        received("not JSON", b'{"jsonrpc":'),
        received("not JSON-RPC", frame(id=1), malformed=1),
        received("empty batch", b"[]"),
        received("string response", frame(id="1", result={})),
        received("bad response", frame(id=1, result={}, error={"code": 1, "message": ""})),
        received("initialized", INITIALIZED, silent=True),
        received("notification", frame(method="notifications/roots/list_changed"), silent=True),
        received("cancel nothing", frame(method="notifications/cancelled", params={}), silent=True),
        received("discover", stateless(7, "server/discover"), requests=(7,)),
        received(
            "unsupported", stateless(7, meta={"io.modelcontextprotocol/protocolVersion": "2027-01-01"}), requests=(7,)
        ),
        received(
            "no capabilities",
            stateless(7, meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"}),
            requests=(7,),
        ),
        received("stateless unknown", stateless(7, "ping"), requests=(7,)),
        received("initialize", initialize(7, scenario.version), requests=(7,)),
        received("bad initialize", initialize(7, 1), requests=(7,)),
        received("ping", frame(id=7, method="ping"), requests=(7,)),
        received("unknown", frame(id=7, method="no/such"), requests=(7,)),
        DISCONNECT,
        DRAIN,
        stepped("stop", e.StopRequested(), ends=True, stops=True),
    ]
    for id in scenario.ids:
        inputs.append(received(f"call {id!r}", call(id), requests=(id,)))
        inputs.append(received(f"stateless {id!r}", stateless(id), requests=(id,)))
    return inputs


def batch_inputs(scenario: Scenario) -> list[Input]:
    """Return batches, for states in which they are allowed; elsewhere they are a single error."""
    if not scenario.has_batches:
        return []
    first, second = scenario.ids[:2]
    return [
        received("batch", array(call(first), call(second)), requests=(first, second), group=True),
        received(
            "batch and cancel",
            array(call(first), cancel(first), frame(id=7, method="ping")),
            requests=(first, 7),
            cancels=(first,),
            group=True,
        ),
        received("batch of notifications", array(INITIALIZED, cancel(second)), cancels=(second,), silent=True),
        received("batch with a duplicate id", array(call(first), call(first)), requests=(first, first), group=True),
    ]


@dataclass
class Node:
    core: ServerConnection
    ledger: Ledger = field(default_factory=Ledger)
    request_count: int = 0

    def key(self) -> tuple[object, ...]:
        return snapshot(self.core), self.ledger.snapshot(), self.request_count

    def after(self, input: Input) -> "Node":
        node = Node(copied(self.core), self.ledger.copy(), self.request_count + (input.outgoing_request is not None))
        node.ledger.run(input, node.core)
        return node


class Search:
    """A breadth-first search. `run` returns the number of states, or raises at the first violated invariant."""

    def __init__(self, scenario: Scenario, kind: type[ServerConnection] = ServerConnection) -> None:
        self.scenario = scenario
        self.kind = kind
        self.fixed = fixed_inputs(scenario)
        self.batches = batch_inputs(scenario)
        self.other = self.start()
        self.other.receive(initialize(5))
        self.other.receive(call(5))
        self.unchanged = snapshot(self.other)

    def start(self) -> ServerConnection:
        return self.kind(
            self.scenario.server_config, version=self.scenario.start, is_post=self.scenario.is_post, is_strict=True
        )

    def run(self) -> int:
        first = Node(self.start())
        seen = {first.key()}
        queue = deque([first])
        while queue:
            node = queue.popleft()
            self.check_end(node)
            for input in self.inputs(node):
                node_after = node.after(input)
                key = node_after.key()
                if key not in seen:
                    seen.add(key)
                    queue.append(node_after)
            require(snapshot(self.other) == self.unchanged, "another connection changed", node.core)
        return len(seen)

    def inputs(self, node: Node) -> Iterator[Input]:
        core, ledger = node.core, node.ledger
        for input in self.fixed:
            if input.name.startswith(("call", "stateless")) and not self.may_serve(node):
                continue
            yield input
        allows_batches = core.version == "2025-03-26" and core.state in (S.OPERATING, S.DRAINING)
        if allows_batches and self.may_serve(node) and not ledger.groups:
            yield from self.batches
        for id in self.scenario.ids:
            is_applied = core.state in (S.HANDSHAKE, S.OPERATING, S.DRAINING) or not self.scenario.is_post
            yield received(f"cancel {id!r}", cancel(id), cancels=(id,) if is_applied else (), silent=True)
        for id, serial in [*ledger.running.items(), *ledger.zombies]:
            yield finished(id, serial)
            failed = e.Failed(id, serial, -32000, "no")
            yield stepped(f"fail {id!r}", failed, finished=(id, serial))
            if self.scenario.has_progress:
                yield stepped("progress", e.Progressed(id, serial, "token", 1.0), silent=True)
        if core.wake_at is not None:
            yield EXPIRED
        yield from self.outgoing(node)

    def may_serve(self, node: Node) -> bool:
        """Limit the cancelled handlers that still run, so that the search is finite."""
        return len(node.ledger.zombies) <= self.scenario.max_zombies

    def outgoing(self, node: Node) -> Iterator[Input]:
        if self.scenario.max_requests == 0:
            return
        if node.request_count < self.scenario.max_requests:
            key = "ABC"[node.request_count]
            for method in ("roots/list", "ping"):
                yield stepped(f"request {method}", e.OutgoingRequested(key, method), outgoing_request=key)
            if not node.core.outgoing.queued:
                yield stepped("notify", e.Notified("notifications/tools/list_changed"), silent=True)
        for key in sorted(node.ledger.outgoing):
            yield stepped(f"cancel {key}", e.OutgoingCancelled(key), withdrew=key)
        for id in range(1, self.scenario.max_requests + 2):
            yield received(f"response {id}", frame(id=id, result={}), silent=True)

    def check_end(self, node: Node) -> None:
        """Check that `closed` is reached: by the clock alone, and without it once the handlers have finished."""
        hung = node.after(DISCONNECT)
        while hung.core.wake_at is not None:
            hung = hung.after(EXPIRED)
        require(hung.core.state is S.CLOSED, "hung handlers keep the connection open", node.core)
        done = node.after(DRAIN)
        for id, serial in list(done.ledger.running.items()):
            done = done.after(finished(id, serial))
        require(done.core.state is S.CLOSED, "a drained connection stays open", node.core)


# The minimum of states, so that a trivial search does not pass.
MIN_STATES = {"stream": 1000, "outgoing": 1500, "batches": 500, "busy": 500, "post": 200}


# The searches in which every frame and every result is processed by the fast path and by the table, and compared.
COMPARED = [
    SCENARIOS["strict"],
    SCENARIOS["handshake only"],
    SCENARIOS["stateless only"],
    Scenario("few", server_config(max_concurrent=2), (1, "1"), "2025-03-26", has_batches=True, max_zombies=0),
]


@pytest.mark.parametrize("scenario", COMPARED, ids=lambda scenario: scenario.name)
def test_the_fast_path_equals_the_table_in_every_reachable_state(scenario: Scenario) -> None:
    assert Search(scenario, ComparedConnection).run() > 20


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_invariant_is_violated_in_any_reachable_state(name: str) -> None:
    states = Search(SCENARIOS[name]).run()
    assert states > MIN_STATES.get(name, 20)


# --- planted defects ---

Patch = pytest.MonkeyPatch
DEFECTS: dict[str, tuple[str, Callable[[Patch], type[ServerConnection]]]] = {}


def defect(scenario: str) -> Callable[[Callable[[Patch], type[ServerConnection]]], None]:
    """Register a defect and the scenario in which it must be found."""

    def register(plant: Callable[[Patch], type[ServerConnection]]) -> None:
        DEFECTS[plant.__name__] = scenario, plant

    return register


def with_function(patch: Patch, replaced: Action, replacement: Action) -> type[ServerConnection]:
    """Return the connection with another function for an action or guard."""

    def change(cell: Cell) -> Cell:
        actions = tuple(replacement if action is replaced else action for action in cell.actions)
        guard = replacement if cell.guard is replaced else cell.guard
        return replace(
            cell, actions=actions, guard=guard, otherwise=None if cell.otherwise is None else change(cell.otherwise)
        )

    for cells in CELLS.values():
        for state, cell in list(cells.items()):
            patch.setitem(cells, state, change(cell))
    for state, actions in ENTRIES.items():
        patch.setitem(ENTRIES, state, change(Cell(actions)).actions)
    return ServerConnection


def with_cell(patch: Patch, event: type[e.Event], state: S, cell: Cell) -> type[ServerConnection]:
    """Return the connection with another cell in its table."""
    patch.setitem(CELLS[event], state, cell)
    return ServerConnection


def nothing(*_: object) -> None:
    return


@defect("stream")
def late_results_are_matched_by_id_alone(patch: Patch) -> type[ServerConnection]:
    with_function(patch, a.is_current, lambda c, event: event.id in c.in_flight)
    return SlowConnection


@defect("stream")
def a_fast_result_is_matched_by_id_alone(patch: Patch) -> type[ServerConnection]:
    class Defective(ServerConnection):
        __slots__ = ()

        def finish(self, id: int | str, serial: int, result: bytes) -> e.Effects:
            return super().finish(id, self.in_flight.get(id, serial), result)

    return Defective


@defect("stream")
def a_cancelled_request_stays_in_flight(patch: Patch) -> type[ServerConnection]:
    def cancel_only(c: ServerConnection, event: e.CancelReceived) -> None:
        c.out.append(e.StopServing(event.id, c.in_flight[event.id], ""))

    return with_function(patch, a.cancel, cancel_only)


@defect("stream")
def a_cancel_is_ignored(patch: Patch) -> type[ServerConnection]:
    return with_function(patch, a.cancel, nothing)


@defect("stream")
def an_id_in_flight_is_served_again(patch: Patch) -> type[ServerConnection]:
    classify = _connection.classify
    patch.setattr(
        _connection, "classify", lambda message, size, negotiation, _: classify(message, size, negotiation, ())
    )
    return ServerConnection


@defect("stream")
def integers_and_strings_are_the_same_id(patch: Patch) -> type[ServerConnection]:
    class Defective(SlowConnection):
        __slots__ = ()

        def classify(self, message: Message, size: int) -> e.Event:
            in_flight = self.peer_requests.in_flight
            for id in [id for id in in_flight if isinstance(message, Request) and str(id) == str(message.id)]:
                del in_flight[id]
            return super().classify(message, size)

    return Defective


@defect("stream")
def the_fast_path_ignores_the_version(patch: Patch) -> type[ServerConnection]:
    """A handshake-era connection serves a stateless request."""
    patch.setattr(_connection, "may_name_version", lambda frame: False)
    return ComparedConnection


@defect("busy")
def the_fast_path_has_no_limit(patch: Patch) -> type[ServerConnection]:
    class Defective(ServerConnection):
        __slots__ = ()

        def receive(self, frame: bytes) -> e.Effects:
            self.max_concurrent = 99
            try:
                return super().receive(frame)
            finally:
                self.max_concurrent = 2

    return Defective


@defect("stream")
def a_refused_initialize_changes_the_state(patch: Patch) -> type[ServerConnection]:
    cell = Cell((a.refuse_params,), S.HANDSHAKE, a.has_bad_params, Cell((a.initialize,), S.HANDSHAKE))
    return with_cell(patch, e.InitializeRequested, S.FRESH, cell)


@defect("stream")
def initialize_is_answered_without_a_transition(patch: Patch) -> type[ServerConnection]:
    cell = Cell((a.refuse_params,), None, a.has_bad_params, Cell((a.respond_initialize,)))
    return with_cell(patch, e.InitializeRequested, S.FRESH, cell)


@defect("stream")
def a_refused_stateless_request_chooses_the_era(patch: Patch) -> type[ServerConnection]:
    cell = Cell((a.refuse_meta,), S.STATELESS, a.has_invalid_meta, CELLS[e.StatelessRequested][S.FRESH].otherwise)
    return with_cell(patch, e.StatelessRequested, S.FRESH, cell)


@defect("stream")
def draining_has_no_deadline(patch: Patch) -> type[ServerConnection]:
    return with_function(patch, a.arm_drain, nothing)


@defect("stream")
def draining_waits_with_nothing_left(patch: Patch) -> type[ServerConnection]:
    return with_cell(patch, e.Drained, S.DRAINING, Cell())


@defect("stream")
def the_deadline_drops_handlers(patch: Patch) -> type[ServerConnection]:
    return with_function(patch, a.cancel_running, lambda c, event: c.peer_requests.in_flight.clear())


@defect("stream")
def the_deadline_leaves_handlers_running(patch: Patch) -> type[ServerConnection]:
    return with_cell(patch, e.DrainExpired, S.DRAINING, Cell((), S.CLOSED))


@defect("stream")
def ping_is_answered_in_closed(patch: Patch) -> type[ServerConnection]:
    return with_cell(patch, e.PingRequested, S.CLOSED, Cell((a.respond_ping,)))


@defect("stream")
def requests_are_served_while_draining(patch: Patch) -> type[ServerConnection]:
    return with_cell(patch, e.MethodRequested, S.DRAINING, Cell((a.serve,)))


@defect("stream")
def a_second_drain_request_moves_the_deadline(patch: Patch) -> type[ServerConnection]:
    return with_cell(patch, e.DrainRequested, S.DRAINING, Cell((a.arm_drain,)))


@defect("stream")
def a_notification_gets_a_response(patch: Patch) -> type[ServerConnection]:
    def respond(c: ServerConnection, event: e.Event) -> None:
        c.out.append(e.Send(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":""}}'))

    patch.setitem(CELLS[e.NotificationReceived], S.OPERATING, Cell((a.deliver,)))
    return with_function(patch, a.deliver, respond)


@defect("stream")
def a_malformed_message_gets_a_response_with_an_id_in_flight(patch: Patch) -> type[ServerConnection]:
    def respond(c: ServerConnection, event: e.InvalidReceived) -> None:
        in_flight, c.peer_requests.in_flight = c.peer_requests.in_flight, {}
        a.reject_invalid(c, event)
        c.peer_requests.in_flight = in_flight

    return with_function(patch, a.reject_invalid, respond)


@defect("batches")
def responses_of_a_batch_are_also_sent_alone(patch: Patch) -> type[ServerConnection]:
    def respond(c: ServerConnection, event: e.Finished | e.Failed) -> None:
        c.out.append(e.Send(encode_result(event.id, b"{}")))
        a.respond(c, event)

    return with_function(patch, a.respond, respond)


@defect("batches")
def a_cancelled_member_delays_its_batch(patch: Patch) -> type[ServerConnection]:
    stop = PeerRequests.stop

    def stop_outside_of_a_batch(self: PeerRequests, id: int | str, reason: str) -> None:
        self.batches.pop(id, None)
        stop(self, id, reason)

    patch.setattr(PeerRequests, "stop", stop_outside_of_a_batch)
    return ServerConnection


@defect("batches")
def the_deadline_drops_incomplete_batches(patch: Patch) -> type[ServerConnection]:
    return with_function(patch, a.flush_batches, nothing)


@defect("outgoing")
def requests_to_the_client_never_complete(patch: Patch) -> type[ServerConnection]:
    return with_function(patch, a.fail_all_outgoing, nothing)


@defect("outgoing")
def the_queue_is_dropped_silently(patch: Patch) -> type[ServerConnection]:
    return with_function(patch, a.drop_queued, lambda c, event: c.outgoing.queued.clear())


@defect("outgoing")
def request_ids_are_reused(patch: Patch) -> type[ServerConnection]:
    def send(c: ServerConnection, event: e.OutgoingRequested) -> None:
        c.outgoing._last_id = max(c.outgoing.pending, default=0)
        c.outgoing.send(event)

    return with_function(patch, a.send_outgoing, send)


@defect("outgoing")
def a_cancelled_request_still_completes(patch: Patch) -> type[ServerConnection]:
    return with_function(patch, a.cancel_outgoing, nothing)


@defect("busy")
def there_is_no_limit(patch: Patch) -> type[ServerConnection]:
    return with_function(patch, a.is_full, lambda c, event: False)


@defect("stream")
def connections_share_the_requests_in_flight(patch: Patch) -> type[ServerConnection]:
    shared: dict[int | str, int] = {}

    class Defective(ServerConnection):
        __slots__ = ()

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.in_flight = self.peer_requests.in_flight = shared

    return Defective


@defect("stateless post")
def closing_a_post_does_not_cancel(patch: Patch) -> type[ServerConnection]:
    return with_function(patch, a.cancel_running, nothing)


@defect("stateless only")
def a_handshake_succeeds_without_a_version(patch: Patch) -> type[ServerConnection]:
    def initialize(c: ServerConnection, event: e.InitializeRequested) -> None:
        a._reply(c, event, c.config.initialize_result("2026-07-28"))

    return with_function(patch, a.refuse_handshake, initialize)


@pytest.mark.parametrize("name", DEFECTS)
def test_every_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, plant = DEFECTS[name]
    kind = plant(monkeypatch)
    with pytest.raises(InvariantError):
        Search(SCENARIOS[scenario], kind).run()
