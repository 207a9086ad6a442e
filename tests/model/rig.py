"""A driver for tests of the client's core: it holds the clock, steps events, and keeps what came out.

It adds nothing of its own: no event is stepped that a test did not ask for, except where a method says so. Every
effect of every turn is kept in `history`, the last turn's in `out`.

Above: packages/jackstay/tests/protocol/client/. Below: the real `ClientConnection`.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

from jackstay.errors import McpError, TransportError
from jackstay.protocol._versions import VERSIONS, Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._connection import ClientConnection
from jackstay.protocol.client._settings import Settings
from jackstay.protocol.client._table import ClientState, Timer

S = ClientState

HANDSHAKE = ("2025-11-25",)
STATELESS = ("2026-07-28",)
BOTH = VERSIONS

Kind = TypeVar("Kind", bound=e.Effect)


def initialized(version: str = "2025-11-25") -> dict[str, Any]:
    """The InitializeResult of a server that speaks `version`."""
    return {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"},
    }


def discovered(*versions: str) -> dict[str, Any]:
    """The DiscoverResult of a server that speaks `versions`."""
    return {
        "resultType": "complete",
        "supportedVersions": list(versions or STATELESS),
        "capabilities": {"tools": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}},
    }


class Rig:
    """One connection under a fake clock."""

    def __init__(
        self, *, is_http: bool = False, verdict: Era | None = None, is_strict: bool = True, **options: Any
    ) -> None:
        options.setdefault("versions", HANDSHAKE)
        options.setdefault("wait_for_ready", False)  # tests name it where a call is to wait
        options.setdefault(
            "max_attempts", 5
        )  # whatever the failure shows; None is tried in test_recovery_first.py
        self.core = ClientConnection(
            Settings(**options), is_http=is_http, verdict=verdict, is_strict=is_strict
        )
        self.now = 0.0
        self.luck = 0.5
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

    def _took(self, effects: list[e.Effect]) -> list[e.Effect]:
        self.out = effects
        self.history.extend(effects)
        return effects

    def start(self) -> list[e.Effect]:
        return self._took(self.core.start(self.now))

    def step(self, event: e.Event) -> list[e.Effect]:
        return self._took(self.core.step(event, self.now, self.luck))

    def receive(self, frame: bytes, epoch: int | None = None) -> list[e.Effect]:
        epoch = self.epoch if epoch is None else epoch
        return self._took(self.core.receive(frame, epoch, self.now, self.luck))

    def say(self, **message: Any) -> list[e.Effect]:
        """The peer sends this message."""
        return self.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def wait(self, seconds: float) -> list[e.Effect]:
        """Let time pass, with every timer run at its time. What came of it, in order."""
        end, came = self.now + seconds, []
        while (at := self.core.wake_at) is not None and at <= end:
            self.now = max(self.now, at)
            for event in self.core.due(self.now):
                came.extend(self.step(event))
        self.now = end
        self.out = came
        return came

    # --- what the transport does --------------------------------------------------------------------------------------

    def spawned(self) -> list[e.Effect]:
        return self.step(e.Spawned(self.epoch))

    def up(self) -> list[e.Effect]:
        return self.step(e.CameUp(self.epoch))

    def down(
        self, error: McpError | None = None, code: int | None = None, *, was_silent: bool = False
    ) -> list[e.Effect]:
        return self.step(e.WentDown(self.epoch, error or TransportError("the pipe broke"), code, was_silent))

    def reaped(self) -> list[e.Effect]:
        return self.step(e.Reaped(self.epoch))

    def wrote(self, through: int | None = None) -> list[e.Effect]:
        """The transport has given all frames so far to the operating system."""
        return self.step(e.Wrote(self.epoch, self.core.calls.number if through is None else through))

    def lost(self, id: int, error: McpError, *, was_declined: bool = False) -> list[e.Effect]:
        return self.step(e.ExchangeLost(self.epoch, id, error, was_declined))

    # --- ways to a state ----------------------------------------------------------------------------------------------

    def connect(self) -> Rig:
        """From the beginning, or from a fresh spawn, until the first question is with the server."""
        if self.epoch == 0:
            self.start()
        self.spawned()
        self.up()
        self.wrote()
        return self

    def agree(self, version: str = "2025-11-25") -> Rig:
        """The server answers the newest question of the negotiation."""
        talk = self.core._negotiation
        if version in STATELESS:
            assert talk.probe_id is not None
            self.say(id=talk.probe_id, result=discovered())
        else:
            assert talk.handshake_id is not None
            self.say(id=talk.handshake_id, result=initialized(version))
        assert self.state is S.READY, self.core
        return self

    def ready(self, version: str | None = None) -> Rig:
        self.connect()
        if version is None:
            version = self.core.settings.versions[-1]
        return self.agree(version)

    def reconnect(self) -> Rig:
        """From backoff with an unreaped transport to the first question of the next one."""
        self.reaped()
        at = self.core.calls.timers.at(Timer.BACKOFF)
        if at is not None:
            self.wait(at - self.now)
        assert self.state is S.STARTING, self.core
        self.spawned()
        self.up()
        self.wrote()
        return self

    # --- what the user does -------------------------------------------------------------------------------------------

    def call(self, caller: object = None, method: str = "tools/call", **options: Any) -> int:
        """Make a call; its id (0: refused at once)."""
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

    def answer(self, id: int, result: Any = None) -> list[e.Effect]:
        return self.say(id=id, result={} if result is None else result)

    def refuse(self, id: int) -> list[e.Effect]:
        return self.step(e.Refused(self.epoch, id))

    def stop(self) -> list[e.Effect]:
        return self.step(e.StopAsked())

    # --- looking at what came out -------------------------------------------------------------------------------------

    def effects(self, kind: type[Kind], effects: list[e.Effect] | None = None) -> list[Kind]:
        return [effect for effect in (self.out if effects is None else effects) if isinstance(effect, kind)]

    def frames(self, effects: list[e.Effect] | None = None) -> list[dict[str, Any]]:
        """What was handed to the transport, decoded."""
        return [json.loads(effect.frame) for effect in self.effects(e.Send, effects)]

    def methods(self, effects: list[e.Effect] | None = None) -> list[str]:
        return [frame.get("method", "answer") for frame in self.frames(effects)]

    def only(self, kind: type[Kind]) -> Kind:
        """The one effect of that kind."""
        (effect,) = self.effects(kind)
        return effect

    def error_of(self, caller: object) -> McpError:
        """The one error that this caller was ever given."""
        (effect,) = [effect for effect in self.effects(e.Fail, self.history) if effect.caller == caller]
        return effect.error

    def outcomes_of(self, caller: object) -> int:
        return sum(
            effect.caller == caller for effect in self.history if isinstance(effect, e.Fail | e.Complete)
        )

    def kinds(self, effects: list[e.Effect] | None = None) -> str:
        return " ".join(type(effect).__name__ for effect in (self.out if effects is None else effects))


def rig_in(state: ClientState, **options: Any) -> Rig:
    """A rig in that state, reached the plainest way: handshake era, no calls."""
    rig = Rig(**options)
    rig.start()
    if state is S.STARTING:
        return rig
    rig.spawned()
    rig.up()
    rig.wrote()
    if state is S.INITIALIZING:
        return rig
    rig.agree(rig.core.settings.versions[-1])
    if state is S.READY:
        return rig
    if state is S.BACKOFF:
        rig.down()
        return rig
    rig.stop()
    if state is S.CLOSED:
        rig.reaped()
    assert rig.state is state
    return rig
