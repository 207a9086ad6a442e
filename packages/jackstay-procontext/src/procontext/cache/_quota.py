"""Eviction: when the cache file exceeds its quota, the least recently used documents are removed.

Deleting rows makes an FTS5 index larger at first, until its segments are merged. So eviction has three phases (delete,
merge, vacuum). Each phase runs in steps of tens of milliseconds, each in its own transaction, so that readers are not
blocked. One process evicts at a time: it holds a lease in the file, which expires if the process dies.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from enum import Enum
from typing import Final, TypeAlias

from procontext.cache._rows import Section
from procontext.cache._search import delete_sections, tables

_log = logging.getLogger(__name__)

Transaction: TypeAlias = Callable[[], AbstractContextManager[sqlite3.Connection]]

# Evict down to this fraction of the quota, so that the next page does not start another eviction.
TARGET_FRACTION: Final = 0.85
# With less than this fraction in use, truncating free pages is enough.
VACUUM_FRACTION: Final = 0.95
# The size of one step, in documents and in pages of 4 KiB. A step takes some tens of milliseconds.
DELETE_BATCH: Final = 10
PAGE_BATCH: Final = 200
# How long the lease of an evicting process is valid; it is renewed with every step.
LEASE_SECONDS: Final = 30.0
# Evicting a document that was used more recently than this means that the quota is too small for the workload.
RECENT_SECONDS: Final = 3600.0
# Uses that are collected in memory before they are written.
MAX_PENDING: Final = 256

# The text of a section is stored in its table and again in the search index, which needs about the same space.
_TEXT_COPIES: Final = 2
# A link is stored in its table and in two indexes.
_LINK_COPIES: Final = 3

QUOTA_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS uses (
    key TEXT PRIMARY KEY, used_at REAL NOT NULL, weight INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS uses_used_at ON uses (used_at);
CREATE TABLE IF NOT EXISTS busy_until (what TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
"""


class Phase(Enum):
    """The phase of the eviction that runs next."""

    IDLE = "idle"
    DELETE = "delete"
    MERGE_START = "start merging"  # the first merge step selects a whole table of the index
    MERGE_CONTINUE = "merge"
    VACUUM = "vacuum"


def weigh(packed: bytes, headings: bytes, sections: Iterable[Section], links: Iterable[str]) -> int:
    """Estimate the bytes that a document takes in the file, with its sections and links."""
    text = sum(len(section.body) + sum(map(len, section.path)) for section in sections)
    return len(packed) + len(headings) + _TEXT_COPIES * text + _LINK_COPIES * sum(map(len, links))


class Quota:
    """The quota of a cache file. `touch` may be called from any thread, all else only from the thread of the file."""

    def __init__(self, max_bytes: int, clock: Callable[[], float]) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._pending: dict[str, float] = {}
        self._phase = Phase.IDLE
        self._goal = 0.0
        self._tables: list[str] = []  # those that are still to be merged

    def __repr__(self) -> str:
        return f"<Quota of {self._max_bytes} bytes, phase: {self._phase.value}>"

    # --- uses ---------------------------------------------------------------------------------------------------------

    def touch(self, key: str) -> None:
        """Record that a document was used now. The record is written with the next transaction."""
        self._pending[key] = self._clock()

    @property
    def has_unsaved_state(self) -> bool:
        """Whether something must be written before the file is closed."""
        return bool(self._pending) or self._phase is not Phase.IDLE

    @property
    def is_flush_due(self) -> bool:
        """Whether enough uses are pending to justify a transaction of their own."""
        return len(self._pending) >= MAX_PENDING

    def flush_uses(self, connection: sqlite3.Connection) -> None:
        """Write the pending uses inside a transaction. A later use by another process is not overwritten."""
        pending, self._pending = self._pending, {}
        uses = list(pending.items())  # in one step: another thread may still write into the old dict
        connection.executemany(
            "UPDATE uses SET used_at = max(used_at, ?) WHERE key = ?", [(at, key) for key, at in uses]
        )

    def record(self, connection: sqlite3.Connection, key: str, weight: int) -> None:
        """Record a new or changed document, inside a transaction."""
        connection.execute("INSERT OR REPLACE INTO uses VALUES (?, ?, ?)", (key, self._clock(), weight))
        self.flush_uses(connection)

    # --- eviction -----------------------------------------------------------------------------------------------------

    def is_exceeded(self, connection: sqlite3.Connection) -> bool:
        """Return whether the file is larger than the quota."""
        return file_bytes(connection) > self._max_bytes

    def evict_step(self, connection: sqlite3.Connection, transaction: Transaction) -> bool:
        """Run one step of the eviction. Return whether there is more to do."""
        if self._phase is Phase.IDLE:
            self._start(connection, transaction)
        if self._phase is Phase.DELETE:
            self._delete(transaction)
        elif self._phase in (Phase.MERGE_START, Phase.MERGE_CONTINUE):
            with transaction():
                self._renew_lease(connection)
                if not merge(connection, self._tables[-1], is_first=self._phase is Phase.MERGE_START):
                    self._tables.pop()
                    self._phase = Phase.MERGE_START
                else:
                    self._phase = Phase.MERGE_CONTINUE
            if not self._tables:
                self._phase = Phase.VACUUM
        elif self._phase is Phase.VACUUM and not (self.is_exceeded(connection) and vacuum_pages(connection)):
            with transaction():
                self.release(connection)
        return self._phase is not Phase.IDLE

    def release(self, connection: sqlite3.Connection) -> None:
        """Stop evicting and release the lease, inside a transaction."""
        if self._phase is not Phase.IDLE:
            self._phase = Phase.IDLE
            connection.execute("DELETE FROM busy_until WHERE what = 'eviction'")

    def reset(self) -> None:
        """Start over, because the file was replaced."""
        self._phase = Phase.IDLE

    def _start(self, connection: sqlite3.Connection, transaction: Transaction) -> None:
        if not self.is_exceeded(connection):
            return
        with transaction():
            row = connection.execute("SELECT at FROM busy_until WHERE what = 'eviction'").fetchone()
            now = self._clock()
            # A lease that ends later than any valid lease can end means that the clock was set back.
            if row is not None and now < row[0] <= now + LEASE_SECONDS:
                return  # another process is evicting
            self._renew_lease(connection)
        used = used_bytes(connection)
        if used <= VACUUM_FRACTION * self._max_bytes:
            self._phase = Phase.VACUUM
            return
        self._phase = Phase.DELETE
        self._goal = total_weight(connection) * TARGET_FRACTION * self._max_bytes / used

    def _renew_lease(self, connection: sqlite3.Connection) -> None:
        until = self._clock() + LEASE_SECONDS
        connection.execute("INSERT OR REPLACE INTO busy_until VALUES ('eviction', ?)", (until,))

    def _delete(self, transaction: Transaction) -> None:
        keys: list[str] = []
        with transaction() as connection:
            self._renew_lease(connection)
            self.flush_uses(connection)
            excess = total_weight(connection) - self._goal
            last_used = 0.0
            for key, used_at, weight in least_recently_used(connection):
                if excess <= 0:
                    break
                keys.append(key)
                excess -= weight
                last_used = used_at
            delete_documents(connection, keys)
        if keys and excess > 0:
            return  # there is more to delete
        self._phase, self._tables = Phase.MERGE_START, tables(connection)
        if self._clock() - last_used < RECENT_SECONDS:
            _log.warning("the cache evicted documents that were used within the last hour; increase cache.max_bytes")


def file_bytes(connection: sqlite3.Connection) -> int:
    """Return the size of the file."""
    return _pragma(connection, "page_count") * _pragma(connection, "page_size")


def used_bytes(connection: sqlite3.Connection) -> int:
    """Return how many bytes of the file are in use; the rest are free pages."""
    return file_bytes(connection) - _pragma(connection, "freelist_count") * _pragma(connection, "page_size")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def total_weight(connection: sqlite3.Connection) -> int:
    """Return the sum of the estimated sizes of all documents."""
    return int(connection.execute("SELECT coalesce(sum(weight), 0) FROM uses").fetchone()[0])


def least_recently_used(connection: sqlite3.Connection) -> list[tuple[str, float, int]]:
    """Return a batch of documents, the least recently used first, as (key, last use, weight)."""
    return connection.execute(
        "SELECT key, used_at, weight FROM uses ORDER BY used_at, key LIMIT ?", (DELETE_BATCH,)
    ).fetchall()


def delete_documents(connection: sqlite3.Connection, keys: Iterable[str]) -> None:
    """Delete documents with their sections. Links of a library are deleted with its last index."""
    for key in keys:
        delete_sections(connection, key)
        connection.execute(
            "DELETE FROM links WHERE library_id IN (SELECT m.library_id FROM memberships m"
            " JOIN documents d ON d.key = m.key AND d.kind = 'index' WHERE m.key = ?"
            " AND NOT EXISTS (SELECT 1 FROM memberships other JOIN documents d2 ON d2.key = other.key"
            " WHERE other.library_id = m.library_id AND d2.kind = 'index' AND d2.key <> ?))",
            (key, key),
        )
        for table in ("memberships", "uses", "documents"):
            connection.execute(f"DELETE FROM {table} WHERE key = ?", (key,))  # noqa: S608  # constant names


def merge(connection: sqlite3.Connection, table: str, *, is_first: bool) -> bool:
    """Run one merge step of a table of the index. Return whether there is more. The first step selects all of it."""
    before = connection.total_changes
    pages = -PAGE_BATCH if is_first else PAGE_BATCH
    connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))  # noqa: S608
    # sqlite.org/fts5.html, "The 'merge' Command": fewer than two changes mean that nothing was left to merge.
    return connection.total_changes - before >= 2


def vacuum_pages(connection: sqlite3.Connection) -> bool:
    """Truncate some free pages from the file, outside a transaction. Return whether there are more."""
    before = _pragma(connection, "freelist_count")
    # As a script: sqlite3 steps a statement without rows only once, and each step frees one page.
    connection.executescript(f"PRAGMA incremental_vacuum({PAGE_BATCH})")
    return 0 < _pragma(connection, "freelist_count") < before


__all__ = ["QUOTA_SCHEMA", "Quota", "delete_documents", "file_bytes", "weigh"]
