"""The session store in memory passes the suite, and drops expired sessions."""

import msgspec

from jackstay.server.http import MemorySessionStore, SessionRecord
from jackstay.testing import store_suites


class TestMemorySessionStore(store_suites.SessionStoreSuite):
    def make(self) -> MemorySessionStore:
        return MemorySessionStore()


async def test_expired_records_are_dropped() -> None:
    """docs/guarantees.md G18: also if the loop that served them has ended."""
    now = 0.0
    store = MemorySessionStore(lambda: now)
    for number in range(100):
        now += 1.0
        await store.save(str(number), store_suites.RECORD, 10.0)
    assert len(store) == 10
    assert "10 sessions" in repr(store)


def test_a_record_can_be_encoded_as_json() -> None:
    """Stores outside of the process need it."""
    encoded = msgspec.json.encode(store_suites.RECORD)
    assert msgspec.json.decode(encoded, type=SessionRecord) == store_suites.RECORD
