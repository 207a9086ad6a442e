"""A toolset for PydanticAI.

Progress and log messages of the server are custom events of the run: `McpProgressEvent` and `McpLogEvent`.
"""

from base64 import b64decode
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai import BinaryContent, CustomEvent, RunContext, ToolDefinition
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from jackstay.agents._source import CallEvent, ToolSource
from jackstay.models import Outcome

# The server validates the arguments.
_ANY_ARGUMENTS = SchemaValidator(core_schema.dict_schema(keys_schema=core_schema.str_schema()))


@dataclass(kw_only=True)
class McpProgressEvent(CustomEvent):
    """Progress of a call; `params` of the notification."""

    params: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class McpLogEvent(CustomEvent):
    """A log message of the server during a call; `params` of the notification."""

    params: dict[str, Any] = field(default_factory=dict)


class PydanticAIToolset(AbstractToolset):
    """The tools of a server as a toolset."""

    def __init__(self, source: ToolSource) -> None:
        self._source = source
        self._users = 0

    @property
    def id(self) -> str | None:
        """The name of the server."""
        return self._source.name

    async def __aenter__(self) -> "PydanticAIToolset":
        self._users += 1
        try:
            await self._source.open()
        except BaseException:
            self._users -= 1
            raise
        return self

    async def __aexit__(self, *exception: object) -> bool | None:
        self._users -= 1
        if not self._users:
            await self._source.close()
        return None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, Any]:
        """Return the tools, by name for the model."""
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name,
                    description=tool.description,
                    parameters_json_schema=tool.parameters,
                    return_schema=dict(tool.tool.output_schema) if tool.tool.output_schema else None,
                    metadata={"annotations": tool.annotations},
                ),
                max_retries=ctx.max_retries,
                args_validator=_ANY_ARGUMENTS,
            )
            for tool in await self._source.list_tools()
        }

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: Any) -> Any:  # noqa: ARG002
        """Call a tool. Raises: ToolFailed with the text for the model."""

        async def on_event(event: CallEvent) -> None:
            kind = McpProgressEvent if event.kind == "progress" else McpLogEvent
            await ctx.emit(kind(params=event.data))

        return _value(await self._source.call(name, tool_args, on_event))


def _value(outcome: Outcome) -> Any:
    if outcome.is_error or outcome.result is None:
        raise ToolFailed(outcome.text)
    if all(isinstance(part, str) for part in outcome.parts):
        structured = outcome.result.structured_content
        return outcome.text if structured is None else structured
    return [
        part if isinstance(part, str) else BinaryContent(data=b64decode(part.data), media_type=part.mime_type)
        for part in outcome.parts
    ]
