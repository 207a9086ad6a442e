"""The official SDK 2.x as a client of the apcore bridge: `bridge.py MODE TARGET [MODE TARGET]...`.

MODE is `auto` (probe for the stateless era) or `legacy` (handshake). TARGET is a URL, which may end in `/sse` for the
transport of 2024-11-05, or a program to start. Over HTTP, several clients are used. The results of each target are
printed as a line of JSON.
"""

import json
import os
import sys
import warnings

import anyio
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client

warnings.simplefilter("ignore")  # the SDK marks the handshake era as deprecated

USER = {"user": "ann", "password": "hunter2"}


class Walk:
    """One target, used by one client and then by several."""

    def __init__(self, mode, target):
        self.mode = mode
        self.target = target
        self.seen: dict = {"responses": [], "progress": [], "sums": {}}
        self.changed = anyio.Event()

    async def accept(self, context, params):
        self.seen["responses"].append(params.message)
        return types.ElicitResult(action="accept", content={})

    async def decline(self, context, params):
        return types.ElicitResult(action="decline")

    async def on_message(self, message):
        if isinstance(message, types.ToolListChangedNotification):
            self.changed.set()

    def connect(self, elicit=None):
        if self.target.endswith("/sse"):
            transport = sse_client(self.target)
        elif self.target.startswith("http"):
            transport = self.target
        else:
            python = os.environ["SERVER_PYTHON"]
            transport = stdio_client(StdioServerParameters(command=python, args=[self.target], env=dict(os.environ)))
        return Client(transport, mode=self.mode, elicitation_callback=elicit, message_handler=self.on_message)

    async def use(self, client):
        seen = self.seen
        seen["revision"] = client.protocol_version
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        added = await client.call_tool("math.add", {"a": 1})  # the SDK validates the result against the output schema
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
        seen["approved"] = bool((await client.call_tool("user.remove", USER)).is_error)

    async def cancel(self, client):
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "x.slow", {})
            await client.call_tool("x.status", {"started": True})
            group.cancel_scope.cancel()  # the SDK sends notifications/cancelled
        self.seen["cancelled"] = (await client.call_tool("x.status", {"cancelled": True})).structured_content

    async def grow(self, client):
        if client.protocol_version < "2026":
            await client.call_tool("x.grow", {})
            await self.changed.wait()
        else:
            async with client.listen(tools_list_changed=True):
                await client.call_tool("x.grow", {})
                await self.changed.wait()
        self.seen["grown"] = (await client.call_tool("grown.add", {"a": 40})).structured_content

    async def add(self, base):
        async with self.connect() as client:
            results = [await client.call_tool("math.add", {"a": base, "b": number}) for number in range(5)]
            self.seen["sums"][str(base)] = [result.structured_content["total"] - base for result in results]

    async def walk(self):
        async with self.connect(self.accept) as client:
            await self.use(client)
            await self.cancel(client)
            await self.grow(client)
        if self.target.startswith("http"):
            async with anyio.create_task_group() as group:
                for base in (100, 200):
                    group.start_soon(self.add, base)
            for key, elicit in (("declined", self.decline), ("cannot", None)):
                async with self.connect(elicit) as client:
                    self.seen[key] = (await client.call_tool("user.remove", USER)).content[0].text


async def main():
    with anyio.fail_after(50):
        for mode, target in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
            walk = Walk(mode, target)
            await walk.walk()
            print(json.dumps(walk.seen), flush=True)


anyio.run(main)
