"""What several server processes share in tests: sessions and events in an SQLite file, and a bus over a socket."""

import json
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import msgspec

from jackstay.server import ChangeListener
from jackstay.server.http import SessionChange, SessionRecord

GUARD = 200.0


class FileSessions:
    """A session store that all processes of a machine share."""

    is_shared = True

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, timeout=GUARD)
        self._db.execute("CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, record BLOB, ends REAL)")

    async def save(self, id: str, record: SessionRecord, ttl: float) -> None:
        row = (id, msgspec.json.encode(record), time.time() + ttl)
        self._db.execute("REPLACE INTO sessions VALUES (?, ?, ?)", row)

    async def change(self, id: str, change: SessionChange, ttl: float) -> None:
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            record = await self.load(id, ttl)
            if record is not None:
                await self.save(id, change.apply(record), ttl)

    async def load(self, id: str, ttl: float) -> SessionRecord | None:
        now = time.time()
        renew = "UPDATE sessions SET ends = ? WHERE id = ? AND ends > ? RETURNING record"
        found = self._db.execute(renew, (now + ttl, id, now)).fetchall()
        return msgspec.json.decode(found[0][0], type=SessionRecord) if found else None

    async def delete(self, id: str) -> None:
        self._db.execute("DELETE FROM sessions WHERE id = ?", (id,))


class FileEvents:
    """An event store that all processes of a machine share."""

    is_shared = True

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, timeout=GUARD)
        self._db.execute("CREATE TABLE IF NOT EXISTS events (session, stream, number INTEGER, data BLOB)")

    async def append(self, session: str, stream: str, number: int, data: bytes) -> None:
        self._db.execute("INSERT INTO events VALUES (?, ?, ?, ?)", (session, stream, number, data))

    async def replay(self, session: str, stream: str, after: int) -> list[tuple[int, bytes]] | None:
        rows = "SELECT number, data FROM events WHERE session = ? AND stream = ? ORDER BY number"
        found = self._db.execute(rows, (session, stream)).fetchall()
        return [row for row in found if row[0] > after] if found and found[0][0] <= after + 1 else None

    async def forget(self, session: str) -> None:
        self._db.execute("DELETE FROM events WHERE session = ?", (session,))


class Hub:
    """Passes every line that a process sends to all processes. Runs in the process of the test."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.lines: list[list[str]] = []
        self._lock = threading.Lock()
        self._clients: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(GUARD)
        with self._lock:
            for client in self._clients:
                client.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join(GUARD)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._clients.append(client)
                client.sendall(b"ready\n")
            thread = threading.Thread(target=self._read, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _read(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as lines:
            try:
                for line in lines:
                    with self._lock:
                        self.lines.append(json.loads(line))
                        for other in self._clients:
                            other.sendall(line)
            except OSError:
                pass  # a process was killed
            with self._lock:
                self._clients.remove(client)


class HubBus:
    """A bus over a hub."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def publish(self, method: str, uri: str) -> None:
        assert self._socket is not None
        with self._lock:
            self._socket.sendall(json.dumps([method, uri]).encode() + b"\n")

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        connection = self._socket = socket.create_connection(("127.0.0.1", self._port))
        lines = connection.makefile("rb")
        assert lines.readline() == b"ready\n"

        def read() -> None:
            with lines:
                for line in lines:
                    method, uri = json.loads(line)
                    listener(method, uri)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()

        def end() -> None:
            connection.shutdown(socket.SHUT_RDWR)
            thread.join(GUARD)
            connection.close()

        return end
