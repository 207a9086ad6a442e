"""What goes when the cache has no room left: the documents that nobody used for longest, until the file is below its bound.

How large the file is is counted in its pages. What a document takes of that is an estimate, kept beside the time when it was
last used: only the proportions count. Taking rows out of a search index makes it larger at first, because it notes what is
gone, and its parts must be merged. So making room has three parts (delete, merge, give pages back), and each is done in
pieces of some milliseconds, a transaction each: whoever reads, here or in another process, comes in between.

Several processes may have one file open. One of them makes room, and says so in the file; if it dies, its word ends by itself.

Must never know what a document is for. Above: `_store`. Below: sqlite3.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from enum import Enum
from typing import Final, TypeAlias

from procontext.cache._rows import Section

_log = logging.getLogger(__name__)

Transaction: TypeAlias = Callable[[], AbstractContextManager[sqlite3.Connection]]

# Down to this part of the bound, so that the next page does not begin it all again.
KEPT_PART: Final = 0.9
# With less than this in use, giving back what is free is enough.
ENOUGH_PART: Final = 0.95
# Of each piece of work: documents, or pages of 4 KiB. Each takes some tens of milliseconds.
DOCUMENTS_AT_A_TIME: Final = 10
PAGES_AT_A_TIME: Final = 200
# How long another process is believed that it makes room; it says so again with every piece.
BELIEVED_SECONDS: Final = 30.0
# What was used so lately and must go all the same: the bound is too small for what is read.
LATELY_SECONDS: Final = 3600.0
# Uses that are noted in memory before they are written.
MOST_PENDING: Final = 256

# The words of a section are there as they are, and in the index, which takes about as much.
_WORDS: Final = 2
# A link stands in its table and in two indexes.
_LINKS: Final = 3

ROOM_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS uses (
    key TEXT PRIMARY KEY, used_at REAL NOT NULL, weight INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS uses_used_at ON uses (used_at);
CREATE TABLE IF NOT EXISTS busy_until (what TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
"""


class Part(Enum):
    """What is done next to make room."""

    NOTHING = "nothing"
    DELETE = "delete"
    MERGE_ALL = "merge all"  # the first piece says that the whole index is meant
    MERGE_ON = "merge on"
    GIVE_BACK = "give back"


def weigh(packed: bytes, headings: bytes, sections: Iterable[Section], links: Iterable[str]) -> int:
    """About how many bytes a document takes, with all that was made of it."""
    words = sum(len(section.body) + sum(map(len, section.path)) for section in sections)
    return len(packed) + len(headings) + _WORDS * words + _LINKS * sum(map(len, links))


class Room:
    """How much there is, and what goes first. `touch` may be called from any thread, the rest from the file's own."""

    def __init__(self, max_bytes: int, clock: Callable[[], float]) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._pending: dict[str, float] = {}
        self._part = Part.NOTHING
        self._goal = 0.0

    def __repr__(self) -> str:
        return f"<Room of {self._max_bytes} bytes, next: {self._part.value}>"

    # --- uses ---------------------------------------------------------------------------------------------------------

    def touch(self, key: str) -> None:
        """Note that a document was used now. It is written with the next thing that is."""
        self._pending[key] = self._clock()

    @property
    def has_something_to_say(self) -> bool:
        """Whether the others must be told of something before this one goes."""
        return bool(self._pending) or self._part is not Part.NOTHING

    @property
    def has_much_pending(self) -> bool:
        """Whether so many uses are noted that they should be written by themselves."""
        return len(self._pending) >= MOST_PENDING

    def write_uses(self, connection: sqlite3.Connection) -> None:
        """Write what was noted, inside a transaction; another process may have used a document later."""
        noted, self._pending = self._pending, {}
        uses = list(noted.items())  # in one step: a thread that looked before may still be writing into it
        connection.executemany(
            "UPDATE uses SET used_at = max(used_at, ?) WHERE key = ?", [(at, key) for key, at in uses]
        )

    def enter(self, connection: sqlite3.Connection, key: str, weight: int) -> None:
        """Write down a document that is new or changed, inside a transaction."""
        connection.execute("INSERT OR REPLACE INTO uses VALUES (?, ?, ?)", (key, self._clock(), weight))
        self.write_uses(connection)

    # --- making room --------------------------------------------------------------------------------------------------

    def is_exceeded(self, connection: sqlite3.Connection) -> bool:
        """Whether the file is larger than it may be."""
        return file_bytes(connection) > self._max_bytes

    def make(self, connection: sqlite3.Connection, transaction: Transaction) -> bool:
        """Do a piece of the work; whether there is more to do."""
        if self._part is Part.NOTHING:
            self._begin(connection, transaction)
        if self._part is Part.DELETE:
            self._delete(transaction)
        elif self._part in (Part.MERGE_ALL, Part.MERGE_ON):
            with transaction():
                self._claim(connection)
                has_more = merge(connection, is_first=self._part is Part.MERGE_ALL)
            self._part = Part.MERGE_ON if has_more else Part.GIVE_BACK
        elif self._part is Part.GIVE_BACK and not (self.is_exceeded(connection) and give_back(connection)):
            with transaction():
                self.leave(connection)
        return self._part is not Part.NOTHING

    def leave(self, connection: sqlite3.Connection) -> None:
        """Let somebody else go on, if this was at it; inside a transaction."""
        if self._part is not Part.NOTHING:
            self._part = Part.NOTHING
            connection.execute("DELETE FROM busy_until WHERE what = 'room'")

    def forget(self) -> None:
        """Begin from the beginning: the file is another one now."""
        self._part = Part.NOTHING

    def _begin(self, connection: sqlite3.Connection, transaction: Transaction) -> None:
        if not self.is_exceeded(connection):
            return
        with transaction():
            row = connection.execute("SELECT at FROM busy_until WHERE what = 'room'").fetchone()
            now = self._clock()
            # A time that lies further ahead than anybody could have meant is a clock that was set back.
            if row is not None and now < row[0] <= now + BELIEVED_SECONDS:
                return  # another process is at it
            self._claim(connection)
        used = used_bytes(connection)
        if used <= ENOUGH_PART * self._max_bytes:
            self._part = Part.GIVE_BACK
            return
        self._part = Part.DELETE
        self._goal = total_weight(connection) * KEPT_PART * self._max_bytes / used

    def _claim(self, connection: sqlite3.Connection) -> None:
        until = self._clock() + BELIEVED_SECONDS
        connection.execute("INSERT OR REPLACE INTO busy_until VALUES ('room', ?)", (until,))

    def _delete(self, transaction: Transaction) -> None:
        gone: list[str] = []
        with transaction() as connection:
            self._claim(connection)
            self.write_uses(connection)
            too_much = total_weight(connection) - self._goal
            last_used = 0.0
            for key, used_at, weight in longest_unused(connection):
                if too_much <= 0:
                    break
                gone.append(key)
                too_much -= weight
                last_used = used_at
            delete_documents(connection, gone)
        if gone and too_much > 0:
            return  # there is more to delete
        self._part = Part.MERGE_ALL
        if self._clock() - last_used < LATELY_SECONDS:
            _log.warning(
                "the cache is full, and what was used within the hour was removed: cache.max_bytes is too small"
            )


def file_bytes(connection: sqlite3.Connection) -> int:
    """How large the file is."""
    return _pragma(connection, "page_count") * _pragma(connection, "page_size")


def used_bytes(connection: sqlite3.Connection) -> int:
    """How much of the file is in use; the rest is free for what comes next."""
    return file_bytes(connection) - _pragma(connection, "freelist_count") * _pragma(connection, "page_size")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def total_weight(connection: sqlite3.Connection) -> int:
    """What all documents weigh."""
    return int(connection.execute("SELECT coalesce(sum(weight), 0) FROM uses").fetchone()[0])


def longest_unused(connection: sqlite3.Connection) -> list[tuple[str, float, int]]:
    """Some documents, first the one that was not used for longest: key, when it was, weight."""
    return connection.execute(
        "SELECT key, used_at, weight FROM uses ORDER BY used_at, key LIMIT ?", (DOCUMENTS_AT_A_TIME,)
    ).fetchall()


def delete_documents(connection: sqlite3.Connection, keys: Iterable[str]) -> None:
    """Take documents out with all that was made of them. With a library's last index go the links that it allowed."""
    for key in keys:
        delete_sections(connection, key)
        connection.execute(
            "DELETE FROM links WHERE library_id IN (SELECT mine.library_id FROM memberships mine"
            " JOIN documents gone ON gone.key = mine.key AND gone.kind = 'index' WHERE mine.key = ?"
            " AND NOT EXISTS (SELECT 1 FROM memberships other JOIN documents kept ON kept.key = other.key"
            " WHERE other.library_id = mine.library_id AND kept.kind = 'index' AND kept.key <> ?))",
            (key, key),
        )
        for table in ("memberships", "uses", "documents"):
            connection.execute(f"DELETE FROM {table} WHERE key = ?", (key,))  # noqa: S608  # names of ours


def delete_sections(connection: sqlite3.Connection, key: str) -> None:
    """Take the sections of a document out, and out of the search index."""
    connection.execute(
        "DELETE FROM section_text WHERE rowid IN (SELECT id FROM sections WHERE key = ?)", (key,)
    )
    connection.execute("DELETE FROM sections WHERE key = ?", (key,))


def merge(connection: sqlite3.Connection, *, is_first: bool) -> bool:
    """Merge a piece of the search index; whether there is more. The first piece says that the whole index is meant."""
    before = connection.total_changes
    pages = -PAGES_AT_A_TIME if is_first else PAGES_AT_A_TIME
    connection.execute("INSERT INTO section_text (section_text, rank) VALUES ('merge', ?)", (pages,))
    # sqlite.org/fts5.html, "The 'merge' Command": fewer than two changes mean that there was nothing left to do.
    return connection.total_changes - before >= 2


def give_back(connection: sqlite3.Connection) -> bool:
    """Make the file shorter by some free pages, outside of a transaction; whether there are more of them."""
    before = _pragma(connection, "freelist_count")
    # As a script, because sqlite3 steps a statement without rows once, and each step gives back one page.
    connection.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_A_TIME})")
    return 0 < _pragma(connection, "freelist_count") < before


__all__ = ["ROOM_SCHEMA", "Room", "delete_documents", "delete_sections", "file_bytes", "weigh"]
