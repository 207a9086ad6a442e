"""Calls that the page makes: one line of JSON for everything that happens to a call, from its beginning to its end.

The page is a caller like an MCP client: the router treats both alike, so that filters, approval, validation and cancellation are
the same. Its lines are `began`, any number of `progress` and at most one `question` (a person's approval), and one end:
`result` or `cancelled`. A page that goes away cancels its calls.

What a page keeps of a call is sent to it apart, as `shown`: with the sensitive values replaced here, where the schemas are.

Must never know HTTP beyond the lines. Above: `paths`. Below: the router, `catalogue`, `validation`.
"""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from apcore_mcp.adapters.errors import INTERNAL, INVALID
from apcore_mcp.validation import ArgumentRules
from jackstay.types import CallToolResult, TextContent

if TYPE_CHECKING:
    from apcore_mcp.catalogue import Entry
    from apcore_mcp.server.router import ExecutionRouter
    from jackstay.server.http import Principal

logger = logging.getLogger("apcore_mcp.inspector")

# One line, as it is written.
Line: TypeAlias = dict[str, Any]

# Calls at once, over all pages. A person has one or two under way.
MAX_CALLS: Final = 64

# Progress that waits for a page that reads slowly; what is over is left out, and the result has it all.
MAX_WAITING: Final = 1000

# Seconds of silence after which an empty line says that the call is alive, for proxies.
KEEPALIVE: Final = 15.0


class Answer(msgspec.Struct, frozen=True):
    """What the person at the page answered."""

    is_accepted: bool


class Call:
    """One call, as the router's caller and as the page's lines. `cancel()` ends it from outside."""

    def __init__(self, entry: "Entry", arguments: dict[str, Any], principal: "Principal") -> None:
        # Who has it can answer and cancel: it must not be guessed.
        self.id = secrets.token_urlsafe(16)
        # The log has it in every line of this call. An error shows it on the page, so that the two can be matched.
        self.trace_id = secrets.token_hex(16)
        self.entry = entry
        self.arguments = arguments
        self._principal = principal
        self._lines: asyncio.Queue[Line | None] = asyncio.Queue()
        self._question: asyncio.Future[Answer] | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False

    def __repr__(self) -> str:
        return f"<Call {self.entry.id} {'cancelled' if self._is_cancelled else 'open'}>"

    # --- what the router asks of a caller -----------------------------------------------------------------------------

    @property
    def meta(self) -> Mapping[str, Any]:
        """Progress is always wanted: somebody is looking. The trace is ours (W3C Trace Context, version 00)."""
        return {
            "progressToken": self.id,
            "traceparent": f"00-{self.trace_id}-{secrets.token_hex(8)}-01",
        }

    @property
    def is_cancelled(self) -> bool:
        """True once nobody wants the answer."""
        return self._is_cancelled

    @property
    def principal(self) -> str:
        """Whom the page's token proves; empty where none is asked for."""
        return self._principal.id

    @property
    def scopes(self) -> frozenset[str]:
        """What he may do."""
        return self._principal.scopes

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Show how far it is. On the loop of the call."""
        if self._lines.qsize() < MAX_WAITING:
            line = {"type": "progress", "progress": progress, "total": total, "message": message}
            self._lines.put_nowait(line)

    async def elicit(self, message: str, form: Any, *, key: str | None = None) -> Answer:  # noqa: ARG002  # a caller's
        """Ask the person at the page, and wait: he is there, or has gone, which cancels the call."""
        self._question = asyncio.get_running_loop().create_future()
        self._lines.put_nowait({"type": "question", "message": message})
        return await self._question

    # --- what the page does with it -----------------------------------------------------------------------------------

    def answer(self, is_accepted: bool) -> bool:
        """Take the person's answer; False if nothing was asked, or it was answered."""
        if self._question is None or self._question.done():
            return False
        self._question.set_result(Answer(is_accepted))
        return True

    def cancel(self) -> None:
        """End it. The module hears of it, and nobody waits for the module."""
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    async def lines(self, router: "ExecutionRouter") -> AsyncGenerator[Line | None, None]:
        """Run it, and give its lines to the last; None where it has been silent for long. Leaving early cancels it."""
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
        try:
            line = self._ended(await router.call(self.entry, self.arguments, self))
        except asyncio.CancelledError:
            pass  # the task is ours, and this is its end
        except Exception:  # the outermost edge of the task; the router lets nothing through, by contract
            logger.exception("a call of %s could not be made", self.entry.id)
            line = {"type": "result", "is_error": True, "texts": [INTERNAL], "problems": []}
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
                line["problems"] = self._problems()
            line["shown"] = texts
        else:
            line["shown"] = self._shown(texts, structured)
        return line

    def _problems(self) -> list[Line]:
        """The wrong fields, each by its path, so that the page can say it where it was typed."""
        rules = ArgumentRules(self.entry.input_schema)
        found = rules.problems(rules.fill(self.arguments))
        return [{"field": field, "message": message, "code": code} for field, message, code in found]

    def _shown(self, texts: list[str], structured: object) -> Any:
        """The output as a history may keep it: the sensitive values replaced."""
        output = structured
        if output is None and len(texts) == 1:
            try:
                output = json.loads(texts[0])
            except ValueError:
                return texts
        return self.entry.redact_output(output) if isinstance(output, dict) else output


class Calls:
    """The calls that are under way, by their ids."""

    def __init__(self) -> None:
        self._running: dict[str, Call] = {}

    def __repr__(self) -> str:
        return f"<Calls {len(self._running)} running>"

    def __len__(self) -> int:
        return len(self._running)

    @property
    def is_full(self) -> bool:
        """True while no more can be made."""
        return len(self._running) >= MAX_CALLS

    def add(self, call: Call) -> None:
        """It is under way."""
        self._running[call.id] = call

    def remove(self, call: Call) -> None:
        """It has ended."""
        self._running.pop(call.id, None)

    def find(self, id: object, principal: "Principal") -> Call | None:
        """The call of this id, if it is this one's."""
        call = self._running.get(id) if isinstance(id, str) else None
        return call if call is not None and call.principal == principal.id else None


def encode(line: Line) -> bytes:
    """A line as it is written. Numbers of any size have a form in JSON; what has none is its text."""
    return json.dumps(line, default=str, ensure_ascii=False).encode(errors="replace") + b"\n"


__all__ = ["KEEPALIVE", "MAX_CALLS", "MAX_WAITING", "Answer", "Call", "Calls", "Line", "encode"]
