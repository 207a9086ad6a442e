"""A ledger of what a server's connection owes its client, kept from its inputs and effects alone.

`Ledger.run` raises `InvariantError` if they contradict the invariants of the server's table: a missing, extra or late
response, a message after the end, a transition without a cause, a request to the client that ends twice or never. The
module also has the frames and connections that all tests of the server's core use.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from jackstay.errors import GuardRefusedError, MachineError
from jackstay.protocol.server import events as e
from jackstay.protocol.server._config import ServerConfig, ServerOptions
from jackstay.protocol.server._connection import ServerConnection
from jackstay.protocol.server._negotiation import Negotiation
from jackstay.protocol.server._outgoing_requests import OutgoingRequests
from jackstay.protocol.server._peer_requests import PeerRequests, PendingBatch
from jackstay.protocol.server._states import ServerState as S
from jackstay.protocol.wire._jsonrpc import decode

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
STATELESS_VERSION = "2026-07-28"
META = {VERSION_KEY: STATELESS_VERSION, CAPABILITIES_KEY: {}}
CLIENT_CAPABILITIES = {"roots": {}, "sampling": {}, "elicitation": {}}

# --- frames and connections -------------------------------------------------------------------------------------------


def server_config(**options: Any) -> ServerConfig:
    info = b'{"name":"test","version":"1"}'
    return ServerConfig(ServerOptions(server_info=info, capabilities=b'{"tools":{}}', **options))


DEFAULT_CONFIG = server_config()


def frame(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def call(id: int | str, method: str = "tools/call", **params: Any) -> bytes:
    return frame(id=id, method=method, params={"name": "echo", **params})


def stateless(id: int | str, method: str = "tools/call", meta: Any = META) -> bytes:
    return frame(id=id, method=method, params={"name": "echo", "_meta": meta})


def initialize(id: int | str = 9, version: Any = "2025-11-25", **changes: Any) -> bytes:
    info = {"name": "client", "version": "1"}
    params = {"protocolVersion": version, "capabilities": CLIENT_CAPABILITIES, "clientInfo": info, **changes}
    return frame(id=id, method="initialize", params={key: value for key, value in params.items() if value is not ...})


def cancel(id: Any, **more: Any) -> bytes:
    return frame(method="notifications/cancelled", params={"requestId": id, **more})


def array(*frames: bytes) -> bytes:
    return b"[%b]" % b",".join(frames)


INITIALIZED = frame(method="notifications/initialized")


def connect(
    state: S,
    version: str = "2025-11-25",
    *,
    server_config: ServerConfig = DEFAULT_CONFIG,
    kind: type[ServerConnection] = ServerConnection,
) -> ServerConnection:
    """Return a connection brought to that state by real messages; draining has request 90 in flight."""
    core = kind(server_config, is_strict=True)
    if state is S.STATELESS:
        (served, *_) = core.receive(stateless(90))
        assert isinstance(served, e.Serve)
        core.finish(90, served.serial, b"{}")
    elif state is not S.FRESH:
        core.receive(initialize(version=version))
        if state is not S.HANDSHAKE:
            core.receive(INITIALIZED)
        if state is S.DRAINING:
            core.receive(call(90))
            core.step(e.DrainRequested(), 0.0)
        if state is S.CLOSED:
            core.step(e.StopRequested(), 0.0)
    assert core.state is state
    return core


class SlowConnection(ServerConnection):
    """The same connection without its fast path: every message goes through the table."""

    __slots__ = ()

    def receive(self, frame: bytes) -> e.Effects:
        return self.step(self.classify(decode(frame), len(frame)), 0.0)

    def finish(self, id: int | str, serial: int, result: bytes) -> e.Effects:
        return self.step(e.Finished(id, serial, result), 0.0)


class ComparedConnection(ServerConnection):
    """The same connection; what its fast path does is compared with what the table does to a copy."""

    __slots__ = ()

    def receive(self, frame: bytes) -> e.Effects:
        slow = copied(self)
        return self._compare(super().receive(frame), slow, SlowConnection.receive(slow, frame))

    def finish(self, id: int | str, serial: int, result: bytes) -> e.Effects:
        slow = copied(self)
        return self._compare(super().finish(id, serial, result), slow, SlowConnection.finish(slow, id, serial, result))

    def _compare(self, effects: e.Effects, slow: ServerConnection, expected: e.Effects) -> e.Effects:
        require([plain(x) for x in effects] == [plain(x) for x in expected], "the fast path differs", effects, expected)
        require(snapshot(self) == snapshot(slow), "the fast path leads elsewhere", self, slow)
        require((self.counts, self.in_flight) == (slow.counts, slow.in_flight), "the fast path counts otherwise")
        return effects


def copied(core: ServerConnection) -> ServerConnection:
    """Return an independent copy."""
    return _copied(core, {id(core._methods): core._methods})


def _copied(value: Any, copies: dict[int, Any]) -> Any:
    names = _copied_names(type(value))
    if names is None:
        return value
    if id(value) in copies:
        return copies[id(value)]
    copy: Any
    if isinstance(value, PendingBatch):
        copy = copies[id(value)] = replace(value, members=value.members.copy(), responses=value.responses.copy())
    elif isinstance(value, list):
        copy = copies[id(value)] = value.copy()
    elif isinstance(value, dict):
        copy = copies[id(value)] = {key: _copied(member, copies) for key, member in value.items()}
    else:
        copy = copies[id(value)] = object.__new__(type(value))
        for name in names:
            setattr(copy, name, _copied(getattr(value, name), copies))
    return copy


@cache
def _copied_names(kind: type) -> tuple[str, ...] | None:
    """Return the names of the members of a part of a connection; empty for a list or dict; None: not copied."""
    if issubclass(kind, list | dict):
        return ()
    if not issubclass(kind, ServerConnection | Negotiation | PeerRequests | OutgoingRequests | PendingBatch):
        return None
    return tuple(name for base in kind.__mro__ for name in getattr(base, "__slots__", ()))


def snapshot(core: ServerConnection) -> tuple[object, ...]:
    """Return everything that determines later behaviour, hashable; counters and serials do not."""
    requests, outgoing = core.peer_requests, core.outgoing
    return (
        core.state,
        core.version,
        core.client,
        core.wake_at,
        frozenset(requests.in_flight),
        frozenset(requests.progress.items()),
        frozenset(
            (tuple(sorted(batch.responses.items())), frozenset(batch.members.items()))
            for batch in requests.batches.values()
        ),
        outgoing._last_id,
        frozenset(outgoing.pending.items()),
        tuple(outgoing.queued),
    )


@lru_cache(maxsize=4096)
def parse(data: bytes) -> Any:
    return json.loads(data)


def sent(effects: Iterable[e.Effect]) -> list[Any]:
    """Return the messages that the effects send."""
    return [parse(effect.frame) for effect in effects if isinstance(effect, e.Send)]


def plain(effect: e.Effect) -> Any:
    """Return an effect as comparable values: views and exceptions are replaced by their contents."""
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


# --- the ledger -------------------------------------------------------------------------------------------------------


class InvariantError(AssertionError):
    """The core violated an invariant of its table."""


def require(condition: bool, violation: str, *details: object) -> None:
    if not condition:
        raise InvariantError(f"{violation}: {details}")


@dataclass(frozen=True)
class Input:
    """An input to the connection, and what a client may expect of it.

    `requests` are the ids that need a response, `cancels` the ids that are cancelled, `group` whether the requests came
    as one array; `malformed` is the id of an invalid request, whose error has that id unless a request with it is
    running. `silent`: no response may follow from it directly.
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
    outgoing_request: str | None = None
    withdrew: str | None = None


@dataclass
class Ledger:
    """The responses that are owed, computed from inputs and effects."""

    owed: dict[int | str, int] = field(default_factory=dict)
    running: dict[int | str, int] = field(default_factory=dict)
    zombies: frozenset[tuple[int | str, int]] = frozenset()
    groups: tuple[frozenset[int | str], ...] = ()
    outgoing: frozenset[str] = frozenset()
    server_ids: frozenset[int] = frozenset()
    deadline: float | None = None
    is_closed: bool = False

    def copy(self) -> "Ledger":
        return Ledger(
            self.owed.copy(),
            self.running.copy(),
            self.zombies,
            self.groups,
            self.outgoing,
            self.server_ids,
            self.deadline,
            self.is_closed,
        )

    def snapshot(self) -> tuple[object, ...]:
        return (
            frozenset(self.owed.items()),
            frozenset(self.running),
            frozenset(id for id, _ in self.zombies),
            frozenset(self.groups),
            self.outgoing,
            self.is_closed,
        )

    def run(self, input: Input, core: ServerConnection) -> e.Effects:
        """Apply the input and check every invariant of its effects."""
        before = core.state
        was_closed = self.is_closed
        before_running = dict(self.running)
        requests = input.requests
        if input.malformed is not None and input.malformed not in self.running:
            requests = (*requests, input.malformed)
        if not was_closed:
            for id in requests:
                self.owed[id] = self.owed.get(id, 0) + 1
        if input.outgoing_request is not None:
            self.outgoing |= {input.outgoing_request}
        if input.withdrew is not None:
            self.outgoing -= {input.withdrew}
        zombie = False
        if input.finished is not None:
            zombie = input.finished in self.zombies
            self.zombies -= {input.finished}
            if self.running.get(input.finished[0]) == input.finished[1]:
                del self.running[input.finished[0]]
        effects = input.act(core)
        for effect in effects:
            require(not (was_closed and not isinstance(effect, e.Fail)), "an effect after closed", effect)
            require(not (zombie and isinstance(effect, e.Send)), "a late result was sent", effect)
            self._process(effect, input)
        self._check_state(before, core, effects, input)
        self._check_rest(core, input, before_running)
        return effects

    def _process(self, effect: e.Effect, input: Input) -> None:
        match effect:
            case e.Serve(id=id, serial=serial):
                require(self.owed.get(id, 0) > 0, "served a request that was not made", id)
                require(id not in self.running, "served an id that is running", id)
                self.running[id] = serial
                if input.group:
                    self.groups = (*self.groups, frozenset(input.requests))
            case e.StopServing(id=id, serial=serial):
                require(self.running.get(id) == serial, "stopped a handler that does not run", id)
                require(id in input.cancels or input.stops, "stopped without a cause", id)
                del self.running[id]
                self.zombies |= {(id, serial)}
                self._pay(id)
            case e.Send():
                require(not self.is_closed, "sent after closed", effect)
                self._read(parse(effect.frame), input)
            case e.Complete(key=key) | e.Fail(key=key):
                require(key in self.outgoing, "a request to the client ended twice, or after it was withdrawn", key)
                self.outgoing -= {key}
            case e.Close():
                require(not self.is_closed, "closed twice")
                self.is_closed = True

    def _read(self, message: Any, input: Input) -> None:
        if isinstance(message, list):
            require(bool(message), "an empty array was sent")
            for member in message:
                self._answered(member)
        elif "method" in message:
            if "id" in message:
                require(message["id"] not in self.server_ids, "a request id of the server was used twice", message)
                self.server_ids |= {message["id"]}
        else:
            require(not input.silent, "a response to a notification", message)
            self._answered(message)

    def _answered(self, message: Any) -> None:
        require("result" in message or "error" in message, "not a response", message)
        id = message.get("id")
        if id is None:
            require("error" in message, "a result without an id", message)
            return
        require(self.owed.get(id, 0) > 0, "answered twice, or after a cancel", message)
        self._pay(id)
        require(not (id in self.running and id not in self.owed), "answered while its handler runs", message)

    def _pay(self, id: int | str) -> None:
        self.owed[id] -= 1
        if not self.owed[id]:
            del self.owed[id]

    def _check_state(self, before: S, core: ServerConnection, effects: e.Effects, input: Input) -> None:
        moves = [(x.source, x.target) for x in effects if isinstance(x, e.Transition)]
        here = before.value
        for source, target in moves:
            require(source == here, "a transition from elsewhere", source, here)
            here = target
        require(here == core.state.value, "the state changed without a transition", before, core.state)
        agreed = any("protocolVersion" in response.get("result", {}) for response in responses(effects))
        if before is S.FRESH:
            require(agreed == (("fresh", "handshake") in moves), "a handshake without its response", moves)
        served = any(isinstance(x, e.Serve) for x in effects)
        causes = {
            ("fresh", "handshake"): agreed,
            ("handshake", "operating"): input.name == "initialized",
            ("fresh", "stateless"): served,
        }
        for source, target in moves:
            is_caused = causes.get((source, target), input.ends if target in ("draining", "closed") else False)
            is_caused = is_caused or ((source, target) == ("draining", "closed") and not core.in_flight)
            require(is_caused, "a transition without a cause", source, target, input.name)
        refused = any(isinstance(x, e.Send) and isinstance(x.error, MachineError) for x in effects)
        require(not (refused and moves), "a refusal changed the state", moves, input.name)
        require(not (served and before in (S.DRAINING, S.CLOSED)), "served a request that came too late", input.name)

    def _check_rest(self, core: ServerConnection, input: Input, before_running: dict[int | str, int]) -> None:
        require(dict(core.in_flight) == self.running, "in flight and running differ", core.in_flight, self.running)
        for id in input.cancels:
            if id in before_running:
                require(self.running.get(id) != before_running[id], "a cancelled handler still runs", id)
        self.groups = tuple(group for group in self.groups if group & self.running.keys())
        for id in self.owed:
            waits = id in self.running or any(id in group for group in self.groups)
            require(waits, "a response was lost", id, input.name)
        limit = core.max_concurrent
        require(len(self.running) <= limit, "more requests are in flight than allowed", len(self.running))
        require(not (core.state is S.DRAINING and not self.running), "draining with nothing left")
        require(self.is_closed == (core.state is S.CLOSED), "closed without a Close effect", core.state)
        if self.is_closed:
            require(not self.running and not self.owed, "closed with responses owed", self.owed)
            require(not self.outgoing, "closed with open requests to the client", self.outgoing)
        require((core.wake_at is not None) == (core.state is S.DRAINING), "a wait without a deadline", core.state)
        require(self.deadline in (None, core.wake_at) or self.is_closed, "the deadline moved", core.wake_at)
        self.deadline = core.wake_at


def responses(effects: Iterable[e.Effect]) -> list[dict[str, Any]]:
    """Return every response that is sent, including those inside arrays."""
    found: list[dict[str, Any]] = []
    for message in sent(effects):
        found += [m for m in (message if isinstance(message, list) else [message]) if "method" not in m]
    return found


def refusal(effects: e.Effects) -> GuardRefusedError | MachineError:
    """Return the single machine error among the effects."""
    (error,) = [x.error for x in effects if isinstance(x, e.Send) and isinstance(x.error, MachineError)]
    return error
