"""The actions and guards for requests: each request is served by a handler, answered here, or refused.

The error response of a refusal has the reason in `data`. The `Send` effect also carries the exception, for the HTTP
status and for logs.
"""

from jackstay.errors import GuardRefusedError, InvalidEventError, Json, MachineError, UnknownEventError
from jackstay.protocol._machine import readable_name
from jackstay.protocol.server import events as e
from jackstay.protocol.server._core import ServerCore
from jackstay.protocol.server._stateless import InvalidMeta, RequestMeta
from jackstay.protocol.wire._jsonrpc import ErrorCode, encode_error, encode_result

# How much of an unsupported version an error quotes. A revision is a date; a peer may send anything.
MAX_QUOTED_VERSION = 64


class RequestActions(ServerCore):
    """Implements the actions and guards for requests."""

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

    def _respond_result(self, event: e.RequestEvent, result: bytes) -> None:
        self._exchanges.reply(encode_result(event.request.id, result), event.request.id)

    def _respond_discover(self, event: e.DiscoverRequested) -> None:
        self._respond_result(event, self._config.discover_result)

    def _respond_ping(self, event: e.PingRequested) -> None:
        self._respond_result(event, b"{}")

    def _initialize(self, event: e.InitializeRequested) -> None:
        assert event.client is not None
        version = self._config.negotiate(event.client.version)
        assert version is not None  # checked by NO_HANDSHAKE
        self._respond_result(event, self._config.initialize_result(version))
        self._version = version
        self.client = e.ClientParams(version, event.client.info, event.client.capabilities)

    def _respond_initialize(self, event: e.InitializeRequested) -> None:
        assert event.client is not None
        version = self._config.negotiate(event.client.version)
        assert version is not None  # the connection itself uses one of them
        self._respond_result(event, self._config.initialize_result(version))

    # --- guards ---

    def _has_invalid_meta(self, event: e.DiscoverRequested | e.StatelessRequested) -> bool:
        return isinstance(event.meta, InvalidMeta)

    def _is_unknown(self, event: e.StatelessRequested) -> bool:
        return event.row is None

    def _is_full(self, _: e.Event) -> bool:
        return len(self._in_flight) >= self._max_concurrent

    def _is_strict_handshake(self, _: e.Event) -> bool:
        return self._config.options.strict

    def _is_not_post(self, _: e.Event) -> bool:
        return not self._is_post

    def _has_no_handshake(self, _: e.Event) -> bool:
        return not self._config.handshake

    def _has_bad_params(self, event: e.InitializeRequested) -> bool:
        return event.client is None

    # --- refusals ---

    def _refuse(self, event: e.RequestEvent, error: MachineError) -> None:
        assert error.code is not None
        id = event.request.id
        self._exchanges.reply(encode_error(id, error.code, error.message, error.data()), id, error)

    def _refuse_by_guard(
        self, event: e.RequestEvent, code: ErrorCode, reason: str, more: "dict[str, Json] | None" = None
    ) -> None:
        """Refuse a request that a guard does not allow."""
        name, method = type(event).__name__, event.request.method
        error = GuardRefusedError(reason, event=name, state=self.state.value, code=code, method=method, more=more)
        self._refuse(event, error)

    def _refuse_duplicate(self, event: e.DuplicateRequested) -> None:
        self._refuse_by_guard(event, ErrorCode.INVALID_REQUEST, "a request with this id is in flight")
        self._report_violation(readable_name(type(event).__name__), 0)

    def _refuse_version(self, event: e.UnsupportedRequested) -> None:
        self._refuse_revision(event, event.version, self._config.supported)

    def _refuse_handshake(self, event: e.InitializeRequested) -> None:
        # Only stateless revisions: those with a handshake are what was just refused.
        requested = "" if event.client is None else event.client.version
        self._refuse_revision(event, requested, self._config.stateless)

    def _refuse_revision(self, event: e.RequestEvent, requested: str, supported: tuple[str, ...]) -> None:
        more: dict[str, Json] = {
            "supported": list(supported),
            "requested": requested[:MAX_QUOTED_VERSION],
        }
        self._refuse_by_guard(event, ErrorCode.UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol version", more)

    def _refuse_meta(self, event: e.DiscoverRequested | e.StatelessRequested | e.MethodRequested) -> None:
        invalid = InvalidMeta("_meta", "is missing")
        if not isinstance(event, e.MethodRequested):
            assert isinstance(event.meta, InvalidMeta)
            invalid = event.meta
        self._refuse_by_guard(event, ErrorCode.INVALID_PARAMS, f"{invalid.key} {invalid.reason}", {"key": invalid.key})

    def _refuse_params(self, event: e.InitializeRequested) -> None:
        self._refuse_by_guard(event, ErrorCode.INVALID_PARAMS, event.problem)

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
        self._refuse_by_guard(
            event,
            ErrorCode.INTERNAL_ERROR,
            "server is shutting down",
            {"retryable": True, "mayHaveRun": False},
        )

    def _refuse_busy(self, event: e.RequestEvent) -> None:
        more: dict[str, Json] = {"retryable": True, "mayHaveRun": False, "reason": "busy"}
        self._refuse_by_guard(event, ErrorCode.INTERNAL_ERROR, "too many requests are in flight", more)
