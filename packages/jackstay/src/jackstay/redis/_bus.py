"""The bus between workers: a Redis stream that all of them read, and a mailbox, another stream, for each process.

A worker that was disconnected reads on where it stopped; it receives `GAP` if entries may be missing. Messages are
retried until Redis accepts them. A worker receives its own in the order of the stream, too: so a subscription that was
stored before a change is known to every worker when the change arrives. While Redis is down they are delivered at once.
"""

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable
from typing import Any

from jackstay.errors import TransportError
from jackstay.redis._engine import Command, Engine
from jackstay.redis._sessions import milliseconds
from jackstay.server import GAP, ChangeListener

logger = logging.getLogger("jackstay.redis")

# Entries that are kept of the bus and of a mailbox, about, and entries that are read at once.
MAX_ENTRIES = 10_000
MAX_LETTERS = 1_000
READ_COUNT = 500

# Messages that wait while Redis is down. Above it all of them are replaced by `GAP`.
MAX_PENDING = 10_000

# Seconds that a worker counts as alive after it was last renewed, and between two renewals.
LEASE = 5.0
RENEW_INTERVAL = 1.5

# Seconds that one read waits for entries, and between two attempts while Redis is down.
BLOCK = 2.0
# Seconds between two checks whether it is still the same Redis: a client may connect again without an error.
CHECK_INTERVAL = 5.0
MIN_DELAY, MAX_DELAY = 0.05, 0.5

# Seconds between two attempts to cancel a task.
CANCEL_INTERVAL = 0.1

# Seconds that an unread mailbox is kept.
MAILBOX_TTL = 60.0

# The process of a worker has a mailbox while its lease lasts.
_SEND = """
local process = redis.call('GET', KEYS[1])
if not process then return 0 end
local mailbox = ARGV[1] .. process
redis.call('XADD', mailbox, 'MAXLEN', '~', ARGV[2], '*', 'm', ARGV[4], 't', ARGV[5])
redis.call('PEXPIRE', mailbox, ARGV[3])
return 1
"""


class RedisBus:
    """The bus of one process. `reader` is a client whose connections may wait for `BLOCK` seconds."""

    def __init__(self, engine: Engine, reader: Any, block: float) -> None:
        self._engine = engine
        self._reader = reader
        self._block = milliseconds(block)
        self.prefix = ""
        self._process = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._listeners: tuple[ChangeListener, ...] = ()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        # Messages to publish, and whether they were already delivered here.
        self._pending: dict[tuple[str, str], bool] = {}
        self._published = self._sent = 0
        self._progress: asyncio.Future[None] | None = None
        self._publishing: asyncio.Task[None] | None = None
        self._workers: set[str] = set()
        self._renewing: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        # Where to read on, the run of Redis that this was, and whether it is connected to it.
        self._last = ""
        self._last_letter = "0-0"
        self._run = ""
        self._is_connected = False
        self._check_at = 0.0

    def __repr__(self) -> str:
        return f"<RedisBus {self.prefix!r}, {len(self._listeners)} listeners, {len(self._pending)} pending>"

    # --- opening and closing ------------------------------------------------------------------------------------------

    def open(self, run: str, last: str) -> None:
        """Read what is published after the entry `last` of that run of Redis; both are empty if it is down."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._process = secrets.token_hex(8)
        self._run, self._last, self._last_letter = run, last, "0-0"
        self._is_connected = bool(last)
        self._check_at = self._loop.time() + CHECK_INTERVAL
        self._reading = self._loop.create_task(self._read())

    async def close(self) -> None:
        """Publish what is pending, if Redis responds, and leave."""
        await self.flush()
        for task in (self._reading, self._renewing, self._publishing):
            # Again and again: asyncio loses a cancellation that arrives together with a reply, before Python 3.12.
            while task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=CANCEL_INTERVAL)
        self._loop = self._reading = self._renewing = self._publishing = None
        self._is_connected = False
        keys = [*(self._lease(worker) for worker in self._workers), f"{self.prefix}m:{self._process}"]
        self._workers.clear()
        try:
            await self._engine.run("UNLINK", *keys)
        except TransportError:
            pass  # they expire

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` for every message. Returns a function that removes it."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

        def end() -> None:
            with self._lock:
                self._listeners = tuple(other for other in self._listeners if other is not listener)

        return end

    # --- publishing ---------------------------------------------------------------------------------------------------

    def publish(self, method: str, text: str) -> None:
        """Publish a message to all workers. Thread-safe; never waits."""
        loop = self._loop
        if loop is None:
            return
        if threading.get_ident() == self._thread:
            self._add(method, text)
        else:
            try:
                loop.call_soon_threadsafe(self._add, method, text)
            except RuntimeError:
                pass  # the loop has been closed

    def _add(self, method: str, text: str) -> None:
        if self._loop is None:
            return
        is_delivered = not self._is_connected
        if is_delivered:
            self._deliver(method, text)
        self._published += 1
        self._pending.pop((method, text), None)  # the last of equal messages is sent, in its place
        self._pending[method, text] = is_delivered
        if len(self._pending) > MAX_PENDING:
            self._pending = {(GAP, ""): False}
        if self._publishing is None:
            self._publishing = self._loop.create_task(self._publish_all())

    async def _publish_all(self) -> None:
        delay = MIN_DELAY
        while self._pending:
            batch, self._pending, through = self._pending, {}, self._published
            try:
                await self._engine.run_all([self._entry(*message, done) for message, done in batch.items()])
            except TransportError:
                newer = self._pending
                self._pending = {row: done for row, done in batch.items() if row not in newer} | newer
                self._report_progress()
                await asyncio.sleep(delay)
                delay = min(2 * delay, MAX_DELAY)
                continue
            delay = MIN_DELAY
            self._sent = through
            self._report_progress()
        self._publishing = None

    def _report_progress(self) -> None:
        if self._progress is not None:
            self._progress.set_result(None)
            self._progress = None

    def _entry(self, method: str, text: str, is_delivered: bool) -> Command:
        add = ("XADD", f"{self.prefix}bus", "MAXLEN", "~", MAX_ENTRIES, "*", "m", _encode(method), "t", _encode(text))
        return (*add, "o", self._process) if is_delivered else add

    async def flush(self) -> None:
        """Wait until what was published before is on the bus, or Redis does not respond."""
        through = self._published
        try:
            async with asyncio.timeout(self._engine.timeout):
                while self._sent < through and asyncio.get_running_loop() is self._loop and not self._engine.problem:
                    if self._progress is None:
                        self._progress = self._loop.create_future()
                    await asyncio.shield(self._progress)
        except TimeoutError:
            pass

    # --- mailboxes ----------------------------------------------------------------------------------------------------

    def join(self, worker: str) -> None:
        """Receive what is sent to this worker, and count as alive from now on. Thread-safe."""
        if self._loop is not None and worker not in self._workers:
            self._workers.add(worker)
            self._loop.call_soon_threadsafe(self._renew_now)

    def _renew_now(self) -> None:
        if self._loop is not None:
            if self._renewing is not None:
                self._renewing.cancel()
            self._renewing = self._loop.create_task(self._renew())

    async def send(self, worker: str, method: str, text: str) -> bool:
        """Send a message to one worker. Returns False if it is gone. Raises: TransportError if Redis is down."""
        rows = (f"{self.prefix}m:", MAX_LETTERS, milliseconds(MAILBOX_TTL), _encode(method), _encode(text))
        if await self._engine.run("EVAL", _SEND, 1, self._lease(worker), *rows):
            return True
        if self._engine.recovered_within(LEASE):
            raise TransportError("Redis was down: the state of that worker is not known yet", retry_in=LEASE)
        return False

    async def is_gone(self, worker: str) -> bool:
        """Return whether a worker has certainly died."""
        try:
            is_alive = await self._engine.run("EXISTS", self._lease(worker))
            return not is_alive and not self._engine.recovered_within(LEASE)
        except TransportError:
            return False

    def _lease(self, worker: str) -> str:
        return f"{self.prefix}w:{worker}"

    async def _renew(self) -> None:
        while True:
            try:
                await self._engine.run_all(
                    [("SET", self._lease(name), self._process, "PX", milliseconds(LEASE)) for name in self._workers]
                )
            except TransportError:
                pass  # again in a moment
            await asyncio.sleep(RENEW_INTERVAL)

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        assert self._loop is not None
        delay = MIN_DELAY
        bus, mailbox = f"{self.prefix}bus", f"{self.prefix}m:{self._process}"
        while True:
            try:
                # A client that was passed in may have no time limit of its own, and a connection may be half open.
                async with asyncio.timeout(self._block / 1000 + 2 * self._engine.timeout):
                    if not self._is_connected or self._loop.time() >= self._check_at:
                        await self._check()
                    reply = await self._reader.execute_command(
                        *("XREAD", "COUNT", READ_COUNT, "BLOCK", self._block),
                        *("STREAMS", bus, mailbox, self._last, self._last_letter),
                    )
            except Exception as error:  # noqa: BLE001  # whatever a driver raises, the worker must not become deaf
                if self._is_connected:
                    logger.warning("the bus is disconnected: %s", str(error) or type(error).__name__)
                self._is_connected = False
                await asyncio.sleep(delay)
                delay = min(2 * delay, MAX_DELAY)
                continue
            delay = MIN_DELAY
            for name, entries in _streams(reply):
                for id, fields in entries:
                    if name.decode() == bus:
                        self._last = id.decode()
                    else:
                        self._last_letter = id.decode()
                    self._receive(name, fields)

    def _receive(self, stream: bytes, fields: Any) -> None:
        """Deliver an entry. Another program may have written it: whatever it is, the worker reads on."""
        try:
            method, text, origin = _decode(fields[b"m"]), _decode(fields[b"t"]), fields.get(b"o")
        except (AttributeError, KeyError, TypeError, UnicodeDecodeError):
            logger.warning("ignored an entry of %r that is not a message of a worker", stream.decode(errors="replace"))
            return
        if method and origin != self._process.encode():
            self._deliver(method, text)

    async def _check(self) -> None:
        """Find out where to read on, and whether anything was missed."""
        assert self._loop is not None
        run, first, last = await position(self._reader, f"{self.prefix}bus")
        # Nothing is missing if the stream still has the entry that was read last.
        has_last = _order(first) <= _order(self._last) <= _order(last)
        is_complete = has_last and run == self._run
        self._last = self._last if has_last else last
        self._run = run
        self._check_at = self._loop.time() + CHECK_INTERVAL
        if not self._is_connected:
            self._is_connected = True
            self._engine.succeeded()
        if not is_complete:
            self._deliver(GAP, "")

    def _deliver(self, method: str, text: str) -> None:
        for listener in self._listeners:
            try:
                listener(method, text)
            except Exception:  # a user's listener may raise anything
                logger.exception("a listener of the bus failed")


async def position(client: Any, stream: str) -> tuple[str, str, str]:
    """Return the run of Redis, and the first and the last id of the stream.

    An empty stream gets an entry: without one, its beginning could not be recognized later.
    """
    info = await client.info("server")
    first = await client.execute_command("XRANGE", stream, "-", "+", "COUNT", 1)
    if not first:
        id = (await client.execute_command("XADD", stream, "*", "m", "", "t", "")).decode()
        return run_id(info), id, id
    last = await client.execute_command("XREVRANGE", stream, "+", "-", "COUNT", 1)
    return run_id(info), first[0][0].decode(), (last or first)[0][0].decode()


def run_id(info: dict[str, Any]) -> str:
    """Return the id of the run of Redis; a cluster responds with the information of each node."""
    return str(info["run_id"]) if "run_id" in info else ",".join(sorted(str(row["run_id"]) for row in info.values()))


def _order(id: str) -> tuple[int, int]:
    milliseconds, _, count = (id or "0-0").partition("-")
    return int(milliseconds), int(count)


def _streams(reply: Any) -> list[tuple[bytes, Any]]:
    """Return the streams of a reply to XREAD, which depends on the version of the protocol."""
    if isinstance(reply, dict):
        return [(name, [entry for part in parts for entry in part]) for name, parts in reply.items()]
    return list(reply or ())


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


__all__ = ["BLOCK", "RedisBus", "position"]
