"""Trace ids of calls, in log lines and from clients.

A client may send `traceparent` (W3C Trace Context) in `_meta`; it becomes the parent of the trace in apcore. The trace
id is in a context variable, which tasks and the threads of apcore inherit.
"""

import logging
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from apcore_mcp.secrets import hide, hide_exc_info, hide_in_record

if TYPE_CHECKING:
    from apcore import TraceParent  # type: ignore[import-untyped]  # apcore ships no types

# The trace id of the current call, or empty.
TRACE_ID: Final[ContextVar[str]] = ContextVar("apcore_mcp_trace_id", default="")


def read_parent(meta: Mapping[str, Any]) -> "TraceParent | None":
    """Return the trace parent in `_meta`, or None if it is missing or invalid."""
    parent = meta.get("traceparent")
    if not isinstance(parent, str):
        return None
    from apcore import TraceContext  # noqa: PLC0415  # apcore is imported on first use

    state = meta.get("tracestate")
    headers = {"traceparent": parent, **({"tracestate": state} if isinstance(state, str) else {})}
    return TraceContext.extract(headers)


def describe_trace(trace: Any) -> dict[str, Any]:
    """Return a trace of apcore's pipeline for a client: its strategy, and the duration of each step."""
    steps = [
        {"name": step.name, "duration_ms": step.duration_ms, "skipped": step.skipped, "skip_reason": step.skip_reason}
        for step in trace.steps
    ]
    return {"strategy_name": trace.strategy_name, "total_duration_ms": trace.total_duration_ms, "steps": steps}


_MARK: Final = "[trace_id="


class TraceFilter(logging.Filter):
    """Appends the trace id to every log line. For a handler, so that lines of other loggers get it as well."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the trace id to the record, remove sensitive values of the call, and return True."""
        try:
            hide_in_record(record)
            trace_id = TRACE_ID.get()
            if trace_id and _MARK not in str(record.msg):
                record.msg = f"{record.msg} {_MARK}{trace_id}]"
        except Exception:  # noqa: BLE001  # a bad log call must not fail, nor show what could not be hidden
            record.msg = f"a log call at {record.pathname}:{record.lineno} has arguments that do not fit"
            record.args, record.exc_info, record.exc_text = (), None, None
        return True


class TracedLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that appends the trace id to its lines, whatever the format of the handlers."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log without the sensitive values of the call, which only errors and warnings can contain."""
        exc_info = kwargs.get("exc_info")
        if (exc_info or level >= logging.WARNING) and self.isEnabledFor(level):
            msg, args = hide(str(msg) % args if args else str(msg)), ()
            kwargs["exc_info"] = hide_exc_info(exc_info)
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # skip this method
        super().log(level, msg, *args, **kwargs)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Append the trace id."""
        trace_id = TRACE_ID.get()
        return (f"{msg} {_MARK}{trace_id}]" if trace_id else msg), kwargs


def traced(name: str) -> TracedLogger:
    """Return the logger with this name, with trace ids."""
    return TracedLogger(logging.getLogger(name), {})


__all__ = ["TRACE_ID", "TraceFilter", "TracedLogger", "describe_trace", "read_parent", "traced"]
