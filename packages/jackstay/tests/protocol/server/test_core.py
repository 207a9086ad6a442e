"""The connection as an object: its names, its copies, its repr, and two of them side by side."""

import itertools
import sys
from typing import Any

import msgspec
import pytest

from jackstay.errors import InvalidEventError, UsageError
from jackstay.protocol.server import events as e
from jackstay.protocol.server._connection import ServerConnection
from jackstay.protocol.server._table import Do, When
from jackstay.protocol.server._table import ServerState as S
from model.server import (
    INITIALIZED,
    OFFER,
    SlowConnection,
    array,
    call,
    cancel,
    connect,
    frame,
    initialize,
    plain,
    stateless,
)
from model.server_checks import (
    NOW,
)


def test_every_name_of_the_table_has_a_meaning() -> None:
    assert set(ServerConnection.DO) == set(Do)
    assert set(ServerConnection.WHEN) == set(When)


def test_two_connections_stepped_in_turn_do_not_notice_each_other() -> None:
    good = (initialize(), INITIALIZED, call(1), call(2), cancel(1), call(1), frame(id=7, method="ping"))
    bad = (call(1), b"[", stateless(1), stateless(2), cancel(1), stateless(1), initialize())

    def run(core: ServerConnection, frames: tuple[bytes, ...]) -> list[Any]:
        return [plain(effect) for frame in frames for effect in core.receive(frame, NOW)]

    alone = run(ServerConnection(OFFER), good), run(ServerConnection(OFFER), bad)
    for pattern in itertools.product((0, 1), repeat=4):
        cores = ServerConnection(OFFER), ServerConnection(OFFER)
        queues = [list(good), list(bad)]
        seen: tuple[list[Any], list[Any]] = ([], [])
        for turn in itertools.cycle((*pattern, 1 - pattern[0])):
            if not any(queues):
                break
            which = turn if queues[turn] else 1 - turn
            seen[which].extend(run(cores[which], (queues[which].pop(0),)))
        assert seen == alone


def test_a_copy_is_the_same_and_goes_its_own_way() -> None:
    core = connect(S.OPERATING, "2025-03-26")
    core.receive(array(call(1), call(2)), NOW)
    core.step(e.Asked("a", "roots/list"), NOW)
    core.step(e.Progressed(1, core.in_flight[1], "t", 1.0), NOW)
    twin = core.copy()
    assert twin.snapshot() == core.snapshot()
    assert hash(twin.snapshot()) == hash(core.snapshot())
    for event in (e.Finished(1, core.in_flight[1]), e.Withdrew("a"), e.StopAsked()):
        before = core.snapshot()
        twin.step(event, NOW)
        assert core.snapshot() == before != twin.snapshot()
    assert core.in_flight.keys() == {1, 2}


def test_its_repr_shows_where_it_stands() -> None:
    core = connect(S.FRESH)
    assert repr(core) == "<ServerConnection fresh, 0 in flight>"
    core = connect(S.DRAINING)
    assert repr(core) == "<ServerConnection draining 2025-11-25, 1 in flight>"
    assert "90" in repr(core._exchanges)
    assert repr(core._asks) == "<Asks {}, 0 held>"


def test_a_request_in_flight_does_not_keep_its_frame_alive() -> None:
    core = connect(S.OPERATING)
    (serve,) = core.receive(call(1, text="x" * 1000), NOW)
    assert isinstance(serve, e.Serve)
    raw = serve.params
    alone = e.Serve(1, 1, serve.method, msgspec.Raw(b"{}"), "2025-11-25")
    raw_of_alone = alone.params
    # Held by the effect and here, as one that no core ever saw is.
    assert sys.getrefcount(raw) == sys.getrefcount(raw_of_alone)
    assert core.in_flight == {1: serve.serial}
    slow = connect(S.OPERATING, kind=SlowConnection)
    slow.receive(call(1, text="x" * 1000), NOW)
    assert slow._out == []


def test_a_driver_sees_where_it_stands() -> None:
    core = connect(S.OPERATING)
    assert (core.version, core.wake_at, dict(core.counts)) == ("2025-11-25", None, {})
    core.step(e.Asked("k", "roots/list", about=5), NOW)
    core.receive(call(5), NOW)
    core.step(e.ClientGone(), NOW)
    assert (core.state, core.wake_at) == (S.DRAINING, NOW + 1.0)
    assert core.in_flight.keys() == {5}
    assert not core.asked
    core.step(e.ClientGone(), NOW + 0.5)
    assert core.wake_at == NOW + 1.0
    assert core.counts == {"ignored ClientGone": 1}


def test_a_connection_starts_where_its_version_says() -> None:
    assert ServerConnection(OFFER).state is S.FRESH
    assert ServerConnection(OFFER, version="2024-11-05").state is S.OPERATING
    assert ServerConnection(OFFER, version="2026-07-28").state is S.STATELESS
    with pytest.raises(UsageError):
        ServerConnection(OFFER, version="1999-01-01")


def test_a_pair_that_cannot_happen_is_counted_and_raises_in_tests() -> None:
    core = ServerConnection(OFFER)
    assert core.step(e.Emptied(), NOW) == []
    assert core.counts == {"impossible Emptied": 1}
    with pytest.raises(InvalidEventError):
        connect(S.FRESH).step(e.Emptied(), NOW)


def test_an_event_of_another_machine_is_refused() -> None:
    with pytest.raises(UsageError):
        ServerConnection(OFFER).step(e.Event(), NOW)


def test_an_idle_connection_is_small() -> None:
    core = connect(S.OPERATING)
    parts = [core, core._exchanges, core._asks, core._exchanges._batches]
    held = [
        getattr(part, name)
        for part in parts
        for kind in type(part).__mro__
        for name in getattr(kind, "__slots__", ())
    ]
    own = [part for part in held if isinstance(part, dict | list | set) and part is not core._rows]
    assert sum(sys.getsizeof(part) for part in [*parts, *own]) < 2048
