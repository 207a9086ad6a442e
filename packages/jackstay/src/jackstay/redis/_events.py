"""Events of resumable streams in Redis: a Redis stream for each, in which the number of an event is its id.

So Redis refuses an event that is appended twice, and a replay is one command.
"""

from collections.abc import Sequence
from typing import Any

from jackstay.errors import TransportError
from jackstay.redis._engine import Command, Engine
from jackstay.redis._sessions import digest, milliseconds

# Events that are kept of a stream, about.
MAX_EVENTS = 1024

# Seconds that the events of a stream are kept: after the last event, and after all of its requests have ended.
OPEN_TTL = 6 * 3600.0
ENDED_TTL = 300.0

# How Redis refuses an id that it already has.
_STORED_BEFORE = "equal or smaller"


class RedisEventStore:
    """Stores events in Redis."""

    is_shared = True

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.prefix = ""

    def __repr__(self) -> str:
        return f"<RedisEventStore {self.prefix!r}>"

    async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
        """Store an event."""
        await self.append_many(session, [(stream, number, data)])

    async def append_many(self, session: str, events: Sequence[tuple[str, int, bytes]]) -> None:
        """Store events, in one pipeline with what other sessions store."""
        name = digest(session)
        commands: list[Command] = []
        for stream, number, data in events:
            key = f"{self.prefix}e:{name}:{stream}"
            # An id must not be 0-0, so it is the number plus 1.
            commands.append(("XADD", key, "MAXLEN", "~", MAX_EVENTS, f"{number + 1}-0", "d", data))
        streams = dict.fromkeys(stream for stream, _, _ in events)
        commands.extend(("PEXPIRE", f"{self.prefix}e:{name}:{stream}", milliseconds(OPEN_TTL)) for stream in streams)
        begun = [stream for stream, number, _ in events if number <= 1]
        if begun:  # for `forget()`
            commands.append(("SADD", f"{self.prefix}en:{name}", *begun))
            commands.append(("PEXPIRE", f"{self.prefix}en:{name}", milliseconds(OPEN_TTL)))
        for reply in await self._engine.try_all(commands):
            if isinstance(reply, Exception) and _STORED_BEFORE not in str(reply):
                raise TransportError(f"Redis refused an event: {reply}")

    async def finish(self, session: str, streams: Sequence[str]) -> None:
        """Keep the events of these streams only for a while: all of their requests have ended."""
        name = digest(session)
        await self._engine.run_all(
            [("PEXPIRE", f"{self.prefix}e:{name}:{stream}", milliseconds(ENDED_TTL)) for stream in streams]
        )

    async def replay(self, session: str, stream: str, after: int) -> list[tuple[int, bytes]] | None:
        """Return the events after a number, or None if some of them are not stored."""
        key = f"{self.prefix}e:{digest(session)}:{stream}"
        first, found = await self._engine.run_all(
            [("XRANGE", key, "-", "+", "COUNT", 1), ("XRANGE", key, f"{after + 2}-0", "+")]
        )
        if not first or _number(first[0]) > after + 1:
            return None
        events = [(_number(entry), entry[1][b"d"]) for entry in found]
        if any(number != place for place, (number, _) in enumerate(events, after + 1)):
            return None
        return events

    async def forget(self, session: str) -> None:
        """Delete the events of a session."""
        name = digest(session)
        streams = await self._engine.run("SMEMBERS", f"{self.prefix}en:{name}")
        keys = [f"{self.prefix}e:{name}:{stream.decode()}" for stream in streams]
        await self._engine.run("UNLINK", f"{self.prefix}en:{name}", *keys)


def _number(entry: tuple[bytes, Any]) -> int:
    return int(entry[0].partition(b"-")[0]) - 1


__all__ = ["RedisEventStore"]
