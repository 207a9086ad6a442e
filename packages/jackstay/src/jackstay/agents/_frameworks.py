"""One function for each framework. A framework is imported when its function is called."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack

from jackstay._signatures import shows
from jackstay.agents._source import Only, Source, ToolSource
from jackstay.agents._tool_list import ToolList
from jackstay.errors import UsageError
from jackstay.extras import install_command
from jackstay.protocol.client import ClientKeywords

if TYPE_CHECKING:
    from jackstay.agents._adk import AdkToolset, ProgressCallback
    from jackstay.agents._autogen import AutogenWorkbench
    from jackstay.agents._crewai import CrewAITool
    from jackstay.agents._langchain import LangChainTool
    from jackstay.agents._llama_index import LlamaIndexTool
    from jackstay.agents._openai_agents import OpenAIAgentsServer
    from jackstay.agents._pydantic_ai import PydanticAIToolset
    from jackstay.agents._semantic_kernel import SemanticKernelPlugin
    from jackstay.agents._smolagents import SmolagentsTool
    from jackstay.agents._strands import StrandsTools


@shows("jackstay.protocol.client:Settings")
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


@shows("jackstay.protocol.client:Settings")
def openai_agents_server(
    source: Source, *, only: Only = None, **options: Unpack[ClientKeywords]
) -> "OpenAIAgentsServer":
    """Return a server for `Agent(mcp_servers=[...])`: `async with openai_agents_server(URL) as server:`.

    The model receives texts and images. A failed call is a result with the error as its text.

    Raises: UsageError for an invalid source, an unknown option or a bad value, and if the SDK is not installed.
    """
    server: OpenAIAgentsServer = _adapter("openai_agents").OpenAIAgentsServer(ToolSource(source, only, **options))
    return server


@shows("jackstay.protocol.client:Settings")
def pydantic_ai_toolset(source: Source, *, only: Only = None, **options: Unpack[ClientKeywords]) -> "PydanticAIToolset":
    """Return a toolset: `Agent(model, toolsets=[pydantic_ai_toolset(URL)])`.

    It is open during `async with agent:`, or else during each run. Images are `BinaryContent`, structured output is
    returned as such. A failed call is a failed tool result, which the model receives; it uses no retries. Progress and
    log messages are custom events of the run, `mcp_progress` and `mcp_log`.

    Raises: UsageError for an invalid source, an unknown option or a bad value, and if PydanticAI is not installed.
    """
    toolset: PydanticAIToolset = _adapter("pydantic_ai").PydanticAIToolset(ToolSource(source, only, **options))
    return toolset


@shows("jackstay.protocol.client:Settings")
def adk_toolset(
    source: Source,
    *,
    only: Only = None,
    progress_callback: "ProgressCallback | None" = None,
    **options: Unpack[ClientKeywords],
) -> "AdkToolset":
    """Return a toolset for Google's Agent Development Kit: `Agent(tools=[adk_toolset(URL)])`.

    It is opened by the first run, and closed by `await runner.close()` or at the end of the program. Images are parts
    of the function response, structured output is the response. A failed call is a response with `error`.
    `progress_callback` is that of the kit's own toolset: `await callback(progress, total, message)`.

    Raises: UsageError for an invalid source, an unknown option or a bad value, and if the kit is not installed.
    """
    toolset: AdkToolset = _adapter("adk").AdkToolset(ToolSource(source, only, **options), progress_callback)
    return toolset


@shows("jackstay.protocol.client:Settings")
def llama_index_tools(
    source: Source, *, only: Only = None, **options: Unpack[ClientKeywords]
) -> "ToolList[LlamaIndexTool]":
    """Return LlamaIndex tools: `async with llama_index_tools(URL) as tools:`, or with a plain `with`.

    Either way the tools have both forms, `acall()` and `call()`. Images are blocks of the output; structured output is
    its `raw_output`. A failed call is an output with `is_error`. Progress and log messages are events of the
    instrumentation, `McpProgressEvent` and `McpLogEvent`.

    Raises: UsageError for an invalid source, an unknown option or a bad value, and if LlamaIndex is not installed.
    """
    adapter = _adapter("llama_index")
    tools = ToolSource(source, only, **options)
    return ToolList(tools, lambda tool: adapter.LlamaIndexTool(tools, tool))


@shows("jackstay.protocol.client:Settings")
def smolagents_tools(
    source: Source, *, only: Only = None, **options: Unpack[ClientKeywords]
) -> "ToolList[SmolagentsTool]":
    """Return smolagents tools: `with smolagents_tools(URL) as tools:`.

    A tool returns its structured output, its text, or its image as a PIL image. A failed call returns its error
    as text, after `Error:`. A name that is not valid in Python is changed.

    Raises: UsageError for an invalid source, an unknown option or a bad value, and if smolagents is not installed.
    """
    adapter = _adapter("smolagents")
    tools = ToolSource(source, only, **options)
    return ToolList(tools, lambda tool: adapter.SmolagentsTool(tools, tool))


@shows("jackstay.protocol.client:Settings")
def strands_tools(source: Source, *, only: Only = None, **options: Unpack[ClientKeywords]) -> "StrandsTools":
    """Return a tool provider for Strands Agents: `Agent(tools=[strands_tools(URL)])`.

    It is open while an agent uses it. Images and structured output are part of the tool result. A failed call is a
    result with the status `error`. Progress and log messages are events of the agent's stream, `mcp_progress` and
    `mcp_log`.

    Raises: UsageError for an invalid source, an unknown option or a bad value, and if Strands is not installed.
    """
    tools: StrandsTools = _adapter("strands").StrandsTools(ToolSource(source, only, **options))
    return tools


@shows("jackstay.protocol.client:Settings")
def crewai_tools(source: Source, *, only: Only = None, **options: Unpack[ClientKeywords]) -> "ToolList[CrewAITool]":
    """Return CrewAI tools: `with crewai_tools(URL) as tools:`, or with `async with`.

    The model receives text; images are described. A failed call is a `ToolFailure`. Progress and log messages are
    events of CrewAI's bus, `McpProgressEvent` and `McpLogEvent`.

    Raises: UsageError for an invalid source, an unknown option or a bad value, and if CrewAI is not installed.
    """
    adapter = _adapter("crewai")
    tools = ToolSource(source, only, **options)
    return ToolList(tools, lambda tool: adapter.CrewAITool(tools, tool))


@shows("jackstay.protocol.client:Settings")
def semantic_kernel_plugin(
    source: Source, *, only: Only = None, **options: Unpack[ClientKeywords]
) -> "SemanticKernelPlugin":
    """Return a plugin for Semantic Kernel: `async with semantic_kernel_plugin(URL) as plugin:`.

    Functions return texts and images. A failed call returns its error as text, after `Error:`.

    Raises: UsageError for an invalid source, an unknown option or a bad value, and if the kernel is not installed.
    """
    plugin: SemanticKernelPlugin = _adapter("semantic_kernel").SemanticKernelPlugin(ToolSource(source, only, **options))
    return plugin


@shows("jackstay.protocol.client:Settings")
def autogen_workbench(source: Source, *, only: Only = None, **options: Unpack[ClientKeywords]) -> "AutogenWorkbench":
    """Return a workbench for AutoGen: `async with autogen_workbench(URL) as workbench:`.

    Results have texts and images. The result of a failed call has `is_error` and its error as text.

    Raises: UsageError for an invalid source, an unknown option or a bad value, and if AutoGen is not installed.
    """
    workbench: AutogenWorkbench = _adapter("autogen").AutogenWorkbench(ToolSource(source, only, **options))
    return workbench


def _adapter(framework: str) -> Any:
    """Return the module for a framework. Raises: UsageError if the framework is not installed."""
    try:
        return import_module(f"jackstay.agents._{framework}")
    except ModuleNotFoundError as missing:
        extra = framework.replace("_", "-")
        raise UsageError(f"{missing.name} is not installed: {install_command(extra)}") from missing
