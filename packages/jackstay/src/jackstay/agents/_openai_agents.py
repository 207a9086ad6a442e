"""A server for the OpenAI Agents SDK."""

from typing import Any

from agents.mcp import MCPServer
from mcp import types

from jackstay.agents._source import ToolSource


class OpenAIAgentsServer(MCPServer):
    """An `MCPServer` whose connection survives crashes of the server."""

    def __init__(self, source: ToolSource) -> None:
        super().__init__()
        self._source = source

    async def __aenter__(self) -> "OpenAIAgentsServer":
        await self.connect()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.cleanup()

    @property
    def name(self) -> str:
        """The name of the server."""
        return self._source.name

    async def connect(self) -> None:
        """Open the connection."""
        await self._source.open()

    async def cleanup(self) -> None:
        """Close the connection."""
        await self._source.close()

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:  # noqa: ARG002
        """Return the tools with names and schemas that the API accepts."""
        return [types.Tool.model_validate(tool.to_json()) for tool in await self._source.list_tools()]

    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None, meta: dict[str, Any] | None = None
    ) -> Any:
        """Call a tool; the result of a failed call is its error as text."""
        outcome = await self._source.call(tool_name, arguments, meta=meta or {})
        content = [
            {"type": "text", "text": part}
            if isinstance(part, str)
            else {"type": "image", "data": part.data, "mimeType": part.mime_type}
            for part in outcome.parts
        ]
        structured = None if outcome.result is None else outcome.result.structured_content
        result: dict[str, Any] = {"content": content, "isError": outcome.is_error}
        if isinstance(structured, dict):
            result["structuredContent"] = structured
        return types.CallToolResult.model_validate(result)

    async def list_prompts(self) -> Any:
        """Return the prompts of the server."""
        return types.ListPromptsResult.model_validate(await self._source.request("prompts/list"))

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Return a prompt of the server."""
        params = {"name": name, "arguments": arguments or {}}
        return types.GetPromptResult.model_validate(await self._source.request("prompts/get", params))

    async def list_resources(self, cursor: str | None = None) -> Any:
        """Return a page of the resources of the server."""
        page = await self._source.request("resources/list", _cursor(cursor))
        return types.ListResourcesResult.model_validate(page)

    async def list_resource_templates(self, cursor: str | None = None) -> Any:
        """Return a page of the resource templates of the server."""
        page = await self._source.request("resources/templates/list", _cursor(cursor))
        return types.ListResourceTemplatesResult.model_validate(page)

    async def read_resource(self, uri: str) -> Any:
        """Return the contents of a resource."""
        return types.ReadResourceResult.model_validate(await self._source.request("resources/read", {"uri": uri}))


def _cursor(cursor: str | None) -> dict[str, Any]:
    return {} if cursor is None else {"cursor": cursor}
