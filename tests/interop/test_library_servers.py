"""Our client against servers on the official SDK 1.x and 2.x and on FastMCP 3 and 4, in each era that they speak."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from interop import walks
from interop.known_servers import BY_SERVER
from interop.processes import only_child
from interop.walks import HANDSHAKE, STATELESS, Row
from jackstay.client import Client, connect
from jackstay.errors import McpError

# Every entry that is not the default is the peer's own limit:
# - SDK 1.x gives its unknown resource code 0, which no revision names; FastMCP 3 the -32002 of the handshake era.
# - The high-level servers of SDK 1.x and FastMCP offer no subscriptions, the one of SDK 2.x only in the stateless era.
# - SDK 2.x in the handshake era publishes list changes to a bus that only `subscriptions/listen` reads; FastMCP 4 sends
#   none in the stateless era, and there its handlers cannot send requests to the client.
# - FastMCP's servers here register no completion.
ROWS = (
    Row("sdk1", HANDSHAKE, 0),
    Row("sdk2", STATELESS, -32602, subscribes=True),
    Row("sdk2", HANDSHAKE, -32602, notifies_list_changes=False),
    Row("fastmcp3", HANDSHAKE, -32002, completes=False),
    Row("fastmcp4", STATELESS, -32602, completes=False, sends_requests=False, notifies_list_changes=False),
    Row("fastmcp4", HANDSHAKE, -32602, completes=False),
)

every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)


def client_of(row: Row) -> Client:
    return connect(BY_SERVER[row.name].target(Path()), versions=row.versions)


# SDK 1.x and 2.x speak for FastMCP 3 and 4, which hand the handshake to them. The newest revision has its rows above.
@pytest.mark.parametrize("revision", HANDSHAKE[1:])
@pytest.mark.parametrize("name", ["sdk1", "sdk2"])
async def test_each_older_revision_can_be_spoken(name: str, revision: str) -> None:
    async with connect(BY_SERVER[name].target(Path()), versions=(revision,)) as client:
        assert client.protocol_version == revision
        assert (await client.tools.call("add", {"a": 1, "b": 2})).text == "3"


@pytest.mark.parametrize("name", ["sdk1", "fastmcp3"])
async def test_a_server_without_the_stateless_era_is_refused_where_only_that_is_wanted(name: str) -> None:
    client = connect(BY_SERVER[name].target(Path()), versions=STATELESS, max_attempts=1)
    with pytest.raises(McpError):
        await client.open()
    assert client.state == "closed"


@every_row
async def test_tools_resources_prompts_and_completion_give_what_is_known(row: Row) -> None:
    await walks.use(client_of(row), row)


@every_row
async def test_progress_and_log_messages_arrive_and_a_cancelled_call_ends_alone(row: Row) -> None:
    await walks.receive_notifications(client_of(row), row)


@every_row
async def test_requests_and_notifications_of_the_server_in_both_eras(row: Row) -> None:
    await walks.answer(client_of(row), row)


async def test_a_subscription_of_the_stateless_era_outlives_the_server() -> None:
    row = next(row for row in ROWS if row.subscribes)
    client = connect(BY_SERVER[row.name].target(Path()), versions=row.versions, backoff_min=0.01)
    updates: asyncio.Queue[str] = asyncio.Queue()
    lost = asyncio.Event()
    async with client:
        await client.resources.subscribe("note://today", updates.put_nowait)
        client.on_event(lambda name, fields: lost.set() if name == "jackstay.child.exit" else None)
        os.kill(only_child(), signal.SIGKILL)
        await lost.wait()  # a call made before the loss is noticed may be written, and is lost with the server
        # Nobody subscribes again here. The new server opens its stream and runs calls side by side, so the first touch
        # may come too early for it.
        while updates.empty():
            await client.tools.call("touch", {"uri": "note://today"}, wait_for_ready=True)
        assert updates.get_nowait() == "note://today"
