"""Recordings for tests, written by hand: each line as a row, and what a client hears when it says something."""

import asyncio
import json
from pathlib import Path
from typing import Any

from jackstay.errors import McpError
from jackstay.testing import Recorder, replayed
from jackstay.testing._recording import read_recording
from jackstay.testing._repertoire import Repertoire
from jackstay.testing._scripts import Script, read_scripts

HEADER = {"jackstay": "recording", "version": 1, "recorded": "2026-11-15T00:00:00+00:00", "target": "shop"}


def client(message: Any, at: float = 0.0, **more: Any) -> dict[str, Any]:
    """The client said this."""
    return {"at": at, "connection": 1, "from": "client", "message": message, **more}


def server(message: Any, at: float = 0.0, **more: Any) -> dict[str, Any]:
    """The server said this."""
    return {"at": at, "connection": 1, "from": "server", "message": message, **more}


def event(sender: str, at: float = 0.0, **what: Any) -> dict[str, Any]:
    """Something else happened."""
    return {"at": at, "connection": 1, "from": sender, **what}


def request(id: Any, method: str = "tools/call", params: Any = None, **more: Any) -> dict[str, Any]:
    """A request; `more` are its params."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": more if params is None else params}


def notification(method: str, **params: Any) -> dict[str, Any]:
    """A notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result(id: Any, result: Any) -> dict[str, Any]:
    """An answer."""
    return {"jsonrpc": "2.0", "id": id, "result": result}


def error(id: Any, code: int, message: str = "no", **more: Any) -> dict[str, Any]:
    """An answer that is an error."""
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, **more}}


def write(path: Path, *lines: dict[str, Any], header: dict[str, Any] | None = None) -> Path:
    """A recording of these lines."""
    rows = [HEADER if header is None else header, *lines]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def scripts(path: Path, *lines: dict[str, Any]) -> list[Script]:
    """The scripts of these lines."""
    return read_scripts(read_recording(write(path, *lines)).entries)


def repertoire(path: Path, *lines: dict[str, Any], header: dict[str, Any] | None = None) -> Repertoire:
    """What is played for these lines."""
    return Repertoire(read_recording(write(path, *lines, header=header)))


def messages(path: Path, sender: str) -> list[Any]:
    """Every message of one side in a recording, as plain JSON."""
    rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return [row["message"] for row in rows if row["from"] == sender and "message" in row]


class Caller(Recorder):
    """A client that says what it is told to, to a recording in memory. `heard` are the messages that came."""

    number = 0

    @classmethod
    async def of(cls, path: Path, speed: float | None = None) -> "Caller":
        caller = cls()
        caller.transport = await replayed(path, speed=speed).open(caller, 1 << 24, 1.0)
        caller.pull()
        return caller

    @property
    def heard(self) -> list[Any]:
        return [frame if isinstance(frame, McpError) else json.loads(frame) for frame in self.frames]

    def say(self, message: Any) -> None:
        assert self.transport is not None
        self.number += 1
        frame = message if isinstance(message, bytes) else json.dumps(message).encode()
        assert self.transport.send(frame, self.number)

    async def hear(self, *said: Any, count: int = 1) -> list[Any]:
        """Say these, and wait for so many messages: they are taken away."""
        for message in said:
            self.say(message)
        await self.until(lambda: len(self.frames) >= count)
        heard = self.heard[:count]
        del self.frames[:count]
        return heard

    async def quiet(self) -> list[Any]:
        """Let everything happen that can, and see what came."""
        for _ in range(10):
            await asyncio.sleep(0)
        heard = self.heard
        self.frames.clear()
        return heard

    async def leave(self) -> None:
        assert self.transport is not None
        await self.transport.close()
