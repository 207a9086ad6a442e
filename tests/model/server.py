"""A bookkeeper beside a server's connection: what the client is owed, kept without looking into the core.

It reads only what went in and the effects that came out. `check` fails with `BrokenPromiseError` when the two contradict
what `_server_table` promises: an answer too many, one too few, one after a cancel; anything sent after the end; a
state that changed without cause; a question to the client that ends twice or never. The model check and the stateful
test both run it; it also holds the frames and connections that all tests of the server's core are made of.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from jackstay.errors import GuardRefusedError, MachineError
from jackstay.protocol.server import events as e
from jackstay.protocol.server._connection import ServerConnection
from jackstay.protocol.server._offer import ServerOffer, ServerOptions
from jackstay.protocol.server._table import ServerState as S
from jackstay.protocol.wire._jsonrpc import decode

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
STATELESS_VERSION = "2026-07-28"
META = {VERSION_KEY: STATELESS_VERSION, CAPABILITIES_KEY: {}}
CLIENT_CAPABILITIES = {"roots": {}, "sampling": {}, "elicitation": {}}

# --- frames and connections ---------------------------------------------------------------------------------------------


def offer(**options: Any) -> ServerOffer:
    info = b'{"name":"test","version":"1"}'
    return ServerOffer(ServerOptions(server_info=info, capabilities=b'{"tools":{}}', **options))


OFFER = offer()


def frame(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def call(id: int | str, method: str = "tools/call", **params: Any) -> bytes:
    return frame(id=id, method=method, params={"name": "echo", **params})


def stateless(id: int | str, method: str = "tools/call", meta: Any = META) -> bytes:
    return frame(id=id, method=method, params={"name": "echo", "_meta": meta})


def initialize(id: int | str = 9, version: Any = "2025-11-25", **changes: Any) -> bytes:
    info = {"name": "client", "version": "1"}
    params = {"protocolVersion": version, "capabilities": CLIENT_CAPABILITIES, "clientInfo": info, **changes}
    return frame(
        id=id, method="initialize", params={key: value for key, value in params.items() if value is not ...}
    )


def cancel(id: Any, **more: Any) -> bytes:
    return frame(method="notifications/cancelled", params={"requestId": id, **more})


def array(*frames: bytes) -> bytes:
    return b"[%b]" % b",".join(frames)


INITIALIZED = frame(method="notifications/initialized")


def connect(
    state: S,
    version: str = "2025-11-25",
    *,
    offer: ServerOffer = OFFER,
    kind: type[ServerConnection] = ServerConnection,
) -> ServerConnection:
    """A stream that has come to that state the way a real one does; draining has request 90 in flight."""
    core = kind(offer, is_strict=True)
    if state is S.STATELESS:
        (served, *_) = core.receive(stateless(90), 0.0)
        assert isinstance(served, e.Serve)
        core.finish(90, served.serial, b"{}", 0.0)
    elif state is not S.FRESH:
        core.receive(initialize(version=version), 0.0)
        if state is not S.HANDSHAKE:
            core.receive(INITIALIZED, 0.0)
        if state is S.DRAINING:
            core.receive(call(90), 0.0)
            core.step(e.DrainAsked(), 0.0)
        if state is S.CLOSED:
            core.step(e.StopAsked(), 0.0)
    assert core.state is state
    return core


class SlowConnection(ServerConnection):
    """The same connection without its hot path: everything walks the table."""

    __slots__ = ()

    def receive(self, frame: bytes, now: float) -> e.Effects:
        return self.take(decode(frame), len(frame), now)

    def finish(self, id: int | str, serial: int, result: bytes, now: float) -> e.Effects:
        return self.step(e.Finished(id, serial, result), now)


@lru_cache(maxsize=4096)
def parse(data: bytes) -> Any:
    return json.loads(data)


def sent(effects: Iterable[e.Effect]) -> list[Any]:
    """What an array of effects puts on the wire."""
    return [parse(effect.frame) for effect in effects if isinstance(effect, e.Send)]


def plain(effect: e.Effect) -> Any:
    """An effect as values that compare: views and exceptions are compared by what they hold."""
    values: list[Any] = [type(effect).__name__]
    for name in effect.__struct_fields__:
        value = getattr(effect, name)
        if isinstance(value, msgspec.Raw):
            value = bytes(value)
        elif isinstance(value, msgspec.Struct) and name == "meta":
            value = (value.version, bytes(value.capabilities), value.log_level, value.progress_token)
        elif isinstance(value, MachineError):
            value = (type(value).__name__, value.code, str(value.data()))
        elif isinstance(value, Exception):
            value = (type(value).__name__, str(value))
        values.append(value)
    return tuple(values)


# --- the ledger -----------------------------------------------------------------------------------------------------------


class BrokenPromiseError(AssertionError):
    """The core did what its table says it never does."""


def promise(holds: bool, what: str, *about: object) -> None:
    if not holds:
        raise BrokenPromiseError(f"{what}: {about}")


@dataclass(frozen=True)
class Input:
    """Something that happens, and what a client could say about it.

    `requests` are the ids that it asks for an answer to, `cancels` the ids that it gives up, `group` whether the
    requests came as one array; `malformed` is the id of something that is no request, and is answered with it unless
    that would look like the answer to another. `silent` says that no answer may follow from it directly.
    """

    name: str
    act: Callable[[ServerConnection], e.Effects]
    requests: tuple[int | str, ...] = ()
    malformed: int | str | None = None
    cancels: tuple[int | str, ...] = ()
    group: bool = False
    silent: bool = False
    ends: bool = False
    stops: bool = False
    finished: tuple[int | str, int] | None = None
    asked: str | None = None
    withdrew: str | None = None


@dataclass
class Ledger:
    """What is owed, by what went in and came out."""

    owed: dict[int | str, int] = field(default_factory=dict)
    running: dict[int | str, int] = field(default_factory=dict)
    zombies: frozenset[tuple[int | str, int]] = frozenset()
    groups: tuple[frozenset[int | str], ...] = ()
    asking: frozenset[str] = frozenset()
    our_ids: frozenset[int] = frozenset()
    deadline: float | None = None
    is_closed: bool = False

    def copy(self) -> "Ledger":
        return Ledger(
            self.owed.copy(),
            self.running.copy(),
            self.zombies,
            self.groups,
            self.asking,
            self.our_ids,
            self.deadline,
            self.is_closed,
        )

    def snapshot(self) -> tuple[object, ...]:
        return (
            frozenset(self.owed.items()),
            frozenset(self.running),
            frozenset(id for id, _ in self.zombies),
            frozenset(self.groups),
            self.asking,
            self.is_closed,
        )

    def run(self, input: Input, core: ServerConnection) -> e.Effects:
        """Let it happen, and check everything that can be said about what came out."""
        before = core.state
        was_closed = self.is_closed
        before_running = dict(self.running)
        requests = input.requests
        if input.malformed is not None and input.malformed not in self.running:
            requests = (*requests, input.malformed)
        if not was_closed:
            for id in requests:
                self.owed[id] = self.owed.get(id, 0) + 1
        if input.asked is not None:
            self.asking |= {input.asked}
        if input.withdrew is not None:
            self.asking -= {input.withdrew}
        zombie = False
        if input.finished is not None:
            zombie = input.finished in self.zombies
            self.zombies -= {input.finished}
            if self.running.get(input.finished[0]) == input.finished[1]:
                del self.running[input.finished[0]]
        effects = input.act(core)
        for effect in effects:
            promise(not (was_closed and not isinstance(effect, e.Fail)), "an effect after closed", effect)
            promise(not (zombie and isinstance(effect, e.Send)), "a late result was sent", effect)
            self._take(effect, input)
        self._check_state(before, core, effects, input)
        self._check_rest(core, input, before_running)
        return effects

    def _take(self, effect: e.Effect, input: Input) -> None:
        match effect:
            case e.Serve(id=id, serial=serial):
                promise(self.owed.get(id, 0) > 0, "served what nobody asked for", id)
                promise(id not in self.running, "served an id that is running", id)
                self.running[id] = serial
                if input.group:
                    self.groups = (*self.groups, frozenset(input.requests))
            case e.StopServing(id=id, serial=serial):
                promise(self.running.get(id) == serial, "stopped what does not run", id)
                promise(id in input.cancels or input.stops, "stopped without a cause", id)
                del self.running[id]
                self.zombies |= {(id, serial)}
                self._pay(id)
            case e.Send():
                promise(not self.is_closed, "sent after closed", effect)
                self._read(parse(effect.frame), input)
            case e.Complete(key=key) | e.Fail(key=key):
                promise(key in self.asking, "a question ended twice, or after it was withdrawn", key)
                self.asking -= {key}
            case e.Close():
                promise(not self.is_closed, "closed twice")
                self.is_closed = True

    def _read(self, message: Any, input: Input) -> None:
        if isinstance(message, list):
            promise(bool(message), "an empty array was sent")
            for member in message:
                self._answered(member)
        elif "method" in message:
            if "id" in message:
                promise(message["id"] not in self.our_ids, "an id of ours was used twice", message)
                self.our_ids |= {message["id"]}
        else:
            promise(not input.silent, "a notification was answered", message)
            self._answered(message)

    def _answered(self, message: Any) -> None:
        promise("result" in message or "error" in message, "not an answer", message)
        id = message.get("id")
        if id is None:
            promise("error" in message, "a result without an id", message)
            return
        promise(self.owed.get(id, 0) > 0, "answered twice, or after a cancel", message)
        self._pay(id)
        promise(not (id in self.running and id not in self.owed), "answered while its handler runs", message)

    def _pay(self, id: int | str) -> None:
        self.owed[id] -= 1
        if not self.owed[id]:
            del self.owed[id]

    def _check_state(self, before: S, core: ServerConnection, effects: e.Effects, input: Input) -> None:
        moves = [(x.source, x.target) for x in effects if isinstance(x, e.Transition)]
        here = before.value
        for source, target in moves:
            promise(source == here, "a transition from elsewhere", source, here)
            here = target
        promise(here == core.state.value, "the state changed in silence", before, core.state)
        agreed = any("protocolVersion" in answer.get("result", {}) for answer in answers(effects))
        if before is S.FRESH:
            promise(agreed == (("fresh", "handshake") in moves), "a handshake without its answer", moves)
        served = any(isinstance(x, e.Serve) for x in effects)
        causes = {
            ("fresh", "handshake"): agreed,
            ("handshake", "operating"): input.name == "initialized",
            ("fresh", "stateless"): served,
        }
        for source, target in moves:
            is_caused = causes.get(
                (source, target), input.ends if target in ("draining", "closed") else False
            )
            is_caused = is_caused or ((source, target) == ("draining", "closed") and not core.in_flight)
            promise(is_caused, "a transition without a cause", source, target, input.name)
        refused = any(isinstance(x, e.Send) and isinstance(x.error, MachineError) for x in effects)
        promise(not (refused and moves), "a refusal changed the state", moves, input.name)
        promise(not (served and before in (S.DRAINING, S.CLOSED)), "served what comes too late", input.name)

    def _check_rest(self, core: ServerConnection, input: Input, before_running: dict[int | str, int]) -> None:
        promise(
            dict(core.in_flight) == self.running, "in flight and running differ", core.in_flight, self.running
        )
        for id in input.cancels:
            if id in before_running:
                promise(self.running.get(id) != before_running[id], "a cancelled handler runs on", id)
        self.groups = tuple(group for group in self.groups if group & self.running.keys())
        for id in self.owed:
            waits = id in self.running or any(id in group for group in self.groups)
            promise(waits, "an answer was lost", id, input.name)
        limit = core._max_concurrent
        promise(len(self.running) <= limit, "more are in flight than may be", len(self.running))
        promise(not (core.state is S.DRAINING and not self.running), "draining with nothing left")
        promise(self.is_closed == (core.state is S.CLOSED), "closed without saying so", core.state)
        if self.is_closed:
            promise(not self.running and not self.owed, "closed with answers owed", self.owed)
            promise(not self.asking, "closed with questions open", self.asking)
        promise(
            (core.wake_at is not None) == (core.state is S.DRAINING), "a wait without a deadline", core.state
        )
        promise(self.deadline in (None, core.wake_at) or self.is_closed, "the deadline moved", core.wake_at)
        self.deadline = core.wake_at


def answers(effects: Iterable[e.Effect]) -> list[dict[str, Any]]:
    """Every answer that is sent, those inside arrays too."""
    found: list[dict[str, Any]] = []
    for message in sent(effects):
        found += [m for m in (message if isinstance(message, list) else [message]) if "method" not in m]
    return found


def refusal(effects: e.Effects) -> GuardRefusedError | MachineError:
    """The one machine error among the effects."""
    (error,) = [x.error for x in effects if isinstance(x, e.Send) and isinstance(x.error, MachineError)]
    return error
