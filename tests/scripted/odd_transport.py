"""In-memory transports with one changed method, for tests of drivers."""

from typing import Any

from jackstay.client import Client, connect
from jackstay.testing import ScriptedPeer


class Odd:
    """An in-memory target whose transports have one changed method."""

    is_http = False
    name = "odd"
    init_timeout = None

    def __init__(self, peer: ScriptedPeer, **changes: Any) -> None:
        self.peer = peer
        self.changes = changes

    async def open(self, handler: Any, max_frame_bytes: int, close_step: float) -> Any:
        if "opens" in self.changes:
            await self.changes["opens"](handler)
        transport = await self.peer.pair.client.open(handler, max_frame_bytes, close_step)
        return OddTransport(transport, handler, self.changes)


class OddTransport:
    """An in-memory transport with changes."""

    def __init__(self, transport: Any, handler: Any, changes: dict[str, Any]) -> None:
        self._transport = transport
        self._handler = handler
        self._changes = changes

    def send(self, frame: bytes, number: int) -> bool:
        if "sends" in self._changes:
            answer = self._changes["sends"](self._handler, frame)
            if answer is not None:
                return bool(answer)
        return bool(self._transport.send(frame, number))

    def withdraw(self, number: int) -> bool:
        return bool(self._transport.withdraw(number))

    def next_frame(self) -> Any:
        if self._changes.get("faults"):
            return self._changes["faults"].pop()
        return self._transport.next_frame()

    def stop_writing(self) -> None:
        if "stops" in self._changes:
            self._changes["stops"]()
        self._transport.stop_writing()

    async def close(self) -> None:
        if "closes" in self._changes:
            await self._changes["closes"]()
        await self._transport.close()


async def odd(peer: ScriptedPeer, options: dict[str, Any] | None = None, **changes: Any) -> Client:
    """A client of this peer, over transports with `changes`: opens, sends, faults, stops, closes."""
    await peer.open()
    return connect(Odd(peer, **changes), **(options or {}))
