"""Adds tools that are not modules to the server of a bridge: those for tasks, and the one that polls an approval."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from apcore_mcp.approval import CLIENT_CALL, ClientCall
from apcore_mcp.auth.jwt import to_identity
from apcore_mcp.compat.approvals import ApprovalBridge
from apcore_mcp.compat.calls import to_result
from apcore_mcp.compat.tasks import Answer, AsyncTaskBridge
from apcore_mcp.secrets import SECRETS, Secrets
from apcore_mcp.validation import ArgumentRules
from jackstay.server import Context
from jackstay.types import CallToolResult, TextContent

if TYPE_CHECKING:
    from apcore_mcp.bridge import Bridge
    from apcore_mcp.catalogue import Entry
    from jackstay.types import Tool

# Calls a tool by its name, with the arguments and the context of the request.
_Handler = Callable[[str, dict[str, Any], Context], Awaitable[Answer]]


def add_approval_tool(bridge: "Bridge", handler: Any) -> None:
    """Add the tool that polls an approval."""
    approvals = ApprovalBridge(handler)

    async def handle(name: str, arguments: dict[str, Any], context: Context) -> Answer:
        reset = CLIENT_CALL.set(ClientCall(context.principal))
        try:
            return await approvals.handle_meta_tool(name, arguments)
        finally:
            CLIENT_CALL.reset(reset)

    _add(bridge, approvals.build_meta_tools(), handle)


def add_task_tools(bridge: "Bridge", **limits: int) -> None:
    """Add the tools that run modules in the background. Only modules of the catalogue can be run."""

    def redact(module_id: str, result: Any) -> Any:
        entry = bridge.catalogue.find(module_id)
        redacts = entry is not None and bridge.options.redact_output and isinstance(result, dict)
        return entry.redact_output(result) if redacts and entry is not None else result

    def find(module_id: str) -> Any:
        entry = bridge.catalogue.find(module_id)
        return None if entry is None else entry.descriptor

    tasks = AsyncTaskBridge.with_limits(bridge.executor, redactor=redact, **limits)

    async def handle(name: str, arguments: dict[str, Any], context: Context) -> Answer:
        if name == "__apcore_module_preview" and find(str(arguments.get("module_id"))) is None:
            return [{"type": "text", "text": f"Module not found: {str(arguments.get('module_id'))[:200]}"}], True, None
        entry = bridge.catalogue.find(str(arguments.get("module_id")))
        if entry is not None and isinstance(arguments.get("arguments", {}), dict) and bridge.options.fill_defaults:
            filled = ArgumentRules(entry.input_schema).fill(arguments.get("arguments") or {})
            arguments = {**arguments, "module_id": entry.id, "arguments": filled}
        if name == "__apcore_task_submit" and entry is not None and not bridge.router.can_run_unattended(entry):
            return [{"type": "text", "text": f"Approval required: a task cannot run {entry.id}."}], True, None
        inputs = arguments.get("arguments")
        # The task inherits them.
        secrets = None if entry is None or not isinstance(inputs, dict) else Secrets(inputs, entry.redact)
        secrets_reset = SECRETS.set(secrets)
        identity = to_identity(context.principal, context.scopes, context.claims)
        extra = {"identity": identity, "_meta": dict(context.meta)}
        try:
            return await tasks.handle_meta_tool(name, arguments, resolve_descriptor=find, router_extra=extra)
        finally:
            SECRETS.reset(secrets_reset)

    async def submit(entry: "Entry", arguments: dict[str, Any], context: Context) -> CallToolResult:
        given = {"module_id": entry.id, "arguments": arguments}
        return to_result(await handle("__apcore_task_submit", given, context), None)

    bridge.sync.run_in_background_by(submit)
    # Over stdio, that is when the client disconnects.
    bridge.server.on_shutdown(tasks.shutdown)
    _add(bridge, tasks.build_meta_tools(), handle)


def _add(bridge: "Bridge", tools: "Sequence[Tool]", handle: _Handler) -> None:
    def make(tool: "Tool") -> Any:
        async def call(arguments: dict[str, Any], context: Context) -> CallToolResult:
            content, is_error, _ = await handle(tool.name, arguments, context)
            return CallToolResult(content=[TextContent(text=part["text"]) for part in content], is_error=is_error)

        return bridge.server.tool_from_schema(
            tool.name, input_schema=tool.input_schema, handler=call, description=tool.description or ""
        )

    bridge.server.catalogue.add_tools(*map(make, tools), replace=True)


__all__ = ["add_approval_tool", "add_task_tools"]
