"""The official SDK 1.x with servers that share sessions: `shared_sdk1.py URL [TOOL | SCENARIO]` prints JSON.

With a tool it only calls that, and prints the text of its result or error; with a scenario it prints what that saw.
"""

import contextlib
import json
import sys

import anyio
from mcp import ClientSession, McpError, types
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl
from shared_scenarios import SCENARIOS

seen: dict = {"changes": 0, "updates": 0}
has_changed, has_updated = anyio.Condition(), anyio.Condition()


async def on_elicitation(context, params):
    return types.ElicitResult(action="accept", content={"subject": params.message})


async def on_message(message):
    if isinstance(message, types.ServerNotification):
        if isinstance(message.root, types.ToolListChangedNotification):
            await count("changes", has_changed)
        if isinstance(message.root, types.ResourceUpdatedNotification):
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


async def confirm(session: ClientSession, subject: str) -> None:
    result = await session.call_tool("confirm", {"subject": subject})
    seen["confirmed"][subject] = result.content[0].text


async def cancel(session: ClientSession) -> None:
    started = anyio.Event()

    async def on_progress(done, total, message):
        started.set()

    async with anyio.create_task_group() as group:
        request = session._request_id  # the id of the next request, which has no public name
        group.start_soon(lambda: session.call_tool("wait", progress_callback=on_progress))
        await started.wait()
        params = types.CancelledNotificationParams(requestId=request, reason="no longer wanted")
        notification = types.CancelledNotification(method="notifications/cancelled", params=params)
        await session.send_notification(types.ClientNotification(notification))
        group.cancel_scope.cancel()


async def call_once(session: ClientSession, tool: str) -> None:
    async def on_progress(done, total, message):
        pass

    arguments = {"subject": "delete"} if tool == "confirm" else {}
    try:
        result = await session.call_tool(tool, arguments, progress_callback=on_progress)
        print(json.dumps({"text": result.content[0].text}))
    except McpError as error:
        print(json.dumps({"text": str(error)}))


class Scripted:
    """The client of a scenario."""

    seen = seen

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def call(self, tool: str, on_progress=None, **arguments) -> str:
        async def progressed(done, total, message):
            if on_progress is not None:
                on_progress(done)

        result = await self.session.call_tool(tool, arguments, progress_callback=progressed)
        return result.content[0].text

    async def one_more(self, name: str, call) -> None:
        await one_more(name, has_changed if name == "changes" else has_updated, call)

    async def cancel(self) -> None:
        await cancel(self.session)

    async def subscribe(self, uri: str) -> None:
        await self.session.subscribe_resource(AnyUrl(uri))

    def listening(self, *uris: str):
        return contextlib.nullcontext()


async def main() -> None:
    with anyio.fail_after(120):
        async with streamable_http_client(sys.argv[1]) as (read, write, *_):
            callbacks = {"elicitation_callback": on_elicitation, "message_handler": on_message}
            async with ClientSession(read, write, **callbacks) as session:
                seen["revision"] = (await session.initialize()).protocolVersion
                if sys.argv[2:] and sys.argv[2] in SCENARIOS:
                    print(json.dumps(await SCENARIOS[sys.argv[2]](Scripted(session))))
                    return
                if len(sys.argv) > 2:
                    await call_once(session, sys.argv[2])
                    return
                seen["pids"] = sorted({(await session.call_tool("pid")).content[0].text for _ in range(6)})
                seen["confirmed"] = {}
                async with anyio.create_task_group() as group:
                    for number in range(8):
                        group.start_soon(confirm, session, f"delete {number}")
                await session.subscribe_resource(AnyUrl("memo://1"))
                for _ in range(4):
                    await one_more("changes", has_changed, lambda: session.call_tool("add", {"name": "added"}))
                    await one_more("updates", has_updated, lambda: session.call_tool("update", {"uri": "memo://1"}))
                await cancel(session)
    print(json.dumps(seen))


anyio.run(main)
