"""The tools of MCP servers for agent frameworks, one line for each; nothing is imported until it is used.

`langchain_tools(URL)`, `openai_agents_server(URL)` and so on accept what `connect()` accepts, a client or a fleet. The
connection is made once and reconnects; a failed call reaches the model as text that states whether it may have run.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._frameworks": "adk_toolset autogen_workbench crewai_tools langchain_tools llama_index_tools"
        " openai_agents_server pydantic_ai_toolset semantic_kernel_plugin smolagents_tools strands_tools",
        "._source": "AgentTool CallEvent Source ToolSource",
        "._tool_list": "ToolList",
    },
)
