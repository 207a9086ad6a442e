"""One function for each framework. A framework is imported when its function is called."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack

from jackstay.agents._source import Only, Source, ToolSource
from jackstay.agents._tool_list import ToolList
from jackstay.errors import UsageError
from jackstay.extras import install_command
from jackstay.protocol.client import ClientKeywords

if TYPE_CHECKING:
    from jackstay.agents._langchain import LangChainTool
    from jackstay.agents._openai_agents import OpenAIAgentsServer
    from jackstay.agents._pydantic_ai import PydanticAIToolset


def langchain_tools(
    source: Source, *, only: Only = None, **options: Unpack[ClientKeywords]
) -> "ToolList[LangChainTool]":
    """Return LangChain tools: `async with langchain_tools(URL) as tools:`, or with a plain `with`.

    Either way the tools have both forms, `ainvoke()` and `invoke()`. Images are content blocks; structured output is
    in the artifact of the message. A failed call is a message with `status="error"`. Progress and log messages are
    custom events of the callbacks, `mcp_progress` and `mcp_log`.

    Raises: UsageError for an invalid source, an unknown option or a bad value, and if LangChain is not installed.
    """
    adapter = _adapter("langchain")
    tools = ToolSource(source, only, **options)
    return ToolList(tools, lambda tool: adapter.LangChainTool(tools, tool))


def openai_agents_server(
    source: Source, *, only: Only = None, **options: Unpack[ClientKeywords]
) -> "OpenAIAgentsServer":
    """Return a server for `Agent(mcp_servers=[...])`: `async with openai_agents_server(URL) as server:`.

    The model receives texts and images. A failed call is a result with the error as its text.

    Raises: UsageError for an invalid source, an unknown option or a bad value, and if the SDK is not installed.
    """
    server: OpenAIAgentsServer = _adapter("openai_agents").OpenAIAgentsServer(ToolSource(source, only, **options))
    return server


def pydantic_ai_toolset(source: Source, *, only: Only = None, **options: Unpack[ClientKeywords]) -> "PydanticAIToolset":
    """Return a toolset: `Agent(model, toolsets=[pydantic_ai_toolset(URL)])`.

    It is open during `async with agent:`, or else during each run. Images are `BinaryContent`, structured output is
    returned as such. A failed call is a failed tool result, which the model receives; it uses no retries. Progress and
    log messages are custom events of the run, `mcp_progress` and `mcp_log`.

    Raises: UsageError for an invalid source, an unknown option or a bad value, and if PydanticAI is not installed.
    """
    toolset: PydanticAIToolset = _adapter("pydantic_ai").PydanticAIToolset(source, only, options)
    return toolset


def _adapter(framework: str) -> Any:
    """Return the module for a framework. Raises: UsageError if the framework is not installed."""
    try:
        return import_module(f"jackstay.agents._{framework}")
    except ModuleNotFoundError as missing:
        extra = framework.replace("_", "-")
        raise UsageError(f"{missing.name} is not installed: {install_command(extra)}") from missing
