"""An HTTP server program that keeps a ledger: `program.py '{"directory": ..., "port": 0, ...}'`.

Every run of `record` appends a line to `directory/ledger` before anything else, so that outcomes can be compared with
it. Options that the program does not know are passed to `run(transport="http")`; `events`, `tokens` and
`shared_sessions` stand for objects that JSON cannot express; `redis` is the URL of a backend.
"""

import asyncio
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from jackstay.redis import RedisBackend
from jackstay.server import Context, Server
from jackstay.server.http import MemoryEventStore, Principal, SessionChange, SessionRecord


class FileSessions:
    """A session store of one file per session, which all workers share."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def is_shared(self) -> bool:
        return True

    async def save(self, id: str, record: SessionRecord, ttl: float) -> None:
        row = msgspec.json.encode((record, time.time() + ttl))
        fresh = self._directory / f"{id}.{os.getpid()}"
        fresh.write_bytes(row)
        fresh.rename(self._directory / id)

    async def change(self, id: str, change: SessionChange, ttl: float) -> None:
        record = await self.load(id, ttl)  # not atomic: the clients of this program wait for each change
        if record is not None:
            await self.save(id, change.apply(record), ttl)

    async def load(self, id: str, ttl: float) -> SessionRecord | None:
        if not id.replace("-", "").replace("_", "").isalnum():
            return None  # it could be a path to another directory
        try:
            row = (self._directory / id).read_bytes()
        except FileNotFoundError:
            return None
        record, until = msgspec.json.decode(row, type=tuple[SessionRecord, float])
        return record if until > time.time() else None

    async def delete(self, id: str) -> None:
        (self._directory / id).unlink(missing_ok=True)


class Tokens:
    """A verifier for a fixed set of bearer tokens."""

    def __init__(self, rows: dict[str, str]) -> None:
        self._rows = rows

    async def verify(self, token: str) -> Principal | None:
        owner = self._rows.get(token)
        return None if owner is None else Principal(owner)


def make(directory: Path, options: dict[str, Any]) -> Server:
    server = Server("ledger", version="1", **options)
    ledger = os.open(directory / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    @server.tool
    async def record(nonce: str) -> str:
        os.write(ledger, f"{nonce}\n".encode())
        return nonce

    @server.tool
    async def record_in_steps(ctx: Context, nonce: str) -> str:
        """Record the nonce, with notifications before the result, so that the response is a stream."""
        os.write(ledger, f"{nonce}\n".encode())
        for step in range(3):
            ctx.progress(step + 1, 3)
            ctx.log("warning", f"step {step}")
            await asyncio.sleep(0)
        return nonce

    @server.tool
    async def record_confirmed(ctx: Context, nonce: str) -> str:
        """Return what the client responds to an elicitation of the nonce, which is recorded afterwards."""
        answer = await ctx.elicit(nonce, {"type": "object", "properties": {"nonce": {"type": "string"}}})
        os.write(ledger, f"{nonce}\n".encode())
        return str((answer.content or {}).get("nonce", answer.action))

    @server.tool
    async def record_and_wait(nonce: str, seconds: float) -> str:
        os.write(ledger, f"{nonce}\n".encode())
        await asyncio.sleep(seconds)
        return nonce

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def pid() -> str:
        return str(os.getpid())

    @server.tool
    async def chatter(ctx: Context, size: int) -> str:
        """Log messages until the client disconnects."""
        while True:
            ctx.log("warning", "x" * size)
            await asyncio.sleep(0.001)

    return server


def main() -> int:
    given = json.loads(sys.argv[1])
    directory = Path(given.pop("directory"))
    level = given.pop("log_level", "WARNING")
    logging.basicConfig(level=level, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    if given.pop("events", False):
        given["event_store"] = MemoryEventStore()
    if given.pop("shared_sessions", False):
        sessions = directory / "sessions"
        sessions.mkdir(exist_ok=True)
        given |= {"sessions": True, "session_store": FileSessions(sessions)}
    if "tokens" in given:
        given["auth"] = Tokens(given.pop("tokens"))
    server_options = {name: given.pop(name) for name in ("drain_timeout", "max_frame_bytes") if name in given}
    if "redis" in given:
        server_options["backend"] = RedisBackend(given.pop("redis"))
        server_options["request_state_secrets"] = (b"the same secret in all processes",)
    return make(directory, server_options).run(transport="http", **given)


if __name__ == "__main__":
    sys.exit(main())
