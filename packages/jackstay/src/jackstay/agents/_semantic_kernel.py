"""A plugin for Semantic Kernel."""

import re
from collections.abc import Callable
from typing import Any

from semantic_kernel.contents import ImageContent, TextContent
from semantic_kernel.functions import KernelFunctionFromMethod, KernelParameterMetadata, KernelPlugin, kernel_function

from jackstay.agents._source import AgentTool, ToolSource
from jackstay.models import Outcome


class SemanticKernelPlugin:
    """`async with` opens the connection and returns a plugin with the tools."""

    def __init__(self, source: ToolSource) -> None:
        self._source = source

    async def __aenter__(self) -> KernelPlugin:
        await self._source.open()
        try:
            name = re.sub(r"\W", "_", self._source.name, flags=re.ASCII)
            functions = [_function(self._source, name, tool) for tool in await self._source.list_tools()]
            return KernelPlugin(name=name, functions=functions)
        except BaseException:
            await self._source.close()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self._source.close()


class ToolFunction(KernelFunctionFromMethod):
    """A function that passes on its arguments, whatever their names: the server validates them."""

    def gather_function_parameters(self, context: Any) -> dict[str, Any]:
        """Return the arguments of the call; the framework would replace some by objects of its own."""
        names = [parameter.name for parameter in self.parameters]
        return {name: context.arguments[name] for name in names if name in context.arguments}


def _function(source: ToolSource, plugin: str, tool: AgentTool) -> ToolFunction:
    required = tool.parameters.get("required", ())
    parameters = [
        # Without validation, which refuses names that MCP allows.
        KernelParameterMetadata.model_construct(name=name, is_required=name in required, schema_data=schema)
        for name, schema in tool.parameters["properties"].items()
    ]
    return ToolFunction(_method(source, tool), plugin_name=plugin, parameters=parameters)


def _method(source: ToolSource, tool: AgentTool) -> Callable[..., Any]:
    async def call(**arguments: Any) -> Any:
        return _value(await source.call(tool.name, arguments))

    method: Callable[..., Any] = kernel_function(call, name=tool.name, description=tool.description)
    return method


def _value(outcome: Outcome) -> Any:
    if outcome.is_error:
        return f"Error: {outcome.text}"
    if all(isinstance(part, str) for part in outcome.parts):
        return outcome.text
    return [
        TextContent(text=part)
        if isinstance(part, str)
        else ImageContent(data=part.data, data_format="base64", mime_type=part.mime_type)
        for part in outcome.parts
    ]
