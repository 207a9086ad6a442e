"""One request in flight: awaited, cancelled, decoded once, ended once."""

import asyncio

import msgspec
import pytest

from jackstay.client import Call
from jackstay.errors import OutcomeUnknownError, ProtocolError
from jackstay.testing import on_fake_clock


def new_call(read: object = bytes) -> "Call[bytes]":
    call = Call(asyncio.get_running_loop().create_future(), "tools/call", read, None)  # type: ignore[arg-type]
    call.id = 7
    return call


@on_fake_clock
async def test_a_result_is_decoded_once_and_awaited() -> None:
    call = new_call()
    assert repr(call) == "<Call 7 tools/call open>"
    assert call.accepts_progress
    call.complete(msgspec.Raw(b"1"))
    assert await call == b"1"
    call.complete(msgspec.Raw(b"2"))
    call.fail(OutcomeUnknownError("late"))
    assert await call == b"1"
    assert repr(call) == "<Call 7 tools/call done>"
    assert call.accepts_progress, "the last progress notification may follow the result"


@on_fake_clock
async def test_an_invalid_result_sets_may_have_run() -> None:
    def refuse(raw: msgspec.Raw) -> bytes:
        raise ProtocolError("expected an object, got an integer", path="$")

    call = new_call(refuse)
    call.complete(msgspec.Raw(b"1"))
    with pytest.raises(ProtocolError, match=r": the server sent an invalid result: expected an .* at \$$") as caught:
        await call
    assert caught.value.may_have_run is True
    assert (caught.value.method, caught.value.request_id) == ("tools/call", 7)
    assert not call.accepts_progress


@on_fake_clock
async def test_a_failed_or_cancelled_call_accepts_no_progress() -> None:
    failed, cancelled = new_call(), new_call()
    failed.fail(OutcomeUnknownError("lost"))
    with pytest.raises(OutcomeUnknownError):
        await failed
    assert not failed.accepts_progress
    assert cancelled.cancel()
    assert not cancelled.cancel()
    assert not cancelled.accepts_progress
