"""Every state that a server's connection can reach, on the real object, and every defect planted there found.

Breadth first over copies of the core, with a client that sends every class of message, handlers that finish in any
order, late or never, and a clock that only moves when it is waited for. Beside each copy runs a ledger
(`model.server`), which knows what the client is owed, and a second connection, which must not notice anything. From
every state reached the connection must come to its end: with a silent client and hung handlers when the time is up, with
handlers that finish at once.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from jackstay.protocol._machine import Cell
from jackstay.protocol.server import events as e
from jackstay.protocol.server._batches import Batches
from jackstay.protocol.server._connection import ServerConnection
from jackstay.protocol.server._offer import ServerOffer
from jackstay.protocol.server._table import CELLS, Do, When
from jackstay.protocol.server._table import ServerState as S
from jackstay.protocol.wire._jsonrpc import Request, encode_result
from model.server import (
    INITIALIZED,
    BrokenPromiseError,
    Input,
    Ledger,
    array,
    call,
    cancel,
    frame,
    initialize,
    offer,
    promise,
    stateless,
)

# A search measures nothing that other tests do not, and being measured makes it five times as long.
pytestmark = [pytest.mark.no_cover, pytest.mark.long]

NOW = 10.0


@dataclass(frozen=True)
class Scene:
    """Where a search starts, and what may happen in it."""

    name: str
    offer: ServerOffer
    ids: tuple[int | str, ...]
    version: str = "2025-11-25"
    start: str | None = None
    is_post: bool = False
    has_arrays: bool = False
    has_progress: bool = False
    max_asks: int = 0
    max_zombies: int = 1


SCENES = {
    scene.name: scene
    for scene in (
        Scene("stream", offer(), (1, 2, "1"), max_asks=1),
        Scene("asking", offer(), (1,), max_asks=3, has_progress=True),
        Scene("arrays", offer(), (1, 2, 3), "2025-03-26", has_arrays=True),
        Scene("busy", offer(max_concurrent=2), (1, 2, 3), max_asks=1),
        Scene("strict", offer(strict=True), (1, 2, 3)),
        Scene("post", offer(), (1, 2, 3), "2025-03-26", "2025-03-26", is_post=True, has_arrays=True),
        Scene("stateless post", offer(), (1, 2, 3), start="2026-07-28", is_post=True, has_progress=True),
        Scene("handshake only", offer(versions=("2025-06-18",)), (1, 2), "2025-06-18"),
        Scene("stateless only", offer(versions=("2026-07-28",)), (1, 2, "2")),
    )
}


def now(core: ServerConnection) -> float:
    """Time stands still, except that what happens while draining happens later than its beginning."""
    return NOW if core.wake_at is None else NOW + 0.5


def received(name: str, data: bytes, **facts: Any) -> Input:
    return Input(name, lambda core: core.receive(data, now(core)), **facts)


def stepped(name: str, event: e.Event, **facts: Any) -> Input:
    return Input(name, lambda core: core.step(event, now(core)), **facts)


def finished(id: int | str, serial: int) -> Input:
    return Input(
        f"finish {id!r}", lambda core: core.finish(id, serial, b"{}", now(core)), finished=(id, serial)
    )


def expire(core: ServerConnection) -> e.Effects:
    assert core.wake_at is not None
    effects: e.Effects = []
    for event in core.due(core.wake_at):
        effects += core.step(event, core.wake_at or NOW)
    return effects


EXPIRED = Input("expired", expire, ends=True, stops=True)
GONE = stepped("gone", e.ClientGone(), ends=True, stops=True)
DRAIN = stepped("drain", e.DrainAsked(), ends=True)


def fixed_inputs(scene: Scene) -> list[Input]:
    """What can happen in any state, whatever runs: every message class of the table, both eras."""
    inputs = [
        stepped("oversize", e.OversizeReceived(1 << 25)),
        received("not JSON", b'{"jsonrpc":'),
        received("not JSON-RPC", frame(id=1), malformed=1),
        received("empty array", b"[]"),
        received("string response", frame(id="1", result={})),
        received("bad response", frame(id=1, result={}, error={"code": 1, "message": ""})),
        received("initialized", INITIALIZED, silent=True),
        received("notification", frame(method="notifications/roots/list_changed"), silent=True),
        received("cancel nothing", frame(method="notifications/cancelled", params={}), silent=True),
        received("discover", stateless(7, "server/discover"), requests=(7,)),
        received("unsupported", stateless(7, meta={"io.modelcontextprotocol/protocolVersion": "2027-01-01"}),
                 requests=(7,)),
        received("no capabilities", stateless(7, meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"}),
                 requests=(7,)),
        received("stateless unknown", stateless(7, "ping"), requests=(7,)),
        received("initialize", initialize(7, scene.version), requests=(7,)),
        received("bad initialize", initialize(7, 1), requests=(7,)),
        received("ping", frame(id=7, method="ping"), requests=(7,)),
        received("unknown", frame(id=7, method="no/such"), requests=(7,)),
        GONE,
        DRAIN,
        stepped("stop", e.StopAsked(), ends=True, stops=True),
    ]  # fmt: skip
    for id in scene.ids:
        inputs.append(received(f"call {id!r}", call(id), requests=(id,)))
        inputs.append(received(f"stateless {id!r}", stateless(id), requests=(id,)))
    return inputs


def array_inputs(scene: Scene) -> list[Input]:
    """Arrays, for states in which they are taken; elsewhere they are one error, and nobody is owed anything."""
    if not scene.has_arrays:
        return []
    first, second = scene.ids[:2]
    return [
        received("array", array(call(first), call(second)), requests=(first, second), group=True),
        received("array and cancel", array(call(first), cancel(first), frame(id=7, method="ping")),
                 requests=(first, 7), cancels=(first,), group=True),
        received("array of notifications", array(INITIALIZED, cancel(second)), cancels=(second,), silent=True),
        received("array twice the same", array(call(first), call(first)), requests=(first, first), group=True),
    ]  # fmt: skip


@dataclass
class Node:
    core: ServerConnection
    ledger: Ledger = field(default_factory=Ledger)
    asked: int = 0

    def key(self) -> tuple[object, ...]:
        return self.core.snapshot(), self.ledger.snapshot(), self.asked

    def after(self, input: Input) -> "Node":
        node = Node(self.core.copy(), self.ledger.copy(), self.asked + (input.asked is not None))
        node.ledger.run(input, node.core)
        return node


class Search:
    """Breadth first from one start. `run` counts the states, or raises at the first broken promise."""

    def __init__(self, scene: Scene, kind: type[ServerConnection] = ServerConnection) -> None:
        self.scene = scene
        self.kind = kind
        self.fixed = fixed_inputs(scene)
        self.arrays = array_inputs(scene)
        self.bystander = self.start()
        self.bystander.receive(initialize(5), NOW)
        self.bystander.receive(call(5), NOW)
        self.undisturbed = self.bystander.snapshot()

    def start(self) -> ServerConnection:
        return self.kind(
            self.scene.offer, version=self.scene.start, is_post=self.scene.is_post, is_strict=True
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
                promise(
                    self.bystander.snapshot() == self.undisturbed, "another connection changed", input.name
                )
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
        takes_arrays = core.version == "2025-03-26" and core.state in (S.OPERATING, S.DRAINING)
        if takes_arrays and self.may_serve(node) and not ledger.groups:
            yield from self.arrays
        for id in self.scene.ids:
            is_applied = core.state in (S.HANDSHAKE, S.OPERATING, S.DRAINING) or not self.scene.is_post
            yield received(f"cancel {id!r}", cancel(id), cancels=(id,) if is_applied else (), silent=True)
        for id, serial in [*ledger.running.items(), *ledger.zombies]:
            yield finished(id, serial)
            failed = e.Failed(id, serial, -32000, "no")
            yield stepped(f"fail {id!r}", failed, finished=(id, serial))
            if self.scene.has_progress:
                yield stepped("progress", e.Progressed(id, serial, "token", 1.0), silent=True)
        if core.wake_at is not None:
            yield EXPIRED
        yield from self.asking(node)

    def may_serve(self, node: Node) -> bool:
        """Handlers that were cancelled and still run are bounded, or there would be no end of them."""
        return len(node.ledger.zombies) <= self.scene.max_zombies

    def asking(self, node: Node) -> Iterator[Input]:
        if self.scene.max_asks == 0:
            return
        if node.asked < self.scene.max_asks:
            key = "ABC"[node.asked]
            for method in ("roots/list", "ping"):
                yield stepped(f"ask {method}", e.Asked(key, method), asked=key)
            if not node.core._asks.held:
                yield stepped("notify", e.Notified("notifications/tools/list_changed"), silent=True)
        for key in sorted(node.ledger.asking):
            yield stepped(f"withdraw {key}", e.Withdrew(key), withdrew=key)
        for id in range(1, self.scene.max_asks + 2):
            yield received(f"answer {id}", frame(id=id, result={}), silent=True)

    def check_end(self, node: Node) -> None:
        """From here, the end: by the clock alone, and without it once the handlers have finished."""
        hung = node.after(GONE)
        while hung.core.wake_at is not None:
            hung = hung.after(EXPIRED)
        promise(hung.core.state is S.CLOSED, "hung handlers hold the connection open", node.core)
        done = node.after(DRAIN)
        for id, serial in list(done.ledger.running.items()):
            done = done.after(finished(id, serial))
        promise(done.core.state is S.CLOSED, "a drained connection stays open", node.core)


# So that a change which makes the search trivial does not pass for a proof.
LEAST_STATES = {"stream": 1000, "asking": 1500, "arrays": 500, "busy": 500, "post": 200}


@pytest.mark.parametrize("name", SCENES)
def test_no_promise_is_broken_in_any_state_that_can_be_reached(name: str) -> None:
    states = Search(SCENES[name]).run()
    assert states > LEAST_STATES.get(name, 20)


# --- planted defects --------------------------------------------------------------------------------------------------------

Patch = pytest.MonkeyPatch
DEFECTS: dict[str, tuple[str, Callable[[Patch], type[ServerConnection]]]] = {}


def defect(scene: str) -> Callable[[Callable[[Patch], type[ServerConnection]]], None]:
    """Register a defect under its name, and the scene in which it must be found."""

    def register(plant: Callable[[Patch], type[ServerConnection]]) -> None:
        DEFECTS[plant.__name__] = scene, plant

    return register


def with_names(
    do: dict[Do, Callable[..., None]] | None = None, when: dict[When, Callable[..., bool]] | None = None
) -> type[ServerConnection]:
    """The connection with other meanings for some names of its table."""

    class Defective(ServerConnection):
        __slots__ = ()
        DO = {**ServerConnection.DO, **(do or {})}  # noqa: RUF012  # as in the class it stands for
        WHEN = {**ServerConnection.WHEN, **(when or {})}  # noqa: RUF012  # as in the class it stands for

    return Defective


def with_cell(patch: Patch, event: type[e.Event], state: S, cell: Cell) -> type[ServerConnection]:
    """The connection with another cell in its table."""
    patch.setitem(CELLS[event], state, cell)
    return ServerConnection


def nothing(*_: object) -> None:
    return


@defect("stream")
def late_results_go_by_the_id_alone(patch: Patch) -> type[ServerConnection]:
    class Defective(ServerConnection):
        __slots__ = ()
        WHEN = {**ServerConnection.WHEN, When.IS_CURRENT: lambda self, event: event.id in self._in_flight}  # noqa: RUF012  # as above

        def finish(self, id: int | str, serial: int, result: bytes, now: float) -> e.Effects:
            return self.step(e.Finished(id, serial, result), now)

    return Defective


@defect("stream")
def a_cancelled_request_stays_in_flight(patch: Patch) -> type[ServerConnection]:
    def cancel_only(self: ServerConnection, event: e.CancelReceived) -> None:
        self._out.append(e.StopServing(event.id, self._in_flight[event.id], ""))

    return with_names({Do.CANCEL: cancel_only})


@defect("stream")
def a_cancel_is_only_believed(patch: Patch) -> type[ServerConnection]:
    return with_names({Do.CANCEL: nothing})


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
def integers_and_strings_are_one_id(patch: Patch) -> type[ServerConnection]:
    class Defective(ServerConnection):
        __slots__ = ()

        def _classify_request(self, request: Request) -> e.Event:
            if any(str(id) == str(request.id) for id in self._in_flight):
                self._exchanges.in_flight.pop(next(i for i in self._in_flight if str(i) == str(request.id)))
            return super()._classify_request(request)

        def receive(self, frame: bytes, now: float) -> e.Effects:
            self._rows = {}
            return super().receive(frame, now)

    return Defective


@defect("stream")
def initialize_commits_before_it_succeeded(patch: Patch) -> type[ServerConnection]:
    cell = Cell((Do.REFUSE_PARAMS,), S.HANDSHAKE, When.HAS_BAD_PARAMS, Cell((Do.INITIALIZE,), S.HANDSHAKE))
    return with_cell(patch, e.InitializeRequested, S.FRESH, cell)


@defect("stream")
def initialize_is_answered_and_forgotten(patch: Patch) -> type[ServerConnection]:
    cell = Cell((Do.REFUSE_PARAMS,), None, When.HAS_BAD_PARAMS, Cell((Do.ANSWER_INITIALIZE,)))
    return with_cell(patch, e.InitializeRequested, S.FRESH, cell)


@defect("stream")
def a_refused_stateless_request_chooses_the_era(patch: Patch) -> type[ServerConnection]:
    cell = Cell((Do.REFUSE_META,), S.STATELESS, When.HAS_FLAW, CELLS[e.StatelessRequested][S.FRESH].otherwise)
    return with_cell(patch, e.StatelessRequested, S.FRESH, cell)


@defect("stream")
def draining_has_no_deadline(patch: Patch) -> type[ServerConnection]:
    return with_names({Do.ARM_DRAIN: nothing})


@defect("stream")
def draining_waits_with_nothing_left(patch: Patch) -> type[ServerConnection]:
    return with_cell(patch, e.Emptied, S.DRAINING, Cell())


@defect("stream")
def the_deadline_forgets_handlers(patch: Patch) -> type[ServerConnection]:
    return with_names({Do.STOP_RUNNING: lambda self, event: self._exchanges.in_flight.clear()})


@defect("stream")
def the_deadline_leaves_handlers_running(patch: Patch) -> type[ServerConnection]:
    return with_cell(patch, e.DrainExpired, S.DRAINING, Cell((), S.CLOSED))


@defect("stream")
def ping_is_answered_after_the_end(patch: Patch) -> type[ServerConnection]:
    return with_cell(patch, e.PingRequested, S.CLOSED, Cell((Do.ANSWER_PING,)))


@defect("stream")
def requests_are_served_while_draining(patch: Patch) -> type[ServerConnection]:
    return with_cell(patch, e.MethodRequested, S.DRAINING, Cell((Do.SERVE,)))


@defect("stream")
def a_second_order_to_drain_moves_the_deadline(patch: Patch) -> type[ServerConnection]:
    return with_cell(patch, e.DrainAsked, S.DRAINING, Cell((Do.ARM_DRAIN,)))


@defect("stream")
def a_notification_is_answered(patch: Patch) -> type[ServerConnection]:
    def answer(self: ServerConnection, event: e.Event) -> None:
        self._out.append(e.Send(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":""}}'))

    patch.setitem(CELLS[e.NotificationReceived], S.OPERATING, Cell((Do.DELIVER,)))
    return with_names({Do.DELIVER: answer})


@defect("stream")
def a_malformed_message_answers_the_request_with_its_id(patch: Patch) -> type[ServerConnection]:
    def answer(self: ServerConnection, event: e.InvalidReceived) -> None:
        in_flight, self._exchanges.in_flight = self._exchanges.in_flight, {}
        ServerConnection.DO[Do.ANSWER_INVALID](self, event)
        self._exchanges.in_flight = in_flight

    return with_names({Do.ANSWER_INVALID: answer})


@defect("arrays")
def answers_of_an_array_also_go_alone(patch: Patch) -> type[ServerConnection]:
    def answer(self: ServerConnection, event: e.Finished | e.Failed) -> None:
        self._out.append(e.Send(encode_result(event.id, b"{}")))
        ServerConnection.DO[Do.ANSWER](self, event)

    return with_names({Do.ANSWER: answer})


@defect("arrays")
def a_cancelled_member_holds_up_its_array(patch: Patch) -> type[ServerConnection]:
    settle = Batches.settle

    def settle_answers_only(self: Batches, id: int | str, frame: bytes | None) -> int | None:
        return settle(self, id, frame) if frame is not None else None

    patch.setattr(Batches, "settle", settle_answers_only)
    return ServerConnection


@defect("arrays")
def the_deadline_drops_what_arrays_have(patch: Patch) -> type[ServerConnection]:
    return with_names({Do.FLUSH_BATCHES: nothing})


@defect("asking")
def what_was_asked_never_ends(patch: Patch) -> type[ServerConnection]:
    return with_names({Do.END_ASKS: nothing})


@defect("asking")
def what_was_held_is_forgotten(patch: Patch) -> type[ServerConnection]:
    return with_names({Do.DROP_HELD: lambda self, event: self._asks.held.clear()})


@defect("asking")
def ids_of_ours_are_used_again(patch: Patch) -> type[ServerConnection]:
    def ask(self: ServerConnection, event: e.Asked) -> None:
        self._asks._next_id = max(self._asks.open, default=0) + 1
        self._asks.ask(event)

    return with_names({Do.ASK: ask})


@defect("asking")
def a_withdrawn_question_is_still_answered(patch: Patch) -> type[ServerConnection]:
    return with_names({Do.WITHDRAW_ASK: nothing})


@defect("busy")
def there_is_no_limit(patch: Patch) -> type[ServerConnection]:
    return with_names(when={When.IS_FULL: lambda self, event: False})


@defect("stream")
def connections_share_what_is_in_flight(patch: Patch) -> type[ServerConnection]:
    shared: dict[int | str, int] = {}

    class Defective(ServerConnection):
        __slots__ = ()

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._in_flight = self._exchanges.in_flight = shared

    return Defective


@defect("stateless post")
def the_end_of_a_post_does_not_cancel(patch: Patch) -> type[ServerConnection]:
    return with_names({Do.STOP_RUNNING: nothing})


@defect("stateless only")
def a_handshake_is_agreed_on_where_there_is_none(patch: Patch) -> type[ServerConnection]:
    def agree(self: ServerConnection, event: e.InitializeRequested) -> None:
        self._answer_ok(event, self._offer.initialize_result("2026-07-28"))

    return with_names({Do.REFUSE_HANDSHAKE: agree})


@pytest.mark.parametrize("name", DEFECTS)
def test_every_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scene, plant = DEFECTS[name]
    kind = plant(monkeypatch)
    with pytest.raises(BrokenPromiseError):
        Search(SCENES[scene], kind).run()
