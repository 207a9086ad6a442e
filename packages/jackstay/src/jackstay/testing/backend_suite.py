"""A test suite for backends.

Subclass it and return from `make()` two new backends with the same data, as two workers have them:
`class TestMine(BackendSuite): ...`. Each test checks one requirement, and every wait has a time limit.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable

from jackstay.server import Backend
from jackstay.server.http import SessionChange
from jackstay.testing._guarded import with_two
from jackstay.testing.store_suites import GUARD_SECONDS, LONG, RECORD, SHORT, run

# The name under which the suite opens the backends.
NAME = "suite"


class BackendSuite:
    """Subclass it as `Test...` and return the backends from `make()`."""

    def make(self) -> tuple[Backend, Backend]:
        """Return two backends with the same data, which is empty. They may be one object."""
        raise NotImplementedError

    def run(self, test: Callable[[Backend, Backend], Awaitable[None]]) -> None:
        """Run a test on a new loop, with both backends open."""

        async def opened() -> None:
            first, second = self.make()
            await first.open(NAME)
            await second.open(NAME)
            try:
                await test(first, second)
            finally:
                await second.close()
                await first.close()

        run(opened)

    @with_two
    async def test_a_session_of_one_worker_is_known_to_the_other(self, first: Backend, second: Backend) -> None:
        """Every member is unchanged, until it is deleted."""
        await first.sessions.save("one", RECORD, LONG)
        assert await second.sessions.load("one", LONG) == RECORD
        assert await second.sessions.load("ONE", LONG) is None
        await second.sessions.delete("one")
        await second.sessions.delete("never")
        assert await first.sessions.load("one", LONG) is None

    @with_two
    async def test_a_session_expires_unless_it_is_used(self, first: Backend, second: Backend) -> None:
        """Loading restarts its time to live."""
        await first.sessions.save("one", RECORD, SHORT)
        await first.sessions.save("two", RECORD, SHORT)
        assert await second.sessions.load("two", LONG) == RECORD
        while await first.sessions.load("one", 0.001) is not None:
            await asyncio.sleep(SHORT)
        assert await first.sessions.load("two", LONG) == RECORD

    @with_two
    async def test_simultaneous_changes_of_a_session_are_all_stored(self, first: Backend, second: Backend) -> None:
        """A change is atomic, and an unknown session stays unknown."""
        uris = [f"memo://{number}" for number in range(20)]
        await first.sessions.save("one", RECORD, LONG)
        stores = (first.sessions, second.sessions)
        await asyncio.gather(
            *(stores[index % 2].change("one", SessionChange((uri,)), LONG) for index, uri in enumerate(uris))
        )
        await second.sessions.change(
            "one", SessionChange(unsubscribed=RECORD.uris, log_level="error", is_confirmed=True), LONG
        )
        await first.sessions.change("never", SessionChange(is_confirmed=True), LONG)
        changed = await first.sessions.load("one", LONG)
        assert changed is not None
        assert sorted(changed.uris) == sorted(set(uris).difference(RECORD.uris))
        assert (changed.log_level, changed.is_confirmed) == ("error", True)
        assert (changed.client, changed.principal) == (RECORD.client, RECORD.principal)
        assert await first.sessions.load("never", LONG) is None

    @with_two
    async def test_events_of_one_worker_are_replayed_by_the_other(self, first: Backend, second: Backend) -> None:
        """From any event, in order and unchanged; None if some are not stored."""
        data = [bytes(range(256)) * number for number in range(8)]
        for number, event in enumerate(data):
            await first.events.append("s", "a.1", number, event)
        for after in range(-1, 8):
            found = await second.events.replay("s", "a.1", after)
            assert found == [(number, data[number]) for number in range(after + 1, 8)]
        for session, stream in (("s", "a.2"), ("t", "a.1")):
            assert await second.events.replay(session, stream, 0) is None
        await second.events.forget("s")
        await second.events.forget("never")
        assert await first.events.replay("s", "a.1", 0) is None

    @with_two
    async def test_changes_reach_every_worker_in_order(self, first: Backend, second: Backend) -> None:
        """From any thread, also the publisher's own; nothing is received after the listener was removed."""
        received: dict[str, list[str]] = {"first": [], "second": []}
        is_complete = asyncio.Event()
        loop = asyncio.get_running_loop()
        published = [f"{number} {'x' * (number * 1000)}" for number in range(50)]

        def listener_of(name: str) -> Callable[[str, str], None]:
            def listener(method: str, value: str) -> None:
                assert method == "test"
                received[name].append(value)
                if all(values[-1:] == published[-1:] for values in received.values()):
                    loop.call_soon_threadsafe(is_complete.set)

            return listener

        ends = [first.changes.listen(listener_of("first")), second.changes.listen(listener_of("second"))]
        for value in published:
            thread = threading.Thread(target=first.changes.publish, args=("test", value))
            thread.start()
            thread.join(GUARD_SECONDS)
        await is_complete.wait()
        assert received == {"first": published, "second": published}
        for end in ends:
            end()
        first.changes.publish("other", "")

    @with_two
    async def test_what_is_sent_to_a_worker_reaches_it_until_it_is_gone(self, first: Backend, second: Backend) -> None:
        """An unknown worker is gone."""
        received: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def listener(method: str, text: str) -> None:
            loop.call_soon_threadsafe(received.put_nowait, (method, text))

        end = second.changes.listen(listener)
        second.changes.join("b")
        await second.changes.flush()
        while await first.changes.is_gone("b"):  # until it has joined
            await asyncio.sleep(0)
        assert await first.changes.send("b", "test", "text \u00fc")
        assert await received.get() == ("test", "text \u00fc")
        assert not await first.changes.send("c", "test", "text")
        assert await first.changes.is_gone("c")
        end()

    @with_two
    async def test_limits_are_common(self, first: Backend, second: Backend) -> None:
        """Counts of one window, and values until they expire."""
        assert (await first.limits.increment("a", LONG))[0] == 1
        number, left = await second.limits.increment("a", LONG)
        assert number == 2
        assert 0 < left < LONG + 1
        assert (await second.limits.increment("b", 0.001))[0] == 1
        while (await first.limits.increment("b", 0.001))[0] != 1:
            await asyncio.sleep(0.001)
        assert await second.limits.get("v") is None
        await first.limits.set("v", b"\x00\xff", LONG)
        assert await second.limits.get("v") == b"\x00\xff"
        await second.limits.set("v", b"", SHORT)
        while await first.limits.get("v") is not None:
            await asyncio.sleep(SHORT)

    @with_two
    async def test_a_backend_can_be_opened_again(self, first: Backend, second: Backend) -> None:
        """What it stored is still there."""
        await second.sessions.save("one", RECORD, LONG)
        await second.close()
        await second.open(NAME)
        assert await second.sessions.load("one", LONG) == RECORD
        assert await first.sessions.load("one", LONG) == RECORD


__all__ = ["NAME", "BackendSuite"]
