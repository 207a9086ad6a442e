"""Sessions in Redis: a hash for each, which a script changes atomically.

Keys have the SHA-256 of a session id, so that a dump of Redis contains no ids that a client could use. The fields: `c`
the client and the principal, `l` the log level, `k` whether the handshake is confirmed, `u` and a URI for each
subscription with its place in their order, `n` the last place.
"""

import sys

import msgspec

from jackstay.protocol.server import ClientParams
from jackstay.redis._engine import Engine
from jackstay.server.http import SessionChange, SessionRecord, id_hash

# A full Redis refuses only the first write of a script, and never a deletion.
_SAVE = """
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
redis.call('DEL', KEYS[1])
for i = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
"""

# Keeps and returns a record in one command.
_LOAD = """
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.call('HGETALL', KEYS[1])
"""

# TTL, log level, "1" for confirmed, number of new URIs, these, and the URIs to remove.
_CHANGE = """
if redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 0 then return end
if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], 'l', ARGV[2]) end
if ARGV[3] == '1' then redis.call('HSET', KEYS[1], 'k', '1') end
for i = 5, #ARGV do
  local field = 'u' .. ARGV[i]
  if i > 4 + tonumber(ARGV[4]) then
    redis.call('HDEL', KEYS[1], field)
  elseif redis.call('HEXISTS', KEYS[1], field) == 0 then
    redis.call('HSET', KEYS[1], field, redis.call('HINCRBY', KEYS[1], 'n', 1))
  end
end
"""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[ClientParams, str]).decode


def milliseconds(seconds: float) -> int:
    """Return a time to live as Redis expects it."""
    return max(1, round(seconds * 1000))


class RedisSessionStore:
    """Stores sessions in Redis."""

    is_shared = True

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.prefix = ""

    def __repr__(self) -> str:
        return f"<RedisSessionStore {self.prefix!r}>"

    def _key(self, id: str) -> str:
        return f"{self.prefix}s:{id_hash(id)}"

    async def save(self, id: str, record: SessionRecord, ttl: float) -> None:
        """Store or replace a record."""
        fields: list[str | bytes | int] = ["c", _encode((record.client, record.principal)), "l", record.log_level]
        if record.is_confirmed:
            fields += ["k", "1"]
        for place, uri in enumerate(record.uris, 1):
            fields += [f"u{uri}", place]
        fields += ["n", len(record.uris)]
        await self._engine.run("EVAL", _SAVE, 1, self._key(id), milliseconds(ttl), *fields)

    async def change(self, id: str, change: SessionChange, ttl: float) -> None:
        """Change a record, if there is one."""
        level, is_confirmed = change.log_level or "", "1" if change.is_confirmed else ""
        head = (self._key(id), milliseconds(ttl), level, is_confirmed, len(change.subscribed))
        await self._engine.run("EVAL", _CHANGE, 1, *head, *change.subscribed, *change.unsubscribed)

    async def load(self, id: str, ttl: float) -> SessionRecord | None:
        """Return a record and keep it for another `ttl` seconds, or None."""
        found = await self._engine.run("EVAL", _LOAD, 1, self._key(id), milliseconds(ttl))
        fields: dict[bytes, bytes] = dict(zip(found[::2], found[1::2], strict=True))
        if b"c" not in fields:
            return None
        client, principal = _decode(fields[b"c"])
        uris = sorted((int(place), name[1:].decode()) for name, place in fields.items() if name[:1] == b"u")
        level, is_confirmed = sys.intern(fields[b"l"].decode()), b"k" in fields
        return SessionRecord(client, principal, level, tuple(uri for _, uri in uris), is_confirmed)

    async def delete(self, id: str) -> None:
        """Delete a record."""
        await self._engine.run("DEL", self._key(id))


__all__ = ["RedisSessionStore", "milliseconds"]
