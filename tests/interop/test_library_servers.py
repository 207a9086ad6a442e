"""Our client against servers on the official SDK 1.x and 2.x and on FastMCP 3 and 4, in each era that they speak."""

import asyncio
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.known_servers import BY_SERVER
from interop.processes import on_a_loop, only_child
from mooring.client import Client, Notification, connect
from mooring.errors import CapabilityError, JsonRpcError, McpError
from mooring.types import (
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
    """One server in one era, and what that server is known to leave out there."""

    name: str
    versions: tuple[str, ...]
    unknown_resource: int  # the code of its error
    completes: bool = True
    asks: bool = True
    tells_list_changes: bool = True
    subscribes: bool = False

    @property
    def id(self) -> str:
        return f"{self.name}-{self.versions[0]}"


# Every entry that is not the default is the peer's own limit:
# - SDK 1.x gives its unknown resource code 0, which no revision names; FastMCP 3 the -32002 of the handshake era.
# - The high-level servers of SDK 1.x and FastMCP offer no subscriptions, the one of SDK 2.x only in the stateless era.
# - SDK 2.x in the handshake era publishes list changes to a bus that only `subscriptions/listen` reads; FastMCP 4 sends
#   none in the stateless era, and there its handlers cannot ask anything of the client.
# - FastMCP's servers here register no completion.
ROWS = (
    Row("sdk1", HANDSHAKE, 0),
    Row("sdk2", STATELESS, -32602, subscribes=True),
    Row("sdk2", HANDSHAKE, -32602, tells_list_changes=False),
    Row("fastmcp3", HANDSHAKE, -32002, completes=False),
    Row("fastmcp4", STATELESS, -32602, completes=False, asks=False, tells_list_changes=False),
    Row("fastmcp4", HANDSHAKE, -32602, completes=False),
)

every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)


def client_of(row: Row) -> Client:
    return connect(BY_SERVER[row.name].target(Path()), versions=row.versions)


# SDK 1.x and 2.x speak for FastMCP 3 and 4, which hand the handshake to them. The newest revision has its rows above.
@pytest.mark.parametrize("revision", HANDSHAKE[1:])
@pytest.mark.parametrize("name", ["sdk1", "sdk2"])
@on_a_loop
async def test_each_older_revision_can_be_spoken(name: str, revision: str) -> None:
    async with connect(BY_SERVER[name].target(Path()), versions=(revision,)) as client:
        assert client.protocol_version == revision
        assert (await client.tools.call("add", {"a": 1, "b": 2})).text == "3"


@pytest.mark.parametrize("name", ["sdk1", "fastmcp3"])
@on_a_loop
async def test_a_server_without_the_stateless_era_is_refused_where_only_that_is_wanted(name: str) -> None:
    client = connect(BY_SERVER[name].target(Path()), versions=STATELESS, max_attempts=1)
    with pytest.raises(McpError):
        await client.open()
    assert client.state == "closed"


@every_row
@on_a_loop
async def test_tools_resources_prompts_and_completion_give_what_is_known(row: Row) -> None:
    async with client_of(row) as client:
        assert client.protocol_version == row.versions[0]
        assert client.instructions == "Ask for the tide."
        await _use_tools(client)
        await _read(client, row)
        asking = client.completion.complete(PromptReference(name="greet"), "name", "An")
        if row.completes:
            assert list((await asking).values) == ["Anna", "Anton"]
        else:
            with pytest.raises(CapabilityError):
                await asking


async def _use_tools(client: Client) -> None:
    await client.tools.list()
    added = await client.tools.call("add", {"a": 19, "b": 23}, check_output=True)
    assert (added.text, added.structured_content) == ("42", {"result": 42})
    failed = await client.tools.call("fail")
    assert failed.is_error
    assert "fail" in failed.text
    invalid = await client.tools.call("add", {"a": "many"})
    assert invalid.is_error
    assert "validation errors" in invalid.text
    # All four answer an unknown tool with an error result; the specification asks for -32602.
    unknown = await client.tools.call("no_such_tool")
    assert unknown.is_error
    assert "no_such_tool" in unknown.text


async def _read(client: Client, row: Row) -> None:
    assert [resource.uri for resource in await client.resources.list()] == ["note://today"]
    assert [template.uri_template for template in await client.resources.templates()] == ["note://day/{day}"]
    assert (await client.resources.read("note://today")).contents[0].text == "high water at noon"
    assert (await client.resources.read("note://day/monday")).contents[0].text == "low water on monday"
    with pytest.raises(JsonRpcError) as refused:
        await client.resources.read("note://no/such/note")
    assert refused.value.code == row.unknown_resource
    assert [prompt.name for prompt in await client.prompts.list()] == ["greet"]
    greeting = await client.prompts.get("greet", {"name": "Bo"})
    assert greeting.messages[0].content.text == "Say ahoy to Bo."


@every_row
@on_a_loop
async def test_progress_and_log_messages_arrive_and_a_cancelled_call_ends_alone(row: Row) -> None:
    client = client_of(row)
    messages: asyncio.Queue[Notification] = asyncio.Queue()
    client.on_notification(messages.put_nowait)
    async with client:
        await _count(client)
        # In the stateless era a server logs only for requests that ask for it; in the others this member is ignored.
        await client.tools.call("log", {"text": "swell"}, meta={"io.modelcontextprotocol/logLevel": "info"})
        message = await messages.get()
        assert (message.method, message.params["level"]) == ("notifications/message", "warning")
        assert "swell" in str(message.params["data"])
        started = asyncio.Event()
        call = asyncio.ensure_future(
            client.tools.call("hold", on_progress=lambda progress: started.set(), timeout=None)
        )
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await client.tools.call("add", {"a": 1, "b": 1})).text == "2"


async def _count(client: Client) -> None:
    reports: asyncio.Queue[ProgressNotificationParams] = asyncio.Queue()
    result = await client.tools.call("count", {"steps": 3}, on_progress=reports.put_nowait)
    assert result.text == "counted to 3"
    seen = [await reports.get()]
    while seen[-1].progress < 3:  # the last may come a moment after the answer, and some may be merged
        seen.append(await reports.get())
    assert [report.progress for report in seen] == sorted({report.progress for report in seen})
    assert (seen[-1].total, seen[-1].message) == (3, "step 3")


@every_row
@on_a_loop
async def test_what_the_server_asks_and_tells_arrives_the_same_way_in_both_eras(row: Row) -> None:
    client = client_of(row)
    client.sampling.handle(
        lambda params: CreateMessageResult(role="assistant", content=TextContent(text="aye"), model="parrot")
    )
    client.elicitation.handle(lambda params: ElicitResult(action="accept", content={"name": "Ada"}))
    client.roots.set(["file:///harbour"])
    changes: asyncio.Queue[Notification] = asyncio.Queue()
    client.on_notification(changes.put_nowait)
    async with client:
        answers = [
            await client.tools.call("ask_person"),
            await client.tools.call("ask_model", {"question": "Ready?"}),
            await client.tools.call("ask_roots"),
        ]
        if row.asks:
            assert [answer.text for answer in answers] == ["accept Ada", "parrot: aye", "file:///harbour"]
        else:
            assert [answer.is_error for answer in answers] == [True, True, True]
        assert "added" not in [tool.name for tool in await client.tools.list()]
        await client.tools.call("grow")
        if row.tells_list_changes:
            assert (await changes.get()).method == "notifications/tools/list_changed"
        assert "added" in [tool.name for tool in await client.tools.list()]
        await _subscribe(client, row)


async def _subscribe(client: Client, row: Row) -> None:
    updates: asyncio.Queue[str] = asyncio.Queue()
    if row.subscribes:
        await client.resources.subscribe("note://today", updates.put_nowait)
        await client.tools.call("touch", {"uri": "note://today"})
        assert await updates.get() == "note://today"
        await client.resources.unsubscribe("note://today")
    else:
        with pytest.raises(CapabilityError):
            await client.resources.subscribe("note://today", updates.put_nowait)


@on_a_loop
async def test_a_subscription_of_the_stateless_era_outlives_the_server() -> None:
    row = next(row for row in ROWS if row.subscribes)
    client = connect(BY_SERVER[row.name].target(Path()), versions=row.versions, backoff_min=0.01)
    updates: asyncio.Queue[str] = asyncio.Queue()
    lost = asyncio.Event()
    async with client:
        await client.resources.subscribe("note://today", updates.put_nowait)
        client.on_event(lambda name, fields: lost.set() if name == "mooring.child.exit" else None)
        os.kill(only_child(), signal.SIGKILL)
        await (
            lost.wait()
        )  # a call made before the loss is noticed may be written, and is lost with the server
        # Nobody subscribes again here. The new server opens its stream and runs calls side by side, so the first touch
        # may come too early for it.
        while updates.empty():
            await client.tools.call("touch", {"uri": "note://today"}, wait_for_ready=True)
        assert updates.get_nowait() == "note://today"
