"""The driver's timers: on both event loops, however soon they are due, and whatever another step does."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from jackstay.client import Client, connect
from jackstay.client import _driver as driver
from jackstay.client._driver import Driver
from jackstay.errors import OutcomeUnknownError, TimeoutError, TransportError
from jackstay.protocol.client import events as e
from jackstay.testing import ScriptedPeer, on_fake_clock
from scripted.odd_transport import odd

LOOPS = {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


class Defect(Exception):
    """Raised by a step of these tests, as a defect would."""


def run(loop: str, test: Callable[[], Coroutine[Any, Any, None]]) -> list[dict[str, Any]]:
    """Run a test on this loop; return what was reported to its exception handler."""
    reported: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: reported.append(context))
        runner.run(asyncio.wait_for(test(), 50))
    return reported


@pytest.mark.parametrize("loop", LOOPS)
def test_deadlines_that_are_due_at_once_end_their_calls_and_no_other(loop: str) -> None:
    """uvloop's handle has no `when()` for what is due in less than half a millisecond."""

    async def test() -> None:
        async with ScriptedPeer() as peer:
            peer.on["tools/list"] = {"tools": []}
            async with connect(peer.target) as client:
                for delay in (0.0001, 0.0002, 0.0004, 0.0006, 0.002):
                    short = [client.submit("tools/call", {"name": "x"}, timeout=delay) for _ in range(20)]
                    long = [client.submit("tools/list", {}, timeout=40) for _ in range(20)]
                    ended = await asyncio.gather(*short, return_exceptions=True)
                    assert {type(outcome) for outcome in ended} == {TimeoutError}
                    assert await asyncio.gather(*long) == [{"tools": []}] * 20

    assert run(loop, test) == []


@pytest.fixture
def defects(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Ids of calls: when one of them expires, the first effect of that raises."""
    ids: set[int] = set()
    fail = Driver._fail

    def raise_for_some(self: Driver, effect: e.Fail) -> None:
        fail(self, effect)
        if effect.id in ids:
            raise Defect

    monkeypatch.setitem(driver._PERFORM, e.Fail, raise_for_some)
    return ids


@pytest.mark.parametrize("loop", LOOPS)
def test_a_step_that_raises_loses_no_other_timer(loop: str, defects: set[int]) -> None:
    async def test() -> None:
        async with ScriptedPeer() as peer, connect(peer.target) as client:
            calls = [client.submit("tools/call", {"name": "x"}, timeout=0.01) for _ in range(5)]
            later = client.submit("tools/call", {"name": "x"}, timeout=0.05)
            defects.update({calls[0].id, calls[2].id, calls[4].id})
            ended = await asyncio.gather(*calls, later, return_exceptions=True)
            assert [type(outcome) for outcome in ended] == [TimeoutError] * 6

    assert [type(context["exception"]) for context in run(loop, test)] == [Defect] * 3


@on_fake_clock
async def test_an_effect_that_raises_loses_none_of_the_others(defects: set[int]) -> None:
    """A loss ends many calls in one step."""
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        calls = [client.submit("tools/call", {"name": "x"}) for _ in range(5)]
        defects.update(call.id for call in calls)
        await peer.expect("tools/call", 5)
        asyncio.get_running_loop().set_exception_handler(lambda _, context: None)
        peer.crash(TransportError("gone"))
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome) for outcome in ended] == [OutcomeUnknownError] * 5
        defects.clear()
        await client.ready()  # the transport was closed, and the next is up


@on_fake_clock
async def test_a_frame_whose_handling_raises_does_not_block_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedPeer() as peer, connect(peer.target) as client:
        connection = client._requests.connection
        deliver = driver._PERFORM[e.Deliver]
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

        def raise_once(self: Driver, effect: e.Deliver) -> None:
            if effect.method == "notifications/bad":
                raise Defect
            deliver(self, effect)

        monkeypatch.setitem(driver._PERFORM, e.Deliver, raise_once)
        call = client.submit("tools/call", {"name": "x"}, timeout=5)
        request = await peer.expect("tools/call")
        peer.notify("notifications/bad")
        peer.respond(request.id, {"content": []})
        assert await call == {"content": []}
        assert [type(context["exception"]) for context in reported] == [Defect]
        assert connection._wake is not None, "it sleeps until its next timer"


@on_fake_clock
async def test_a_transport_whose_stop_writing_raises_is_still_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def stop() -> None:
        raise Defect

    closed: list[bool] = []

    async def close() -> None:
        closed.append(True)

    peer = ScriptedPeer()
    client: Client = await odd(peer, stops=stop, closes=close)
    await client.open()
    await client.stop()
    assert "stop_writing() of the transport failed" in caplog.text
    assert closed == [True]
    await peer.close()
