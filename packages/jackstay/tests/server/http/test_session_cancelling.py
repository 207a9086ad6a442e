"""The POST of a cancelled request gets a response of one of the two content types."""

import asyncio
import itertools
from typing import Any

import pytest

from jackstay.server import Context, Server
from jackstay.server.http import MemoryEventStore
from scripted.asgi import http_client, tool

BOTH = "application/json, text/event-stream"


class WaitingServer:
    """A server whose tools wait until they are cancelled."""

    def __init__(self) -> None:
        self.server = Server("cancelling")
        self.started = asyncio.Event()

        @self.server.tool
        async def wait() -> str:
            self.started.set()
            await asyncio.Event().wait()
            return "never"

        @self.server.tool
        async def report_and_wait(ctx: Context) -> str:
            ctx.log("warning", "begun")
            self.started.set()
            await asyncio.Event().wait()
            return "never"


def cancelled(id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


async def test_a_cancelled_request_gets_a_response_body(subtests: pytest.Subtests) -> None:
    versions = ("2025-03-26", "2025-06-18", "2025-11-25")
    accepts = (BOTH, "application/json", "text/event-stream")
    formats: tuple[Any, ...] = ("auto", "json", "sse")
    names = ("wait", "report_and_wait")
    for case in itertools.product(versions, (False, True), names, accepts, formats):
        with subtests.test(case=case):
            await check_cancelled(*case)


async def check_cancelled(version: str, has_events: bool, name: str, accept: str, response_format: Any) -> None:
    fixture = WaitingServer()
    events = MemoryEventStore() if has_events else None
    app = fixture.server.asgi(sessions=True, response_format=response_format, event_store=events)
    async with http_client(app) as http:
        await http.handshake(version)
        response = http.start("POST", tool(name, 7), headers={"accept": accept})
        await fixture.started.wait()
        assert (await http.post(cancelled(7))).status == 202
        await response.end()
        assert response.status == 200
        if response.kind == "application/json":
            assert accept != "text/event-stream"
            assert response_format != "sse" or accept == "application/json"
            assert (response.json["id"], response.json["error"]["data"]) == (7, {"reason": "cancelled"})
        else:
            assert response.kind == "text/event-stream"
            assert accept != "application/json"
            assert response_format != "json" or accept == "text/event-stream"
            assert not any("result" in message or "error" in message for message in response.messages)
