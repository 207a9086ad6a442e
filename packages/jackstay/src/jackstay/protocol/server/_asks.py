"""What a server's handlers ask of the client (sampling, roots, elicitation, ping), and what waits to be said to it.

Only the handshake era has such requests; afterwards a server asks inside its result. Each ends once: with the
client's answer, with an error, or by being withdrawn. Before the client has confirmed the handshake, what may not
be sent yet is held here, in order.

Must never know a state or who asked. Above: `_connection`. Below: `_jsonrpc`, `events`.
"""

from typing import TypeAlias

from jackstay.errors import (
    FrameTooLargeError,
    Json,
    JsonRpcError,
    McpError,
    RequestId,
    ShutdownError,
    UsageError,
)
from jackstay.protocol.server.events import Asked, Complete, Effect, Fail, Key, Send
from jackstay.protocol.wire._jsonrpc import ABSENT, Error, Result, encode_notification, encode_request
from jackstay.types import encode_json

# Who asked, which method, and on behalf of which request of the client's. Not the params: they may be large.
Ask: TypeAlias = tuple[Key, str, RequestId | None]


class Asks:
    """Requests of ours that are open. Effects are appended to `out`, in order."""

    __slots__ = ("_limit", "_next_id", "_out", "held", "open")

    def __init__(self, out: list[Effect], limit: int) -> None:
        self._out = out
        self._limit = limit
        # Ours are monotonic and never reused: a response to a lower one is late, to a higher one unknown.
        self._next_id = 1
        self.open: dict[int, Ask] = {}
        # Questions as they were asked, notifications as they will be sent.
        self.held: list[Asked | Send] = []

    def __len__(self) -> int:
        return len(self.open) + len(self.held)

    def __repr__(self) -> str:
        return f"<Asks {self.open!r}, {len(self.held)} held>"

    def copy(self, out: list[Effect]) -> "Asks":
        """An independent copy, for searching the states of a core."""
        twin = Asks(out, self._limit)
        twin._next_id = self._next_id
        twin.open = self.open.copy()
        twin.held = self.held.copy()
        return twin

    def snapshot(self) -> tuple[object, ...]:
        """Everything that matters."""
        return self._next_id, frozenset(self.open.items()), tuple(self.held)

    def ask(self, asked: Asked) -> None:
        """Send a request of ours, or fail it if it cannot be sent."""
        id = self._next_id
        try:
            frame = encode_request(id, asked.method, asked.params)
            if len(frame) > self._limit:
                raise FrameTooLargeError(len(frame), self._limit)
        except (UsageError, FrameTooLargeError) as error:
            self._out.append(Fail(asked.key, error))
            return
        self._next_id += 1
        self.open[id] = asked.key, asked.method, asked.about
        self._out.append(Send(frame, asked.about))

    def is_open(self, id: object) -> bool:
        """True if that is a request of ours and the client has not answered it."""
        return isinstance(id, int) and id in self.open

    def kind_of(self, id: object) -> str:
        """What a response to nothing open is: `late`, if there was such a request, or `unknown`."""
        return "late" if isinstance(id, int) and 0 < id < self._next_id else "unknown"

    def answer(self, answer: Result | Error) -> None:
        """The client answered a request of ours that is open."""
        assert isinstance(answer.id, int)
        if isinstance(answer, Result):
            key, _, _ = self.open.pop(answer.id)
            self._out.append(Complete(key, answer.result))
        else:
            data: Json = None if answer.data is ABSENT else answer.data
            self.fail(answer.id, JsonRpcError(answer.code, answer.message, data))

    def fail(self, id: int, error: McpError) -> None:
        """A request of ours that is open ends with this error."""
        key, method, _ = self.open.pop(id)
        self._out.append(Fail(key, error.about(method, id)))

    def fail_all(self) -> None:
        """Every request of ours that is open ends: the client will not answer it."""
        for id in list(self.open):
            self.fail(id, ShutdownError("the connection ended before the client answered", sent=True))

    def withdraw(self, key: Key, reason: str) -> None:
        """Nobody waits for the answer any more: tell the client if it was told of the request."""
        self.held = [event for event in self.held if not (isinstance(event, Asked) and event.key == key)]
        for id in [id for id, (owner, _, _) in self.open.items() if owner == key]:
            _, _, about = self.open.pop(id)
            self._out.append(
                Send(encode_notification("notifications/cancelled", _cancel_params(id, reason)), about)
            )

    def drop_held(self) -> int:
        """Nothing of what was held will be sent: whoever asked is told. Returns how many notifications were lost."""
        held, self.held = self.held, []
        asked = [event for event in held if isinstance(event, Asked)]
        self._out += [
            Fail(event.key, ShutdownError("the connection ended before this was sent")) for event in asked
        ]
        return len(held) - len(asked)


def _cancel_params(id: int, reason: str) -> bytes:
    if reason:
        try:
            return b'{"requestId":%d,"reason":%b}' % (id, encode_json(reason))
        except UsageError:
            pass  # a reason that is not text is not worth losing the cancel for
    return b'{"requestId":%d}' % id
