"""Calls from the inspector page, as a stream of JSON lines.

The router treats the page as it treats an MCP client. The lines are `began`, any number of `progress`, at most one
`question` (an approval), and finally `result` or `cancelled`. A page that disconnects cancels its calls. `shown` has
the values with sensitive data redacted, which the page may store in its history.
"""

import asyncio
import json
import logging
import secrets
import time
import traceback
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from apcore_mcp.adapters.errors import INTERNAL, INVALID
from apcore_mcp.tracing import TRACE_ID
from apcore_mcp.validation import ArgumentRules
from jackstay.types import CallToolResult, TextContent

if TYPE_CHECKING:
    from apcore_mcp.catalogue import Entry
    from apcore_mcp.server.router import ExecutionRouter
    from jackstay.server.http import Principal

logger = logging.getLogger("apcore_mcp.inspector")

# The parent of the loggers that log the failures of a module.
_root_logger = logging.getLogger("apcore_mcp")

# One line.
Line: TypeAlias = dict[str, Any]

# Concurrent calls of all pages.
MAX_CALLS: Final = 64

# Queued progress lines for a slow page; further ones are dropped, because the result contains everything.
MAX_QUEUED_PROGRESS: Final = 1000

# Seconds without a line after which an empty line is sent, for proxies.
KEEPALIVE: Final = 15.0


class ElicitationAnswer(msgspec.Struct, frozen=True):
    """The answer of the user of the page."""

    is_accepted: bool


class Call:
    """One call: the caller for the router, and the lines for the page. `cancel()` ends it."""

    def __init__(
        self,
        entry: "Entry",
        arguments: dict[str, Any],
        principal: "Principal",
        *,
        shows_traceback: bool = False,
    ) -> None:
        # Random: the id is enough to answer the prompt of a call and to cancel it.
        self.id = secrets.token_urlsafe(16)
        # Logged with every line of this call and shown on the page with an error, so that the two can be matched.
        self.trace_id = secrets.token_hex(16)
        self.entry = entry
        self.arguments = arguments
        self._principal = principal
        self._shows_traceback = shows_traceback
        self._lines: asyncio.Queue[Line | None] = asyncio.Queue()
        self._question: asyncio.Future[ElicitationAnswer] | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False

    def __repr__(self) -> str:
        return f"<Call {self.entry.id} {'cancelled' if self._is_cancelled else 'open'}>"

    # --- the interface for the router ---------------------------------------------------------------------------------

    @property
    def meta(self) -> Mapping[str, Any]:
        """`_meta` with a progress token and a `traceparent` (W3C Trace Context, version 00)."""
        return {
            "progressToken": self.id,
            "traceparent": f"00-{self.trace_id}-{secrets.token_hex(8)}-01",
        }

    @property
    def is_cancelled(self) -> bool:
        """Whether the call was cancelled."""
        return self._is_cancelled

    @property
    def principal(self) -> str:
        """The principal of the page's token; empty without authentication."""
        return self._principal.id

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of the principal."""
        return self._principal.scopes

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Send progress to the page. Must be called on the event loop of the call."""
        if self._lines.qsize() < MAX_QUEUED_PROGRESS:
            line = {"type": "progress", "progress": progress, "total": total, "message": message}
            self._lines.put_nowait(line)

    async def elicit(self, message: str, form: Any, *, key: str | None = None) -> ElicitationAnswer:  # noqa: ARG002
        """Show a prompt on the page and wait for the answer. A page that disconnects cancels the call."""
        self._question = asyncio.get_running_loop().create_future()
        self._lines.put_nowait({"type": "question", "message": message})
        return await self._question

    # --- the interface for the page -----------------------------------------------------------------------------------

    def answer(self, is_accepted: bool) -> bool:
        """Set the answer of the user. Return False if there is no open prompt."""
        if self._question is None or self._question.done():
            return False
        self._question.set_result(ElicitationAnswer(is_accepted))
        return True

    def cancel(self) -> None:
        """Cancel the call, without waiting for the module."""
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    async def lines(self, router: "ExecutionRouter") -> AsyncGenerator[Line | None, None]:
        """Run the call and return its lines; None is a keepalive. Closing the generator cancels the call."""
        shown = self.entry.redact(self.arguments)
        yield {"type": "began", "call": self.id, "shown": shown, "trace_id": self.trace_id}
        self._task = asyncio.ensure_future(self._run(router))
        try:
            while True:
                try:
                    async with asyncio.timeout(KEEPALIVE):
                        line = await self._lines.get()
                except TimeoutError:
                    yield None
                    continue
                if line is None:
                    return
                yield line
        finally:
            self.cancel()

    async def _run(self, router: "ExecutionRouter") -> None:
        began = time.perf_counter()
        line: Line = {"type": "cancelled"}
        tracebacks = Tracebacks(self.trace_id)
        if self._shows_traceback:
            _root_logger.addHandler(tracebacks)
        try:
            line = self._ended(await router.call(self.entry, self.arguments, self))
        except asyncio.CancelledError:
            pass  # the task of this call ends here
        except Exception:  # the top of the task; the router does not raise
            logger.exception("cannot call %s", self.entry.id)
            line = {"type": "result", "is_error": True, "texts": [INTERNAL], "problems": []}
        finally:
            _root_logger.removeHandler(tracebacks)
        if tracebacks.texts:
            line["debug"] = "\n".join(tracebacks.texts)
        line["seconds"] = round(time.perf_counter() - began, 6)
        self._lines.put_nowait(line)
        self._lines.put_nowait(None)

    def _ended(self, result: CallToolResult) -> Line:
        texts = [part.text for part in result.content if isinstance(part, TextContent)]
        is_error = bool(result.is_error)
        line: Line = {"type": "result", "is_error": is_error, "texts": texts, "problems": []}
        structured = result.structured_content
        if structured is not None:
            line["structured"] = structured
        if is_error:
            if texts and texts[0].startswith(INVALID):
                line["problems"] = problems_of(self.entry, self.arguments)
            line["shown"] = texts
        else:
            line["shown"] = self._shown(texts, structured)
        return line

    def _shown(self, texts: list[str], structured: object) -> Any:
        """Return the output for the history, with the sensitive values replaced."""
        output = structured
        if output is None and len(texts) == 1:
            try:
                output = json.loads(texts[0])
            except ValueError:
                return texts
        return self.entry.redact_output(output) if isinstance(output, dict) else output


class Tracebacks(logging.Handler):
    """Collects the tracebacks that are logged for one call. The loggers have removed its sensitive values."""

    def __init__(self, trace_id: str) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self._trace_id = trace_id

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the traceback of a record of this call."""
        if record.exc_info and TRACE_ID.get() == self._trace_id:
            self.texts.append("".join(traceback.format_exception(*record.exc_info)))


class Calls:
    """The running calls by id."""

    def __init__(self) -> None:
        self._running: dict[str, Call] = {}

    def __repr__(self) -> str:
        return f"<Calls {len(self._running)} running>"

    def __len__(self) -> int:
        return len(self._running)

    @property
    def is_full(self) -> bool:
        """Whether the maximum number of calls is running."""
        return len(self._running) >= MAX_CALLS

    def add(self, call: Call) -> None:
        """Add a call that starts."""
        self._running[call.id] = call

    def remove(self, call: Call) -> None:
        """Remove a call that has ended."""
        self._running.pop(call.id, None)

    def find(self, id: object, principal: "Principal") -> Call | None:
        """Return the call with this id if it belongs to the principal."""
        call = self._running.get(id) if isinstance(id, str) else None
        return call if call is not None and call.principal == principal.id else None


def problems_of(entry: "Entry", arguments: dict[str, Any]) -> list[Line]:
    """Return the invalid fields with their paths, so that the page can mark them."""
    rules = ArgumentRules(entry.input_schema)
    found = rules.problems(rules.fill(arguments))
    return [{"field": field, "message": message, "code": code} for field, message, code in found]


def encode(line: Line) -> bytes:
    """Encode a line. With `json`, because integers may have any size; other values become strings."""
    return json.dumps(line, default=str, ensure_ascii=False).encode(errors="replace") + b"\n"


__all__ = [
    "KEEPALIVE",
    "MAX_CALLS",
    "MAX_QUEUED_PROGRESS",
    "Call",
    "Calls",
    "ElicitationAnswer",
    "Line",
    "Tracebacks",
    "encode",
    "problems_of",
]
