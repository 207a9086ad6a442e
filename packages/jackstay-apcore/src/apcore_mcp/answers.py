"""The few words of HTTP that the pages beside the endpoint speak: whole answers, streams of lines, and bodies that are bounded.

Every answer says that it must not be kept or guessed at: what stands in it is about this moment, and for this reader. A
refusal is one of jackstay's, told as JSON that a page can show.

Must never know a module. Above: `health`, `metrics`, `inspector`. Below: ASGI.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from jackstay.protocol.http import Refusal, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jackstay.server.http import Receive, Send

# What every answer carries: nosniff, because the type that is said is the one that is meant.
PLAIN_HEADERS: Final = (
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
)

# How long a body may take to come, in seconds. They are small, and come from the same page.
BODY_SECONDS: Final = 30.0


class Refused(Exception):
    """The request is not served; `refusal` is the answer. Raised by who reads it, caught where it is answered."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


async def begin(
    send: "Send", status: int, kind: str, more: "Iterable[tuple[str, str]]" = (), size: int | None = None
) -> None:
    """The head of an answer; `size` is the body's, where it is known."""
    pairs = [("content-type", kind), *PLAIN_HEADERS, *more]
    if size is not None:
        pairs.append(("content-length", str(size)))
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def write(send: "Send", body: bytes, *, is_last: bool = False) -> None:
    """A piece of the body. After the last one there is nothing more to say."""
    await send({"type": "http.response.body", "body": body, "more_body": not is_last})


async def answer(
    send: "Send", status: int, kind: str, body: bytes, more: "Iterable[tuple[str, str]]" = ()
) -> None:
    """A whole answer."""
    await begin(send, status, kind, more, len(body))
    await write(send, body, is_last=True)


async def answer_json(
    send: "Send", value: object, status: int = 200, more: "Iterable[tuple[str, str]]" = ()
) -> None:
    """A whole answer in JSON."""
    await answer(send, status, "application/json", msgspec.json.encode(value), more)


async def answer_refusal(send: "Send", refusal: Refusal) -> None:
    """Why it is not served, as `{"error": ...}`, with the headers that say what to do."""
    await answer_json(send, {"error": refusal.message}, refusal.status, refusal.headers)


async def read_json(receive: "Receive", limit: int) -> dict[str, Any]:
    """The body of a request, which is a JSON object.

    Raises: Refused, for one that is over the limit, comes too slowly, breaks off, or is something else.
    """
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await _read(receive, limit)
    except TimeoutError as error:
        raise Refused(refuse(408, "the body did not come in time")) from error
    try:
        found: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(refuse(400, "the body must be a JSON object")) from error
    return found


async def _read(receive: "Receive", limit: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Refused(refuse(400, "the body broke off"))
        body += message.get("body", b"")
        if len(body) > limit:
            raise Refused(refuse(413, f"the body is over {limit} bytes"))
        if not message.get("more_body", False):
            return bytes(body)


async def until_gone(receive: "Receive") -> None:
    """Returns when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


__all__ = [
    "BODY_SECONDS",
    "PLAIN_HEADERS",
    "Refused",
    "answer",
    "answer_json",
    "answer_refusal",
    "begin",
    "read_json",
    "until_gone",
    "write",
]
