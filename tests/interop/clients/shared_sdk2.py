"""The official SDK 2.x with servers that share sessions: `shared_sdk2.py MODE URL [TOOL | SCENARIO]`. It prints JSON.

With a tool it only calls that, and prints the text of its result or error; with a scenario it prints what that saw.
"""

import contextlib
import json
import sys
import warnings

import anyio
from mcp import Client, MCPError, types
from shared_scenarios import SCENARIOS

warnings.simplefilter("ignore")  # the SDK marks the handshake era as deprecated

seen: dict = {"changes": 0, "updates": 0}
has_changed, has_updated = anyio.Condition(), anyio.Condition()


async def on_elicitation(context, params):
    return types.ElicitResult(action="accept", content={"subject": params.message})


async def on_message(message):
    if isinstance(message, types.ToolListChangedNotification):
        await count("changes", has_changed)
    if isinstance(message, types.ResourceUpdatedNotification):
        await count("updates", has_updated)


async def count(name: str, condition: anyio.Condition) -> None:
    async with condition:
        seen[name] += 1
        condition.notify_all()


async def one_more(name: str, condition: anyio.Condition, call) -> None:
    """Make a call, and wait until there is one more notification than before."""
    before = seen[name]
    await call()
    async with condition:
        while seen[name] == before:
            await condition.wait()


async def change(client: Client) -> None:
    for _ in range(4):
        await one_more("changes", has_changed, lambda: client.call_tool("add", {"name": "added"}))
        await one_more("updates", has_updated, lambda: client.call_tool("update", {"uri": "memo://1"}))


async def confirm(client: Client, subject: str) -> None:
    result = await client.call_tool("confirm", {"subject": subject})
    seen["confirmed"][subject] = result.content[0].text


async def cancel(client: Client) -> None:
    started = anyio.Event()

    async def on_progress(done, total, message):
        started.set()

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: client.call_tool("wait", progress_callback=on_progress))
        await started.wait()
        group.cancel_scope.cancel()


async def call_once(client: Client, tool: str) -> None:
    async def on_progress(done, total, message):
        pass

    arguments = {"subject": "delete"} if tool == "confirm" else {}
    try:
        result = await client.call_tool(tool, arguments, progress_callback=on_progress)
        print(json.dumps({"text": result.content[0].text}))
    except MCPError as error:
        print(json.dumps({"text": str(error)}))


class Scripted:
    """The client of a scenario."""

    seen = seen

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, on_progress=None, **arguments) -> str:
        async def progressed(done, total, message):
            if on_progress is not None:
                on_progress(done)

        result = await self.client.call_tool(tool, arguments, progress_callback=progressed)
        return result.content[0].text

    async def one_more(self, name: str, call) -> None:
        await one_more(name, has_changed if name == "changes" else has_updated, call)

    async def cancel(self) -> None:
        await cancel(self.client)

    async def subscribe(self, uri: str) -> None:
        if self.client.protocol_version < "2026":
            await self.client.subscribe_resource(uri)

    def listening(self, *uris: str):
        if self.client.protocol_version < "2026":
            return contextlib.nullcontext()
        return self.client.listen(tools_list_changed=True, resource_subscriptions=list(uris))


async def main() -> None:
    mode, url = sys.argv[1:3]
    with anyio.fail_after(120):
        async with Client(url, mode=mode, elicitation_callback=on_elicitation, message_handler=on_message) as client:
            seen["revision"] = client.protocol_version
            if sys.argv[3:] and sys.argv[3] in SCENARIOS:
                print(json.dumps(await SCENARIOS[sys.argv[3]](Scripted(client))))
                return
            if len(sys.argv) > 3:
                await call_once(client, sys.argv[3])
                return
            seen["pids"] = sorted({(await client.call_tool("pid")).content[0].text for _ in range(6)})
            seen["confirmed"] = {}
            async with anyio.create_task_group() as group:
                for number in range(8):
                    group.start_soon(confirm, client, f"delete {number}")
            if client.protocol_version < "2026":
                await client.subscribe_resource("memo://1")
                await change(client)
            else:
                async with client.listen(tools_list_changed=True, resource_subscriptions=["memo://1"]):
                    await change(client)
            await cancel(client)
    print(json.dumps(seen))


anyio.run(main)
