"""The POST of a request that was cancelled gets a body of one of the two types that a request is answered with."""

import asyncio
from typing import Any

import pytest

from jackstay.server import Context, Server
from jackstay.server.http import MemoryEvents
from scripted.asgi import asking, run, tool

BOTH = "application/json, text/event-stream"


class Scene:
    """A server whose tools wait until they are cancelled."""

    def __init__(self) -> None:
        self.server = Server("cancelling")
        self.began = asyncio.Event()

        @self.server.tool
        async def wait() -> str:
            self.began.set()
            await asyncio.Event().wait()
            return "never"

        @self.server.tool
        async def report_and_wait(ctx: Context) -> str:
            ctx.log("warning", "begun")
            self.began.set()
            await asyncio.Event().wait()
            return "never"


def cancelling(*ids: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": ids[0]}}


@pytest.mark.parametrize("answers", ["auto", "json", "sse"])
@pytest.mark.parametrize("accept", [BOTH, "application/json", "text/event-stream"])
@pytest.mark.parametrize("name", ["wait", "report_and_wait"])
@pytest.mark.parametrize("has_events", [False, True])
@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_the_post_of_a_cancelled_request_is_answered_as_a_request(  # a table
    answers: Any, accept: str, name: str, has_events: bool, version: str
) -> None:
    async def test() -> None:
        scene = Scene()
        events = MemoryEvents() if has_events else None
        async with asking(scene.server.asgi(sessions=True, answers=answers, event_store=events)) as http:
            await http.shake_hands(version)
            response = http.start("POST", tool(name, 7), headers={"accept": accept})
            await scene.began.wait()
            assert (await http.post(cancelling(7))).status == 202  # a notification is accepted
            await response.end()
            assert response.status == 200
            if response.kind == "application/json":
                assert accept != "text/event-stream"
                assert answers != "sse" or accept == "application/json"
                assert (response.json["id"], response.json["error"]["data"]) == (7, {"reason": "cancelled"})
            else:
                assert response.kind == "text/event-stream"
                assert accept != "application/json"
                assert answers != "json" or accept == "text/event-stream"
                assert not any("result" in message or "error" in message for message in response.messages)

    run(test)
