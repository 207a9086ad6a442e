"""The official SDK 2.x: `sdk2.py MODE COMMAND...` starts the server, uses all features, prints the results.

MODE is `auto` (probe for the stateless era) or `legacy` (handshake). A URL instead of the command is the
address of a running server. The results are printed as JSON.
"""

import json
import sys
import time
import warnings

import anyio
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.client import session
from mcp.client.stdio import stdio_client

warnings.simplefilter("ignore")  # the SDK marks the handshake era as deprecated
session.DISCOVER_TIMEOUT_SECONDS = 200.0  # of 10: a busy machine starts the server slowly

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
    if isinstance(message, types.ToolListChangedNotification):
        seen["changes"].append(message.method)
        changed.set()
    if isinstance(message, types.ResourceUpdatedNotification):
        seen["updates"].append(str(message.params.uri))
        updated.set()


async def code_of(awaitable):
    try:
        await awaitable
    except MCPError as error:
        return error.code
    return None


async def list_tools_and_echo(client: Client) -> bool:
    """List the tools; return True if there are more than in the smallest example."""
    seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
    if seen["tools"] == ["echo"]:
        seen["echo"] = (await client.call_tool("echo", {"text": "ahoy"})).content[0].text
    return len(seen["tools"]) > 1


async def use(client: Client) -> None:
    added = await client.call_tool("add", {"a": 19, "b": 23})
    seen["sum"] = [added.content[0].text, added.structured_content]
    failed = await client.call_tool("test_error_handling")
    seen["failed"] = [failed.is_error, failed.content[0].text]
    seen["invalid"] = (await client.call_tool("add", {"a": "many"})).is_error
    seen["unknown_tool"] = await code_of(client.call_tool("no_such_tool"))
    seen["resources"] = [str(resource.uri) for resource in (await client.list_resources()).resources]
    templates = (await client.list_resource_templates()).resource_templates
    seen["templates"] = [template.uri_template for template in templates]
    seen["read"] = [
        (await client.read_resource(uri)).contents[0].text for uri in ("test://static-text", "test://template/7/data")
    ]
    seen["unknown_resource"] = await code_of(client.read_resource("test://no/such/resource"))
    seen["prompts"] = [prompt.name for prompt in (await client.list_prompts()).prompts]
    seen["prompt"] = (
        (await client.get_prompt("test_prompt_with_arguments", {"arg1": "hawser", "arg2": "rope"}))
        .messages[0]
        .content.text
    )
    reference = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
    seen["completion"] = (await client.complete(reference, {"name": "arg1", "value": "ha"})).completion.values


async def use_client_features(client: Client) -> None:
    progress = []
    is_complete = anyio.Event()

    async def on_progress(done, total, message):
        progress.append([done, total, message])
        if done == total:
            is_complete.set()

    seen["counted"] = (
        (await client.call_tool("test_tool_with_progress", {}, progress_callback=on_progress)).content[0].text
    )
    await is_complete.wait()
    seen["progress"] = progress
    if client.protocol_version < "2026":
        await client.set_logging_level("info")
    await client.call_tool("test_tool_with_logging")
    await logged.wait()
    requests = [
        ("test_elicitation", {"message": "Who?"}),
        ("test_sampling", {"prompt": "Ready?"}),
        ("test_input_required_result_list_roots", {}),
    ]
    seen["responses"] = [(await client.call_tool(name, arguments)).content[0].text for name, arguments in requests]
    if client.protocol_version < "2026":
        await client.send_ping()
        await client.call_tool("test_trigger_tool_change")
        await changed.wait()
        await client.subscribe_resource("test://watched-resource")
        await client.call_tool("touch", {"uri": "test://watched-resource"})
        await updated.wait()
        await client.unsubscribe_resource("test://watched-resource")
    else:
        async with client.listen(tools_list_changed=True, resource_subscriptions=["test://watched-resource"]):
            await client.call_tool("test_trigger_tool_change")
            await changed.wait()
            await client.call_tool("touch", {"uri": "test://watched-resource"})
            await updated.wait()
    seen["grown"] = "test_added_tool" in [tool.name for tool in (await client.list_tools()).tools]


async def cancel(client: Client) -> None:
    started = anyio.Event()

    async def on_progress(done, total, message):
        started.set()

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: client.call_tool("hold", progress_callback=on_progress))
        await started.wait()
        group.cancel_scope.cancel()  # the SDK sends notifications/cancelled
    seen["cancelled"] = (await client.call_tool("cancelled")).content[0].text


async def main() -> None:
    mode, command, *arguments = sys.argv[1:]
    is_url = command.startswith("http")
    client = Client(
        command if is_url else stdio_client(StdioServerParameters(command=command, args=arguments)),
        mode=mode,
        sampling_callback=on_sampling,
        elicitation_callback=on_elicitation,
        list_roots_callback=on_roots,
        logging_callback=on_log,
        log_level="info",
        message_handler=on_message,
    )
    with anyio.fail_after(30):
        async with client:
            seen["revision"] = client.protocol_version
            info = client.server_info
            seen["server"] = [info.name, info.version, client.instructions] if info else None
            if await list_tools_and_echo(client):
                await use(client)
                await use_client_features(client)
                await cancel(client)
            seen["closing"] = time.clock_gettime(time.CLOCK_MONOTONIC)
    print(json.dumps(seen))


anyio.run(main)
