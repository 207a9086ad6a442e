"""`Toolbox`: the tools of a client or a fleet before a model, and the model's calls before them.

Each verb is one step, so that a program can stand between any two: `definitions()` says what there is, `calls()` reads what
the model asks for, `run()` does it, `messages()` tells the model. `answer()` is the last three in one.

It holds one table, from the names before the model to the tools. A name that is not in it is never called: what `only`
leaves out, a model cannot reach by guessing.

What it must never know: a model's API beyond its shapes, and how a client holds its connection. Above: users,
`jackstay.sync`. Below: `_calls`, `_outcomes`, `_schemas`, `_shapes`, `jackstay.client`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from inspect import iscoroutinefunction
from typing import NamedTuple, Unpack

import msgspec

from jackstay.client import CallOptions, Client, Fleet, ToolOptions
from jackstay.errors import Json, McpError, UsageError
from jackstay.models._calls import ModelCall, read_arguments, read_calls
from jackstay.models._names import model_name
from jackstay.models._outcomes import Outcome, messages
from jackstay.models._schemas import object_schema, strict_schema, without_nulls
from jackstay.models._shapes import Definition, Message, check_shape, definition
from jackstay.types import CallToolResult, Tool

logger = logging.getLogger("jackstay.models")

# Of the names that a model is reminded of when it calls one that is not there.
_MOST_NAMES = 20

# Where an error is about what the model wrote. Any other place is an option that the program gave, and its mistake.
_OF_THE_CALL = ("name", "arguments", "$.arguments")


class _Entry(NamedTuple):
    tool: str
    schema: Mapping[str, Json]


class Toolbox:
    """The tools of a client or a fleet for one model API. Safe to share between tasks and conversations.

    `shape` is `openai` (chat completions), `openai-responses` or `anthropic`. `strict` asks the API to hold the model to the
    schemas. `only(tool)` says which tools the model may have; by default all.

    Raises: UsageError for a shape that is none, a source that is neither, or an `only` that is no plain function.
    """

    def __init__(
        self,
        source: Client | Fleet,
        shape: str,
        *,
        strict: bool = False,
        only: Callable[[Tool], object] | None = None,
    ) -> None:
        check_shape(shape)
        if not isinstance(source, Client | Fleet):
            raise UsageError(
                f"a toolbox needs a Client or a Fleet, not {type(source).__module__}.{type(source).__name__}; "
                "for those of jackstay.sync there is jackstay.sync.Toolbox",
                path="source",
            )
        asked: object = only
        if asked is not None and (not callable(asked) or iscoroutinefunction(asked)):
            # What an `async def` returns is true, whatever it would have said: every tool would pass.
            raise UsageError(
                "only takes a plain function of a Tool, such as lambda tool: tool.name in {'pay'}",
                path="only",
            )
        self.shape = shape
        self.strict = strict
        self._source = source
        self._only = only
        self._table: dict[str, _Entry] | None = None

    def __repr__(self) -> str:
        known = "not listed" if self._table is None else f"{len(self._table)} tools"
        return f"<Toolbox {self.shape}, {known}, of {self._source!r}>"

    @property
    def names(self) -> Mapping[str, str]:
        """Each name before the model, and the tool that it stands for; as `definitions()` last found them."""
        return {name: entry.tool for name, entry in (self._table or {}).items()}

    async def definitions(self, **options: Unpack[CallOptions]) -> list[Definition]:
        """The tools, for the `tools` of a request. Ask again before each request: servers change what they offer.

        A tool whose schema cannot be written is left out, with a warning; so are tools that would have the same name.

        Raises: as the listing does.
        """
        listed = await self._list(options)
        table: dict[str, _Entry] = {}
        made: dict[str, Definition] = {}
        ambiguous: set[str] = set()
        for tool in listed:
            if self._only is not None and not self._only(tool):
                continue
            name = model_name(tool.name)
            if name in table:
                if table[name].tool != tool.name:
                    # Not an error: a server that has such names must not lose the tools of the others.
                    said = "two tools are called %r before the model: %r and %r; both are left out, only= can choose one"
                    logger.warning(said, name, table[name].tool, tool.name)
                    ambiguous.add(name)
                else:
                    logger.warning("the tool %s is listed twice; the second is left out", tool.name)
                continue
            try:
                made[name] = self._define(name, tool)
            except Exception as error:  # noqa: BLE001  # a server's odd schema must not lose the tools of the others
                logger.warning("the tool %s is left out: %s: %s", tool.name, type(error).__name__, error)
            else:
                table[name] = _Entry(tool.name, tool.input_schema)
        self._table = {name: entry for name, entry in table.items() if name not in ambiguous}
        return [made[name] for name in self._table]

    def calls(self, answer: object) -> list[ModelCall]:
        """The calls in a model's answer, in order: its JSON as dicts, or an object of the API's library.

        Raises: UsageError for what is not an answer of this API.
        """
        return read_calls(self.shape, answer)

    async def run(self, call: ModelCall, **options: Unpack[ToolOptions]) -> Outcome:
        """Run one call; `options` are those of `client.tools.call()`. What fails is in the outcome, and logged.

        Raises: UsageError for an option that cannot be used; as `definitions()`, where that was not called before.
        """
        if not isinstance(call, ModelCall):
            raise UsageError(
                f"run() takes a call that calls() has read, not {type(call).__name__}", path="call"
            )
        if self._table is None:
            options = await self._list_first(options)
        try:
            tool, arguments = self._meant(call)
            return Outcome(call, result=await self._call(tool, arguments, options))
        except McpError as error:
            if isinstance(error, UsageError) and not error.path.startswith(_OF_THE_CALL):
                raise
            logger.warning("the model's call of %s failed: %s", call.name, error)
            return Outcome(call, error=error)

    def messages(self, outcomes: Iterable[Outcome]) -> list[Message]:
        """What to append to the conversation, behind the answer that asked for the calls."""
        return messages(self.shape, outcomes)

    async def answer(self, answer: object, **options: Unpack[ToolOptions]) -> list[Message]:
        """Run all calls in a model's answer at once, and return what to append behind it; empty if there are none.

        Every call is answered, also one that failed, that names no tool, or whose arguments cannot be read.

        Raises: as `calls()` and `run()`; and what a handler of the client's raised, when all other calls have been given up.
        """
        calls = self.calls(answer)
        if calls and self._table is None:
            options = await self._list_first(options)
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(self.run(call, **options)) for call in calls]
        except BaseExceptionGroup as errors:
            # The program's own mistake, in a handler of the client's: the other calls were given up.
            raise errors.exceptions[0] from None
        return self.messages([task.result() for task in running])

    # --- the steps ----------------------------------------------------------------------------------------------------

    async def _list_first(self, options: ToolOptions) -> ToolOptions:
        """List the tools as a part of a call. Return its options, with what is left of its deadlines."""
        clients = (
            [self._source]
            if isinstance(self._source, Client)
            else [*map(self._source.__getitem__, self._source)]
        )
        if not clients:
            await self.definitions()
            return options
        unset = msgspec.UNSET  # the settings of all servers of a fleet are the same
        timeout, max_timeout = clients[0].settings.deadlines(
            options.get("timeout", unset), options.get("max_timeout", unset)
        )
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        await self.definitions(timeout=timeout, max_timeout=max_timeout)
        spent = loop.time() - began_at
        left: ToolOptions = {"timeout": _less(timeout, spent), "max_timeout": _less(max_timeout, spent)}
        return {**options, **left}

    async def _list(self, options: CallOptions) -> list[Tool]:
        if isinstance(self._source, Fleet):
            return await self._source.tools(**options)
        return await self._source.tools.list(**options)

    async def _call(self, tool: str, arguments: dict[str, Json], options: ToolOptions) -> CallToolResult:
        if isinstance(self._source, Fleet):
            return await self._source.call(tool, arguments, **options)
        return await self._source.tools.call(tool, arguments, **options)

    def _define(self, name: str, tool: Tool) -> Definition:
        parameters = object_schema(tool.input_schema)
        if self.strict:
            parameters = strict_schema(
                parameters,
                lambda: logger.warning(
                    "strict mode closes an object of %s that takes additional properties", tool.name
                ),
            )
        description = tool.description or tool.title or ""
        return definition(self.shape, name, description, parameters, strict=self.strict)

    def _meant(self, call: ModelCall) -> tuple[str, dict[str, Json]]:
        """The tool and the arguments. Raises: UsageError, in words for the model."""
        table = self._table or {}
        entry = table.get(call.name)
        if entry is None:
            known = ", ".join(sorted(table)[:_MOST_NAMES]) or "none"
            more = "" if len(table) <= _MOST_NAMES else ", and others"
            raise UsageError(f"there is no tool {call.name!r}; there are: {known}{more}", path="name")
        if not call.is_whole:
            raise UsageError("the answer was cut off inside it; ask again with less text", path="arguments")
        arguments = read_arguments(call)
        if self.strict:
            arguments = without_nulls(object_schema(entry.schema), arguments)
        return entry.tool, arguments


def _less(seconds: float | None, spent: float) -> float | None:
    """What is left of a deadline. Never nothing: the call itself ends with the error that names the deadline."""
    return None if seconds is None else max(seconds - spent, 0.001)
