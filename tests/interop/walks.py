"""Checks of our client with the servers of other libraries, which are the same over every transport.

The servers in `servers/` have the same features; a `Row` lists the features that a library does not support.
"""

import asyncio
from dataclasses import dataclass

import pytest

from jackstay.client import Client, Notification
from jackstay.errors import CapabilityError, JsonRpcError
from jackstay.types import (
    CreateMessageResult,
    ElicitResult,
    ProgressNotificationParams,
    PromptReference,
    TextContent,
)

HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
STATELESS = ("2026-07-28",)


@dataclass(frozen=True)
class Row:
    """One server in one era, and the features that it does not support there."""

    name: str
    versions: tuple[str, ...]
    unknown_resource: int  # the code of its error
    completes: bool = True
    sends_requests: bool = True
    notifies_list_changes: bool = True
    subscribes: bool = False
    refuses_unknown_tools: bool = False

    @property
    def id(self) -> str:
        return f"{self.name}-{self.versions[0]}"


def _prepare(client: Client) -> None:
    """Add handlers for the requests of the server."""
    client.sampling.handle(
        lambda params: CreateMessageResult(role="assistant", content=TextContent(text="aye"), model="parrot")
    )
    client.elicitation.handle(lambda params: ElicitResult(action="accept", content={"name": "Ada"}))
    client.roots.set(["file:///harbour"])


async def use(client: Client, row: Row) -> None:
    """Check tools, resources, prompts and completion."""
    async with client:
        assert client.protocol_version == row.versions[0]
        assert client.instructions == "Ask for the tide."
        await _use_tools(client, row)
        await _read(client, row)
        completing = client.completion.complete(PromptReference(name="greet"), "name", "An")
        if row.completes:
            assert list((await completing).values) == ["Anna", "Anton"]
        else:
            with pytest.raises(CapabilityError):
                await completing


async def _use_tools(client: Client, row: Row) -> None:
    await client.tools.list()
    added = await client.tools.call("add", {"a": 19, "b": 23}, check_output=True, raise_on_error=False)
    assert (added.text, added.structured_content) == ("42", {"result": 42})
    failed = await client.tools.call("fail", raise_on_error=False)
    assert failed.is_error
    assert "fail" in failed.error_text
    invalid = await client.tools.call("add", {"a": "many"}, raise_on_error=False)
    assert invalid.is_error
    assert "validation error" in invalid.error_text
    if row.refuses_unknown_tools:
        with pytest.raises(JsonRpcError) as rejected:
            await client.tools.call("no_such_tool", raise_on_error=False)
        assert rejected.value.code == -32602
        return
    # Most libraries return an error result for an unknown tool; the specification requires -32602.
    unknown = await client.tools.call("no_such_tool", raise_on_error=False)
    assert unknown.is_error
    assert "no_such_tool" in unknown.error_text


async def _read(client: Client, row: Row) -> None:
    assert [resource.uri for resource in await client.resources.list()] == ["note://today"]
    assert [template.uri_template for template in await client.resources.templates()] == ["note://day/{day}"]
    assert (await client.resources.read("note://today")).contents[0].text == "high water at noon"
    assert (await client.resources.read("note://day/monday")).contents[0].text == "low water on monday"
    with pytest.raises(JsonRpcError) as rejected:
        await client.resources.read("note://no/such/note")
    assert rejected.value.code == row.unknown_resource
    assert [prompt.name for prompt in await client.prompts.list()] == ["greet"]
    greeting = await client.prompts.get("greet", {"name": "Bo"})
    assert greeting.messages[0].content.text == "Say ahoy to Bo."


async def receive_notifications(client: Client, row: Row) -> None:
    """Check progress, log messages, and that cancelling a call does not affect others."""
    messages: asyncio.Queue[Notification] = asyncio.Queue()
    client.on_notification(messages.put_nowait)
    async with client:
        await _count(client)
        # In the stateless era, a server logs only for requests with a log level; in the handshake era, it is ignored.
        await client.tools.call(
            "log", {"text": "swell"}, meta={"io.modelcontextprotocol/logLevel": "info"}, raise_on_error=False
        )
        message = await messages.get()
        assert (message.method, message.params["level"]) == ("notifications/message", "warning")
        assert "swell" in str(message.params["data"])
        started = asyncio.Event()
        call = asyncio.ensure_future(
            client.tools.call("hold", on_progress=lambda progress: started.set(), timeout=None, raise_on_error=False)
        )
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await client.tools.call("add", {"a": 1, "b": 1}, raise_on_error=False)).text == "2"


async def _count(client: Client) -> None:
    reports: asyncio.Queue[ProgressNotificationParams] = asyncio.Queue()
    result = await client.tools.call("count", {"steps": 3}, on_progress=reports.put_nowait, raise_on_error=False)
    assert result.text == "counted to 3"
    seen = [await reports.get()]
    while seen[-1].progress < 3:  # the last one may arrive after the result, and some may be merged
        seen.append(await reports.get())
    assert [report.progress for report in seen] == sorted({report.progress for report in seen})
    assert (seen[-1].total, seen[-1].message) == (3, "step 3")


async def handle_requests(client: Client, row: Row) -> None:
    """Check requests and notifications of the server."""
    changes: asyncio.Queue[Notification] = asyncio.Queue()
    _prepare(client)
    client.on_notification(changes.put_nowait)
    async with client:
        results = [
            await client.tools.call("request_elicitation", raise_on_error=False),
            await client.tools.call("request_sampling", {"question": "Ready?"}, raise_on_error=False),
            await client.tools.call("request_roots", raise_on_error=False),
        ]
        if row.sends_requests:
            assert [result.text for result in results] == ["accept Ada", "parrot: aye", "file:///harbour"]
        else:
            assert [result.is_error for result in results] == [True, True, True]
        added = f"added_{row.versions[0]}"  # over HTTP, one server is used in both eras
        assert added not in [tool.name for tool in await client.tools.list()]
        await client.tools.call("grow", {"name": added}, raise_on_error=False)
        if row.notifies_list_changes:
            assert (await changes.get()).method == "notifications/tools/list_changed"
        assert added in [tool.name for tool in await client.tools.list()]
        await _subscribe(client, row)


async def _subscribe(client: Client, row: Row) -> None:
    updates: asyncio.Queue[str] = asyncio.Queue()
    if row.subscribes:
        await client.resources.subscribe("note://today", updates.put_nowait)
        await client.tools.call("touch", {"uri": "note://today"}, raise_on_error=False)
        assert await updates.get() == "note://today"
        await client.resources.unsubscribe("note://today")
    else:
        with pytest.raises(CapabilityError):
            await client.resources.subscribe("note://today", updates.put_nowait)


async def cancel_long_call(client: Client) -> None:
    """Cancel a call that would take an hour: it ends immediately, and the connection stays open."""
    has_started = asyncio.Event()
    name, arguments = "trigger-long-running-operation", {"duration": 3600, "steps": 360_000}
    call = asyncio.ensure_future(
        client.tools.call(
            name, arguments, on_progress=lambda progress: has_started.set(), timeout=None, raise_on_error=False
        )
    )
    await has_started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await client.tools.call("echo", {"message": "still here"}, raise_on_error=False)).text == "Echo: still here"
