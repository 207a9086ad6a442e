"""Test suites for stores and buses: `SessionStore`, `EventStore`, `ChangeBus` and `TokenStore`.

Subclass a suite and return an empty store from `make()`: `class TestMine(SessionStoreSuite): ...`. Each test checks one
requirement, and every wait has a time limit.
"""

import asyncio
import threading
from contextlib import suppress
from functools import partial
from typing import Final

from jackstay.oauth import TokenStore
from jackstay.protocol.server import ClientParams
from jackstay.server import ChangeBus
from jackstay.server.http import EventStore, SessionChange, SessionRecord, SessionStore
from jackstay.testing._guarded import GUARD_SECONDS, guarded, run

# A time to live that no test reaches, and one that a test can wait for.
LONG: Final = 600.0
SHORT: Final = 0.2

# A record with a value in every member.
RECORD: Final = SessionRecord(
    ClientParams("2025-11-25", b'{"name":"test","version":"1"}', b'{"roots":{}}'),
    principal="alice",
    log_level="warning",
    uris=("memo://1", "memo://\u00fc"),
)


@guarded
class SessionStoreSuite:
    """Subclass it as `Test...` and return the store from `make()`."""

    def make(self) -> SessionStore:
        """Return an empty store."""
        raise NotImplementedError

    async def test_load_returns_the_saved_record(self) -> None:
        """Every member is unchanged."""
        store = self.make()
        await store.save("one", RECORD, LONG)
        assert await store.load("one", LONG) == RECORD
        assert await store.load("one", LONG) == RECORD

    async def test_save_replaces_an_earlier_record(self) -> None:
        """There is one record for each id."""
        store = self.make()
        replacement = SessionRecord(RECORD.client, "bob")
        await store.save("one", RECORD, LONG)
        await store.save("one", replacement, LONG)
        assert await store.load("one", LONG) == replacement

    async def test_a_change_replaces_only_what_it_names(self) -> None:
        """Another worker may have changed the rest. An unknown id is not an error."""
        store = self.make()
        await store.save("one", RECORD, LONG)
        await store.change("one", SessionChange(subscribed=("memo://2", "memo://1")), LONG)
        await store.change("one", SessionChange(unsubscribed=("memo://\u00fc", "memo://9")), LONG)
        await store.change("one", SessionChange(log_level="error"), LONG)
        await store.change("one", SessionChange(is_confirmed=True), LONG)
        await store.change("never", SessionChange(is_confirmed=True), LONG)
        changed = await store.load("one", LONG)
        assert changed is not None
        assert sorted(changed.uris) == ["memo://1", "memo://2"]
        assert (changed.log_level, changed.is_confirmed) == ("error", True)
        assert (changed.client, changed.principal) == (RECORD.client, RECORD.principal)
        assert await store.load("never", LONG) is None

    async def test_simultaneous_changes_are_all_stored(self) -> None:
        """A change is atomic."""
        store = self.make()
        uris = [f"memo://{number}" for number in range(20)]
        await store.save("one", SessionRecord(RECORD.client), LONG)
        await asyncio.gather(*(store.change("one", SessionChange((uri,)), LONG) for uri in uris))
        changed = await store.load("one", LONG)
        assert changed is not None
        assert sorted(changed.uris) == sorted(uris)

    async def test_an_id_that_was_never_saved_is_unknown(self) -> None:
        """Ids are case-sensitive."""
        store = self.make()
        await store.save("one", RECORD, LONG)
        assert await store.load("two", LONG) is None
        assert await store.load("ONE", LONG) is None

    async def test_a_record_that_was_deleted_is_unknown(self) -> None:
        """Deleting twice, or an unknown id, is not an error."""
        store = self.make()
        await store.save("one", RECORD, LONG)
        await store.delete("one")
        assert await store.load("one", LONG) is None
        await store.delete("one")
        await store.delete("never")

    async def test_a_record_expires(self) -> None:
        """The time to live starts when it is saved."""
        store = self.make()
        await store.save("one", RECORD, SHORT)
        await store.save("two", RECORD, LONG)
        while await store.load("two", LONG) is not None and await store.load("one", 0.001) is not None:
            await asyncio.sleep(SHORT)
        assert await store.load("one", LONG) is None
        assert await store.load("two", LONG) == RECORD

    async def test_loading_restarts_the_time_to_live(self) -> None:
        """A session in use does not expire."""
        store = self.make()
        await store.save("one", RECORD, SHORT)
        assert await store.load("one", LONG) == RECORD
        await asyncio.sleep(2 * SHORT)
        assert await store.load("one", LONG) == RECORD

    async def test_is_shared_is_a_bool(self) -> None:
        """True if several workers can share the store."""
        assert self.make().is_shared in (True, False)


@guarded
class EventStoreSuite:
    """Subclass it as `Test...` and return the store from `make()`. It must keep 64 events of 1 KiB for each session."""

    def make(self) -> EventStore:
        """Return an empty store."""
        raise NotImplementedError

    async def test_replay_returns_later_events_in_order(self) -> None:
        """From any event of a stream, including the empty one at its beginning."""
        store = self.make()
        await store.append("s", "a", 0, b"")
        for number in range(1, 64):
            await store.append("s", "a", number, b"%1024d" % number)
        assert (await store.replay("s", "a", -1) or [])[:2] == [(0, b""), (1, b"%1024d" % 1)]
        for after in (0, 1, 31, 62, 63):
            found = await store.replay("s", "a", after)
            assert found == [(number, b"%1024d" % number) for number in range(after + 1, 64)]

    async def test_replay_returns_only_events_of_the_stream(self) -> None:
        """Streams of the same name in two sessions are different."""
        store = self.make()
        for session in ("s", "t"):
            for number in range(3):
                for stream in ("a", "b"):
                    data = f"{session}{stream}{number}".encode()
                    await store.append(session, stream, number, data)
        assert await store.replay("s", "a", 0) == [(1, b"sa1"), (2, b"sa2")]
        assert await store.replay("t", "b", 1) == [(2, b"tb2")]

    async def test_an_unknown_stream_is_distinct_from_one_without_later_events(self) -> None:
        """None for the former, an empty list for the latter."""
        store = self.make()
        await store.append("s", "a", 0, b"")
        assert await store.replay("s", "a", 0) == []
        assert await store.replay("s", "b", 0) is None
        assert await store.replay("t", "a", 0) is None

    async def test_a_session_that_was_forgotten_is_unknown(self) -> None:
        """Forgetting an unknown session is not an error."""
        store = self.make()
        await store.append("s", "a", 0, b"")
        await store.append("t", "a", 0, b"")
        await store.forget("s")
        await store.forget("never")
        assert await store.replay("s", "a", 0) is None
        assert await store.replay("t", "a", 0) == []

    async def test_is_shared_is_a_bool(self) -> None:
        """True if several workers can share the store."""
        assert self.make().is_shared in (True, False)

    async def test_data_is_unchanged(self) -> None:
        """Any bytes are possible."""
        store = self.make()
        await store.append("s", "a", 0, b"")
        await store.append("s", "a", 1, bytes(range(256)))
        assert await store.replay("s", "a", 0) == [(1, bytes(range(256)))]


class ChangeBusSuite:
    """Subclass it as `Test...` and return from `make()` two handles to one bus, as two workers have them."""

    def make(self) -> tuple[ChangeBus, ChangeBus]:
        """Return two handles to one bus; they may be the same object."""
        raise NotImplementedError

    def test_a_change_reaches_every_listener(self) -> None:
        """Including the publisher's own, once each, from any thread."""
        first, second = self.make()
        received: list[tuple[str, str, str]] = []
        has_received = threading.Condition()

        def listen(name: str, method: str, uri: str) -> None:
            with has_received:
                received.append((name, method, uri))
                has_received.notify_all()

        unsubscribes = [first.listen(partial(listen, "first")), second.listen(partial(listen, "second"))]
        thread = threading.Thread(target=first.publish, args=("notifications/resources/updated", "memo://1"))
        thread.start()
        thread.join(GUARD_SECONDS)
        second.publish("notifications/tools/list_changed", "")
        with has_received:
            assert has_received.wait_for(lambda: len(received) == 4, GUARD_SECONDS), received
        assert {name for name, _, _ in received} == {"first", "second"}
        assert received.count(("first", "notifications/resources/updated", "memo://1")) == 1
        assert received.count(("second", "notifications/tools/list_changed", "")) == 1
        for unsubscribe in unsubscribes:
            unsubscribe()

    def test_a_removed_listener_receives_nothing(self) -> None:
        """Other listeners still do."""
        first, second = self.make()
        received: list[str] = []
        has_received = threading.Event()
        unsubscribe_first = first.listen(lambda method, _: received.append(method))
        unsubscribe_second = second.listen(lambda method, _: has_received.set() if method == "second" else None)
        unsubscribe_first()
        first.publish("first", "")
        first.publish("second", "")
        assert has_received.wait(GUARD_SECONDS)
        assert received == []
        unsubscribe_second()


@guarded
class TokenStoreSuite:
    """Subclass it as `Test...` and return from `make()` two handles to one store, as two programs have them."""

    def make(self) -> tuple[TokenStore, TokenStore]:
        """Return two handles to one empty store."""
        raise NotImplementedError

    async def test_the_last_saved_value_is_loaded_through_every_handle(self) -> None:
        """By key; None if there is none."""
        first, second = self.make()
        assert await second.load("tokens a") is None
        await first.save("tokens a", b'{"n":1}')
        await second.save("tokens a", b'{"n":2}')
        await first.save("tokens b", b'{"n":3}')
        assert (await first.load("tokens a"), await second.load("tokens b")) == (b'{"n":2}', b'{"n":3}')

    async def test_saving_none_deletes_a_key(self) -> None:
        """For an unknown key it does nothing."""
        first, second = self.make()
        await first.save("tokens a", b"1")
        await second.save("tokens a", None)
        await second.save("tokens c", None)
        assert await first.load("tokens a") is None

    async def test_a_save_that_is_cancelled_is_finished_or_was_never_begun(self) -> None:
        """When CancelledError is raised, nothing is written any more, so that a lock can be released."""
        first, second = self.make()
        saving = asyncio.ensure_future(first.save("tokens a", b"1"))
        await asyncio.sleep(0)
        saving.cancel()
        await asyncio.gather(saving, return_exceptions=True)
        found = await second.load("tokens a")
        await second.save("tokens a", b"2")
        await asyncio.sleep(SHORT)
        assert found in (None, b"1")
        assert await first.load("tokens a") == b"2"

    async def test_the_lock_of_a_key_is_exclusive(self) -> None:
        """Through any handle, and repeatedly."""
        handles = self.make()
        inside = most = 0

        async def renew(store: TokenStore) -> None:
            nonlocal inside, most
            async with store.lock("tokens a"):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.005)
                inside -= 1

        await asyncio.gather(*(renew(handles[number % 2]) for number in range(10)))
        assert most == 1

    async def test_locks_of_two_keys_are_independent(self) -> None:
        """Both handles can load and save while a lock is held."""
        first, second = self.make()
        async with first.lock("tokens a"), second.lock("tokens b"):
            await second.save("tokens a", b"1")
            assert await first.load("tokens a") == b"1"

    async def test_a_lock_is_released_on_errors(self) -> None:
        """Also by cancellation."""
        first, second = self.make()

        with suppress(TimeoutError):
            async with asyncio.timeout(None) as timeout, first.lock("tokens a"):
                timeout.reschedule(0)  # cancels in the next iteration of the loop
                await asyncio.Event().wait()
        with suppress(ValueError):
            async with second.lock("tokens a"):
                raise ValueError
        async with first.lock("tokens a"):
            pass


__all__ = [
    "GUARD_SECONDS",
    "LONG",
    "RECORD",
    "SHORT",
    "ChangeBusSuite",
    "EventStoreSuite",
    "SessionStoreSuite",
    "TokenStoreSuite",
    "run",
]
