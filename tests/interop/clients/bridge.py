"""The official SDK 2.x as a client of the apcore bridge: `bridge.py MODE TARGET` uses all of it, and prints what it saw as JSON.

MODE is its own: `auto` probes for the stateless era, `legacy` shakes hands. TARGET is a URL, which may end in `/sse` for the
transport of 2024-11-05, or a program to start. Several clients are used at once, and one after the other.
"""

import json
import os
import sys
import warnings

import anyio
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client

warnings.simplefilter("ignore")  # it calls the whole handshake era deprecated

MODE, TARGET = sys.argv[1:]
WHO = {"user": "ann", "password": "hunter2"}

seen: dict = {"asked": [], "progress": []}
changed = anyio.Event()


async def on_elicitation(context, params):
    seen["asked"].append(params.message)
    return types.ElicitResult(action="accept", content={})


async def refuse(context, params):
    return types.ElicitResult(action="decline")


async def on_message(message):
    if isinstance(message, types.ToolListChangedNotification):
        changed.set()


def connect(elicit=on_elicitation):
    if TARGET.endswith("/sse"):
        place = sse_client(TARGET)
    elif TARGET.startswith("http"):
        place = TARGET
    else:
        place = stdio_client(
            StdioServerParameters(command=os.environ["SERVER_PYTHON"], args=[TARGET], env=dict(os.environ))
        )
    return Client(place, mode=MODE, elicitation_callback=elicit, message_handler=on_message)


async def use(client):
    seen["revision"] = client.protocol_version
    seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
    added = await client.call_tool("math.add", {"a": 1})  # the SDK holds it to the output schema
    seen["added"] = [added.content[0].text, added.structured_content, bool(added.is_error)]
    wrong = await client.call_tool("math.add", {})
    seen["wrong"] = [wrong.content[0].text, bool(wrong.is_error)]
    try:
        await client.call_tool("nope", {})
    except MCPError as error:
        seen["unknown"] = [error.code, error.message]
    seen["docs"] = (await client.read_resource("docs://math.add")).contents[0].text

    async def on_progress(done, total, message):
        seen["progress"].append([done, json.loads(message)])

    counted = await client.call_tool("text.count", {}, progress_callback=on_progress)
    seen["counted"] = counted.structured_content
    seen["approved"] = bool((await client.call_tool("user.remove", WHO)).is_error)


async def cancel(client):
    async with anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "x.slow", {})
        await client.call_tool("x.told", {"began": True})
        group.cancel_scope.cancel()  # it tells the server by itself
    seen["cancelled"] = (await client.call_tool("x.told", {"told": True})).structured_content


async def grow(client):
    if client.protocol_version < "2026":
        await client.call_tool("x.grow", {})
        await changed.wait()
    else:
        async with client.listen(tools_list_changed=True):
            await client.call_tool("x.grow", {})
            await changed.wait()
    seen["grown"] = (await client.call_tool("grown.add", {"a": 40})).structured_content


async def add_alone(base, sums):
    async with connect() as client:
        results = [await client.call_tool("math.add", {"a": base, "b": number}) for number in range(5)]
        sums[str(base)] = [result.structured_content["total"] - base for result in results]


async def main():
    with anyio.fail_after(40):
        async with connect() as client:
            await use(client)
            await cancel(client)
            await grow(client)
        # Again, after the first has left, and several at once: the same server over HTTP, and each its own over stdio.
        sums: dict = {}
        async with anyio.create_task_group() as group:
            for base in (100, 200):
                group.start_soon(add_alone, base, sums)
        seen["sums"] = sums
        if TARGET.startswith("http"):
            async with connect(refuse) as client:
                seen["declined"] = (await client.call_tool("user.remove", WHO)).content[0].text
            async with connect(None) as client:
                seen["cannot"] = (await client.call_tool("user.remove", WHO)).content[0].text
    print(json.dumps(seen))


anyio.run(main)
