"""One call of a tool: from arguments to a result, through apcore's executor, and never an exception to the protocol.

The order: the catalogue says whether the module is offered, defaults are filled in, arguments are checked if asked for, then
apcore runs it; where it wants a person's approval, the client is asked. What comes back is JSON, or an error in the words of
`ErrorMapper`.

When the client cancels, the module hears of it by its `context.cancel_token` at once, and nobody waits for it. A streaming
module is streamed only if the client asked for progress; each chunk is then one notification, and the result is all of them.

Must never know a transport. Above: the factory (MCP), the inspector. Below: `catalogue`, `adapters.errors`, apcore's Executor.
"""

import asyncio
import dataclasses
import json
import math
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Set
from datetime import date, timedelta
from datetime import time as clock_time
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Protocol, TypeAlias
from uuid import UUID

import msgspec
from apcore import (  # type: ignore[import-untyped]  # apcore ships no types
    ApprovalPendingError,
    CancelToken,
    Context,
    Executor,
    Identity,
    ModuleNotFoundError,
    SchemaValidationError,
)

from apcore_mcp.adapters.errors import ErrorMapper, say_fields
from apcore_mcp.approval import CONSENT, Answer, Consent, attach, refusal_of
from apcore_mcp.catalogue import Catalogue, Entry
from apcore_mcp.containment import contained
from apcore_mcp.secrets import SECRETS, Secrets
from apcore_mcp.threads import provide
from apcore_mcp.tracing import TRACE_ID, read_parent, traced
from apcore_mcp.validation import ArgumentRules
from jackstay.types import CallToolResult, TextContent

_logger = traced("apcore_mcp.server.router")

# How a call may end, for those who count.
Outcome: TypeAlias = Literal["ok", "error", "cancelled"]

# Told of every call when it has ended: the module, how many seconds it took, and how.
CallListener: TypeAlias = Callable[[Entry, float, Outcome], None]

# What is deeper than this in an output is not data.
MAX_OUTPUT_DEPTH = 100

# An output over so many characters is not said twice, as text and as structure: together they would be over what a frame may
# have (16 MiB), and the text is for clients that know no structure (2025-06-18 server/tools: SHOULD).
MAX_SAID_TWICE = 4 * 1024 * 1024


# What JSON has a text for that is not `str()` of it, or is, by agreement (a datetime is a date).
_SCALARS = (date, clock_time, timedelta, Decimal, UUID, bytes, bytearray, memoryview)


class Caller(Protocol):
    """Whom a call is for; `jackstay.server.Context` is one. Only what is needed of it is asked for."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """`_meta` of the request: `progressToken` if progress is wanted, `traceparent`."""

    @property
    def is_cancelled(self) -> bool:
        """True once nobody wants the answer. Asked from any thread."""

    @property
    def principal(self) -> str:
        """Who it is, where that was proved; else empty."""

    @property
    def scopes(self) -> frozenset[str]:
        """What he may do."""

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Tell how far it is."""

    async def elicit(self, message: str, form: Any, *, key: str | None = None) -> Answer:
        """Ask a person."""


class _Call(msgspec.Struct, frozen=True):
    """One call on its way: what is run, with what, for whom, and what apcore is told of it."""

    entry: Entry
    arguments: dict[str, Any]
    caller: Caller | None
    context: "Context[Any]"


class ExecutionRouter:
    """Routes calls to an executor. `approval="allow"` runs modules that ask for approval without asking.

    With `approval="ask"`, an executor without an approval handler is given one that asks clients (`approval`). A loop that
    calls are made on is given threads for modules (`threads`), if it has none yet, or always with `owns_loop`.

    Raises: TypeError, if `executor` is none.
    """

    def __init__(
        self,
        executor: Executor,
        *,
        catalogue: Catalogue | None = None,
        validate_inputs: bool = False,
        fill_defaults: bool = True,
        approval: str = "ask",
        error_mapper: ErrorMapper | None = None,
        owns_loop: bool = False,
    ) -> None:
        if not isinstance(executor, Executor):
            raise TypeError(f"executor must be an apcore Executor, not {type(executor).__name__}")
        self._executor = executor
        self._catalogue = catalogue
        self._validates = validate_inputs
        self._fills = fill_defaults
        self._asks = approval == "ask" and attach(executor)
        # A strategy may be without apcore's gate; what a module itself asks for is then asked here.
        self._is_gated = executor.governance_state().builtin_approval_gate_wired
        self._errors = error_mapper or ErrorMapper()
        self._rules: dict[str, tuple[Entry, ArgumentRules]] = {}
        self._listeners: list[CallListener] = []
        self._owns_loop = owns_loop
        self._loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()

    @property
    def catalogue(self) -> Catalogue:
        """What may be called; made of the executor's whole registry, if none was given."""
        if self._catalogue is None:
            self._catalogue = Catalogue(self._executor.registry)
            self._catalogue.refresh()
        return self._catalogue

    def on_call(self, listener: CallListener) -> None:
        """Tell `listener` of every call that ends."""
        self._listeners.append(listener)

    async def handle_call(
        self, tool_name: str, arguments: dict[str, Any] | None, caller: Caller | None = None
    ) -> CallToolResult:
        """Call the module of this name: as listed, its id, or its name for OpenAI. Never raises an Exception."""
        entry = self.catalogue.find(tool_name)
        if entry is None:
            return self._errors.to_mcp_error(ModuleNotFoundError(module_id=tool_name))
        return await self.call(entry, arguments, caller)

    async def call(
        self, entry: Entry, arguments: dict[str, Any] | None, caller: Caller | None = None
    ) -> CallToolResult:
        """Run this module and give its result. Never raises an Exception; cancelling it reaches the module."""
        began = time.perf_counter()
        # None: it has not ended. A question of the stateless era unwinds, and the call is made again with the answer.
        outcome: Outcome | None = None
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._loops.add(loop)
            provide(loop, is_ours=self._owns_loop)
        token = _Token(caller)
        context = self._context(caller, token)
        before = TRACE_ID.set(context.trace_id)
        without = SECRETS.set(Secrets(arguments or {}, entry.redact))
        try:
            result = await self._call(_Call(entry, arguments or {}, caller, context))
            outcome = "error" if result.is_error else "ok"
            return result
        except asyncio.CancelledError:
            token.cancel()
            outcome = "cancelled"
            raise
        except Exception as error:  # noqa: BLE001  # the edge of the author's module and of apcore
            outcome = "error"
            return self._errors.to_mcp_error(error)
        finally:
            seconds = time.perf_counter() - began
            if outcome is not None:
                _logger.info("tool call %s: %s in %.1f ms", entry.id, outcome, seconds * 1000)
                self._tell(entry, seconds, outcome)
            SECRETS.reset(without)
            TRACE_ID.reset(before)

    async def _call(self, call: _Call) -> CallToolResult:
        entry, rules = call.entry, self._rules_of(call.entry)
        if self._fills:
            call = msgspec.structs.replace(call, arguments=rules.fill(call.arguments))
        _logger.debug("arguments of %s: %s", entry.id, _Shown(entry, call.arguments))
        if self._validates:
            problems = rules.problems(call.arguments)
            if problems:
                return self._errors._make_error_result(say_fields(problems))
        try:
            output = await self._approved(call)
        except _Refused as refused:
            return self._errors._make_error_result(str(refused))
        except SchemaValidationError as error:
            return self._errors._make_error_result(self._say_invalid(error, rules, call.arguments))
        with contained(entry.id):  # what a module returns has methods of its own
            return self._result(entry, output)

    async def _approved(self, call: _Call) -> Any:
        """The output, after a person has agreed where that is wanted. Raises: _Refused."""
        if not self._asks:
            return await self._run(call)
        if call.entry.needs_approval and not self._is_gated:
            await _ask(call)
        consent = Consent(call.context.trace_id, "" if call.caller is None else call.caller.principal)
        before = CONSENT.set(consent)
        try:
            try:
                return await self._run(call)
            except ApprovalPendingError:
                if not consent.is_wanted:
                    raise  # not of our handler
            await _ask(call)
            consent.is_given = True
            return await self._run(call)
        finally:
            CONSENT.reset(before)

    async def _run(self, call: _Call) -> Any:
        entry, caller = call.entry, call.caller
        with contained(entry.id):
            if entry.is_streaming and caller is not None and "progressToken" in caller.meta:
                return await self._stream(call, caller)
            return await self._executor.call_async(entry.id, call.arguments, context=call.context)

    async def _stream(self, call: _Call, caller: Caller) -> dict[str, Any]:
        """Every chunk as progress, and all of them as apcore merges them: objects into each other, the rest replaced."""
        merged: dict[str, Any] = {}
        count = 0
        # The first revision has numbers alone; who is no MCP client has no revision.
        has_message = getattr(caller, "version", "") != "2024-11-05"
        async for chunk in self._executor.stream(call.entry.id, call.arguments, context=call.context):
            count += 1
            caller.progress(count, message=to_json(chunk)[0] if has_message else "")
            _merge(merged, chunk)
        return merged

    # --- results ------------------------------------------------------------------------------------------------------

    def _result(self, entry: Entry, output: Any) -> CallToolResult:
        if output is None:
            output = {}
        text, odd = to_json(output)
        content = [TextContent(text=text)]
        if not entry.output_schema or text[:1] != "{":
            return CallToolResult(content=content)
        structured = msgspec.json.decode(text)
        if odd and ArgumentRules(entry.output_schema).problems(structured):
            # A client would refuse the structure that the schema promises, so it gets the words alone, as an error.
            _logger.error("the output of %s has no JSON form at %s", entry.id, ", ".join(odd))
            said = f"The module ran, but JSON has no form for its output at {', '.join(odd)} (null here):\n{text}"
            return self._errors._make_error_result(said)
        if len(text) > MAX_SAID_TWICE:
            content = [TextContent(text=f"{len(text)} characters of JSON: see structuredContent")]
        return CallToolResult(content=content, structured_content=structured)

    def _say_invalid(
        self, error: SchemaValidationError, rules: ArgumentRules, arguments: dict[str, Any]
    ) -> str:
        """Input by its fields; output, and the input of a module that this one called, as errors of the module."""
        step = getattr(error.__context__, "step_name", "input_validation")
        if step != "input_validation":
            _logger.error("the schema was broken in %s", step, exc_info=error)
            return f"Module error: {error.code}"
        # apcore loses the name of a required field; our rules have it.
        problems = rules.problems(arguments)
        return say_fields(problems) if problems else self._errors.describe(error)

    # --- what a call carries ------------------------------------------------------------------------------------------

    def _context(self, caller: Caller | None, token: CancelToken) -> "Context[Any]":
        identity = None
        if caller is not None and caller.principal:
            identity = Identity(id=caller.principal, roles=tuple(sorted(caller.scopes)))
        parent = None if caller is None else read_parent(caller.meta)
        return Context.create(identity=identity, trace_parent=parent, cancel_token=token)

    def _rules_of(self, entry: Entry) -> ArgumentRules:
        found = self._rules.get(entry.id)
        if found is None or found[0] is not entry:
            found = self._rules[entry.id] = entry, ArgumentRules(entry.input_schema)
        return found[1]

    def _tell(self, entry: Entry, seconds: float, outcome: Outcome) -> None:
        for listener in self._listeners:
            try:
                listener(entry, seconds, outcome)
            except Exception:
                _logger.exception("a listener to calls failed")


class _Refused(Exception):
    """Nobody agreed to the call; the words are for the client."""


async def _ask(call: _Call) -> None:
    """Returns if a person agreed. Raises: _Refused."""
    refusal = await refusal_of(call.entry, call.arguments, call.caller)
    if refusal is not None:
        raise _Refused(refusal)


class _Token(CancelToken):  # type: ignore[misc]  # apcore ships no types
    """Cancelled with the request, the moment that the client says so: a module in a thread looks only here."""

    def __init__(self, caller: Caller | None) -> None:
        super().__init__()
        self._caller = caller

    @property
    def is_cancelled(self) -> bool:
        return super().is_cancelled or (self._caller is not None and self._caller.is_cancelled)


class _Shown:
    """Arguments as a log may have them, made only if a line is written."""

    def __init__(self, entry: Entry, arguments: dict[str, Any]) -> None:
        self._entry = entry
        self._arguments = arguments

    def __str__(self) -> str:
        return to_json(self._entry.redact(self._arguments))[0]


def to_json(value: Any) -> tuple[str, tuple[str, ...]]:
    """JSON of whatever a module may return, and the places where JSON has no form (NaN, Infinity): null is there.

    Other objects are written by their JSON values (`json_value`), as members of structures and as keys.

    Raises: ValueError for what contains itself, or is nested without end.
    """
    try:
        text = json.dumps(value, default=json_value, ensure_ascii=False, allow_nan=False)
        odd: list[str] = []
    except (TypeError, ValueError):
        odd = []
        text = json.dumps(_plain(value, "", odd, 0), ensure_ascii=False, allow_nan=False)
    # Half a character has no form in UTF-8.
    return text.encode(errors="replace").decode(), tuple(odd)


def json_value(value: Any) -> Any:
    """What stands for an object in JSON, not yet inside: a member of an enum by its value, models and dataclasses by their fields.

    Bytes are base64, and times ISO 8601, as of `jackstay.server`. An object that JSON has no form for is its text.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, _SCALARS):
        return msgspec.to_builtins(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set | deque):
        return list(value)
    if isinstance(value, type):
        return str(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return {name: getattr(value, field) for name, field in names}
    return str(value)


def _json_key(key: Any) -> str:
    plain = key if isinstance(key, str | tuple) else json_value(key)
    return plain if type(plain) is str else str(plain)


def _plain(value: Any, place: str, odd: list[str], depth: int) -> Any:
    if depth > MAX_OUTPUT_DEPTH:
        raise ValueError(f"the output is nested deeper than {MAX_OUTPUT_DEPTH}, or contains itself")
    if isinstance(value, float) and not math.isfinite(value):
        odd.append(place or "the root")
        return None
    if isinstance(value, dict):
        inside = f"{place}." if place else ""
        named = {_json_key(key): part for key, part in value.items()}
        return {key: _plain(part, f"{inside}{key}", odd, depth + 1) for key, part in named.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, f"{place}[{at}]", odd, depth + 1) for at, part in enumerate(value)]
    if value is None or isinstance(value, str | int | float):
        return value
    return _plain(json_value(value), place, odd, depth + 1)


def _merge(base: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = value
            if isinstance(value, dict):
                # A copy of what will be merged into: the chunk is the module's own.
                base[key] = {}
                _merge(base[key], value)


__all__ = [
    "MAX_OUTPUT_DEPTH",
    "MAX_SAID_TWICE",
    "CallListener",
    "Caller",
    "ExecutionRouter",
    "Outcome",
    "json_value",
    "to_json",
]
