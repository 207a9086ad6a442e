"""A client and a server in one program, over a pair in memory: how to test what you build with either.

    python examples/client_in_memory.py

The server here is written by hand, to show what goes over the wire; it asks the person something while it answers.
"""

import asyncio
import json
from typing import Any

from jackstay.client import connect
from jackstay.errors import McpError
from jackstay.transport import MemoryTransport, memory_pair
from jackstay.types import ElicitRequestParams, ElicitResult


class Booking:
    """The other end: books a seat, after asking which (2026-07-28, so the question is a result)."""

    def __init__(self) -> None:
        self.transport: MemoryTransport | None = None
        self.sent = 0

    def frames_arrived(self) -> None:
        """Answer everything that came."""
        assert self.transport is not None
        while (frame := self.transport.next_frame()) is not None:
            assert isinstance(frame, bytes)
            message = json.loads(frame)
            if "id" in message:
                self.sent += 1
                result = self.answer(message["method"], message.get("params", {}))
                answer = {
                    "jsonrpc": "2.0",
                    "id": message["id"],
                    "result": {"resultType": "complete", **result},
                }
                self.transport.send(json.dumps(answer).encode(), self.sent)

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """One result."""
        if method == "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        if "inputResponses" not in params:
            form = {"type": "object", "properties": {"seat": {"type": "string"}}}
            question = {
                "method": "elicitation/create",
                "params": {"message": "Which seat?", "requestedSchema": form},
            }
            return {"resultType": "input_required", "inputRequests": {"seat": question}, "requestState": "1"}
        seat = params["inputResponses"]["seat"]["content"]["seat"]
        return {"content": [{"type": "text", "text": f"booked {seat}"}]}

    def wrote(self, through: int) -> None:
        """Nothing to do."""

    def room_made(self) -> None:
        """Nothing to do."""

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:
        """Nothing to do."""


async def main() -> None:
    pair = memory_pair("booking")
    server = Booking()
    server.transport = await pair.server.open(server, 16_777_216, 2.0)
    client = connect(pair.client)

    @client.elicitation.handle
    def ask(params: ElicitRequestParams) -> ElicitResult:
        print("the server asks:", params.message)
        return ElicitResult(action="accept", content={"seat": "3A"})

    async with client:
        print((await client.tools.call("book")).text)
    await server.transport.close()


if __name__ == "__main__":
    asyncio.run(main())
