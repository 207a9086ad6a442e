"""The event store in memory keeps its contract, and its bounds."""

import pytest

from jackstay.errors import UsageError
from jackstay.server.http import MemoryEvents
from jackstay.testing import store_suites
from scripted.asgi import run


class TestMemoryEvents(store_suites.EventStoreSuite):
    def make(self) -> MemoryEvents:
        return MemoryEvents()


def test_a_session_keeps_its_newest_events() -> None:
    async def test() -> None:
        store = MemoryEvents(max_events=3)
        for number in range(6):
            await store.append("s", "a", number, b"x")
        assert await store.replay("s", "a", 2) == [(3, b"x"), (4, b"x"), (5, b"x")]
        assert await store.replay("s", "a", 1) is None, "what is gone is not skipped in silence"
        assert "1 sessions" in repr(store)

    run(test)


def test_a_session_keeps_no_more_bytes_than_it_may() -> None:
    async def test() -> None:
        store = MemoryEvents(max_bytes=100)
        for number in range(6):
            await store.append("s", "a", number, b"x" * 40)
        assert await store.replay("s", "a", 3) == [(4, b"x" * 40), (5, b"x" * 40)]
        await store.append("s", "a", 6, b"x" * 101)
        assert await store.replay("s", "a", 6) == []
        assert await store.replay("s", "a", 5) is None

    run(test)


def test_all_sessions_together_keep_no_more_than_they_may() -> None:
    """Bounded whatever the clients do: the session that was silent longest loses its events first."""

    async def test() -> None:
        store = MemoryEvents(max_total_bytes=100)
        for session in ("a", "b", "a", "c"):
            await store.append(session, "x", 0 if session != "a" else 1, b"x" * 30)
        assert "120" not in repr(store)
        assert await store.replay("b", "x", 0) is None
        assert await store.replay("a", "x", 1) == []
        assert await store.replay("c", "x", 0) == []
        await store.append("d", "x", 0, b"x" * 1000)
        assert await store.replay("d", "x", 0) == []
        assert repr(store) == "<MemoryEvents of 1 sessions, 1000 bytes>"
        await store.forget("d")
        assert repr(store) == "<MemoryEvents of 0 sessions, 0 bytes>"

    run(test)


@pytest.mark.parametrize("bound", ["max_events", "max_bytes", "max_total_bytes"])
def test_a_bound_that_would_keep_nothing_is_refused(bound: str) -> None:
    with pytest.raises(UsageError) as refused:
        MemoryEvents(**{bound: 0})
    assert refused.value.path == bound


def test_streams_of_which_nothing_is_kept_are_forgotten() -> None:
    async def test() -> None:
        store = MemoryEvents(max_events=2)
        for number in range(20):
            await store.append("s", f"stream {number}", 0, b"")
        assert await store.replay("s", "stream 0", 0) is None
        assert await store.replay("s", "stream 19", 0) == []
        assert len(store._sessions["s"].gone) <= 5

    run(test)
