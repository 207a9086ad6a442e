"""A driver for tests of a client's connection: it has a fake clock, steps events and records effects.

It steps no event by itself, except where a method states so. `history` has the effects of all turns, `out` those of the
last one.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

from jackstay.errors import McpError, TransportError
from jackstay.protocol._versions import VERSIONS, Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._connection import ClientConnection
from jackstay.protocol.client._settings import Settings
from jackstay.protocol.client._states import ClientState
from jackstay.protocol.wire._jsonrpc import decode
from model.copies import copied

S = ClientState

HANDSHAKE = ("2025-11-25",)
STATELESS = ("2026-07-28",)
BOTH = VERSIONS

Kind = TypeVar("Kind", bound=e.Effect)


def initialized(version: str = "2025-11-25") -> dict[str, Any]:
    """Return the InitializeResult of a server that supports `version`."""
    return {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"},
    }


def discovered(*versions: str) -> dict[str, Any]:
    """Return the DiscoverResult of a server that supports `versions`."""
    return {
        "resultType": "complete",
        "supportedVersions": list(versions or STATELESS),
        "capabilities": {"tools": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}},
    }


def receive(core: ClientConnection, frame: bytes, epoch: int, now: float, jitter: float = 0.5) -> list[e.Effect]:
    """Process a frame as the driver does, and return the effects, in order."""
    message = core.accept(frame, epoch)
    if isinstance(message, e.Complete):
        return [message, *core.flush(now, jitter)]
    return core.process(message, len(frame), epoch, now, jitter)


class Harness:
    """One connection under a fake clock."""

    def __init__(
        self, *, is_http: bool = False, known_era: Era | None = None, is_strict: bool = True, **options: Any
    ) -> None:
        options.setdefault("versions", HANDSHAKE)
        options.setdefault("wait_for_ready", False)  # tests set it where a call is to wait
        options.setdefault("max_attempts", 5)  # None is tested in test_recovery_first.py
        self.core = ClientConnection(Settings(**options), is_http=is_http, is_strict=is_strict)
        self.core.negotiation.known_era = known_era
        self.now = 0.0
        self.jitter = 0.5
        self.out: list[e.Effect] = []
        self.history: list[e.Effect] = []
        self.callers = 0

    # --- stepping -----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ClientState:
        return self.core.state

    @property
    def epoch(self) -> int:
        return self.core.epoch

    def _record(self, effects: list[e.Effect]) -> list[e.Effect]:
        self.out = effects
        self.history.extend(effects)
        return effects

    def start(self) -> list[e.Effect]:
        return self._record(self.core.start(self.now))

    def step(self, event: e.Event) -> list[e.Effect]:
        return self._record(self.core.step(event, self.now, self.jitter))

    def receive(self, frame: bytes, epoch: int | None = None) -> list[e.Effect]:
        epoch = self.epoch if epoch is None else epoch
        return self._record(receive(self.core, frame, epoch, self.now, self.jitter))

    def receive_json(self, **message: Any) -> list[e.Effect]:
        """Receive this message from the server."""
        return self.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def wait(self, seconds: float) -> list[e.Effect]:
        """Advance the clock and step every timer at its time. Returns the effects in order."""
        end, effects = self.now + seconds, []
        while (at := self.core.wake_at) is not None and at <= end:
            self.now = max(self.now, at)
            for event in self.core.due(self.now):
                effects.extend(self.step(event))
        self.now = end
        self.out = effects
        return effects

    # --- events of the transport --------------------------------------------------------------------------------------

    def spawned(self) -> list[e.Effect]:
        return self.step(e.Spawned(self.epoch))

    def down(
        self, error: McpError | None = None, code: int | None = None, *, was_silent: bool = False
    ) -> list[e.Effect]:
        return self.step(e.WentDown(self.epoch, error or TransportError("the pipe broke"), code, was_silent))

    def reaped(self) -> list[e.Effect]:
        return self.step(e.Reaped(self.epoch))

    def wrote(self, through: int | None = None) -> None:
        """The transport has passed all frames so far to the operating system."""
        self.core.wrote(self.epoch, self.core.calls.number if through is None else through)

    def lost(self, id: int, error: McpError, *, was_declined: bool = False) -> list[e.Effect]:
        return self.step(e.ExchangeLost(self.epoch, id, error, was_declined))

    # --- ways to a state ----------------------------------------------------------------------------------------------

    def connect(self) -> Harness:
        """Connect, from the beginning or from a new spawn, until the first request of the negotiation is written."""
        if self.epoch == 0:
            self.start()
        self.spawned()
        self.wrote()
        return self

    def agree(self, version: str = "2025-11-25") -> Harness:
        """The server accepts the newest request of the negotiation."""
        negotiation = self.core.negotiation
        if version in STATELESS:
            assert negotiation.probe_id is not None
            self.receive_json(id=negotiation.probe_id, result=discovered())
        else:
            assert negotiation.handshake_id is not None
            self.receive_json(id=negotiation.handshake_id, result=initialized(version))
        assert self.state is S.READY, self.core
        return self

    def ready(self, version: str | None = None) -> Harness:
        self.connect()
        if version is None:
            version = self.core.settings.versions[-1]
        return self.agree(version)

    def reconnect(self) -> Harness:
        """Reconnect, from backoff with an unreaped transport to the first request of the next negotiation."""
        self.reaped()
        at = self.core.calls.timers.at(e.BackoffElapsed)
        if at is not None:
            self.wait(at - self.now)
        assert self.state is S.STARTING, self.core
        self.spawned()
        self.wrote()
        return self

    # --- requests of the user -----------------------------------------------------------------------------------------

    def call(self, caller: object = None, method: str = "tools/call", **options: Any) -> int:
        """Make a call and return its id (0: it was refused immediately)."""
        if caller is None:
            self.callers += 1
            caller = f"caller {self.callers}"
        self.step(e.Called(caller=caller, method=method, **options))
        accepted = self.effects(e.Accept)
        return accepted[0].id if accepted else 0

    def written_call(self, caller: object = None, **options: Any) -> int:
        id = self.call(caller, **options)
        self.wrote()
        return id

    def respond(self, id: int, result: Any = None) -> list[e.Effect]:
        return self.receive_json(id=id, result={} if result is None else result)

    def refuse(self, id: int) -> list[e.Effect]:
        return self.step(e.Refused(self.epoch, id))

    def stop(self) -> list[e.Effect]:
        return self.step(e.StopRequested())

    # --- recorded effects ---------------------------------------------------------------------------------------------

    def effects(self, kind: type[Kind], effects: list[e.Effect] | None = None) -> list[Kind]:
        return [effect for effect in (self.out if effects is None else effects) if isinstance(effect, kind)]

    def frames(self, effects: list[e.Effect] | None = None) -> list[dict[str, Any]]:
        """Return the frames passed to the transport, decoded."""
        return [json.loads(effect.frame) for effect in self.effects(e.Send, effects)]

    def methods(self, effects: list[e.Effect] | None = None) -> list[str]:
        return [frame.get("method", "response") for frame in self.frames(effects)]

    def only(self, kind: type[Kind]) -> Kind:
        """Return the single effect of that kind."""
        (effect,) = self.effects(kind)
        return effect

    def error_of(self, caller: object) -> McpError:
        """Return the single error that this caller ever got."""
        (effect,) = [effect for effect in self.effects(e.Fail, self.history) if effect.caller == caller]
        return effect.error

    def outcomes_of(self, caller: object) -> int:
        return sum(effect.caller == caller for effect in self.history if isinstance(effect, e.Fail | e.Complete))

    def kinds(self, effects: list[e.Effect] | None = None) -> str:
        return " ".join(type(effect).__name__ for effect in (self.out if effects is None else effects))


def harness_in(state: ClientState, **options: Any) -> Harness:
    """Return a harness in that state, reached in the simplest way: handshake era, no calls."""
    harness = Harness(**options)
    harness.start()
    if state is S.STARTING:
        return harness
    harness.spawned()
    harness.wrote()
    if state is S.INITIALIZING:
        return harness
    harness.agree(harness.core.settings.versions[-1])
    if state is S.READY:
        return harness
    if state is S.BACKOFF:
        harness.down()
        return harness
    harness.stop()
    if state is S.CLOSED:
        harness.reaped()
    assert harness.state is state
    return harness


def compare_plain_call(core: ClientConnection, event: e.Called, now: float) -> bool:
    """Check that `call()` does the same as a `Called` event without options, or nothing. Returns whether it did it."""
    if event != e.Called(caller=event.caller, method=event.method, params=event.params):
        return False
    short, long = copied(core), copied(core)
    send = short.call(event.caller, event.method, event.params, now)
    if send is None:
        assert _content(short) == _content(core), "call() returned None, but changed something"
        return False
    assert send.id is not None
    assert long.step(event, now) == [e.Accept(event.caller, send.id), send]
    assert _content(short) == _content(long), "call() and the event differ"
    return True


def receive_compared(core: ClientConnection, frame: bytes, epoch: int, now: float) -> list[e.Effect]:
    """Do the same as `receive()`, and check that `accept()` and `flush()` do the same as the table."""
    before = copied(core)
    effects = receive(core, frame, epoch, now)
    assert effects == before.process(decode(frame), len(frame), epoch, now)
    assert _content(core) == _content(before), "accept() and the table differ"
    return effects


def _content(core: ClientConnection) -> dict[str, object]:
    """Return everything in a connection that a step can change, in a form that can be compared."""
    calls = core.calls
    content = {name: value for name, value in vars(calls).items() if name not in ("jitter", "out", "tombstones")}
    content["timers"] = (calls.timers.armed, calls.timers.earliest)
    for component in (core.health, core.recovery, core.transport):
        content |= {name: getattr(component, name) for name in component.__struct_fields__ if name != "calls"}
    return {**content, "state": core.state, "counts": core.counts, "epoch": core.epoch}
