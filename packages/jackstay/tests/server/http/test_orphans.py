"""Streams of workers that have died."""

from jackstay.server.http import MemoryEventStore
from jackstay.server.http._orphans import end_stream
from jackstay.types import encode_json


async def test_requests_without_a_response_get_an_error() -> None:
    store = MemoryEventStore()
    rows = [[1, "two", 3], {"method": "x"}, {"jsonrpc": "2.0", "id": "two", "result": {}}]
    rows.append([{"jsonrpc": "2.0", "id": 3, "error": {"code": -1, "message": "no"}}, {"unreadable": True}])
    for number, row in enumerate(rows):
        await store.append("s", "a", number, encode_json(row))
    assert await end_stream(store, "s", "a")
    assert await end_stream(store, "s", "a"), "a second time adds nothing"
    found = await store.replay("s", "a", 3)
    assert found is not None
    ((number, data),) = found
    assert number == 4
    assert data.startswith(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,')
    assert b'"outcome":"unknown","mayHaveRun":true' in data


async def test_a_stream_whose_requests_are_not_stored_stays_as_it_is() -> None:
    store = MemoryEventStore()
    await store.append("s", "b", 1, b"{}")
    await store.append("s", "c", 0, b"")
    for stream in ("a", "b", "c"):
        assert not await end_stream(store, "s", stream)
