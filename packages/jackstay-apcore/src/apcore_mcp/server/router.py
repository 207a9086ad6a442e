"""Tool calls: from arguments to a result, through the executor of apcore. Exceptions become error results.

Defaults are filled in, arguments optionally validated, and approval requested where apcore requires it. Cancellation
sets `context.cancel_token` and does not wait for the module. If the client requested progress, each chunk of a
streaming module is a progress notification, and the result contains all chunks.
"""

import asyncio
import json
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from apcore import (  # type: ignore[import-untyped]  # apcore ships no types
    ApprovalPendingError,
    CancelToken,
    Context,
    ModuleNotFoundError,
    SchemaValidationError,
    TraceContext,
)

from apcore_mcp.adapters.errors import ErrorMapper, format_field_errors, read_field_errors
from apcore_mcp.approval import (
    CLIENT_CALL,
    CONSENT,
    ClientCall,
    Consent,
    ElicitationAnswer,
    attach_client_approval,
    principal_of,
    request_approval,
)
from apcore_mcp.auth.jwt import to_identity
from apcore_mcp.backends import AdaptedExecutor, adapt_executor
from apcore_mcp.catalogue import Catalogue, Entry, bare_entry
from apcore_mcp.compat.authentication import auth_identity_var
from apcore_mcp.compat.calls import ExtraCaller, ExtraCalls, TaskCalls, to_result
from apcore_mcp.compat.results import DirectResult, ErrorResult
from apcore_mcp.containment import contained
from apcore_mcp.formats import make_formatter
from apcore_mcp.helpers import MCP_ELICIT_KEY, MCP_PROGRESS_KEY, ElicitResult
from apcore_mcp.secrets import SECRETS, Secrets
from apcore_mcp.server.router_json import to_json
from apcore_mcp.threads import install_thread_pool
from apcore_mcp.tracing import TRACE_ID, describe_trace, read_parent, traced
from apcore_mcp.validation import ArgumentRules
from jackstay.types import CallToolResult, TextContent

# The log of calls, with the trace id of each.
logger = traced("apcore_mcp.server.router")

# How a call ended.
Outcome: TypeAlias = Literal["ok", "error", "cancelled"]

# Called at the end of every call with the entry, the duration in seconds, and the outcome.
CallListener: TypeAlias = Callable[[Entry, float, Outcome], None]

# The maximum nesting at which chunks of a stream are merged.
MAX_MERGE_DEPTH = 32

# A longer output is sent only as structured content, without a copy as text: together they could exceed the maximum
# frame size, of which this is a quarter. MCP 2025-06-18, server/tools: the text SHOULD be present, for older clients.
MAX_TEXT_COPY = 4 * 1024 * 1024


# How long a replaced module waits for its calls before it is unloaded, in seconds.
MAX_UNLOAD_WAIT = 30.0


class Caller(Protocol):
    """The caller of a tool, such as `jackstay.server.Context`."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """`_meta` of the request, with `progressToken` and `traceparent`."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the request was cancelled. Thread-safe."""

    @property
    def principal(self) -> str:
        """The authenticated principal, or empty."""

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of the principal."""

    def progress(self, progress: float, total: float | None = None, message: str = "") -> object:
        """Send progress."""

    async def elicit(self, message: str, form: Any, *, key: str | None = None) -> ElicitationAnswer:
        """Request an answer from the user."""


class _Call(msgspec.Struct, frozen=True):
    """One call: the module, its arguments, the caller and the context for apcore."""

    entry: Entry
    arguments: dict[str, Any]
    caller: Caller | None
    context: "Context[Any]"
    # The trace of the pipeline, with `trace=True`.
    steps: dict[str, Any] = msgspec.field(default_factory=dict)


class ExecutionRouter:
    """Routes calls to an executor. `approval="allow"` runs modules without requesting approval.

    With `approval="elicit"`, an executor without an approval handler gets `ClientApproval`. Event loops that run calls
    get a thread pool for modules, if they have no executor yet, or always with `owns_loop`.

    `executor` is an Executor of apcore, or an object with `call_async()`. `async_bridge`, an `AsyncTaskBridge`, runs
    its tools and the modules with `metadata.async`, whose descriptors `descriptor_lookup` returns.

    Raises: TypeError for any other `executor`.
    """

    def __init__(
        self,
        executor: Any,
        *,
        catalogue: Catalogue | None = None,
        validate_inputs: bool = False,
        fill_defaults: bool = True,
        approval: str = "elicit",
        redact_output: bool = True,
        output_format: str | None = None,
        output_formatter: Callable[[Any], str] | None = None,
        output_schema_map: Mapping[str, dict[str, Any]] | None = None,
        trace: bool = False,
        error_mapper: ErrorMapper | None = None,
        owns_loop: bool = False,
        max_text_copy: int = MAX_TEXT_COPY,
        async_bridge: object = None,
        descriptor_lookup: Callable[[str], Any] | None = None,
    ) -> None:
        executor = adapt_executor(executor)
        self._executor = executor
        self._catalogue = catalogue
        self._validates = validate_inputs
        self._fills = fill_defaults
        self.redacts = redact_output
        self._format = make_formatter(output_format, output_formatter)
        # The output schemas of modules that are not in the catalogue.
        self._output_schemas = output_schema_map or {}
        self._traces = trace
        self._max_text_copy = max_text_copy
        self._denies = approval == "deny"
        self._allows = approval == "allow"
        self._uses_client_approval = approval == "elicit" and attach_client_approval(executor)
        # A strategy may lack the approval gate of apcore; then the annotation of the module is enforced here.
        self._is_gated = executor.governance_state().builtin_approval_gate_wired
        self._errors = error_mapper or ErrorMapper()
        self._extra_calls = ExtraCalls()
        self._tasks = None if async_bridge is None else TaskCalls(async_bridge, descriptor_lookup)
        self._rules: dict[str, tuple[Entry, ArgumentRules]] = {}
        self._listeners: list[CallListener] = []
        # The calls that run, by module.
        self._running: dict[str, set[CancelToken]] = {}
        self._owns_loop = owns_loop
        self._loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()

    @property
    def catalogue(self) -> Catalogue:
        """The modules that may be called; by default the whole registry of the executor."""
        if self._catalogue is None:
            self._catalogue = Catalogue(self._executor.registry)
            self._catalogue.refresh()
        return self._catalogue

    def can_run_unattended(self, entry: Entry) -> bool:
        """Return whether the executor may run a module outside this router: it requests required approvals itself."""
        return self._is_gated or self._allows or not entry.needs_approval

    def on_call(self, listener: CallListener) -> None:
        """Call `listener` at the end of every call."""
        self._listeners.append(listener)

    def wait_for_calls(self, module_id: str, timeout: float = MAX_UNLOAD_WAIT) -> None:
        """Wait until the present calls of a module have ended, on a thread without an event loop."""
        before = set(self._running.get(module_id, ()))
        end = time.monotonic() + timeout
        while before & self._running.get(module_id, set()) and time.monotonic() < end:
            time.sleep(0.05)

    def validate_tool(self, tool_name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
        """Return the checks of apcore for a call, without running the module. Blocks; not for an event loop."""
        from apcore_mcp.compat.tasks import preflight_of  # noqa: PLC0415  # few programs need it

        entry = self.catalogue.find(tool_name)
        validate = getattr(self._executor, "validate", None)
        if not callable(validate):
            return {"valid": True, "checks": [], "requires_approval": False}
        try:
            return preflight_of(validate(tool_name if entry is None else entry.id, arguments))
        except Exception as error:  # noqa: BLE001  # any error of apcore becomes a failed check
            failed = self._errors.format(error)
            shown = {"errorType": failed["errorType"], "message": failed["message"]}
            check = {"check": "unexpected", "passed": False, "error": shown, "warnings": []}
            return {"valid": False, "checks": [check], "requires_approval": False}

    def cancel(self, call_id: str, reason: str | None = None) -> bool:
        """Set the cancel token of a `handle_call()` whose `extra` has this `call_id`. Return whether it runs."""
        logger.debug("call %s is cancelled: %s", call_id, reason)
        return self._extra_calls.cancel(call_id)

    async def handle_call(
        self,
        tool_name: str,
        arguments: dict[str, Any] | None,
        caller: "Caller | dict[str, Any] | None" = None,
        *,
        extra: dict[str, Any] | None = None,
    ) -> DirectResult:
        """Call a module by its tool name, id or OpenAI name. Does not raise an Exception.

        The result is also a tuple of the content, whether it is an error, and the trace id. `extra` is a caller as a
        dict: `identity`, `_meta`, `session`, `progress_token` with `send_notification`, `version_hint`,
        `call_id`.
        """
        given = caller if extra is None else extra
        if not isinstance(given, dict):
            return DirectResult.of(await self._handle(tool_name, arguments, given, given, None))
        known = ExtraCaller(given)
        with self._extra_calls.running(known):
            result = await self._handle(tool_name, arguments, given, known, known.cancel_token)
        await known.flush()
        return DirectResult.of(result)

    async def _handle(
        self, tool_name: str, arguments: dict[str, Any] | None, given: Any, caller: Any, cancel_token: Any
    ) -> CallToolResult:
        """Call a module or a task tool by name. `given` is the caller as `handle_call` got it."""
        if self._tasks is not None:
            try:
                answer = await self._tasks.call(tool_name, arguments, given, cancel_token)
            except Exception as error:  # noqa: BLE001  # any error becomes a result
                return self._errors.to_mcp_error(error)
            if answer is not None:
                return to_result(answer, None)
        entry = self.catalogue.find(tool_name)
        if entry is None and isinstance(self._executor, AdaptedExecutor):
            definition = self._executor.describe(tool_name)
            entry = bare_entry(tool_name, self._output_schemas.get(tool_name), self._executor.can_stream, definition)
        if entry is None:
            return self._errors.to_mcp_error(ModuleNotFoundError(module_id=tool_name))
        return await self.call(entry, arguments, caller)

    async def call(
        self, entry: Entry, arguments: dict[str, Any] | None, caller: Caller | None = None
    ) -> CallToolResult:
        """Run a module and return its result. Does not raise an Exception. Cancellation is passed on to the module."""
        started = time.perf_counter()
        # None: not ended. On stateless revisions, an elicitation ends the request, and the client repeats it.
        outcome: Outcome | None = None
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._loops.add(loop)
            install_thread_pool(loop, owns_loop=self._owns_loop)
        token = _CallerCancelToken(caller)
        helpers = _CallHelpers(caller)
        context = self._context(caller, token, helpers)
        running = self._running.setdefault(entry.id, set())
        running.add(token)
        trace_reset = TRACE_ID.set(context.trace_id)
        secrets_reset = SECRETS.set(Secrets(arguments or {}, entry.redact))
        call_reset = CLIENT_CALL.set(None)
        try:
            result = await self._call(_Call(entry, arguments or {}, caller, context))
            outcome = "error" if result.is_error else "ok"
            return _with_trace(result, context)
        except asyncio.CancelledError:
            token.cancel()
            outcome = "cancelled"
            raise
        except Exception as error:  # noqa: BLE001  # any error of a module or of apcore becomes a result
            if helpers.end is not None:
                raise helpers.end from None
            outcome = "error"
            return _with_trace(self._errors.to_mcp_error(error), context)
        finally:
            running.discard(token)
            seconds = time.perf_counter() - started
            if outcome is not None:
                logger.info("tool call %s: %s in %.1f ms", entry.id, outcome, seconds * 1000)
                self._notify_listeners(entry, seconds, outcome)
            CLIENT_CALL.reset(call_reset)
            SECRETS.reset(secrets_reset)
            TRACE_ID.reset(trace_reset)

    async def _call(self, call: _Call) -> CallToolResult:
        entry, rules = call.entry, self._rules_of(call.entry)
        if self._fills:
            call = msgspec.structs.replace(call, arguments=rules.fill(call.arguments))
        logger.debug("Executing tool call: %s with %s", entry.id, _RedactedArguments(entry, call.arguments))
        if self._validates:
            problems = rules.problems(call.arguments)
            validate = getattr(self._executor, "validate", None)
            if not problems and isinstance(self._executor, AdaptedExecutor) and callable(validate):
                # It may know more than the catalogue does.
                try:
                    checked = await asyncio.to_thread(validate, entry.id, call.arguments, call.context)
                    problems = read_field_errors(checked)
                except Exception:
                    logger.warning("validate_inputs crashed for %s", entry.id)
                    raise
            if problems:
                return self._errors._make_error_result(format_field_errors(problems))
        try:
            output = await self._run_with_approval(call)
        except _ApprovalRefused as refused:
            return self._errors._make_error_result(str(refused))
        except SchemaValidationError as error:
            return self._errors._make_error_result(self._describe_invalid(error, rules, call.arguments))
        with contained(entry.id):  # objects that a module returns may run code when they are encoded
            result = self._result(entry, output)
        if not call.steps:
            return result
        return msgspec.structs.replace(result, content=[*result.content, TextContent(text=json.dumps(call.steps))])

    async def _run_with_approval(self, call: _Call) -> Any:
        """Run the module after the required approval. Raises: _ApprovalRefused."""
        if self._denies and call.entry.needs_approval:
            raise _ApprovalRefused(
                f"Approval denied: {call.entry.id} was not run: this server denies modules that require approval."
            )
        if not self._uses_client_approval:
            return await self._run(call)
        if call.entry.needs_approval and not self._is_gated:
            await _require_approval(call)
        consent = Consent(call.context.trace_id, "" if call.caller is None else call.caller.principal)
        consent_reset = CONSENT.set(consent)
        try:
            try:
                return await self._run(call)
            except ApprovalPendingError:
                if not consent.is_required:
                    raise  # from another approval handler
            await _require_approval(call)
            consent.is_granted = True
            return await self._run(call)
        finally:
            CONSENT.reset(consent_reset)

    async def _run(self, call: _Call) -> Any:
        entry, caller = call.entry, call.caller
        CLIENT_CALL.set(ClientCall(principal_of(call.context), entry.id, call.arguments))
        approval_id = None if caller is None else caller.meta.get("approvalId")
        if isinstance(approval_id, str) and self._is_gated:
            # The gate of apcore removes it before the module runs.
            call = msgspec.structs.replace(call, arguments={**call.arguments, "_approval_token": approval_id})
        with contained(entry.id):
            if entry.is_streaming and caller is not None and "progressToken" in caller.meta:
                return await self._stream(call, caller)
            if not self._traces:
                version = _version_of(caller, entry)
                return await self._executor.call_async(entry.id, call.arguments, context=call.context, **version)
            output, trace = await self._executor.call_async_with_trace(entry.id, call.arguments, call.context)
            call.steps.update(describe_trace(trace))
            return output

    async def _stream(self, call: _Call, caller: Caller) -> dict[str, Any]:
        """Send every chunk as progress and return the merged chunks: objects are merged, other values replaced."""
        merged: dict[str, Any] = {}
        count = 0
        # MCP 2024-11-05 has no message in progress; a caller other than an MCP client has no version.
        has_message = getattr(caller, "version", "") != "2024-11-05"
        version = _version_of(caller, call.entry)
        async for chunk in self._executor.stream(call.entry.id, call.arguments, context=call.context, **version):
            count += 1
            caller.progress(count, message=self._encode(call.entry, chunk)[0] if has_message else "")
            merged = _deep_merge(merged, chunk)
        return merged

    # --- results ------------------------------------------------------------------------------------------------------

    def _result(self, entry: Entry, output: Any) -> CallToolResult:
        text, invalid = self._encode(entry, {} if output is None else output)
        shown = text if self._format is None or text[:1] not in "{[" else self._format(text)
        content = [TextContent(text=shown)]
        if not entry.output_schema or text[:1] != "{":
            return CallToolResult(content=content)
        structured = msgspec.json.decode(text)
        if invalid and ArgumentRules(entry.output_schema).problems(structured):
            # A client would reject structured content that does not match the schema, so it gets an error with the
            # text.
            paths = ", ".join(invalid)
            logger.error("the output of %s cannot be encoded as JSON at %s", entry.id, paths)
            message = f"The module ran, but its output cannot be encoded as JSON at {paths} (replaced by null):\n{text}"
            return self._errors._make_error_result(message)
        if len(text) > self._max_text_copy and shown is text:
            content = [TextContent(text=f"{len(text)} characters of JSON: see structuredContent")]
        return CallToolResult(content=content, structured_content=structured)

    def _encode(self, entry: Entry, output: Any) -> tuple[str, tuple[str, ...]]:
        """As `to_json`, without sensitive values, which are found in the JSON: objects hide theirs."""
        text, invalid = to_json(output)
        if self.redacts and text[:1] in "{[":
            plain = msgspec.json.decode(text)
            redacted = entry.redact_output(plain)
            if redacted != plain:
                text = json.dumps(redacted, ensure_ascii=False)
        return text, invalid

    def _describe_invalid(self, error: SchemaValidationError, rules: ArgumentRules, arguments: dict[str, Any]) -> str:
        """Describe invalid input by its fields. Other validation failures are errors of the module."""
        step = getattr(error.__context__, "step_name", "input_validation")
        if step != "input_validation":
            logger.error("schema validation failed in step %s", step, exc_info=error)
            return f"Module error: {error.code}"
        # apcore does not report the name of a missing field; `ArgumentRules` does.
        problems = rules.problems(arguments)
        return format_field_errors(problems) if problems else self._errors.describe(error)

    # --- context ------------------------------------------------------------------------------------------------------

    def _context(self, caller: Caller | None, token: CancelToken, helpers: "_CallHelpers") -> "Context[Any]":
        # A direct call has the identity that `AuthMiddleware` of the program set.
        identity = auth_identity_var.get()
        if caller is not None:
            identity = getattr(caller, "identity", None)
            if identity is None:
                identity = to_identity(caller.principal, caller.scopes, getattr(caller, "claims", {}))
        parent = None if caller is None else read_parent(caller.meta)
        context = Context.create(identity=identity, trace_parent=parent, cancel_token=token)
        if caller is not None:
            context.data[MCP_ELICIT_KEY] = helpers.elicit
            if "progressToken" in caller.meta:
                context.data[MCP_PROGRESS_KEY] = helpers.report_progress
        return context

    def _rules_of(self, entry: Entry) -> ArgumentRules:
        found = self._rules.get(entry.id)
        if found is None or found[0] is not entry:
            found = self._rules[entry.id] = entry, ArgumentRules(entry.input_schema)
        return found[1]

    def _notify_listeners(self, entry: Entry, seconds: float, outcome: Outcome) -> None:
        for listener in self._listeners:
            try:
                listener(entry, seconds, outcome)
            except Exception:
                logger.exception("a call listener failed")


def _version_of(caller: Caller | None, entry: Entry) -> dict[str, str]:
    """Return the version of the module that the caller, or else the module itself, prefers, as a keyword of apcore."""
    wanted: object = getattr(caller, "version_hint", None)
    if wanted is None and caller is not None:
        apcore = caller.meta.get("apcore")
        wanted = apcore.get("version") if isinstance(apcore, Mapping) else None
    if not isinstance(wanted, str):
        metadata: object = getattr(entry.descriptor, "metadata", None)
        wanted = metadata.get("version_hint") if isinstance(metadata, Mapping) else None
    return {"version_hint": wanted} if isinstance(wanted, str) else {}


def _with_trace(result: CallToolResult, context: "Context[Any]") -> CallToolResult:
    """Add `traceparent` to `_meta`: its trace id is in the log lines of the call (W3C Trace Context)."""
    parent = TraceContext.inject(context).get("traceparent")
    if parent is None:
        return result
    content = list(result.content)
    if content:
        # apcore-mcp has it there.
        content[0] = msgspec.structs.replace(content[0], meta={"traceparent": parent})
    traced = msgspec.structs.replace(result, content=content, meta={**(result.meta or {}), "traceparent": parent})
    if isinstance(result, ErrorResult):
        traced.__dict__.update(result.__dict__)
    return traced


class _ApprovalRefused(Exception):
    """The call was not approved; the message is for the client."""


async def _require_approval(call: _Call) -> None:
    """Return if the user approved. Raises: _ApprovalRefused."""
    problem = await request_approval(call.entry, call.arguments, call.caller)
    if problem is not None:
        raise _ApprovalRefused(problem)


class _CallHelpers:
    """The functions of `apcore_mcp.helpers` for one call."""

    def __init__(self, caller: Caller | None) -> None:
        self._caller = caller
        # In the stateless era, what ends the request so that the client repeats it with the answer.
        self.end: BaseException | None = None

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        assert self._caller is not None
        self._caller.progress(progress, total, message or "")

    async def elicit(self, message: str, form: dict[str, Any] | None = None) -> ElicitResult | None:
        assert self._caller is not None
        try:
            answer: Any = await self._caller.elicit(message, form or {"type": "object", "properties": {}})
        except asyncio.CancelledError:
            raise
        except Exception:  # the module continues without an answer
            logger.warning("a module could not elicit an answer", exc_info=True)
            return None
        except BaseException as error:
            self.end = error
            raise
        content = getattr(answer, "content", None)
        return {"action": answer.action, "content": None if content is None else dict(content)}


class _CallerCancelToken(CancelToken):  # type: ignore[misc]  # apcore ships no types
    """A token that is cancelled as soon as the request is cancelled, for modules in threads."""

    def __init__(self, caller: Caller | None) -> None:
        super().__init__()
        self._caller = caller

    @property
    def is_cancelled(self) -> bool:
        return super().is_cancelled or (self._caller is not None and self._caller.is_cancelled)


class _RedactedArguments:
    """Redacted arguments for the log, computed only if a line is written."""

    def __init__(self, entry: Entry, arguments: dict[str, Any]) -> None:
        self._entry = entry
        self._arguments = arguments

    def __str__(self) -> str:
        return to_json(self._entry.redact(self._arguments))[0]


def _deep_merge(base: Mapping[str, Any], more: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """Return both: objects are merged, up to a depth, and other values are replaced. Neither is changed."""
    merged = {**base, **more}
    if depth < MAX_MERGE_DEPTH:
        for key in base.keys() & more.keys():
            if isinstance(base[key], dict) and isinstance(more[key], dict):
                merged[key] = _deep_merge(base[key], more[key], depth + 1)
    return merged


__all__ = [
    "MAX_MERGE_DEPTH",
    "MAX_TEXT_COPY",
    "MAX_UNLOAD_WAIT",
    "CallListener",
    "Caller",
    "ExecutionRouter",
    "Outcome",
    "logger",
]
