"""Checks of what a server's connection sends: error classes, codes and fields, and the state afterwards.

Each accepts the connection, the state before and the effects. The text of messages is not checked.
"""

from collections.abc import Callable
from typing import Any

from jackstay.errors import (
    GuardRefusedError,
    InvalidEventError,
    MachineError,
    UnknownEventError,
)
from jackstay.protocol.server import events as e
from jackstay.protocol.server._connection import ServerConnection
from jackstay.protocol.server._states import ServerState as S
from jackstay.protocol.wire._jsonrpc import decode
from model.server import (
    call,
    frame,
    refusal,
    responses,
    stateless,
)

NOW = 100.0
CHANGED = frame(method="notifications/roots/list_changed")

Check = Callable[[ServerConnection, S, e.Effects], None]


def dropped(core: ServerConnection, before: S, effects: e.Effects) -> None:
    assert (effects, core.state) == ([], before)


def answered(core: ServerConnection, before: S, effects: e.Effects) -> None:
    (response,) = responses(effects)
    assert response["id"] == 7
    assert "result" in response
    assert core.state is before


def errs(code: int) -> Check:
    """Expect an error about an invalid frame: no machine error, one violation, the same state."""

    def check(core: ServerConnection, before: S, effects: e.Effects) -> None:
        (response,) = responses(effects)
        assert response["error"]["code"] == code
        assert [type(effect) for effect in effects] == [e.Send, e.Violation]
        assert core.state is before

    return check


def refuses(code: int, kind: type[MachineError], **fields: Any) -> Check:
    """Expect a machine error with this class, code and data, and the same state."""

    def check(core: ServerConnection, before: S, effects: e.Effects) -> None:
        (response,) = responses(effects)
        error = refusal(effects)
        assert type(error) is kind
        assert error.code == response["error"]["code"] == code
        data = response["error"]["data"]
        assert data["fsmError"] == kind.__name__
        assert data["state"] == before.value == error.state
        assert data["event"] == error.event
        assert data.items() >= fields.items()
        assert ("reason" in data) == (kind is GuardRefusedError)
        assert core.state is before

    return check


def served(to: S | None = None) -> Check:
    def check(core: ServerConnection, before: S, effects: e.Effects) -> None:
        serve, *rest = effects
        assert isinstance(serve, e.Serve)
        assert serve.id == 7
        assert core.in_flight[7] == serve.serial
        assert core.state is (to or before)
        assert [type(effect) for effect in rest] == ([e.Transition] if to else [])

    return check


def agreed(core: ServerConnection, before: S, effects: e.Effects) -> None:
    assert responses(effects)[0]["result"]["protocolVersion"] == "2025-11-25"
    assert effects[1] == e.Transition("fresh", "handshake", "initialize requested")
    assert core.state is S.HANDSHAKE


def effect(*kinds: type[e.Effect], to: S | None = None) -> Check:
    def check(core: ServerConnection, before: S, effects: e.Effects) -> None:
        assert tuple(type(effect) for effect in effects) == kinds
        assert core.state is (to or before)

    return check


SEQUENCE = refuses(-32001, InvalidEventError)
LATE_ERA = refuses(-32600, InvalidEventError, event="StatelessRequested")
SHUTDOWN = refuses(-32603, GuardRefusedError, retryable=True)
UNKNOWN = refuses(-32601, UnknownEventError)
VERSION = refuses(-32022, GuardRefusedError, requested="2027-01-01",
                  supported=["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])  # fmt: skip
NO_HANDSHAKE = refuses(-32022, GuardRefusedError, supported=["2026-07-28"], requested="2025-11-25")
NO_META = refuses(-32602, GuardRefusedError, key="_meta")
DUPLICATE = refuses(-32600, GuardRefusedError, event="DuplicateRequested")
STRAY, VIOLATION = effect(e.Stray), effect(e.Violation)
STOP, DELIVER = effect(e.StopServing), effect(e.Deliver)
DRAINED = effect(e.Transition, e.Transition, e.Close, to=S.CLOSED)
OPERATES = effect(e.Transition, to=S.OPERATING)


def deliver(core: ServerConnection, message: bytes | e.Event) -> e.Effects:
    return core.receive(message) if isinstance(message, bytes) else core.step(message, NOW)


def put_in_flight(core: ServerConnection, id: int | str) -> int:
    """Put a request in flight, even in states in which a new one would be refused."""
    if core.state in (S.FRESH, S.CLOSED):
        return 0
    if core.state is S.DRAINING:
        request = decode(call(id))
        core.peer_requests.serve(request, core.config.known_in_any_version["tools/call"], "2025-11-25", None)
        return core.in_flight[id]
    (serve,) = core.receive(stateless(id) if core.state is S.STATELESS else call(id))
    assert isinstance(serve, e.Serve)
    return serve.serial
