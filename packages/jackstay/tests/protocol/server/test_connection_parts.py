"""The connection as an object: its components, copies, repr, and isolation of two connections."""

import itertools
import json
import sys
from typing import Any

import msgspec
import pytest

from jackstay.errors import InvalidEventError, UsageError
from jackstay.protocol.server import events as e
from jackstay.protocol.server._connection import ServerConnection
from jackstay.protocol.server._states import ServerState as S
from model.server import (
    DEFAULT_CONFIG,
    INITIALIZED,
    SlowConnection,
    array,
    call,
    cancel,
    connect,
    copied,
    frame,
    initialize,
    plain,
    snapshot,
    stateless,
)
from model.server_checks import (
    NOW,
)


def test_two_connections_do_not_affect_each_other() -> None:
    good = (initialize(), INITIALIZED, call(1), call(2), cancel(1), call(1), frame(id=7, method="ping"))
    bad = (call(1), b"[", stateless(1), stateless(2), cancel(1), stateless(1), initialize())

    def run(core: ServerConnection, frames: tuple[bytes, ...]) -> list[Any]:
        return [plain(effect) for frame in frames for effect in core.receive(frame)]

    alone = run(ServerConnection(DEFAULT_CONFIG), good), run(ServerConnection(DEFAULT_CONFIG), bad)
    for pattern in itertools.product((0, 1), repeat=4):
        cores = ServerConnection(DEFAULT_CONFIG), ServerConnection(DEFAULT_CONFIG)
        queues = [list(good), list(bad)]
        seen: tuple[list[Any], list[Any]] = ([], [])
        for turn in itertools.cycle((*pattern, 1 - pattern[0])):
            if not any(queues):
                break
            index = turn if queues[turn] else 1 - turn
            seen[index].extend(run(cores[index], (queues[index].pop(0),)))
        assert seen == alone


def test_a_stateless_request_is_served_only_in_the_revision_of_the_connection() -> None:
    for kind in (ServerConnection, SlowConnection):
        core = connect(S.STATELESS, kind=kind)
        (serve,) = core.receive(stateless(1))
        assert isinstance(serve, e.Serve)
        (send,) = core.receive(stateless(2, meta={"io.modelcontextprotocol/protocolVersion": "2027-01-01"}))
        assert isinstance(send, e.Send)
        assert json.loads(send.frame)["error"]["code"] == -32022


def test_a_copy_is_independent() -> None:
    core = connect(S.OPERATING, "2025-03-26")
    core.receive(array(call(1), call(2)))
    core.step(e.OutgoingRequested("a", "roots/list"), NOW)
    core.step(e.Progressed(1, core.in_flight[1], "t", 1.0), NOW)
    clone = copied(core)
    assert snapshot(clone) == snapshot(core)
    assert hash(snapshot(clone)) == hash(snapshot(core))
    for event in (e.Finished(1, core.in_flight[1]), e.OutgoingCancelled("a"), e.StopRequested()):
        before = snapshot(core)
        clone.step(event, NOW)
        assert snapshot(core) == before != snapshot(clone)
    assert core.in_flight.keys() == {1, 2}


def test_repr_shows_the_state() -> None:
    core = connect(S.FRESH)
    assert repr(core) == "<ServerConnection fresh, 0 in flight>"
    core = connect(S.DRAINING)
    assert repr(core) == "<ServerConnection draining 2025-11-25, 1 in flight>"
    assert "90" in repr(core.peer_requests)
    assert repr(core.outgoing) == "<OutgoingRequests {}, 0 queued>"


def test_a_request_in_flight_does_not_keep_its_frame() -> None:
    core = connect(S.OPERATING)
    (serve,) = core.receive(call(1, text="x" * 1000))
    assert isinstance(serve, e.Serve)
    raw = serve.params
    alone = e.Serve(1, 1, serve.method, msgspec.Raw(b"{}"), "2025-11-25")
    raw_of_alone = alone.params
    # The same references as for an effect that no core has created.
    assert sys.getrefcount(raw) == sys.getrefcount(raw_of_alone)
    assert core.in_flight == {1: serve.serial}
    slow = connect(S.OPERATING, kind=SlowConnection)
    slow.receive(call(1, text="x" * 1000))
    assert slow.out == []


def test_the_properties_for_drivers() -> None:
    core = connect(S.OPERATING)
    assert (core.version, core.wake_at, dict(core.counts)) == ("2025-11-25", None, {})
    core.step(e.OutgoingRequested("k", "roots/list", related_request_id=5), NOW)
    core.receive(call(5))
    core.step(e.ClientDisconnected(), NOW)
    assert (core.state, core.wake_at) == (S.DRAINING, NOW + 1.0)
    assert core.in_flight.keys() == {5}
    assert not core.outgoing_requests
    core.step(e.ClientDisconnected(), NOW + 0.5)
    assert core.wake_at == NOW + 1.0
    assert core.counts == {"ignored ClientDisconnected": 1}


def test_the_version_determines_the_first_state() -> None:
    assert ServerConnection(DEFAULT_CONFIG).state is S.FRESH
    assert ServerConnection(DEFAULT_CONFIG, version="2024-11-05").state is S.OPERATING
    assert ServerConnection(DEFAULT_CONFIG, version="2026-07-28").state is S.STATELESS
    with pytest.raises(UsageError):
        ServerConnection(DEFAULT_CONFIG, version="1999-01-01")


def test_an_impossible_event_is_counted_or_raises() -> None:
    core = ServerConnection(DEFAULT_CONFIG)
    assert core.step(e.Drained(), NOW) == []
    assert core.counts == {"impossible Drained": 1}
    with pytest.raises(InvalidEventError):
        connect(S.FRESH).step(e.Drained(), NOW)


def test_an_event_of_another_machine_is_refused() -> None:
    with pytest.raises(UsageError):
        ServerConnection(DEFAULT_CONFIG).step(e.Event(), NOW)


def test_an_idle_connection_is_small() -> None:
    core = connect(S.OPERATING)
    parts = [core, core.peer_requests, core.outgoing, core.negotiation]
    attributes = [
        getattr(part, name) for part in parts for kind in type(part).__mro__ for name in getattr(kind, "__slots__", ())
    ]
    own = [part for part in attributes if isinstance(part, dict | list | set) and part is not core._methods]
    assert sum(sys.getsizeof(part) for part in [*parts, *own]) < 2048
