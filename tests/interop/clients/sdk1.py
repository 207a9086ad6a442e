"""The official SDK 1.x: `sdk1.py COMMAND...` starts the server, uses all features, and prints the results as JSON.

A URL instead of the command is the address of a running server.
"""

import json
import sys
import time

import anyio
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl

seen: dict = {"log": [], "changes": [], "updates": []}
changed, updated, logged = anyio.Event(), anyio.Event(), anyio.Event()


async def on_sampling(context, params):
    return types.CreateMessageResult(
        role="assistant", content=types.TextContent(type="text", text="aye"), model="parrot"
    )


async def on_elicitation(context, params):
    return types.ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.org"})


async def on_roots(context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///harbour")])


async def on_log(params):
    seen["log"].append([params.level, params.data])
    if len(seen["log"]) == 3:
        logged.set()


async def on_message(message):
    if isinstance(message, types.ServerNotification):
        if isinstance(message.root, types.ToolListChangedNotification):
            seen["changes"].append(message.root.method)
            changed.set()
        if isinstance(message.root, types.ResourceUpdatedNotification):
            seen["updates"].append(str(message.root.params.uri))
            updated.set()


async def code_of(awaitable):
    try:
        await awaitable
    except McpError as error:
        return error.error.code
    return None


async def list_tools_and_echo(session: ClientSession) -> bool:
    """List the tools; return True if there are more than in the smallest example."""
    seen["tools"] = [tool.name for tool in (await session.list_tools()).tools]
    if seen["tools"] == ["echo"]:
        seen["echo"] = (await session.call_tool("echo", {"text": "ahoy"})).content[0].text
    return len(seen["tools"]) > 1


async def use(session: ClientSession) -> None:
    added = await session.call_tool("add", {"a": 19, "b": 23})
    seen["sum"] = [added.content[0].text, added.structuredContent]
    failed = await session.call_tool("test_error_handling")
    seen["failed"] = [failed.isError, failed.content[0].text]
    seen["invalid"] = (await session.call_tool("add", {"a": "many"})).isError
    seen["unknown_tool"] = await code_of(session.call_tool("no_such_tool"))
    seen["resources"] = [str(resource.uri) for resource in (await session.list_resources()).resources]
    templates = (await session.list_resource_templates()).resourceTemplates
    seen["templates"] = [template.uriTemplate for template in templates]
    seen["read"] = [
        (await session.read_resource(AnyUrl(uri))).contents[0].text
        for uri in ("test://static-text", "test://template/7/data")
    ]
    seen["unknown_resource"] = await code_of(session.read_resource(AnyUrl("test://no/such/resource")))
    seen["prompts"] = [prompt.name for prompt in (await session.list_prompts()).prompts]
    seen["prompt"] = (
        (await session.get_prompt("test_prompt_with_arguments", {"arg1": "hawser", "arg2": "rope"}))
        .messages[0]
        .content.text
    )
    reference = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
    seen["completion"] = (await session.complete(reference, {"name": "arg1", "value": "ha"})).completion.values
    await session.send_ping()


async def use_client_features(session: ClientSession) -> None:
    progress = []
    is_complete = anyio.Event()

    async def on_progress(done, total, message):
        progress.append([done, total, message])
        if done == total:
            is_complete.set()

    seen["counted"] = (
        (await session.call_tool("test_tool_with_progress", {}, progress_callback=on_progress)).content[0].text
    )
    await is_complete.wait()
    seen["progress"] = progress
    await session.set_logging_level("info")
    await session.call_tool("test_tool_with_logging")
    await logged.wait()
    requests = [
        ("test_elicitation", {"message": "Who?"}),
        ("test_sampling", {"prompt": "Ready?"}),
        ("test_input_required_result_list_roots", {}),
    ]
    seen["responses"] = [(await session.call_tool(name, arguments)).content[0].text for name, arguments in requests]
    await session.call_tool("test_trigger_tool_change")
    await changed.wait()
    seen["grown"] = "test_added_tool" in [tool.name for tool in (await session.list_tools()).tools]
    await session.subscribe_resource(AnyUrl("test://watched-resource"))
    await session.call_tool("touch", {"uri": "test://watched-resource"})
    await updated.wait()
    await session.unsubscribe_resource(AnyUrl("test://watched-resource"))


async def cancel(session: ClientSession) -> None:
    started = anyio.Event()

    async def on_progress(done, total, message):
        started.set()

    async with anyio.create_task_group() as group:
        request = session._request_id  # the id of the next request, which has no public name
        group.start_soon(lambda: session.call_tool("hold", progress_callback=on_progress))
        await started.wait()
        # This SDK sends no notification when a call is cancelled, so it is sent explicitly.
        params = types.CancelledNotificationParams(requestId=request, reason="no longer wanted")
        notification = types.CancelledNotification(method="notifications/cancelled", params=params)
        await session.send_notification(types.ClientNotification(notification))
        group.cancel_scope.cancel()
    seen["cancelled"] = (await session.call_tool("cancelled")).content[0].text


async def main() -> None:
    command, *arguments = sys.argv[1:]
    if command.endswith("/sse"):
        transport = sse_client(command)
    elif command.startswith("http"):
        transport = streamable_http_client(command)
    else:
        transport = stdio_client(StdioServerParameters(command=command, args=arguments))
    with anyio.fail_after(30):
        async with transport as (read, write, *_):
            callbacks = {
                "sampling_callback": on_sampling,
                "elicitation_callback": on_elicitation,
                "list_roots_callback": on_roots,
                "logging_callback": on_log,
                "message_handler": on_message,
            }
            async with ClientSession(read, write, **callbacks) as session:
                initialize_result = await session.initialize()
                seen["revision"] = initialize_result.protocolVersion
                info = initialize_result.serverInfo
                seen["server"] = [info.name, info.version, initialize_result.instructions]
                if await list_tools_and_echo(session):
                    await use(session)
                    await use_client_features(session)
                    await cancel(session)
            seen["closing"] = time.clock_gettime(time.CLOCK_MONOTONIC)
    print(json.dumps(seen))


anyio.run(main)
