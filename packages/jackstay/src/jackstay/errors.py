"""Every exception that Jackstay raises. Each one answers the question: may the call have run?

The class states the cause; `may_have_run` is a field. This module imports no other module of Jackstay.
"""

import builtins
from collections.abc import Iterable
from typing import Any, Self, TypeAlias

# Any JSON value, for the fields whose content the protocol leaves open.
Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

# A JSON-RPC id: an integer or a string. Fractions, booleans and null are not valid.
RequestId: TypeAlias = int | str


class McpError(Exception):
    """The base of every error. `str(error)` is a complete message; the fields are for programs.

    `may_have_run` is True, False, or None where only the server knows. `retryable` is True only where the call
    certainly did not run and the cause is transient. `retry_in` is the number of seconds to wait before a retry, where
    it is known.
    """

    type: str = "protocol"
    advice: str = ""
    is_transient: bool = False
    server_error: Json = None
    request_id: RequestId | None = None

    def __init__(
        self,
        message: str,
        *,
        details: dict[str, Json] | None = None,
        code: int | None = None,
        method: str | None = None,
        may_have_run: bool | None = False,
        retry_in: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Json] = {} if details is None else details
        self.code = code
        self.method = method
        self.may_have_run = may_have_run
        self.retry_in = retry_in

    @property
    def retryable(self) -> bool:
        """True where a retry is safe and may succeed."""
        return self.may_have_run is False and self.is_transient

    def about(self, method: str | None, request_id: RequestId | None) -> Self:
        """Record which call failed, and return this error. Fields that are already set are kept."""
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
            hint += f" (in {self.retry_in:.3g} s)" if self.retry_in < 100 else f" (in {self.retry_in:.0f} s)"
        return f"{about}{self.message}{hint}"

    def __reduce__(self) -> tuple[object, ...]:
        # By default exceptions are unpickled by calling the class with `args`. These classes need keywords, so the
        # state is restored instead.
        return _restore, (self.__class__, self.args, self.__dict__)


def _restore(cls: builtins.type[McpError], args: tuple[object, ...], state: dict[str, object]) -> McpError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class UsageError(McpError, ValueError):
    """An argument cannot be used: an option out of range, or a value that is not JSON. Nothing was sent.

    `path` names the option, or the location inside the value.
    """

    type = "usage"

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message, details={"path": path} if path else None)
        self.path = path

    def __str__(self) -> str:
        # A message about an option names it already; a message about a location inside a value does not.
        where = f"{self.path}: " if self.path and self.path not in self.message else ""
        return f"{where}{super().__str__()}"


class UnexpectedOptionError(UsageError, TypeError):
    """There is no option or keyword argument `option`. Nothing was sent.

    `where` is what was called ("Server()"), `valid` the names that it accepts. The message suggests the nearest valid
    name, or lists all of them if none is near, unless there is another `hint`.
    """

    def __init__(self, where: str, option: str, valid: Iterable[str] = (), *, hint: str = "") -> None:
        names = tuple(valid)
        hint = f"; {hint}" if hint else did_you_mean(option, names)
        if not hint and names:
            hint = f"; valid options: {', '.join(names)}"
        super().__init__(f"{where} got an unexpected option {option!r}{hint}", path=option)
        self.option = option
        self.valid = names


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the known name nearest to `name`, or "" if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415  # loaded only when there is an error to report

    close = get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


class StateError(McpError):
    """The connection is not ready, and the call was not to wait. `state` is the current state of the connection."""

    type = "state"
    advice = "wait with ready(), or pass wait_for_ready=True"
    is_transient = True

    def __init__(self, state: str, *, message: str = "", retry_in: float | None = None) -> None:
        default = f"the connection is not ready ({state})"
        super().__init__(message or default, details={"state": state}, retry_in=retry_in)
        if message:  # the message has its own advice, and waiting would not help
            self.advice, self.is_transient = "", False
        self.state = state


class BackpressureError(McpError):
    """Nothing was sent: the transport stayed busy, or too many calls are open or queued."""

    type = "transport"
    advice = 'nothing was sent: try again, or pass busy="wait"'
    is_transient = True

    @classmethod
    def after(cls, attempts: int, request_id: int) -> Self:
        """The error for a transport that stayed busy for `attempts` attempts."""
        details: dict[str, Json] = {"attempts": attempts, "request_id": request_id}
        return cls(f"transport busy after {attempts} attempts", details=details).about(None, request_id)


class _TransportEnded(McpError):
    """A transport ended. `exit_code` is that of its process, `stderr_tail` the end of what it wrote to stderr."""

    type = "transport"
    _was_sent = False

    def __init__(
        self,
        message: str,
        *,
        exit_code: int | None = None,
        stderr_tail: str = "",
        retry_in: float | None = None,
        details: dict[str, Json] | None = None,
    ) -> None:
        super().__init__(message, may_have_run=self._was_sent, retry_in=retry_in, details=details)
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
            # Programs usually print the cause last. The field has the complete tail.
            sentence += f" [stderr: {lines[-1]}]"
        return sentence


class TransportError(_TransportEnded, ConnectionError):
    """Could not connect, or could not send. `permanent` means that a retry cannot help.

    `absent` means that there is no MCP server at this address: the connection was refused or repeatedly closed without
    a response, the host is unknown, or the URL belongs to something else. A server may appear there later. A program
    that closes its standard output before it sends a message is not an MCP server either.
    """

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
        super().__init__(message, exit_code=exit_code, stderr_tail=stderr_tail, retry_in=retry_in, details=details)
        self.permanent = permanent
        self.absent = absent
        self.is_transient = not permanent


class SessionLostError(TransportError):
    """The server dropped the session and rejected the request before dispatch: the call did not run."""

    advice = "a new session is being opened: try again"

    def __init__(self, message: str = "the server no longer knows this session") -> None:
        super().__init__(message)


class OutcomeUnknownError(_TransportEnded):
    """The request was sent, then the connection was lost. The call may have run: check before sending it again."""

    advice = "it may have run: check before sending it again"
    _was_sent = True


class ResetError(McpError):
    """The server reset the connection. A call that was sent before may have run; one that was not sent did not."""

    type = "reset"

    def __init__(self, message: str = "connection reset by server", *, sent: bool = True) -> None:
        super().__init__(message, may_have_run=sent)
        self.is_transient = not sent


class TimeoutError(McpError, builtins.TimeoutError):
    """The timeout passed. If `sent` is False, the request was never sent and the call did not run.

    `limit` names the limit that was reached, "timeout" (soft) or "max_timeout" (hard); `timeout` is its length in
    seconds.
    """

    type = "timeout"

    def __init__(self, timeout: float | None, *, sent: bool, message: str = "", limit: str = "") -> None:
        within = "" if timeout is None else f" within {timeout:g} s" + (f" ({limit})" if limit else "")
        default = (
            f"no response{within}; the request was cancelled, but it may have run" if sent else f"not sent{within}"
        )
        super().__init__(message or default, may_have_run=sent)
        self.timeout = timeout
        self.limit = limit
        self.sent = sent
        self.is_transient = not sent


class JsonRpcError(McpError):
    """The server responded with an error: `code`, `message` and `data`, and the complete object in `server_error`.

    `may_have_run` is the `mayHaveRun` member of `data`, which Jackstay's server and proxy set; otherwise None.
    It is `retryable` where `data` also has `"retryable": true`.
    """

    type = "jsonrpc"

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        error: dict[str, Json] = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        claims = data if isinstance(data, dict) else {}
        may_have_run = claims.get("mayHaveRun")
        super().__init__(message, code=code, may_have_run=may_have_run if isinstance(may_have_run, bool) else None)
        self.server_error = error
        self.is_transient = claims.get("retryable") is True
        self.data = data

    def __str__(self) -> str:
        return f"{super().__str__()} [code {self.code}]"


class ToolCallError(McpError):
    """The tool ran and failed: its result has `is_error`. `tool` is its name, `result` the complete result.

    With `raise_on_error=False`, `call()` returns the result; its `text` and `data` raise this error, without the name.
    """

    type = "tool"

    def __init__(self, tool: str, message: str, result: Any = None) -> None:
        super().__init__(message, may_have_run=True)
        self.tool = tool
        self.result = result

    @classmethod
    def of(cls, tool: str, result: Any) -> Self:
        """Return the error for the result of a tool that failed."""
        name = f" {tool!r}" if tool else ""
        return cls(tool, f"the tool{name} failed: {result.error_text or 'it returned no reason'}", result)


class ProtocolError(McpError):
    """The peer violated the protocol. `path` is the location in its message, `quote` the beginning of the message.

    `code` is the JSON-RPC error code that a server responds with.
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
    """A frame is over the limit, in either direction. `size` is the number of bytes seen before reading stopped.

    `start` and `end` are parts of a received frame, where a request has its id.
    """

    advice = "raise max_frame_bytes on both sides, or send less"

    def __init__(self, size: int, limit: int, *, sent: bool = False, start: bytes = b"", end: bytes = b"") -> None:
        super().__init__(f"a frame of at least {size} bytes is over the limit of {limit}", code=-32600, sent=sent)
        self.size = size
        self.limit = limit
        self.start = start
        self.end = end
        self.details.update(size=size, limit=limit)


class CapabilityError(McpError):
    """The peer did not declare the capability. This is checked before anything is sent."""

    type = "capability_not_supported"

    def __init__(self, required: str, message: str = "") -> None:
        default = f"the server did not declare the capability {required!r}"
        super().__init__(message or default, details={"required": required})
        self.required = required


class ShutdownError(McpError):
    """`stop()` was called while the call was open, or before it was made."""

    type = "shutdown"

    def __init__(self, message: str = "the client was stopped", *, sent: bool = False) -> None:
        super().__init__(message, may_have_run=sent)


class ClosedError(McpError):
    """The connection stopped or failed permanently.

    `reason` is the error that closed it; `type` and `code` are its own.
    """

    def __init__(self, reason: McpError, *, sent: bool = False) -> None:
        super().__init__(f"the connection is closed: {reason}", details=dict(reason.details), may_have_run=sent)
        self.reason = reason
        self.type = reason.type
        self.code = reason.code


class MachineError(McpError):
    """A server's state machine rejected a message. `data()` is the `data` member of the JSON-RPC error."""

    type = "state"

    def __init__(
        self, message: str, *, event: str, state: str, method: str | None = None, code: int | None = None
    ) -> None:
        super().__init__(message, code=code, method=method)
        self.event = event
        self.state = state

    def data(self) -> dict[str, Json]:
        """The `data` member of the JSON-RPC error."""
        return {"fsmError": self.__class__.__name__, "event": self.event, "state": self.state, "method": self.method}


class InvalidEventError(MachineError):
    """A known message arrived in the wrong state."""

    def __init__(self, event: str, state: str, *, method: str | None = None, code: int = -32001) -> None:
        super().__init__(f"{event} is not allowed while {state}", event=event, state=state, method=method, code=code)


class UnknownEventError(MachineError):
    """The method does not exist in this revision."""

    def __init__(self, event: str, state: str, *, method: str | None = None) -> None:
        super().__init__("no such method", event=event, state=state, method=method, code=-32601)


class GuardRefusedError(MachineError):
    """A guard rejected a message: version, capability, header or limit. The state is unchanged."""

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
        """Return the base's members, `reason`, and those that the code requires (`supported`, `retryable`, ...)."""
        return {**super().data(), "reason": self.reason, **self.more}


class NoTransitionError(MachineError):
    """The transition keeps the state. Not an error: with it, a table has a result for every state and event."""


_names = {name for name, kind in dict(vars()).items() if isinstance(kind, type) and issubclass(kind, McpError)}
_names |= {"Json", "RequestId", "did_you_mean"}
__all__ = [name for name in sorted(_names) if not name.startswith("_")]
