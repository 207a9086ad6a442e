"""One call under way: awaited, given up, read once, ended once."""

import asyncio

import msgspec
import pytest

from jackstay.client import Call
from jackstay.errors import OutcomeUnknownError, ProtocolError
from jackstay.testing import on_fake_clock


def made(read: object = bytes) -> "Call[bytes]":
    call = Call(asyncio.get_running_loop().create_future(), "tools/call", read, None)  # type: ignore[arg-type]
    call.id = 7
    return call


@on_fake_clock
async def test_its_result_is_read_once_and_awaited() -> None:
    call = made()
    assert repr(call) == "<Call 7 tools/call open>"
    assert call.is_heard
    call.complete(msgspec.Raw(b"1"))
    assert await call == b"1"
    call.complete(msgspec.Raw(b"2"))
    call.fail(OutcomeUnknownError("late"))
    assert await call == b"1"
    assert repr(call) == "<Call 7 tools/call done>"
    assert call.is_heard, "the last report of progress may come after the answer"


@on_fake_clock
async def test_a_result_that_cannot_be_read_says_that_the_call_may_have_run() -> None:
    def refuse(raw: msgspec.Raw) -> bytes:
        raise ProtocolError("not what it should be")

    call = made(refuse)
    call.complete(msgspec.Raw(b"1"))
    with pytest.raises(ProtocolError) as caught:
        await call
    assert caught.value.may_have_run is True
    assert (caught.value.method, caught.value.request_id) == ("tools/call", 7)
    assert not call.is_heard


@on_fake_clock
async def test_a_failed_or_cancelled_call_is_not_heard_any_more() -> None:
    failed, cancelled = made(), made()
    failed.fail(OutcomeUnknownError("lost"))
    with pytest.raises(OutcomeUnknownError):
        await failed
    assert not failed.is_heard
    assert cancelled.cancel()
    assert not cancelled.cancel()
    assert not cancelled.is_heard
