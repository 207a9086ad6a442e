"""`Toolbox`: offers the tools of a client or a fleet to a model and runs its calls.

Each step has a method: `definitions()`, `calls()`, `run()` and `messages()`; `answer()` combines the last three. Names
are resolved by the table of the last `definitions()`, so a model cannot call a tool that `only` excludes.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from inspect import iscoroutinefunction
from typing import Unpack

import msgspec

from jackstay._signatures import shows
from jackstay.apps import is_for_model
from jackstay.client import CallOptions, Client, Fleet, ToolOptions
from jackstay.errors import Json, McpError, UsageError
from jackstay.models._calls import READERS, ModelCall, read_arguments
from jackstay.models._names import model_name
from jackstay.models._outcomes import Outcome, messages
from jackstay.models._schemas import object_schema, strict_schema, without_nulls
from jackstay.models._shapes import Definition, Message, check_shape, definition
from jackstay.types import Tool

logger = logging.getLogger("jackstay.models")

# How many names the error for an unknown tool lists.
MAX_NAMES_SHOWN = 20

# Paths of errors in the model's input. An error with any other path concerns an option of the program, and is raised.
_MODEL_INPUT_PATHS = ("name", "arguments", "$.arguments")


class Toolbox:
    """The tools of a client or a fleet for one model API. Safe to share between tasks and conversations.

    `shape` is `openai` (chat completions), `openai-responses`, `anthropic` or `gemini`. `strict` enables the strict
    mode of the API, which enforces the schemas. `only(tool)` selects the tools that the model may use; default: all.
    Tools that are for apps only are never among them (SEP-1865).

    Raises: UsageError for an unknown shape, a wrong source, or an `only` that is not a plain function.
    """

    def __init__(
        self, source: Client | Fleet, shape: str, *, strict: bool = False, only: Callable[[Tool], object] | None = None
    ) -> None:
        check_shape(shape)
        if not isinstance(source, Client | Fleet):
            raise UsageError(
                f"Toolbox() expected a Client or a Fleet, got {type(source).__module__}.{type(source).__name__}; "
                "for jackstay.sync use jackstay.sync.Toolbox",
                path="source",
            )
        selector: object = only
        if selector is not None and (not callable(selector) or iscoroutinefunction(selector)):
            # A coroutine is truthy, so an `async def` would select every tool.
            raise UsageError("only must be a plain function such as lambda tool: tool.name in {'search'}", path="only")
        self.shape = shape
        self.strict = strict
        self._source = source
        self._list = source.tools if isinstance(source, Fleet) else source.tools.list
        self._call = source.call if isinstance(source, Fleet) else source.tools.call
        self._only = only
        self._table: dict[str, Tool] | None = None

    def __repr__(self) -> str:
        known = "not listed" if self._table is None else f"{len(self._table)} tools"
        return f"<Toolbox {self.shape}, {known}, of {self._source!r}>"

    @property
    def names(self) -> Mapping[str, str]:
        """By name for the model: the name of the tool, as of the last `definitions()`."""
        return {name: tool.name for name, tool in self.tools.items()}

    @property
    def tools(self) -> Mapping[str, Tool]:
        """By name for the model: the tool as the server listed it, as of the last `definitions()`."""
        return dict(self._table or {})

    @shows("jackstay.client:CallOptions")
    async def definitions(self, **options: Unpack[CallOptions]) -> list[Definition]:
        """Return the definitions for `tools` of a model request. Call it before each request: lists can change.

        A tool whose schema cannot be converted is omitted with a warning, as are tools whose names collide.

        Raises: as listing the tools.
        """
        tools: dict[str, list[Tool]] = {}
        for tool in await self._list(**options):
            if is_for_model(tool) and (self._only is None or self._only(tool)):
                tools.setdefault(model_name(tool.name), []).append(tool)
        table: dict[str, Tool] = {}
        defined: list[Definition] = []
        # A tool that cannot be used is not an error: those of the other servers must stay available.
        for name, (tool, *others) in tools.items():
            other = next((other for other in others if other.name != tool.name), None)
            if other is not None:
                message = "two tools have the model name %r: %r and %r; both are omitted; select one with only="
                logger.warning(message, name, tool.name, other.name)
                continue
            if others:
                logger.warning("tool %r is listed twice; the second is omitted", tool.name)
            try:
                defined.append(self._define(name, tool))
            except Exception as error:  # noqa: BLE001  # a schema may be anything
                logger.warning("tool %r is omitted: %s: %s", tool.name, type(error).__name__, error)
            else:
                table[name] = tool
        self._table = table
        return [{"functionDeclarations": defined}] if self.shape == "gemini" and defined else defined

    def calls(self, response: object) -> list[ModelCall]:
        """Return the tool calls in the response of a model: JSON as dicts, or an object of the API's library.

        Raises: UsageError if `response` is not a response of this API.
        """
        return list(READERS[self.shape](response))

    @shows("jackstay.client:ToolOptions")
    async def run(self, call: ModelCall, **options: Unpack[ToolOptions]) -> Outcome:
        """Run one call with the options of `client.tools.call()`. A failure is logged and stored in the outcome.

        Raises: UsageError for a bad option; as `definitions()`, if that was not called before.
        """
        if not isinstance(call, ModelCall):
            raise UsageError(f"run() expected a ModelCall of calls(), got {type(call).__name__}", path="call")
        if self._table is None:
            options = await self._list_first(options)
        try:
            tool, arguments = self._resolve_call(call)
            options["raise_on_error"] = False  # the model reads the error
            return Outcome(call, result=await self._call(tool, arguments, **options))
        except McpError as error:
            if isinstance(error, UsageError) and not error.path.startswith(_MODEL_INPUT_PATHS):
                raise
            logger.warning("the model's call of %r failed: %s", call.name, error)
            return Outcome(call, error=error)

    def messages(self, outcomes: Iterable[Outcome]) -> list[Message]:
        """Return the messages to append to the conversation after the response with the calls."""
        return messages(self.shape, outcomes)

    @shows("jackstay.client:ToolOptions")
    async def answer(self, response: object, **options: Unpack[ToolOptions]) -> list[Message]:
        """Run all calls of a response concurrently and return the messages to append after it; empty without calls.

        Every call gets a result message, also a failed one, one of an unknown tool or one with invalid arguments.

        Raises: as `calls()` and `run()`; the exception of a handler of the client, after the other calls are cancelled.
        """
        calls = self.calls(response)
        if calls and self._table is None:
            options = await self._list_first(options)
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(self.run(call, **options)) for call in calls]
        except BaseExceptionGroup as errors:
            # From a bad option or a handler of the client; the task group has cancelled the other calls.
            raise errors.exceptions[0] from None
        return self.messages([task.result() for task in running])

    # --- steps --------------------------------------------------------------------------------------------------------

    async def _list_first(self, options: ToolOptions) -> ToolOptions:
        """List the tools as part of a call. Return its options with the remaining time of its deadlines."""
        source = self._source
        clients = [source] if isinstance(source, Client) else [source[name] for name in source]
        if not clients:
            await self.definitions()
            return options
        unset = msgspec.UNSET  # all servers of a fleet have the same settings
        timeout, max_timeout = clients[0].settings.deadlines(
            options.get("timeout", unset), options.get("max_timeout", unset)
        )
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        await self.definitions(timeout=timeout, max_timeout=max_timeout)
        spent = loop.time() - began_at
        remaining: ToolOptions = {"timeout": _remaining(timeout, spent), "max_timeout": _remaining(max_timeout, spent)}
        return {**options, **remaining}

    def _define(self, name: str, tool: Tool) -> Definition:
        parameters = object_schema(tool.input_schema)
        if self.strict:

            def warn() -> None:
                logger.warning("strict mode removes additional properties from an object of tool %r", tool.name)

            parameters = strict_schema(parameters, warn)
        description = tool.description or tool.title or ""
        return definition(self.shape, name, description, parameters, strict=self.strict)

    def _resolve_call(self, call: ModelCall) -> tuple[str, dict[str, Json]]:
        """Return the tool and the arguments of a call. Raises: UsageError with a message for the model."""
        table = self._table or {}
        tool = table.get(call.name)
        if tool is None:
            known = ", ".join(sorted(table)[:MAX_NAMES_SHOWN]) or "none"
            more = "" if len(table) <= MAX_NAMES_SHOWN else ", and more"
            raise UsageError(f"unknown tool {call.name!r}; available tools: {known}{more}", path="name")
        if not call.is_complete:
            raise UsageError(
                "the call is incomplete because the response was truncated; retry with a shorter response",
                path="arguments",
            )
        arguments = read_arguments(call)
        if self.strict:
            arguments = without_nulls(object_schema(tool.input_schema), arguments)
        return tool.name, arguments


def _remaining(seconds: float | None, spent: float) -> float | None:
    """Return the remaining seconds, at least 1 ms: then the call itself fails with the error that names the limit."""
    return None if seconds is None else max(seconds - spent, 0.001)
