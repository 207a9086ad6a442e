"""Requests: what the table's names mean for them. Each is handed to a handler, answered here, or refused.

What is refused says why in `data`, by the class of the machine's error; `Send` carries the error itself, for the HTTP
status and for logs. A refusal changes nothing but what is sent.

Above: `_connection`. Below: `_core`, `_offer`.
"""

from jackstay.errors import GuardRefusedError, InvalidEventError, Json, MachineError, UnknownEventError
from jackstay.protocol._machine import words
from jackstay.protocol.server import events as e
from jackstay.protocol.server._core import ServerCore
from jackstay.protocol.server._stateless import MetaFlaw, RequestMeta
from jackstay.protocol.wire._jsonrpc import ErrorCode, encode_error, encode_result

# A revision is a date. What is quoted back of one that we do not know may not be as long as a frame.
LONGEST_QUOTED_VERSION = 64


class RequestRows(ServerCore):
    """Rows of the table that begin with a request."""

    __slots__ = ()

    def _serve(self, event: e.MethodRequested | e.StatelessRequested) -> None:
        version, meta = self._version, None
        if isinstance(event, e.StatelessRequested):
            assert isinstance(event.meta, RequestMeta)
            meta = event.meta
            version = meta.version
            if self._version is None:
                self._version = version
        assert event.row is not None
        assert version is not None
        self._exchanges.serve(event.request, event.row, version, meta)

    def _answer_ok(self, event: e.RequestEvent, result: bytes) -> None:
        self._exchanges.reply(encode_result(event.request.id, result), event.request.id)

    def _answer_discover(self, event: e.DiscoverRequested) -> None:
        self._answer_ok(event, self._offer.discover_result)

    def _answer_ping(self, event: e.PingRequested) -> None:
        self._answer_ok(event, b"{}")

    def _initialize(self, event: e.InitializeRequested) -> None:
        assert event.client is not None
        version = self._offer.negotiate(event.client.version)
        assert version is not None  # asked by NO_HANDSHAKE
        self._answer_ok(event, self._offer.initialize_result(version))
        self._version = version
        self.client = e.ClientFacts(version, event.client.info, event.client.capabilities)

    def _answer_initialize(self, event: e.InitializeRequested) -> None:
        assert event.client is not None
        version = self._offer.negotiate(event.client.version)
        assert version is not None  # the connection itself is at one of them
        self._answer_ok(event, self._offer.initialize_result(version))

    # --- what the table asks ------------------------------------------------------------------------------------------

    def _has_flaw(self, event: e.DiscoverRequested | e.StatelessRequested) -> bool:
        return isinstance(event.meta, MetaFlaw)

    def _is_unknown(self, event: e.StatelessRequested) -> bool:
        return event.row is None

    def _is_full(self, _: e.Event) -> bool:
        return len(self._in_flight) >= self._max_concurrent

    def _wants_sequence(self, _: e.Event) -> bool:
        return self._offer.options.strict

    def _is_lasting(self, _: e.Event) -> bool:
        return not self._is_post

    def _speaks_no_handshake(self, _: e.Event) -> bool:
        return not self._offer.handshake

    def _has_bad_params(self, event: e.InitializeRequested) -> bool:
        return event.client is None

    # --- refusals -----------------------------------------------------------------------------------------------------

    def _refuse(self, event: e.RequestEvent, error: MachineError) -> None:
        assert error.code is not None
        id = event.request.id
        self._exchanges.reply(encode_error(id, error.code, error.message, error.data()), id, error)

    def _guard(
        self, event: e.RequestEvent, code: ErrorCode, reason: str, more: "dict[str, Json] | None" = None
    ) -> None:
        """Refuse a request with the code of the guard that refused it."""
        name, method = type(event).__name__, event.request.method
        error = GuardRefusedError(
            reason, event=name, state=self.state.value, code=code, method=method, more=more
        )
        self._refuse(event, error)

    def _refuse_duplicate(self, event: e.DuplicateRequested) -> None:
        self._guard(event, ErrorCode.INVALID_REQUEST, "a request with this id is in flight")
        self._report_violation(words(type(event).__name__), 0)

    def _refuse_version(self, event: e.UnsupportedRequested) -> None:
        self._refuse_revision(event, event.version, self._offer.supported)

    def _refuse_handshake(self, event: e.InitializeRequested) -> None:
        # Revisions with a handshake would be a lie here: that is what was just refused.
        requested = "" if event.client is None else event.client.version
        self._refuse_revision(event, requested, self._offer.stateless)

    def _refuse_revision(self, event: e.RequestEvent, requested: str, supported: tuple[str, ...]) -> None:
        more: dict[str, Json] = {
            "supported": list(supported),
            "requested": requested[:LONGEST_QUOTED_VERSION],
        }
        self._guard(event, ErrorCode.UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol version", more)

    def _refuse_meta(self, event: e.DiscoverRequested | e.StatelessRequested | e.MethodRequested) -> None:
        flaw = MetaFlaw("_meta", "is missing")
        if not isinstance(event, e.MethodRequested):
            assert isinstance(event.meta, MetaFlaw)
            flaw = event.meta
        self._guard(event, ErrorCode.INVALID_PARAMS, f"{flaw.key} {flaw.reason}", {"key": flaw.key})

    def _refuse_params(self, event: e.InitializeRequested) -> None:
        self._guard(event, ErrorCode.INVALID_PARAMS, event.flaw)

    def _refuse_unknown(self, event: e.RequestEvent) -> None:
        method = event.request.method
        self._refuse(event, UnknownEventError(type(event).__name__, self.state.value, method=method))

    def _refuse_sequence(self, event: e.RequestEvent, code: ErrorCode = ErrorCode.SEQUENCE_ERROR) -> None:
        name, method = type(event).__name__, event.request.method
        self._refuse(event, InvalidEventError(name, self.state.value, method=method, code=code))

    def _refuse_stateless(self, event: e.StatelessRequested) -> None:
        # Nothing may be allocated in -32000 to -32019 from 2026-07-28 on (basic/index, "Error codes").
        self._refuse_sequence(event, ErrorCode.INVALID_REQUEST)

    def _refuse_shutdown(self, event: e.RequestEvent) -> None:
        self._guard(
            event,
            ErrorCode.INTERNAL_ERROR,
            "server is shutting down",
            {"retryable": True, "mayHaveRun": False},
        )

    def _refuse_busy(self, event: e.RequestEvent) -> None:
        more: dict[str, Json] = {"retryable": True, "mayHaveRun": False, "reason": "busy"}
        self._guard(event, ErrorCode.INTERNAL_ERROR, "too many requests are in flight", more)
