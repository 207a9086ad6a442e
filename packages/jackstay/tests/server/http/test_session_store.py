"""The session store in memory keeps its contract."""

import msgspec

from jackstay.server.http import MemorySessions, SessionRecord
from jackstay.testing import store_suites
from scripted.asgi import run


class TestMemorySessions(store_suites.SessionStoreSuite):
    def make(self) -> MemorySessions:
        return MemorySessions()


def test_records_that_nobody_asks_for_again_do_not_gather() -> None:
    """G18: sessions are freed, also where the loop that served them is gone."""

    async def test() -> None:
        now = 0.0
        store = MemorySessions(lambda: now)
        for number in range(100):
            now += 1.0
            await store.save(str(number), store_suites.RECORD, 10.0)
        assert len(store) == 10
        assert "10 sessions" in repr(store)

    run(test)


def test_a_record_can_be_written_as_json_and_read_again() -> None:
    """What a store of others needs: all of it is data."""
    written = msgspec.json.encode(store_suites.RECORD)
    assert msgspec.json.decode(written, type=SessionRecord) == store_suites.RECORD
