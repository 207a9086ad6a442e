"""The suites detect defects: each is run against stores with one defect, and must fail."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from jackstay.errors import TransportError
from jackstay.oauth import MemoryStore
from jackstay.oauth import _store as stores
from jackstay.server import ChangeBus, MemoryChanges
from jackstay.server.http import MemoryEventStore, MemorySessionStore, SessionRecord
from jackstay.testing import store_suites
from jackstay.testing.store_suites import (
    ChangeBusSuite,
    EventStoreSuite,
    SessionStoreSuite,
    TokenStoreSuite,
)


def failures(suite: object) -> set[str]:
    """The tests of a suite that fail."""
    found = set()
    for name in dir(suite):
        if name.startswith("test_"):
            try:
                getattr(suite, name)()
            except AssertionError:
                found.add(name.removeprefix("test_"))
    return found


# --- session stores ---------------------------------------------------------------------------------------------------


class NeverDeletes(MemorySessionStore):
    async def delete(self, id: str) -> None:
        pass


class NeverExpires(MemorySessionStore):
    async def save(self, id: str, record: SessionRecord, ttl: float) -> None:
        await super().save(id, record, 1e9)

    async def load(self, id: str, ttl: float) -> SessionRecord | None:
        return await super().load(id, 1e9)


class NeverExtends(MemorySessionStore):
    async def load(self, id: str, ttl: float) -> SessionRecord | None:
        row = self._rows.get(id)
        return None if row is None or row[1] <= self._clock() else row[0]


class LosesFields(MemorySessionStore):
    async def save(self, id: str, record: SessionRecord, ttl: float) -> None:
        await super().save(id, SessionRecord(record.client, record.principal), ttl)


class NeverReplaces(MemorySessionStore):
    async def save(self, id: str, record: SessionRecord, ttl: float) -> None:
        if id not in self._rows:
            await super().save(id, record, ttl)


class IgnoresCase(MemorySessionStore):
    async def save(self, id: str, record: SessionRecord, ttl: float) -> None:
        await super().save(id.lower(), record, ttl)

    async def load(self, id: str, ttl: float) -> SessionRecord | None:
        return await super().load(id.lower(), ttl)


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (NeverDeletes, "a_record_that_was_deleted_is_unknown"),
        (NeverExpires, "a_record_expires"),
        (NeverExtends, "loading_restarts_the_time_to_live"),
        (LosesFields, "load_returns_the_saved_record"),
        (NeverReplaces, "save_replaces_an_earlier_record"),
        (IgnoresCase, "an_id_that_was_never_saved_is_unknown"),
    ],
)
def test_a_defect_of_a_session_store_is_found(
    store: type[MemorySessionStore], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jackstay.testing._guarded.GUARD_SECONDS", 1.0)

    class Suite(SessionStoreSuite):
        def make(self) -> MemorySessionStore:
            return store()

    found = set()
    try:
        found = failures(Suite())
    except TimeoutError:
        found = {"a_record_expires"}  # the test timed out
    assert expected in found


# --- event stores -----------------------------------------------------------------------------------------------------


class OneStream(MemoryEventStore):
    async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
        await super().append(session, "one", number, data)

    async def replay(self, session: str, stream: str, after: int) -> list[tuple[int, bytes]] | None:
        return await super().replay(session, "one", after)


class OneSession(MemoryEventStore):
    async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
        await super().append("one", stream, number, data)

    async def replay(self, session: str, stream: str, after: int) -> list[tuple[int, bytes]] | None:
        return await super().replay("one", stream, after)


class OffByOne(MemoryEventStore):
    async def replay(self, session: str, stream: str, after: int) -> list[tuple[int, bytes]] | None:
        return await super().replay(session, stream, after - 1 if after else 0)


class FindsEveryStream(MemoryEventStore):
    async def replay(self, session: str, stream: str, after: int) -> list[tuple[int, bytes]] | None:
        return await super().replay(session, stream, after) or []


class NeverDeletesEvents(MemoryEventStore):
    async def forget(self, session: str) -> None:
        pass


class TextOnly(MemoryEventStore):
    async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
        await super().append(session, stream, number, data.decode("ascii", "ignore").encode())


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (OneStream, "replay_returns_only_events_of_the_stream"),
        (OneSession, "replay_returns_only_events_of_the_stream"),
        (OffByOne, "replay_returns_later_events_in_order"),
        (FindsEveryStream, "an_unknown_stream_is_distinct_from_one_without_later_events"),
        (NeverDeletesEvents, "a_session_that_was_forgotten_is_unknown"),
        (TextOnly, "data_is_unchanged"),
        (lambda: MemoryEventStore(max_events=10), "replay_returns_later_events_in_order"),
    ],
)
def test_a_defect_of_an_event_store_is_found(store: Callable[[], MemoryEventStore], expected: str) -> None:
    class Suite(EventStoreSuite):
        def make(self) -> MemoryEventStore:
            return store()

    assert expected in failures(Suite())


# --- buses ------------------------------------------------------------------------------------------------------------


class LosesChanges(MemoryChanges):
    def publish(self, method: str, uri: str) -> None:
        pass


class KeepsListeners(MemoryChanges):
    def listen(self, listener: Callable[[str, str], None]) -> Callable[[], None]:
        super().listen(listener)
        return lambda: None


class PublishesTwice(MemoryChanges):
    def publish(self, method: str, uri: str) -> None:
        super().publish(method, uri)
        super().publish(method, uri)


@pytest.mark.parametrize(
    ("bus", "expected"),
    [
        (LosesChanges, "a_change_reaches_every_listener"),
        (PublishesTwice, "a_change_reaches_every_listener"),
        (KeepsListeners, "a_removed_listener_receives_nothing"),
    ],
)
def test_a_defect_of_a_bus_is_found(bus: type[MemoryChanges], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_suites, "GUARD_SECONDS", 0.2)

    class Suite(ChangeBusSuite):
        def make(self) -> tuple[ChangeBus, ChangeBus]:
            shared = bus()
            return shared, shared

    assert expected in failures(Suite())


def test_make_must_be_implemented() -> None:
    for suite in (SessionStoreSuite(), EventStoreSuite(), ChangeBusSuite()):
        with pytest.raises(NotImplementedError):
            suite.make()


# --- token stores -----------------------------------------------------------------------------------------------------


class KeepsOld(MemoryStore):
    async def save(self, key: str, value: bytes | None) -> None:
        if value is not None and key not in self._entries:
            await super().save(key, value)


class SavesLater(MemoryStore):
    async def save(self, key: str, value: bytes | None) -> None:
        async def later() -> None:
            await asyncio.sleep(0.1 if value == b"1" else 0)
            await MemoryStore.save(self, key, value)

        await asyncio.shield(asyncio.ensure_future(later()))


class LocksNothing(MemoryStore):
    @contextlib.asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        yield


class LocksEverything(MemoryStore):
    def lock(self, key: str) -> contextlib.AbstractAsyncContextManager[None]:
        return super().lock("")


def token_suite(kind: type[MemoryStore]) -> TokenStoreSuite:
    class Suite(TokenStoreSuite):
        def make(self) -> tuple[MemoryStore, MemoryStore]:
            store = kind()
            return store, store

    return Suite()


TOKEN_DEFECTS: list[tuple[type[MemoryStore], str]] = [
    (KeepsOld, "the_last_saved_value_is_loaded_through_every_handle"),
    (KeepsOld, "saving_none_deletes_a_key"),
    (SavesLater, "a_save_that_is_cancelled_is_finished_or_was_never_begun"),
    (LocksNothing, "the_lock_of_a_key_is_exclusive"),
]


def test_a_token_store_without_a_defect_passes() -> None:
    assert failures(token_suite(MemoryStore)) == set()


@pytest.mark.parametrize(("kind", "expected"), TOKEN_DEFECTS)
def test_a_defect_of_a_token_store_is_found(kind: type[MemoryStore], expected: str) -> None:
    assert expected in failures(token_suite(kind))


def test_a_token_store_with_a_shared_or_unreleased_lock_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stores, "LOCK_SECONDS", 0.2)
    locks: list[object] = []

    class NeverReleases(MemoryStore):
        @contextlib.asynccontextmanager
        async def lock(self, key: str) -> AsyncIterator[None]:
            manager = super().lock(key)
            locks.append(manager)  # otherwise garbage collection releases it
            await manager.__aenter__()
            yield

    for kind, test in (
        (LocksEverything, "locks_of_two_keys_are_independent"),
        (NeverReleases, "a_lock_is_released_on_errors"),
    ):
        with pytest.raises(TransportError, match="has held the lock"):
            getattr(token_suite(kind), f"test_{test}")()
