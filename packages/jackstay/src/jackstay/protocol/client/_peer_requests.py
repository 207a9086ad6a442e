"""Requests of the server: those that handlers are running for, and the frames that a busy transport refused."""

import msgspec

from jackstay.errors import BackpressureError, FrameTooLargeError
from jackstay.protocol.client import events as e
from jackstay.protocol.client._calls import Calls
from jackstay.protocol.client._settings import MAX_HANDLERS
from jackstay.protocol.wire._jsonrpc import ErrorCode, encode_error, encode_notification, encode_result


class PeerRequests(msgspec.Struct):
    """The open requests of the server, and the responses and notifications that wait for the transport."""

    calls: Calls
    # The ids for which a handler runs.
    serving: dict[int | str, None] = msgspec.field(default_factory=dict)
    # Frames that a busy transport refused, in order, each with the request it responds to (None: a notification).
    unsent: list[tuple[int | str | None, bytes]] = msgspec.field(default_factory=list)

    def serve(self, event: e.RequestReceived) -> None:
        """Run the handler, or refuse the request."""
        if self.is_in_progress(event.id):
            self.refuse(event, ErrorCode.INVALID_REQUEST, "a request with this id is already in progress")
        elif len(self.serving) + len(self.unsent) >= MAX_HANDLERS:  # a queued response counts
            self.refuse(event, ErrorCode.INTERNAL_ERROR, f"{MAX_HANDLERS} requests are already in progress")
        else:
            self.serving[event.id] = None
            self.calls.out.append(e.Serve(event.id, event.method, event.params))

    def refuse(self, event: e.RequestReceived, code: ErrorCode, message: str) -> None:
        """Respond with an error."""
        self.respond(event, encode_error(event.id, code, message))

    def respond(self, event: e.RequestReceived, frame: bytes) -> None:
        """Respond immediately, unless too many responses wait: a server that reads none gets no more of them."""
        if len(self.unsent) >= MAX_HANDLERS:
            reason = f"the server sent {event.method} while {MAX_HANDLERS} responses wait for it to read"
            self.calls.out.append(e.Violation(reason, event.size))
        else:
            self.send(frame, event.id)

    def finish(self, event: e.Finished) -> bool:
        """Send the response of a handler. Returns False if the server cancelled the request or has exited."""
        if event.id not in self.serving:
            return False
        del self.serving[event.id]
        if event.error:
            frame = b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (msgspec.json.encode(event.id), event.error)
        else:
            frame = encode_result(event.id, event.result)
        if len(frame) > self.calls.settings.max_frame_bytes:
            # The server waits for a response: send an error that fits.
            frame = encode_error(event.id, ErrorCode.INTERNAL_ERROR, "the response is too large to be sent")
        self.send(frame, event.id)
        return True

    def is_in_progress(self, id: int | str | None) -> bool:
        """Return True if a handler runs for this request, or its response waits for the transport."""
        return id in self.serving or any(id == kept for kept, _ in self.unsent if kept is not None)

    def cancel(self, id: int | str | None) -> None:
        """Stop the handler of this request, or drop its response."""
        if id in self.serving:
            del self.serving[id]
            self.calls.out.append(e.StopServing(id))
        else:
            self.unsent = [kept for kept in self.unsent if kept[0] != id]

    def stop(self) -> None:
        """Stop all handlers and drop what was not sent: the connection is lost."""
        for id in self.serving:
            self.calls.out.append(e.StopServing(id))
        self.serving = {}
        self.unsent = []

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification. Raises: UsageError, FrameTooLargeError or BackpressureError if it cannot be sent."""
        frame, limit = encode_notification(method, params), self.calls.settings.max_frame_bytes
        if len(frame) > limit:
            raise FrameTooLargeError(len(frame), limit)
        if len(self.unsent) >= MAX_HANDLERS:
            raise BackpressureError(f"too many frames wait for the server to read: the limit is {MAX_HANDLERS}")
        self.send(frame)

    def send(self, frame: bytes, response_to: int | str | None = None) -> None:
        """Send a response or notification; queue it if earlier ones still wait for the transport."""
        if self.unsent:
            self.unsent.append((response_to, frame))
        else:
            self.calls.send_message(frame, response_to)

    def send_kept(self) -> None:
        """Send the frames that the transport refused."""
        kept, self.unsent = self.unsent, []
        for response_to, frame in kept:
            self.calls.send_message(frame, response_to)
