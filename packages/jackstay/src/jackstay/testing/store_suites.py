"""The contracts of what workers share, as tests that anybody's implementation can be put through.

    class TestMine(SessionStoreSuite):
        def make(self):
            return MySessions("redis://...")

One suite for each contract: the session store, the event store and the change bus of `jackstay.server`, the token store of
`jackstay.oauth`. Each test checks one sentence of the contract. `make()` gives one handle to an implementation that holds nothing yet. Every wait has a guard.

Must never know how a store works. Above: the tests of stores. Below: the contracts.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Final

from jackstay.oauth import TokenStore
from jackstay.protocol.server import ClientFacts
from jackstay.server import ChangeBus
from jackstay.server.http import EventStore, SessionRecord, SessionStore

# How long a wait may take before a test fails instead of hanging.
GUARD_SECONDS: Final = 20.0

# A time to live that is long for any store, and one that a test can wait for.
LONG: Final = 600.0
SHORT: Final = 0.2

# A record with something in every member.
RECORD: Final = SessionRecord(
    ClientFacts("2025-11-25", b'{"name":"test","version":"1"}', b'{"roots":{}}'),
    principal="alice",
    log_level="warning",
    uris=("memo://1", "memo://\u00fc"),
)


def run(test: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run one test on a loop of its own, under the guard."""

    async def guarded() -> None:
        async with asyncio.timeout(GUARD_SECONDS):
            await test()

    asyncio.run(guarded())


class SessionStoreSuite:
    """Subclass it as `Test...` and say in `make()` what to test."""

    def make(self) -> SessionStore:
        """A store that holds nothing."""
        raise NotImplementedError

    def test_a_record_comes_back_as_it_was_saved(self) -> None:
        """Everything in it, to the byte."""

        async def test() -> None:
            store = self.make()
            await store.save("one", RECORD, LONG)
            assert await store.load("one", LONG) == RECORD
            assert await store.load("one", LONG) == RECORD

        run(test)

    def test_the_last_one_saved_counts(self) -> None:
        """Under one id there is one record."""

        async def test() -> None:
            store = self.make()
            other = SessionRecord(RECORD.client, "bob")
            await store.save("one", RECORD, LONG)
            await store.save("one", other, LONG)
            assert await store.load("one", LONG) == other

        run(test)

    def test_an_id_that_was_never_saved_is_unknown(self) -> None:
        """And one session is not another."""

        async def test() -> None:
            store = self.make()
            await store.save("one", RECORD, LONG)
            assert await store.load("two", LONG) is None
            assert await store.load("ONE", LONG) is None

        run(test)

    def test_a_record_that_was_deleted_is_unknown(self) -> None:
        """Deleting twice, or what is not there, is no error."""

        async def test() -> None:
            store = self.make()
            await store.save("one", RECORD, LONG)
            await store.delete("one")
            assert await store.load("one", LONG) is None
            await store.delete("one")
            await store.delete("never")

        run(test)

    def test_a_record_is_forgotten_after_its_time(self) -> None:
        """Counted from when it was saved."""

        async def test() -> None:
            store = self.make()
            await store.save("one", RECORD, SHORT)
            await store.save("two", RECORD, LONG)
            while await store.load("two", LONG) is not None and await store.load("one", 0.001) is not None:
                await asyncio.sleep(SHORT)
            assert await store.load("one", LONG) is None
            assert await store.load("two", LONG) == RECORD

        run(test)

    def test_loading_starts_its_time_again(self) -> None:
        """A session in use is not forgotten."""

        async def test() -> None:
            store = self.make()
            await store.save("one", RECORD, SHORT)
            assert await store.load("one", LONG) == RECORD
            await asyncio.sleep(2 * SHORT)
            assert await store.load("one", LONG) == RECORD

        run(test)

    def test_it_says_whether_workers_share_it(self) -> None:
        """More than one worker is refused where they do not."""

        async def test() -> None:
            assert self.make().is_shared in (True, False)

        run(test)


class EventStoreSuite:
    """Subclass it as `Test...` and say in `make()` what to test. It must hold 64 events of 1 KiB for each session."""

    def make(self) -> EventStore:
        """A store that holds nothing."""
        raise NotImplementedError

    def test_what_came_after_an_event_is_given_in_order(self) -> None:
        """From any event of a stream, the empty one at its beginning too."""

        async def test() -> None:
            store = self.make()
            await store.append("s", "a", 0, b"")
            for number in range(1, 64):
                await store.append("s", "a", number, b"%1024d" % number)
            for after in (0, 1, 31, 62, 63):
                found = await store.replay("s", "a", after)
                assert found == [(number, b"%1024d" % number) for number in range(after + 1, 64)]

        run(test)

    def test_never_another_streams_events_are_given(self) -> None:
        """Nor another session's, though their names be the same."""

        async def test() -> None:
            store = self.make()
            for session in ("s", "t"):
                for number in range(3):
                    for stream in ("a", "b"):
                        data = f"{session}{stream}{number}".encode()
                        await store.append(session, stream, number, data)
            assert await store.replay("s", "a", 0) == [(1, b"sa1"), (2, b"sa2")]
            assert await store.replay("t", "b", 1) == [(2, b"tb2")]

        run(test)

    def test_a_stream_that_was_never_kept_is_unknown(self) -> None:
        """Which is not the same as one that has nothing more."""

        async def test() -> None:
            store = self.make()
            await store.append("s", "a", 0, b"")
            assert await store.replay("s", "a", 0) == []
            assert await store.replay("s", "b", 0) is None
            assert await store.replay("t", "a", 0) is None

        run(test)

    def test_a_session_that_was_forgotten_is_unknown(self) -> None:
        """Forgetting what is not there is no error."""

        async def test() -> None:
            store = self.make()
            await store.append("s", "a", 0, b"")
            await store.append("t", "a", 0, b"")
            await store.forget("s")
            await store.forget("never")
            assert await store.replay("s", "a", 0) is None
            assert await store.replay("t", "a", 0) == []

        run(test)

    def test_it_says_whether_workers_share_it(self) -> None:
        """More than one worker is refused where they do not."""

        async def test() -> None:
            assert self.make().is_shared in (True, False)

        run(test)

    def test_data_is_kept_to_the_byte(self) -> None:
        """Whatever bytes they are."""

        async def test() -> None:
            store = self.make()
            await store.append("s", "a", 0, b"")
            await store.append("s", "a", 1, bytes(range(256)))
            assert await store.replay("s", "a", 0) == [(1, bytes(range(256)))]

        run(test)


class ChangeBusSuite:
    """Subclass it as `Test...` and say in `make()` what to test: two handles to one bus, as two workers have them."""

    def make(self) -> tuple[ChangeBus, ChangeBus]:
        """Two handles to one bus; they may be the same object."""
        raise NotImplementedError

    def test_a_change_reaches_every_listener(self) -> None:
        """The publisher's own too, once each, from any thread."""
        one, other = self.make()
        heard: list[tuple[str, str, str]] = []
        has_heard = threading.Condition()

        def hear(name: str) -> Callable[[str, str], None]:
            def listener(method: str, uri: str) -> None:
                with has_heard:
                    heard.append((name, method, uri))
                    has_heard.notify_all()

            return listener

        ends = [one.listen(hear("one")), other.listen(hear("other"))]
        thread = threading.Thread(target=one.publish, args=("notifications/resources/updated", "memo://1"))
        thread.start()
        thread.join(GUARD_SECONDS)
        other.publish("notifications/tools/list_changed", "")
        with has_heard:
            assert has_heard.wait_for(lambda: len(heard) == 4, GUARD_SECONDS), heard
        assert {name for name, _, _ in heard} == {"one", "other"}
        assert heard.count(("one", "notifications/resources/updated", "memo://1")) == 1
        assert heard.count(("other", "notifications/tools/list_changed", "")) == 1
        for end in ends:
            end()

    def test_who_has_stopped_listening_hears_nothing(self) -> None:
        """And the others still do."""
        one, other = self.make()
        heard: list[str] = []
        has_heard = threading.Event()
        end = one.listen(lambda method, _: heard.append(method))
        stay = other.listen(lambda method, _: has_heard.set() if method == "second" else None)
        end()
        one.publish("first", "")
        one.publish("second", "")
        assert has_heard.wait(GUARD_SECONDS)
        assert heard == []
        stay()


class TokenStoreSuite:
    """Subclass it as `Test...` and say in `make()` what to test: two handles to one store, as two programs have."""

    def make(self) -> tuple[TokenStore, TokenStore]:
        """Two handles to one store that holds nothing yet."""
        raise NotImplementedError

    def test_the_value_that_was_saved_last_is_loaded_by_everybody(self) -> None:
        """By key; None where there is none."""

        async def test() -> None:
            one, other = self.make()
            assert await other.load("tokens a") is None
            await one.save("tokens a", b'{"n":1}')
            await other.save("tokens a", b'{"n":2}')
            await one.save("tokens b", b'{"n":3}')
            assert (await one.load("tokens a"), await other.load("tokens b")) == (b'{"n":2}', b'{"n":3}')

        run(test)

    def test_a_key_is_forgotten_with_none(self) -> None:
        """Also one that was never there."""

        async def test() -> None:
            one, other = self.make()
            await one.save("tokens a", b"1")
            await other.save("tokens a", None)
            await other.save("tokens c", None)
            assert await one.load("tokens a") is None

        run(test)

    def test_a_save_that_is_cancelled_is_finished_or_was_never_begun(self) -> None:
        """When the CancelledError arrives, nothing is written any more: a lock may be released then."""

        async def test() -> None:
            one, other = self.make()
            saving = asyncio.ensure_future(one.save("tokens a", b"1"))
            await asyncio.sleep(0)
            saving.cancel()
            await asyncio.gather(saving, return_exceptions=True)
            found = await other.load("tokens a")
            await other.save("tokens a", b"2")
            await asyncio.sleep(SHORT)
            assert found in (None, b"1")
            assert await one.load("tokens a") == b"2"

        run(test)

    def test_one_at_a_time_has_the_lock_of_a_key(self) -> None:
        """Through any handle, and as often as it is asked for."""

        async def test() -> None:
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

        run(test)

    def test_the_locks_of_two_keys_are_two(self) -> None:
        """And both handles load and save while either is held."""

        async def test() -> None:
            one, other = self.make()
            async with one.lock("tokens a"), other.lock("tokens b"):
                await other.save("tokens a", b"1")
                assert await one.load("tokens a") == b"1"

        run(test)

    def test_a_lock_ends_with_its_holder(self) -> None:
        """By an error or by being cancelled, too."""

        async def test() -> None:
            one, other = self.make()

            async def hold(has_it: asyncio.Event) -> None:
                async with one.lock("tokens a"):
                    has_it.set()
                    await asyncio.Event().wait()

            has_it = asyncio.Event()
            holding = asyncio.ensure_future(hold(has_it))
            await has_it.wait()
            holding.cancel()
            await asyncio.gather(holding, return_exceptions=True)
            try:
                async with other.lock("tokens a"):
                    raise ValueError
            except ValueError:
                pass
            async with one.lock("tokens a"):
                pass

        run(test)


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
