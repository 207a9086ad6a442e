"""Numbered events, kept for pages that are opened or reloaded later."""

import asyncio

import pytest

from jackstay.inspector import _events
from jackstay.inspector._events import EventLog


async def collect(log: EventLog, after: int = 0) -> list[bytes]:
    return [event async for event in log.follow(after)]


async def test_a_page_gets_earlier_and_later_events() -> None:
    log = EventLog()
    log.publish("note", {"text": "one"})
    following = asyncio.ensure_future(collect(log))
    await asyncio.sleep(0)
    log.publish("note", {"text": "two"})
    await asyncio.sleep(0)
    log.close()
    opening, one, two = await following
    assert opening.startswith(b"event: open\ndata: {")
    assert one == b'id: 1\nevent: note\ndata: {"text":"one"}\n\n'
    assert two == b'id: 2\nevent: note\ndata: {"text":"two"}\n\n'


async def test_a_page_continues_after_a_number() -> None:
    log = EventLog()
    for number in range(3):
        log.publish("note", {"n": number})
    log.close()
    assert [event.partition(b"\n")[0] for event in (await collect(log, 1))[1:]] == [b"id: 2", b"id: 3"]


async def test_several_pages_get_every_event() -> None:
    log = EventLog()
    pages = [asyncio.ensure_future(collect(log)) for _ in range(3)]
    await asyncio.sleep(0)
    for number in range(5):
        log.publish("note", {"n": number})
        await asyncio.sleep(0)
    log.close()
    assert [len(await page) for page in pages] == [6, 6, 6]


async def test_the_oldest_events_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_events, "MAX_KEPT_BYTES", 100)
    log = EventLog()
    for number in range(20):
        log.publish("note", {"n": number})
    log.close()
    kept = await collect(log)
    assert kept[-1].startswith(b"id: 20\n")
    assert len(b"".join(kept[1:])) <= 100


async def test_a_page_that_is_behind_gets_the_newest_messages_and_every_other_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_events, "MAX_SENT", {"message": 2, "changed": 1})
    log = EventLog()
    for kind in ("message", "changed", "state", "message", "changed", "question", "message", "message"):
        log.publish(kind, {})
    assert [number for number, _ in log.after(0)] == [3, 5, 6, 7, 8]
    assert [number for number, _ in log.after(6)] == [7, 8]
    assert log.after(8) == []


async def test_a_quiet_stream_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_events, "KEEPALIVE", 0.001)
    events = EventLog().follow()
    await anext(events)
    assert await anext(events) == b": alive\n\n"
    await events.aclose()
