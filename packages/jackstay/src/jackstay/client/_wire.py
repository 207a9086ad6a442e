"""`client.wire`: the connection without the features, for who passes on messages that are not his own.

What goes in and comes out is bytes: params and results are neither read nor made here, so that nothing of them is lost. The
features decode, check and ask again; whoever stands between two others must not. Everything below is the same: ids, deadlines,
recovery, one outcome a call.

Must never know what a message means. Above: `jackstay.proxy`. Below: `_requests`, `_asking`, `_connection`.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from jackstay.client._asking import Asking
from jackstay.client._call import Call
from jackstay.client._messages import REQUEST_SOURCE, MessageHandler, report_now, source_of
from jackstay.client._requests import ProgressHandler, Requests
from jackstay.errors import McpError, ProtocolError
from jackstay.protocol.client import ServerFacts

# Answers a request of a handshake-era server: method and encoded params in, encoded result out.
RequestHandler: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]

_OPENS_OBJECT = b"{"


class Wire:
    """The connection of one client, as bytes. `on_state(state)` is called at every change of `client.state`.

    `on_message(method, params, source)`, set before `open()`, is called for every notification of the server, as it arrives and in
    its order, in the place of `client.on_notification()`. Progress reports then go to `on_progress` of their call in the same way, and
    none is left out. `source` is the id of the call whose HTTP response carried the notification; 0 where that is not known.
    """

    def __init__(self, requests: Requests, asking: Asking) -> None:
        self.on_state: Callable[[str], None] | None = None
        self.on_message: MessageHandler | None = None
        self._requests = requests
        self._asking = asking

    @property
    def facts(self) -> ServerFacts:
        """What the server said of itself, as it said it. Raises: StateError before the first ready."""
        return self._requests.connection.server()

    @property
    def cause(self) -> McpError | None:
        """Why the connection was lost or could not be made, the last time that happened. Raises: StateError before `open()`."""
        return self._requests.connection.core.cause

    def take(self, method: str, params: msgspec.Raw | None, call: Call[Any] | None) -> bool:
        """Hand a notification over, if somebody wants them here. For the client."""
        if self.on_message is None:
            return False
        body = b"{}" if params is None else bytes(params)
        if call is None:
            self.on_message(method, body, source_of(self._requests.connection._transport))
        else:
            report_now(call, body)
        return True

    @staticmethod
    def source() -> int:
        """In a handler of `answer_with`: the id of the call whose HTTP response carried the request; 0: not known."""
        return REQUEST_SOURCE.get()

    def answer_with(self, handler: RequestHandler) -> None:
        """Give every request of the server's to this handler, in the place of the features' own.

        What is declared to the server is then the setting `capabilities`, as given. `handler` raises a JsonRpcError to refuse.
        """
        self._asking.instead = handler

    def call(
        self,
        method: str,
        params: bytes,
        *,
        meta: bytes = b"",
        speaker: bytes = b"",
        on_progress: ProgressHandler | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
    ) -> Call[bytes]:
        """Make a request and return at once; await `.future` for the encoded result, and `give_up()` when nobody does.

        `params` is its encoded object without `_meta`. `meta` are members of `_meta`, encoded, without braces; `speaker` are
        those that say who asks in the stateless era, where that is not this client. Without a `timeout` it may take for ever.
        It never waits for ready, whatever the settings say: `meta` and `speaker` depend on the era, which may change meanwhile.

        Raises: StateError before the client was opened; UsageError on another loop.
        """
        how = {"meta": meta, "speaker": speaker, "timeout": timeout, "max_timeout": max_timeout}
        return self._requests.connection.submit(
            method,
            params,
            _take,
            on_progress,
            wants_progress=on_progress is not None,
            wait_for_ready=False,
            **how,
        )

    def give_up(self, call: Call[bytes]) -> None:
        """Nobody waits for this call any more: the server is told, once, if it was written."""
        self._requests.connection.give_up(call)

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification. Raises: StateError, ShutdownError, ClosedError or BackpressureError, if that cannot be done."""
        self._requests.connection.notify(method, params)


def _take(result: msgspec.Raw) -> bytes:
    taken = bytes(result)
    if taken[:1] != _OPENS_OBJECT:
        raise ProtocolError("the result is not an object", path="$.result", sent=True)
    return taken
