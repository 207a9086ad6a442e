"""A FastMCP client, 3 or 4: `fast.py MODE COMMAND...` starts the server, uses all features, prints the results.

MODE is that of FastMCP 4 (`auto` or `legacy`); FastMCP 3 has only the handshake and gets a dash. A URL instead of the
command is the address of a running server. The results are printed as JSON.
"""

import asyncio
import json
import sys
import time
import warnings

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp import types
from mcp.client import session

try:
    from mcp import MCPError as JsonRpcError  # SDK 2.x, used by FastMCP 4
except ImportError:
    from mcp import McpError as JsonRpcError  # SDK 1.x, used by FastMCP 3

warnings.simplefilter("ignore")  # FastMCP 4 marks the handshake era as deprecated
session.DISCOVER_TIMEOUT_SECONDS = 200.0  # of 10, in SDK 2.x: a busy machine starts the server slowly

seen: dict = {"log": [], "changes": [], "updates": []}
changed, updated, logged = asyncio.Event(), asyncio.Event(), asyncio.Event()


async def on_sampling(messages, params, context):
    content = types.TextContent(type="text", text="aye")
    return types.CreateMessageResult(role="assistant", content=content, model="parrot")


async def on_elicitation(message, response_type, params, context):
    return response_type(username="ada", email="ada@example.org")


async def on_log(message):
    # FastMCP 3 puts the text into the member `msg`.
    data = message.data
    seen["log"].append([message.level, data["msg"] if isinstance(data, dict) else data])
    if len(seen["log"]) == 3:
        logged.set()


async def on_message(message):
    notification = getattr(message, "root", message)
    method = getattr(notification, "method", "")
    if method == "notifications/tools/list_changed":
        seen["changes"].append(method)
        changed.set()
    if method == "notifications/resources/updated":
        seen["updates"].append(str(notification.params.uri))
        updated.set()


async def code_of(awaitable):
    try:
        await awaitable
    except JsonRpcError as error:
        return error.error.code
    return None


async def list_tools_and_echo(client: Client) -> bool:
    """List the tools; return True if there are more than in the smallest example."""
    seen["tools"] = [tool.name for tool in await client.list_tools()]
    if seen["tools"] == ["echo"]:
        seen["echo"] = (await client.call_tool("echo", {"text": "ahoy"})).content[0].text
    return len(seen["tools"]) > 1


async def use(client: Client) -> None:
    added = await client.call_tool("add", {"a": 19, "b": 23})
    seen["sum"] = [added.content[0].text, added.structured_content]
    failed = await client.call_tool("test_error_handling", raise_on_error=False)
    seen["failed"] = [failed.is_error, failed.content[0].text]
    seen["invalid"] = (await client.call_tool("add", {"a": "many"}, raise_on_error=False)).is_error
    seen["unknown_tool"] = await code_of(client.call_tool("no_such_tool"))
    seen["resources"] = [str(resource.uri) for resource in await client.list_resources()]
    templates = await client.list_resource_templates()
    seen["templates"] = [getattr(template, "uri_template", None) or template.uriTemplate for template in templates]
    seen["read"] = [
        (await client.read_resource(uri))[0].text for uri in ("test://static-text", "test://template/7/data")
    ]
    seen["unknown_resource"] = await code_of(client.read_resource("test://no/such/resource"))
    seen["prompts"] = [prompt.name for prompt in await client.list_prompts()]
    seen["prompt"] = (
        (await client.get_prompt("test_prompt_with_arguments", {"arg1": "hawser", "arg2": "rope"}))
        .messages[0]
        .content.text
    )
    reference = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
    seen["completion"] = (await client.complete(reference, {"name": "arg1", "value": "ha"})).values


async def use_client_features(client: Client, is_stateless: bool) -> None:
    progress = []
    is_complete = asyncio.Event()

    async def on_progress(done, total, message):
        progress.append([done, total, message])
        if done == total:
            is_complete.set()

    seen["counted"] = (
        (await client.call_tool("test_tool_with_progress", {}, progress_handler=on_progress)).content[0].text
    )
    await is_complete.wait()
    seen["progress"] = progress
    if is_stateless:
        await client.call_tool("test_tool_with_logging", meta={"io.modelcontextprotocol/logLevel": "info"})
    else:
        await client.ping()
        await client.set_logging_level("info")
        await client.call_tool("test_tool_with_logging")
    await logged.wait()
    requests = [
        ("test_elicitation", {"message": "Who?"}),
        ("test_sampling", {"prompt": "Ready?"}),
        ("test_input_required_result_list_roots", {}),
    ]
    seen["responses"] = [(await client.call_tool(name, arguments)).content[0].text for name, arguments in requests]
    await client.call_tool("test_trigger_tool_change")
    if not is_stateless:  # this client never opens `subscriptions/listen`
        await changed.wait()
        uri = "test://watched-resource"
        await client.session.subscribe_resource(uri if uses_sdk_2() else types.AnyUrl(uri))
        await client.call_tool("touch", {"uri": uri})
        await updated.wait()
    seen["grown"] = "test_added_tool" in [tool.name for tool in await client.list_tools()]


def uses_sdk_2() -> bool:
    """Return True for SDK 2.x (FastMCP 4), which accepts URIs as strings."""
    return JsonRpcError.__name__ == "MCPError"


async def cancel(client: Client) -> None:
    started = asyncio.Event()

    async def on_progress(done, total, message):
        started.set()

    # In SDK 1.x, the id of the next request has no public name.
    request = getattr(client.session, "_request_id", None)
    call = asyncio.ensure_future(client.call_tool("hold", progress_handler=on_progress))
    await started.wait()
    if not uses_sdk_2():
        await client.cancel(request)  # SDK 2.x sends notifications/cancelled itself
    call.cancel()
    await asyncio.wait([call])
    seen["cancelled"] = (await client.call_tool("cancelled")).content[0].text


async def main() -> None:
    mode, command, *arguments = sys.argv[1:]
    client = Client(
        command if command.startswith("http") else StdioTransport(command, arguments, keep_alive=False),
        roots=["file:///harbour"],
        sampling_handler=on_sampling,
        elicitation_handler=on_elicitation,
        log_handler=on_log,
        message_handler=on_message,
        **({} if mode == "-" else {"mode": mode}),
    )
    async with asyncio.timeout(30):
        async with client:
            initialize_result = client.initialize_result
            seen["revision"] = getattr(client, "protocol_version", None) or initialize_result.protocolVersion
            info = getattr(client, "server_info", None) or initialize_result.serverInfo
            instructions = client.instructions if uses_sdk_2() else initialize_result.instructions
            seen["server"] = [info.name, info.version, instructions]
            if await list_tools_and_echo(client):
                await use(client)
                await use_client_features(client, seen["revision"] > "2026")
                await cancel(client)
            seen["closing"] = time.clock_gettime(time.CLOCK_MONOTONIC)
    print(json.dumps(seen))


asyncio.run(main())
