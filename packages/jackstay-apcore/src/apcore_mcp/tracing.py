"""Which trace a call belongs to, and its id in every line that is logged meanwhile.

A client may send `traceparent` (W3C Trace Context) in `_meta`; it becomes the parent of apcore's trace id, which every module
of the call sees. The id is kept in a context variable, which tasks and apcore's threads inherit, so that whoever logs does not
have to be told.

Must never know a module or a server. Above: the router, the command's log format. Below: `apcore`.
"""

import logging
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from apcore_mcp.secrets import hide, hide_exc_info, hide_in_record

if TYPE_CHECKING:
    from apcore import TraceParent  # type: ignore[import-untyped]  # apcore ships no types

# The trace id of the call that is being served, or empty.
TRACE_ID: Final[ContextVar[str]] = ContextVar("apcore_mcp_trace_id", default="")


def read_parent(meta: Mapping[str, Any]) -> "TraceParent | None":
    """The parent that a client named; None if it named none, or none that can be used."""
    named = meta.get("traceparent")
    if not isinstance(named, str):
        return None
    from apcore import TraceContext  # noqa: PLC0415  # apcore is loaded by who uses it

    state = meta.get("tracestate")
    headers = {"traceparent": named, **({"tracestate": state} if isinstance(state, str) else {})}
    return TraceContext.extract(headers)


# How a line says it.
_MARK: Final = "[trace_id="


class TraceFilter(logging.Filter):
    """Ends every line with the trace id while there is one: for a handler, which then marks other people's lines, too."""

    def filter(self, record: logging.LogRecord) -> bool:
        """True; the record says its trace from here on, and no sensitive value of the call."""
        hide_in_record(record)
        trace_id = TRACE_ID.get()
        if trace_id and _MARK not in str(record.msg):
            record.msg = f"{record.msg} {_MARK}{trace_id}]"
        return True


class TracedLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines end with the trace id while there is one, whatever the format of the handlers."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log, without the sensitive values of the call; only errors and warnings can quote them."""
        exc_info = kwargs.get("exc_info")
        if (exc_info or level >= logging.WARNING) and self.isEnabledFor(level):
            msg, args = hide(str(msg) % args if args else str(msg)), ()
            kwargs["exc_info"] = hide_exc_info(exc_info)
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # this method is not who logs
        super().log(level, msg, *args, **kwargs)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """The line with the id."""
        trace_id = TRACE_ID.get()
        return (f"{msg} {_MARK}{trace_id}]" if trace_id else msg), kwargs


def traced(name: str) -> TracedLogger:
    """The logger of this name, with trace ids."""
    return TracedLogger(logging.getLogger(name), {})


__all__ = ["TRACE_ID", "TraceFilter", "TracedLogger", "read_parent", "traced"]
