"""The cache file: one SQLite database in WAL mode, with a page, its sections and its search index in one transaction.

A cache failure never fails a request: disk errors (full, read-only, missing) are logged and count as a cache miss, a
corrupt file is replaced by an empty one, and an unusable directory by memory. Programming errors (wrong SQL) are
raised. All functions block; `_cache` runs them in a thread.
"""

import contextlib
import logging
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from jackstay.types import DECODE_ERRORS
from procontext.cache._private import make_private
from procontext.cache._quota import QUOTA_SCHEMA, Quota, delete_documents, file_bytes, weigh
from procontext.cache._rows import Document, Section
from procontext.cache._search import SEARCH_SCHEMA, delete_sections, insert_sections, join_library, search_library
from procontext.models import CacheStatus, Heading, Hit, StoredLibrary

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

# The number is the version of the schema. A release with another schema uses another file, so both can run side by
# side.
FILE_NAME: Final = "pages-3.sqlite3"

# How long to wait for a write of another process. The longest write, a page with its index, takes tens of milliseconds.
BUSY_SECONDS: Final = 5.0
_OPEN_ATTEMPTS: Final = 50
_OPEN_PAUSE: Final = 0.1

UNLIMITED: Final = 2**63 - 1

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS documents (
    key TEXT PRIMARY KEY, kind TEXT NOT NULL, url TEXT NOT NULL, text BLOB NOT NULL, headings BLOB NOT NULL,
    source TEXT NOT NULL, etag TEXT NOT NULL, last_modified TEXT NOT NULL, fetched_at REAL NOT NULL,
    checked_at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS memberships (
    library_id TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (library_id, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS memberships_key ON memberships (key);
CREATE TABLE IF NOT EXISTS links (
    url TEXT NOT NULL, library_id TEXT NOT NULL, PRIMARY KEY (url, library_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS links_library ON links (library_id);
"""

# Primary result codes (the low byte) caused by the disk or by another process; sqlite.org/rescode.html.
_DISK_ERRORS = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
}
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

_headings = msgspec.json.Decoder(tuple[Heading, ...])
_encode = msgspec.json.encode


class Store:
    """The cache file. All methods must be called from one thread."""

    def __init__(
        self,
        directory: Path,
        max_bytes: int = UNLIMITED,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = directory / FILE_NAME
        self.is_in_memory = False
        self.quota = Quota(max_bytes, clock)
        self._identity: tuple[int, int] | None = None
        self._connection = self._open()

    # --- opening and recovery -----------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        try:
            make_private(self.path)
            try:
                return self._connect(str(self.path))
            except sqlite3.DatabaseError as error:
                if _code(error) not in _CORRUPT:
                    raise
                self._remove(error)
                make_private(self.path)
                return self._connect(str(self.path))
        except (OSError, sqlite3.DatabaseError) as error:
            _log.warning("cannot open the cache %s: %s; pages are cached in memory only", self.path, error)
            self.is_in_memory = True
            return self._connect(":memory:")

    def _connect(self, path: str) -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection)
            self._identity = _identity(path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _remove(self, error: Exception) -> None:
        """Remove a corrupt file, unless another process has already replaced it."""
        if self._identity is not None and _identity(str(self.path)) != self._identity:
            return
        _log.warning("the cache %s is corrupt: %s; a new one is created", self.path, error)
        for suffix in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.path}{suffix}")

    def _safely(self, name: str, operation: Callable[[], _T], default: _T) -> _T:
        """Run an operation. Return `default` if the disk fails; replace a corrupt file and try once more."""
        try:
            return operation()
        except sqlite3.DatabaseError as error:
            if _code(error) not in _CORRUPT or self.is_in_memory:
                return _fallback(name, error, default)
            self._connection.close()
            with contextlib.suppress(OSError):  # then opening it fails too, and memory is used instead
                self._remove(error)
            self._connection = self._open()
            self.quota.reset()
        try:
            return operation()
        except sqlite3.DatabaseError as error:
            return _fallback(name, error, default)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.DatabaseError):  # SQLite may have rolled back already
                connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Write pending uses and close the file."""

        def operation() -> None:
            with self._transaction() as connection:
                self.quota.flush_uses(connection)
                self.quota.release(connection)

        if self.quota.has_unsaved_state:
            self._safely("write", operation, None)
        self._connection.close()

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, key: str) -> Document | None:
        """Return the document with this key, or None."""

        def operation() -> Document | None:
            row = self._connection.execute(
                "SELECT kind, url, text, headings, source, etag, last_modified, fetched_at, checked_at"
                " FROM documents WHERE key = ?",
                (key,),
            ).fetchone()
            if row is None:
                return None
            try:
                text, headings = zlib.decompress(row[2]).decode("utf-8"), _headings.decode(row[3])
            except (zlib.error, *DECODE_ERRORS) as error:
                _log.warning("the cached document %s is corrupt: %s", key, error)
                return None  # it is fetched and written again
            self.quota.touch(key)
            return Document(
                key=key,
                kind=row[0],
                url=row[1],
                text=text,
                headings=headings,
                source=row[4],
                etag=row[5],
                last_modified=row[6],
                fetched_at=row[7],
                checked_at=row[8],
            )

        found = self._safely("read", operation, None)
        if self.quota.is_flush_due:
            self._flush_uses()
        return found

    def contains(self, key: str) -> bool:
        """Return whether the document is stored on disk, where another process can find it."""

        def operation() -> bool:
            row = self._connection.execute("SELECT 1 FROM documents WHERE key = ?", (key,)).fetchone()
            return row is not None

        return not self.is_in_memory and self._safely("look up a document", operation, False)

    def libraries_linking(self, url: str) -> tuple[str, ...]:
        """Return the libraries whose index contains this exact link."""

        def operation() -> tuple[str, ...]:
            rows = self._connection.execute("SELECT library_id FROM links WHERE url = ?", (url,))
            return tuple(row[0] for row in rows)

        return self._safely("look up a link", operation, ())

    def count_pages(self, library_id: str) -> int:
        """Return the number of pages of a library that can be searched."""

        def operation() -> int:
            rows = self._connection.execute(
                "SELECT count(*) FROM memberships m JOIN documents d ON d.key = m.key"
                " WHERE m.library_id = ? AND d.kind = 'page'",
                (library_id,),
            )
            return int(rows.fetchone()[0])

        return self._safely("count pages", operation, 0)

    def count_links(self, library_id: str) -> int:
        """Return the number of links in the table of contents of a library."""

        def operation() -> int:
            rows = self._connection.execute("SELECT count(*) FROM links WHERE library_id = ?", (library_id,))
            return int(rows.fetchone()[0])

        return self._safely("count links", operation, 0)

    def stored(self, keys: Iterable[str]) -> set[str]:
        """Return those of the keys that have a document."""

        def operation() -> set[str]:
            found: set[str] = set()
            for batch in batched(keys, 500):
                marks = ",".join("?" * len(batch))
                rows = self._connection.execute(f"SELECT key FROM documents WHERE key IN ({marks})", batch)  # noqa: S608
                found.update(key for (key,) in rows)
            return found

        return self._safely("look up documents", operation, set())

    def search(self, library_id: str, query: str, limit: int) -> list[Hit]:
        """Return the sections of a library that match a query, best first."""

        def operation() -> list[Hit]:
            return search_library(self._connection, library_id, query, limit)

        return self._safely("search", operation, [])

    def status(self) -> CacheStatus:
        """Return the size and the location of the cache."""

        def operation() -> CacheStatus:
            documents = self._connection.execute("SELECT count(*) FROM documents").fetchone()[0]
            sections = self._connection.execute("SELECT count(*) FROM sections").fetchone()[0]
            size = file_bytes(self._connection)
            return CacheStatus(str(self.path), self.is_in_memory, documents, sections, size)

        return self._safely("status", operation, CacheStatus(str(self.path), self.is_in_memory, 0, 0, 0))

    def libraries(self) -> list[StoredLibrary]:
        """Return the libraries that have pages."""

        def operation() -> list[StoredLibrary]:
            rows = self._connection.execute(
                "SELECT m.library_id, count(*), min(d.checked_at), max(d.checked_at) FROM memberships m"
                " JOIN documents d ON d.key = m.key WHERE d.kind = 'page' GROUP BY m.library_id ORDER BY m.library_id"
            )
            return [
                StoredLibrary(name, pages, datetime.fromtimestamp(oldest, UTC), datetime.fromtimestamp(newest, UTC))
                for name, pages, oldest, newest in rows
            ]

        return self._safely("list libraries", operation, [])

    # --- writing ------------------------------------------------------------------------------------------------------

    def put(
        self,
        document: Document,
        library_ids: Iterable[str] = (),
        sections: Iterable[Section] = (),
        links: Iterable[str] | None = None,
    ) -> bool:
        """Store a document with its sections. Return whether it worked. `links` replaces the links of each library."""
        # Lone surrogates cannot be encoded as UTF-8; a JSON index may contain them.
        packed = zlib.compress(document.text.encode("utf-8", "replace"), 1)
        headings = _encode(document.headings)
        ids, listed, parts = tuple(library_ids), None if links is None else tuple(links), tuple(sections)
        weight = weigh(packed, headings, parts, listed or ())

        def operation() -> bool:
            with self._transaction() as connection:
                delete_sections(connection, document.key)
                self.quota.record(connection, document.key, weight)
                connection.execute(
                    "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        document.key,
                        document.kind,
                        document.url,
                        packed,
                        headings,
                        document.source,
                        document.etag,
                        document.last_modified,
                        document.fetched_at,
                        document.checked_at,
                    ),
                )
                for library_id in ids:
                    join_library(connection, library_id, document.key)
                    if listed is not None:
                        connection.execute("DELETE FROM links WHERE library_id = ?", (library_id,))
                        connection.executemany(
                            "INSERT OR IGNORE INTO links VALUES (?, ?)", ((url, library_id) for url in listed)
                        )
                insert_sections(connection, document.key, parts)
            return True

        return self._safely("write", operation, False)

    def join(self, library_id: str, key: str) -> None:
        """Add a document to a library."""

        def operation() -> None:
            with self._transaction() as connection:
                join_library(connection, library_id, key)

        self._safely("write", operation, None)

    def confirm(self, key: str, checked_at: float) -> None:
        """Record that the host confirmed a document as unchanged."""

        def operation() -> None:
            with self._transaction() as connection:
                connection.execute("UPDATE documents SET checked_at = ? WHERE key = ?", (checked_at, key))

        self._safely("write", operation, None)

    def clean(self, before: float) -> int:
        """Remove documents that were last confirmed before `before`. Return how many were removed."""

        def operation() -> int:
            with self._transaction() as connection:
                rows = connection.execute("SELECT key FROM documents WHERE checked_at < ?", (before,)).fetchall()
                delete_documents(connection, (key for (key,) in rows))
            return len(rows)

        return self._safely("clean up", operation, 0)

    @property
    def is_full(self) -> bool:
        """Whether the file exceeds its quota; then call `evict_step` until it returns False."""
        return self._safely("measure", lambda: self.quota.is_exceeded(self._connection), False)

    def evict_step(self) -> bool:
        """Run one step of the eviction. Return whether there is more to do."""
        return self._safely("evict", lambda: self.quota.evict_step(self._connection, self._transaction), False)

    def _flush_uses(self) -> None:
        def operation() -> None:
            with self._transaction() as connection:
                self.quota.flush_uses(connection)

        self._safely("write", operation, None)


def batched(items: Iterable[str], size: int) -> Iterator[tuple[str, ...]]:
    """Split items into tuples of at most `size`. (itertools.batched is new in Python 3.12.)"""
    iterator = iter(items)
    while batch := tuple(islice(iterator, size)):
        yield batch


def _fallback(name: str, error: sqlite3.DatabaseError, default: _T) -> _T:
    """Log a disk error and return the default. Other errors are raised."""
    if _code(error) not in _DISK_ERRORS | _CORRUPT:
        raise error
    _log.warning("cache operation %r failed: %s", name, error)
    return default


def _prepare(connection: sqlite3.Connection) -> None:
    """Set WAL mode and create the tables. Retries: the switch to WAL does not wait for the lock of another process."""
    for pause in (*([_OPEN_PAUSE] * _OPEN_ATTEMPTS), None):
        try:
            # Survives a crash of the process at any point. A power failure may lose the last pages, which is fine.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has an effect only while the file is empty
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(SCHEMA + SEARCH_SCHEMA + QUOTA_SCHEMA)
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or pause is None:
                raise
        time.sleep(pause)


def _code(error: sqlite3.Error) -> int | None:
    """Return the primary result code: the extended code without its upper bytes."""
    extended: int | None = getattr(error, "sqlite_errorcode", None)
    return None if extended is None else extended & 0xFF


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


__all__ = ["FILE_NAME", "Store"]
