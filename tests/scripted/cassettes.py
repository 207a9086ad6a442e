"""Hand-written recordings for tests, and a client of a replayed recording."""

import asyncio
import json
from pathlib import Path
from typing import Any

from jackstay.errors import McpError
from jackstay.testing import RecordingHandler, replayed
from jackstay.testing._cassette import Cassette
from jackstay.testing._interactions import Interaction, read_interactions
from jackstay.testing._recording import read_recording

HEADER = {"jackstay": "recording", "version": 1, "recorded": "2026-11-15T00:00:00+00:00", "target": "shop"}


def client(message: Any, at: float = 0.0, **more: Any) -> dict[str, Any]:
    """A line with a message of the client."""
    return {"at": at, "connection": 1, "from": "client", "message": message, **more}


def server(message: Any, at: float = 0.0, **more: Any) -> dict[str, Any]:
    """A line with a message of the server."""
    return {"at": at, "connection": 1, "from": "server", "message": message, **more}


def event(sender: str, at: float = 0.0, **fields: Any) -> dict[str, Any]:
    """A line with another event."""
    return {"at": at, "connection": 1, "from": sender, **fields}


def request(id: Any, method: str = "tools/call", params: Any = None, **more: Any) -> dict[str, Any]:
    """A request; `more` are its params."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": more if params is None else params}


def notification(method: str, **params: Any) -> dict[str, Any]:
    """A notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result(id: Any, result: Any) -> dict[str, Any]:
    """A response."""
    return {"jsonrpc": "2.0", "id": id, "result": result}


def error(id: Any, code: int, message: str = "no", **more: Any) -> dict[str, Any]:
    """An error response."""
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, **more}}


def write(path: Path, *lines: dict[str, Any], header: dict[str, Any] | None = None) -> Path:
    """Write a recording of these lines."""
    rows = [HEADER if header is None else header, *lines]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def interactions(path: Path, *lines: dict[str, Any]) -> list[Interaction]:
    """The interactions of these lines."""
    return read_interactions(read_recording(write(path, *lines)).entries)


def cassette(path: Path, *lines: dict[str, Any], header: dict[str, Any] | None = None) -> Cassette:
    """A cassette of these lines."""
    return Cassette(read_recording(write(path, *lines, header=header)))


def messages(path: Path, sender: str) -> list[Any]:
    """Every message of one side in a recording, as plain JSON."""
    rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return [row["message"] for row in rows if row["from"] == sender and "message" in row]


class Caller(RecordingHandler):
    """A client of a replayed recording, in memory. `received` are the messages that arrived."""

    number = 0

    @classmethod
    async def of(cls, path: Path, speed: float | None = None) -> "Caller":
        caller = cls()
        caller.transport = await replayed(path, speed=speed).open(caller, 1 << 24, 1.0)
        caller.pull()
        return caller

    @property
    def received(self) -> list[Any]:
        return [frame if isinstance(frame, McpError) else json.loads(frame) for frame in self.frames]

    def send_message(self, message: Any) -> None:
        assert self.transport is not None
        self.number += 1
        frame = message if isinstance(message, bytes) else json.dumps(message).encode()
        assert self.transport.send(frame, self.number)

    async def exchange(self, *sent: Any, count: int = 1) -> list[Any]:
        """Send messages, wait for `count` messages, and return and remove them."""
        for message in sent:
            self.send_message(message)
        await self.until(lambda: len(self.frames) >= count)
        received = self.received[:count]
        del self.frames[:count]
        return received

    async def settle(self) -> list[Any]:
        """Run the loop until nothing more happens; return and remove the messages that arrived."""
        for _ in range(10):
            await asyncio.sleep(0)
        received = self.received
        self.frames.clear()
        return received

    async def disconnect(self) -> None:
        assert self.transport is not None
        await self.transport.close()
