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

from jackstay.protocol._machine import Cell
from jackstay.protocol.server import events as e
from jackstay.protocol.server._batches import Batches
from jackstay.protocol.server._config import ServerConfig
from jackstay.protocol.server._connection import ServerConnection
from jackstay.protocol.server._table import CELLS, Action, Guard
from jackstay.protocol.server._table import ServerState as S
from jackstay.protocol.wire._jsonrpc import Request, encode_result
from model.server import (
    INITIALIZED,
    Input,
    InvariantError,
    Ledger,
    array,
    call,
    cancel,
    frame,
    initialize,
    require,
    server_config,
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
        return self.core.snapshot(), self.ledger.snapshot(), self.request_count

    def after(self, input: Input) -> "Node":
        node = Node(self.core.copy(), self.ledger.copy(), self.request_count + (input.outgoing_request is not None))
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
        self.unchanged = self.other.snapshot()

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
                require(self.other.snapshot() == self.unchanged, "another connection changed", input.name)
                key = node_after.key()
                if key not in seen:
                    seen.add(key)
                    queue.append(node_after)
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
            if not node.core._outgoing.queued:
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


def with_implementations(
    actions: dict[Action, Callable[..., None]] | None = None,
    guards: dict[Guard, Callable[..., bool]] | None = None,
) -> type[ServerConnection]:
    """Return the connection with other implementations of some actions and guards."""

    class Defective(ServerConnection):
        __slots__ = ()
        ACTIONS = {**ServerConnection.ACTIONS, **(actions or {})}  # noqa: RUF012  # as in the base class
        GUARDS = {**ServerConnection.GUARDS, **(guards or {})}  # noqa: RUF012  # as in the base class

    return Defective


def with_cell(patch: Patch, event: type[e.Event], state: S, cell: Cell) -> type[ServerConnection]:
    """Return the connection with another cell in its table."""
    patch.setitem(CELLS[event], state, cell)
    return ServerConnection


def nothing(*_: object) -> None:
    return


@defect("stream")
def late_results_are_matched_by_id_alone(patch: Patch) -> type[ServerConnection]:
    class Defective(ServerConnection):
        __slots__ = ()
        GUARDS = {  # noqa: RUF012  # as above
            **ServerConnection.GUARDS,
            Guard.IS_CURRENT: lambda self, event: event.id in self._in_flight,
        }

        def finish(self, id: int | str, serial: int, result: bytes) -> e.Effects:
            return self.step(e.Finished(id, serial, result), NOW)

    return Defective


@defect("stream")
def a_cancelled_request_stays_in_flight(patch: Patch) -> type[ServerConnection]:
    def cancel_only(self: ServerConnection, event: e.CancelReceived) -> None:
        self._out.append(e.StopServing(event.id, self._in_flight[event.id], ""))

    return with_implementations({Action.CANCEL: cancel_only})


@defect("stream")
def a_cancel_is_ignored(patch: Patch) -> type[ServerConnection]:
    return with_implementations({Action.CANCEL: nothing})


@defect("stream")
def an_id_in_flight_is_served_again(patch: Patch) -> type[ServerConnection]:
    class Defective(ServerConnection):
        __slots__ = ()

        def _classify_request(self, request: Request) -> e.Event:
            in_flight, self._in_flight = self._in_flight, {}
            try:
                return super()._classify_request(request)
            finally:
                self._in_flight = in_flight

    return Defective


@defect("stream")
def integers_and_strings_are_the_same_id(patch: Patch) -> type[ServerConnection]:
    class Defective(ServerConnection):
        __slots__ = ()

        def _classify_request(self, request: Request) -> e.Event:
            if any(str(id) == str(request.id) for id in self._in_flight):
                self._exchanges.in_flight.pop(next(i for i in self._in_flight if str(i) == str(request.id)))
            return super()._classify_request(request)

        def receive(self, frame: bytes) -> e.Effects:
            self._rows = {}
            return super().receive(frame)

    return Defective


@defect("stream")
def a_refused_initialize_changes_the_state(patch: Patch) -> type[ServerConnection]:
    cell = Cell((Action.REFUSE_PARAMS,), S.HANDSHAKE, Guard.HAS_BAD_PARAMS, Cell((Action.INITIALIZE,), S.HANDSHAKE))
    return with_cell(patch, e.InitializeRequested, S.FRESH, cell)


@defect("stream")
def initialize_is_answered_without_a_transition(patch: Patch) -> type[ServerConnection]:
    cell = Cell((Action.REFUSE_PARAMS,), None, Guard.HAS_BAD_PARAMS, Cell((Action.RESPOND_INITIALIZE,)))
    return with_cell(patch, e.InitializeRequested, S.FRESH, cell)


@defect("stream")
def a_refused_stateless_request_chooses_the_era(patch: Patch) -> type[ServerConnection]:
    cell = Cell(
        (Action.REFUSE_META,), S.STATELESS, Guard.HAS_INVALID_META, CELLS[e.StatelessRequested][S.FRESH].otherwise
    )
    return with_cell(patch, e.StatelessRequested, S.FRESH, cell)


@defect("stream")
def draining_has_no_deadline(patch: Patch) -> type[ServerConnection]:
    return with_implementations({Action.ARM_DRAIN: nothing})


@defect("stream")
def draining_waits_with_nothing_left(patch: Patch) -> type[ServerConnection]:
    return with_cell(patch, e.Drained, S.DRAINING, Cell())


@defect("stream")
def the_deadline_drops_handlers(patch: Patch) -> type[ServerConnection]:
    return with_implementations({Action.CANCEL_RUNNING: lambda self, event: self._exchanges.in_flight.clear()})


@defect("stream")
def the_deadline_leaves_handlers_running(patch: Patch) -> type[ServerConnection]:
    return with_cell(patch, e.DrainExpired, S.DRAINING, Cell((), S.CLOSED))


@defect("stream")
def ping_is_answered_in_closed(patch: Patch) -> type[ServerConnection]:
    return with_cell(patch, e.PingRequested, S.CLOSED, Cell((Action.RESPOND_PING,)))


@defect("stream")
def requests_are_served_while_draining(patch: Patch) -> type[ServerConnection]:
    return with_cell(patch, e.MethodRequested, S.DRAINING, Cell((Action.SERVE,)))


@defect("stream")
def a_second_drain_request_moves_the_deadline(patch: Patch) -> type[ServerConnection]:
    return with_cell(patch, e.DrainRequested, S.DRAINING, Cell((Action.ARM_DRAIN,)))


@defect("stream")
def a_notification_gets_a_response(patch: Patch) -> type[ServerConnection]:
    def respond(self: ServerConnection, event: e.Event) -> None:
        self._out.append(e.Send(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":""}}'))

    patch.setitem(CELLS[e.NotificationReceived], S.OPERATING, Cell((Action.DELIVER,)))
    return with_implementations({Action.DELIVER: respond})


@defect("stream")
def a_malformed_message_gets_a_response_with_an_id_in_flight(patch: Patch) -> type[ServerConnection]:
    def respond(self: ServerConnection, event: e.InvalidReceived) -> None:
        in_flight, self._exchanges.in_flight = self._exchanges.in_flight, {}
        ServerConnection.ACTIONS[Action.REJECT_INVALID](self, event)
        self._exchanges.in_flight = in_flight

    return with_implementations({Action.REJECT_INVALID: respond})


@defect("batches")
def responses_of_a_batch_are_also_sent_alone(patch: Patch) -> type[ServerConnection]:
    def respond(self: ServerConnection, event: e.Finished | e.Failed) -> None:
        self._out.append(e.Send(encode_result(event.id, b"{}")))
        ServerConnection.ACTIONS[Action.RESPOND](self, event)

    return with_implementations({Action.RESPOND: respond})


@defect("batches")
def a_cancelled_member_delays_its_batch(patch: Patch) -> type[ServerConnection]:
    resolve = Batches.resolve

    def resolve_responses_only(self: Batches, id: int | str, frame: bytes | None) -> int | None:
        return resolve(self, id, frame) if frame is not None else None

    patch.setattr(Batches, "resolve", resolve_responses_only)
    return ServerConnection


@defect("batches")
def the_deadline_drops_incomplete_batches(patch: Patch) -> type[ServerConnection]:
    return with_implementations({Action.FLUSH_BATCHES: nothing})


@defect("outgoing")
def requests_to_the_client_never_complete(patch: Patch) -> type[ServerConnection]:
    return with_implementations({Action.FAIL_ALL_OUTGOING: nothing})


@defect("outgoing")
def the_queue_is_dropped_silently(patch: Patch) -> type[ServerConnection]:
    return with_implementations({Action.DROP_QUEUED: lambda self, event: self._outgoing.queued.clear()})


@defect("outgoing")
def request_ids_are_reused(patch: Patch) -> type[ServerConnection]:
    def send(self: ServerConnection, event: e.OutgoingRequested) -> None:
        self._outgoing._next_id = max(self._outgoing.open, default=0) + 1
        self._outgoing.send(event)

    return with_implementations({Action.SEND_OUTGOING: send})


@defect("outgoing")
def a_cancelled_request_still_completes(patch: Patch) -> type[ServerConnection]:
    return with_implementations({Action.CANCEL_OUTGOING: nothing})


@defect("busy")
def there_is_no_limit(patch: Patch) -> type[ServerConnection]:
    return with_implementations(guards={Guard.IS_FULL: lambda self, event: False})


@defect("stream")
def connections_share_the_requests_in_flight(patch: Patch) -> type[ServerConnection]:
    shared: dict[int | str, int] = {}

    class Defective(ServerConnection):
        __slots__ = ()

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._in_flight = self._exchanges.in_flight = shared

    return Defective


@defect("stateless post")
def closing_a_post_does_not_cancel(patch: Patch) -> type[ServerConnection]:
    return with_implementations({Action.CANCEL_RUNNING: nothing})


@defect("stateless only")
def a_handshake_succeeds_without_a_version(patch: Patch) -> type[ServerConnection]:
    def initialize(self: ServerConnection, event: e.InitializeRequested) -> None:
        self._respond_result(event, self._config.initialize_result("2026-07-28"))

    return with_implementations({Action.REFUSE_HANDSHAKE: initialize})


@pytest.mark.parametrize("name", DEFECTS)
def test_every_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, plant = DEFECTS[name]
    kind = plant(monkeypatch)
    with pytest.raises(InvariantError):
        Search(SCENARIOS[scenario], kind).run()
