"""A client and a server in one program, over an in-memory pair: a pattern for tests.

    python examples/client_in_memory.py

The server is hand-written to show the messages; it elicits input from the user.
"""

import asyncio
import json
from typing import Any

from jackstay.client import connect
from jackstay.errors import McpError
from jackstay.transport import MemoryTransport, memory_pair
from jackstay.types import ElicitRequestParams, ElicitResult


class Booking:
    """The server: books a seat after eliciting which one, with an `input_required` result (2026-07-28)."""

    def __init__(self) -> None:
        self.transport: MemoryTransport | None = None
        self.sent = 0

    def frames_arrived(self) -> None:
        """Respond to all messages that have arrived."""
        assert self.transport is not None
        while (frame := self.transport.next_frame()) is not None:
            assert isinstance(frame, bytes)
            message = json.loads(frame)
            if "id" in message:
                self.sent += 1
                result = self.respond(message["method"], message.get("params", {}))
                response = {
                    "jsonrpc": "2.0",
                    "id": message["id"],
                    "result": {"resultType": "complete", **result},
                }
                self.transport.send(json.dumps(response).encode(), self.sent)

    def respond(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of one request."""
        if method == "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        if "inputResponses" not in params:
            form = {"type": "object", "properties": {"seat": {"type": "string"}}}
            elicitation = {
                "method": "elicitation/create",
                "params": {"message": "Which seat?", "requestedSchema": form},
            }
            return {"resultType": "input_required", "inputRequests": {"seat": elicitation}, "requestState": "1"}
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
    def elicit(params: ElicitRequestParams) -> ElicitResult:
        print("the server requests:", params.message)
        return ElicitResult(action="accept", content={"seat": "3A"})

    async with client:
        print((await client.tools.call("book")).text)
    await server.transport.close()


if __name__ == "__main__":
    asyncio.run(main())
