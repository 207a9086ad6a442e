"""Events of resumable streams in Redis: a Redis stream for each, in which the number of an event is its id.

So Redis refuses an event that is appended twice, and a replay is one command.
"""

from collections.abc import Sequence
from typing import Any

from jackstay.redis._engine import Engine
from jackstay.redis._sessions import milliseconds
from jackstay.server.http import id_hash

# Events that are kept of a stream, about.
MAX_EVENTS = 1024

# Seconds that the events of a stream are kept: after the last event, and after all of its requests have ended.
OPEN_TTL = 6 * 3600.0
ENDED_TTL = 300.0

# KEYS: the names of a session's streams, and its streams. ARGV: the limit, the time to live, for each event the number
# of its key, its own number and its size, and the data of all events. One script with few arguments, because a command
# or an argument for each event would take most of the time here. Redis refuses an id that it already has: the event was
# appended before.
_APPEND = """
local begin = 1
for key, number, size in string.gmatch(ARGV[3], '(%d+) (%d+) (%d+)') do
  local id = string.format('%d-0', number + 1)  -- an id must not be 0-0
  local data = string.sub(ARGV[4], begin, begin + size - 1)
  begin = begin + size
  local reply = redis.pcall('XADD', KEYS[tonumber(key)], 'MAXLEN', '~', ARGV[1], id, 'd', data)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, 'equal or smaller') then return reply end
end
for i = 2, #KEYS do
  redis.call('PEXPIRE', KEYS[i], ARGV[2])
  redis.call('SADD', KEYS[1], KEYS[i])
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""


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
        name = id_hash(session)
        places = {stream: place for place, stream in enumerate(dict.fromkeys(stream for stream, _, _ in events), 2)}
        keys = (f"{self.prefix}en:{name}", *(f"{self.prefix}e:{name}:{stream}" for stream in places))
        rows = ",".join([f"{places[stream]} {number} {len(data)}" for stream, number, data in events])
        every = b"".join([data for _, _, data in events])
        await self._engine.run("EVAL", _APPEND, len(keys), *keys, MAX_EVENTS, milliseconds(OPEN_TTL), rows, every)

    async def finish(self, session: str, streams: Sequence[str]) -> None:
        """Keep the events of these streams only for a while: all of their requests have ended."""
        name = id_hash(session)
        await self._engine.run_all(
            [("PEXPIRE", f"{self.prefix}e:{name}:{stream}", milliseconds(ENDED_TTL)) for stream in streams]
        )

    async def replay(self, session: str, stream: str, after: int) -> list[tuple[int, bytes]] | None:
        """Return the events after a number, or None if some of them are not stored."""
        key = f"{self.prefix}e:{id_hash(session)}:{stream}"
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
        index = f"{self.prefix}en:{id_hash(session)}"
        await self._engine.run("UNLINK", index, *await self._engine.run("SMEMBERS", index))


def _number(entry: tuple[bytes, Any]) -> int:
    return int(entry[0].partition(b"-")[0]) - 1


__all__ = ["RedisEventStore"]
