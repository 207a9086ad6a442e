"""Streams whose worker has died: the client that resumes one gets an error response instead of waiting forever.

Workers that share sessions publish that they are alive, and the name of a stream begins with the number of its worker.
The first event of a stream, which is never sent, lists the requests of the stream. Those that have no response among
the stored events get one: whether they completed is unknown.
"""

from collections.abc import Iterator

import msgspec

from jackstay.errors import Json, RequestId
from jackstay.protocol.wire import Batch, Error, ErrorCode, Result, decode, encode_error
from jackstay.server.http._event_store import EventStore
from jackstay.types import DECODE_ERRORS

_read_ids = msgspec.json.Decoder(list[RequestId]).decode

_MESSAGE = "the worker that served this request has died; whether the request completed is unknown"
_DATA: dict[str, Json] = {"outcome": "unknown", "mayHaveRun": True}


async def end_stream(events: EventStore, session: str, stream: str) -> bool:
    """Store the missing responses of a stream. Returns False if its requests are not stored (any more)."""
    stored = await events.replay(session, stream, -1)
    if not stored or stored[0][0] != 0:
        return False
    try:
        ids = _read_ids(stored[0][1])
    except DECODE_ERRORS:
        return False
    answered = {id for _, data in stored[1:] for id in _answered(data)}
    number = stored[-1][0]
    for id in ids:
        if id not in answered:
            number += 1
            await events.append(session, stream, number, encode_error(id, ErrorCode.INTERNAL_ERROR, _MESSAGE, _DATA))
    return True


def _answered(data: bytes) -> Iterator[RequestId]:
    """Yield the ids of the responses in an event."""
    message = decode(data)
    for member in message.members if isinstance(message, Batch) else (message,):
        if isinstance(member, Result | Error) and member.id is not None:
            yield member.id
