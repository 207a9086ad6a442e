"""Every exception a user of Jackstay can meet, and the one question each of them answers: may the call have run?

    McpError
    ├── UsageError            you passed something that cannot be used (also a ValueError)
    ├── StateError            the connection is not ready, and the call was not to wait
    ├── BackpressureError     the transport stayed busy, or too many calls are open
    ├── TransportError        could not connect, or was not sent (also a ConnectionError)
    │   └── SessionLostError  the server forgot the session and refused the request before dispatch
    ├── OutcomeUnknownError   written, then lost: nobody knows whether it ran
    ├── ResetError            written, then the server reset the connection
    ├── TimeoutError          time ran out; `sent` says on which side of the wire (also the builtin TimeoutError)
    ├── JsonRpcError          the server answered with an error
    ├── ProtocolError         the peer broke the rules
    │   └── FrameTooLargeError
    ├── CapabilityError       the peer never offered it, so it was not sent
    ├── ShutdownError         we stopped
    ├── ClosedError           stopped or failed for good; `reason` is the error that closed it
    └── MachineError          a server's machine refused a message (never seen by a client's caller)
        ├── InvalidEventError     known message, wrong state
        ├── UnknownEventError     unknown method
        ├── GuardRefusedError     version, capability, header or limit refused
        └── NoTransitionError     the row keeps its state: not an error, and never sent to a peer

Whose fault it was decides the class; whether the call may have run is a field. Errors carry fields and compose their
sentence in `__str__`: what happened, to what, and what to try. This is the lowest room: it imports nothing of ours.
"""

import builtins
from typing import Self, TypeAlias

# JSON that is truly unknown: what a peer sent in a place the protocol leaves open.
Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

# What a peer may use as an id: JSON-RPC's two kinds. A fraction, a boolean or null is none.
RequestId: TypeAlias = int | str


class McpError(Exception):
    """The base of every error here. `str(error)` is a whole sentence; the fields are for programs.

    `may_have_run` is True, False, or None where the server decides. `retryable` is True only where the call surely
    did not run and the cause is passing; `retry_in` says in how many seconds to try, where that is known.
    """

    type: str = "protocol"
    advice: str = ""
    is_passing: bool = False

    def __init__(
        self,
        message: str,
        *,
        details: dict[str, Json] | None = None,
        code: int | None = None,
        server_error: Json = None,
        method: str | None = None,
        request_id: RequestId | None = None,
        may_have_run: bool | None = False,
        retry_in: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Json] = {} if details is None else details
        self.code = code
        self.server_error = server_error
        self.method = method
        self.request_id = request_id
        self.may_have_run = may_have_run
        self.retry_in = retry_in

    @property
    def retryable(self) -> bool:
        """True where doing the same again is safe and may help."""
        return self.may_have_run is False and self.is_passing

    def about(self, method: str | None, request_id: RequestId | None) -> Self:
        """The same error, saying which call it ended. Fields already set are kept."""
        self.method = self.method or method
        self.request_id = request_id if self.request_id is None else self.request_id
        return self

    def __str__(self) -> str:
        about = ""
        if self.method is not None:
            about = self.method if self.request_id is None else f"{self.method} (request {self.request_id})"
            about += ": "
        hint = f"; {self.advice}" if self.advice else ""
        if self.retry_in is not None:
            hint += f" (in {self.retry_in:.3g} s)"
        return f"{about}{self.message}{hint}"

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions pickle by calling the class with `args`; ours take keywords, so state is put back instead.
        return _revive, (self.__class__, self.args, self.__dict__)


def _revive(cls: builtins.type[McpError], args: tuple[object, ...], state: dict[str, object]) -> McpError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class UsageError(McpError, ValueError):
    """You passed something that cannot be used: a setting out of range, a value that is not JSON. Nothing was sent.

    `path` names the setting or the place inside the value.
    """

    type = "usage"

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message, details={"path": path} if path else None)
        self.path = path

    def __str__(self) -> str:
        # A setting is named in its own sentence; a place inside a value is not.
        where = f"{self.path}: " if self.path and self.path not in self.message else ""
        return f"{where}{super().__str__()}"


class StateError(McpError):
    """The connection is not ready, and the call was not to wait. `state` is where it stands."""

    type = "state"
    advice = "wait with ready(), or pass wait_for_ready=True"
    is_passing = True

    def __init__(self, state: str, *, message: str = "", retry_in: float | None = None) -> None:
        super().__init__(
            message or f"the connection is not ready ({state})", details={"state": state}, retry_in=retry_in
        )
        if message:  # it says itself what to do; waiting is not it
            self.advice, self.is_passing = "", False
        self.state = state


class BackpressureError(McpError):
    """Never sent: the transport stayed busy, or too many calls are open or queued."""

    type = "transport"
    advice = 'nothing was sent: try again, or pass busy="wait"'
    is_passing = True

    def __init__(self, message: str, *, details: dict[str, Json] | None = None) -> None:
        super().__init__(message, details=details)

    @classmethod
    def after(cls, attempts: int, request_id: int) -> Self:
        """The seed's exact words for a transport that stayed busy."""
        details: dict[str, Json] = {"attempts": attempts, "request_id": request_id}
        error = cls(f"transport busy after {attempts} attempts", details=details)
        error.request_id = request_id
        return error


class _Ended(McpError):
    """What is known about a transport that ended: the exit code and the last words on stderr."""

    def __init__(
        self,
        message: str,
        *,
        exit_code: int | None = None,
        stderr_tail: str = "",
        may_have_run: bool = False,
        retry_in: float | None = None,
        details: dict[str, Json] | None = None,
    ) -> None:
        super().__init__(message, may_have_run=may_have_run, retry_in=retry_in, details=details)
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail
        if exit_code is not None:
            self.details["exit_code"] = exit_code
        if stderr_tail:
            self.details["stderr_tail"] = stderr_tail

    def __str__(self) -> str:
        sentence = super().__str__()
        if self.exit_code is not None:
            how = f"signal {-self.exit_code}" if self.exit_code < 0 else f"exit code {self.exit_code}"
            sentence += f" [{how}]"
        lines = self.stderr_tail.strip().splitlines()
        if lines:
            # The last line is where programs say why; the whole tail is in the field.
            sentence += f" [stderr: {lines[-1]}]"
        return sentence


class TransportError(_Ended, ConnectionError):
    """Could not connect, or was not sent. `permanent` means that trying again cannot help.

    `absent` means that no MCP server is there: the connection was refused, the host is unknown, the URL is another one's. It may
    be there later.
    """

    type = "transport"

    def __init__(
        self,
        message: str,
        *,
        exit_code: int | None = None,
        stderr_tail: str = "",
        permanent: bool = False,
        absent: bool = False,
        retry_in: float | None = None,
        details: dict[str, Json] | None = None,
    ) -> None:
        super().__init__(
            message, exit_code=exit_code, stderr_tail=stderr_tail, retry_in=retry_in, details=details
        )
        self.permanent = permanent
        self.absent = absent
        self.is_passing = not permanent


class SessionLostError(TransportError):
    """The server forgot the session and refused the request before dispatch: it did not run."""

    advice = "a new session is being opened: try again"

    def __init__(self, message: str = "the server no longer knows this session") -> None:
        super().__init__(message)


class OutcomeUnknownError(_Ended):
    """Written, then lost. The server may have run it: check before you send it again."""

    type = "transport"
    advice = "it may have run: check before sending it again"

    def __init__(
        self,
        message: str,
        *,
        exit_code: int | None = None,
        stderr_tail: str = "",
        retry_in: float | None = None,
        details: dict[str, Json] | None = None,
    ) -> None:
        super().__init__(
            message,
            exit_code=exit_code,
            stderr_tail=stderr_tail,
            may_have_run=True,
            retry_in=retry_in,
            details=details,
        )


class ResetError(McpError):
    """The server reset the connection. What was written before may have run; what was not, did not."""

    type = "reset"

    def __init__(self, message: str = "connection reset by server", *, sent: bool = True) -> None:
        super().__init__(message, may_have_run=sent)
        self.is_passing = not sent


class TimeoutError(McpError, builtins.TimeoutError):
    """Time ran out. `sent` is False where the call was never written, and then it surely did not run.

    `limit` names the deadline of a call that passed, "timeout" (soft) or "max_timeout" (hard); `timeout` is its length.
    """

    type = "timeout"

    def __init__(self, timeout: float | None, *, sent: bool, message: str = "", limit: str = "") -> None:
        within = "" if timeout is None else f" within {timeout:g} s" + (f" ({limit})" if limit else "")
        said = (
            message or f"no answer{within}; it was cancelled, but it may have run"
            if sent
            else message or f"not sent{within}"
        )
        super().__init__(said, may_have_run=sent)
        self.timeout = timeout
        self.limit = limit
        self.sent = sent
        self.is_passing = not sent


class JsonRpcError(McpError):
    """The server answered with an error: `code`, the words in `message`, all of it in `server_error`.

    `may_have_run` is what the server states as `mayHaveRun` in the error's `data`, as our server and the proxy do; else None.
    It is `retryable` where the server states that, too.
    """

    type = "jsonrpc"

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        error: dict[str, Json] = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        claims = data if isinstance(data, dict) else {}
        may_have_run = claims.get("mayHaveRun")
        super().__init__(
            message,
            code=code,
            server_error=error,
            may_have_run=may_have_run if isinstance(may_have_run, bool) else None,
        )
        self.is_passing = claims.get("retryable") is True
        self.data = data

    def __str__(self) -> str:
        return f"{super().__str__()} [code {self.code}]"


class ProtocolError(McpError):
    """The peer broke the rules. `path` is the place in its message, `quote` the beginning of what it sent.

    `code` is the JSON-RPC code that a server answers it with.
    """

    type = "protocol"

    def __init__(
        self, message: str, *, path: str = "", quote: str = "", code: int | None = None, sent: bool = False
    ) -> None:
        super().__init__(message, code=code, may_have_run=sent)
        self.path = path
        self.quote = quote
        if path:
            self.details["path"] = path
        if quote:
            self.details["quote"] = quote

    def __str__(self) -> str:
        where = f" at {self.path}" if self.path else ""
        what = f": {self.quote!r}" if self.quote else ""
        return f"{super().__str__()}{where}{what}"


class FrameTooLargeError(ProtocolError):
    """A frame over the limit, in either direction. `size` is what was seen of it before reading stopped."""

    advice = "raise max_frame_bytes on both sides, or send less"

    def __init__(self, size: int, limit: int, *, sent: bool = False) -> None:
        super().__init__(
            f"a frame of at least {size} bytes is over the limit of {limit}", code=-32600, sent=sent
        )
        self.size = size
        self.limit = limit
        self.details.update(size=size, limit=limit)


class CapabilityError(McpError):
    """The peer never offered it. Checked against what it advertised, before anything is sent."""

    type = "capability_not_supported"

    def __init__(self, required: str, message: str = "") -> None:
        said = message or f"the server does not offer {required}"
        super().__init__(said, details={"required": required})
        self.required = required


class ShutdownError(McpError):
    """We stopped: `stop()` was called while the call was open, or before it was made."""

    type = "shutdown"

    def __init__(self, message: str = "the client was stopped", *, sent: bool = False) -> None:
        super().__init__(message, may_have_run=sent)


class ClosedError(McpError):
    """Stopped or failed for good. `reason` is the error that closed it, and gives this error its `type`."""

    def __init__(self, reason: McpError, *, sent: bool = False) -> None:
        super().__init__(
            f"the connection is closed: {reason}", details=dict(reason.details), may_have_run=sent
        )
        self.reason = reason
        self.type = reason.type
        self.code = reason.code


class MachineError(McpError):
    """A server's machine refused a message. `data()` is what the peer is told beside the code."""

    type = "state"

    def __init__(
        self, message: str, *, event: str, state: str, method: str | None = None, code: int | None = None
    ) -> None:
        super().__init__(message, code=code, method=method)
        self.event = event
        self.state = state

    def data(self) -> dict[str, Json]:
        """The `data` member of the JSON-RPC error."""
        return {
            "fsmError": self.__class__.__name__,
            "event": self.event,
            "state": self.state,
            "method": self.method,
        }


class InvalidEventError(MachineError):
    """A known message in the wrong state: the sequence error."""

    def __init__(self, event: str, state: str, *, method: str | None = None, code: int = -32001) -> None:
        super().__init__(
            f"{event} is not allowed while {state}", event=event, state=state, method=method, code=code
        )


class UnknownEventError(MachineError):
    """No such method in this revision."""

    def __init__(self, event: str, state: str, *, method: str | None = None) -> None:
        super().__init__("no such method", event=event, state=state, method=method, code=-32601)


class GuardRefusedError(MachineError):
    """A guard refused it: version, capability, header or limit. The state is unchanged; the code is the guard's."""

    def __init__(
        self,
        reason: str,
        *,
        event: str,
        state: str,
        code: int,
        method: str | None = None,
        more: dict[str, Json] | None = None,
    ) -> None:
        super().__init__(reason, event=event, state=state, method=method, code=code)
        self.reason = reason
        self.more: dict[str, Json] = {} if more is None else more

    def data(self) -> dict[str, Json]:
        """As the base, with `reason` and what the guard's own code demands (`supported`, `retryable`, ...)."""
        return {**super().data(), "reason": self.reason, **self.more}


class NoTransitionError(MachineError):
    """The row keeps its state. Not an error: it exists so that a table can be asked about every pair."""


__all__ = [
    "BackpressureError",
    "CapabilityError",
    "ClosedError",
    "FrameTooLargeError",
    "GuardRefusedError",
    "InvalidEventError",
    "Json",
    "JsonRpcError",
    "MachineError",
    "McpError",
    "NoTransitionError",
    "OutcomeUnknownError",
    "ProtocolError",
    "RequestId",
    "ResetError",
    "SessionLostError",
    "ShutdownError",
    "StateError",
    "TimeoutError",
    "TransportError",
    "UnknownEventError",
    "UsageError",
]
