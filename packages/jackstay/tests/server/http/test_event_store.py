"""The event store in memory passes the suite, and respects its limits."""

import pytest

from jackstay.errors import UsageError
from jackstay.server.http import MemoryEventStore
from jackstay.testing import store_suites


class TestMemoryEventStore(store_suites.EventStoreSuite):
    def make(self) -> MemoryEventStore:
        return MemoryEventStore()


async def test_a_session_keeps_its_newest_events() -> None:
    store = MemoryEventStore(max_events=3)
    for number in range(6):
        await store.append("s", "a", number, b"x")
    assert await store.replay("s", "a", 2) == [(3, b"x"), (4, b"x"), (5, b"x")]
    assert await store.replay("s", "a", 1) is None, "dropped events are not skipped silently"
    assert "1 sessions" in repr(store)


async def test_the_bytes_of_a_session_are_limited() -> None:
    store = MemoryEventStore(max_bytes=100)
    for number in range(6):
        await store.append("s", "a", number, b"x" * 40)
    assert await store.replay("s", "a", 3) == [(4, b"x" * 40), (5, b"x" * 40)]
    await store.append("s", "a", 6, b"x" * 101)
    assert await store.replay("s", "a", 6) == []
    assert await store.replay("s", "a", 5) is None


async def test_the_bytes_of_all_sessions_are_limited() -> None:
    """The session that was inactive longest loses its events first."""
    store = MemoryEventStore(max_total_bytes=100)
    for session in ("a", "b", "a", "c"):
        await store.append(session, "x", 0 if session != "a" else 1, b"x" * 30)
    assert "120" not in repr(store)
    assert await store.replay("b", "x", 0) is None
    assert await store.replay("a", "x", 1) == []
    assert await store.replay("c", "x", 0) == []
    await store.append("d", "x", 0, b"x" * 1000)
    assert await store.replay("d", "x", 0) == []
    assert repr(store) == "<MemoryEventStore of 1 sessions, 1000 bytes>"
    await store.forget("d")
    assert repr(store) == "<MemoryEventStore of 0 sessions, 0 bytes>"


def test_a_limit_below_1_is_refused(subtests: pytest.Subtests) -> None:
    for bound in ("max_events", "max_bytes", "max_total_bytes"):
        with subtests.test(bound=bound):
            with pytest.raises(UsageError) as refused:
                MemoryEventStore(**{bound: 0})
            assert refused.value.path == bound


async def test_streams_without_stored_events_are_forgotten() -> None:
    store = MemoryEventStore(max_events=2)
    for number in range(20):
        await store.append("s", f"stream {number}", 0, b"")
    assert await store.replay("s", "stream 0", 0) is None
    assert await store.replay("s", "stream 19", 0) == []
    assert len(store._sessions["s"].dropped) <= 5
