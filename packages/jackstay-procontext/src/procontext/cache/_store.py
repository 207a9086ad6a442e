"""The cache file: SQL, transactions, and what to do when the disk or the file is not what it should be.

One SQLite file in WAL mode, so that several processes read while one writes, and a process that is killed in the middle of a
write leaves the state before it. A page, its headings, its sections and the search index over them are written in one
transaction: whoever finds one finds all.

A cache must never be the reason that an answer does not go out. So errors of the disk (full, read-only, gone) are logged and
the operation counts as a miss; a file that is damaged is replaced by an empty one; a directory that cannot be used
is replaced by memory. Errors of ours (wrong SQL) are raised. How large the file may grow is the affair of `_room`.

All of it blocks: it is run in the one thread of `_cache`, and must never be called on the event loop.
Above: `_cache`. Below: `_room`, `_words`, sqlite3.
"""

import contextlib
import logging
import os
import re
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from procontext.cache._private import make_private
from procontext.cache._room import ROOM_SCHEMA, Room, delete_documents, delete_sections, file_bytes, weigh
from procontext.cache._rows import CacheStatus, Document, Section
from procontext.cache._words import names, stem
from procontext.models import Heading, Hit

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

# The number is the schema's. A version with another schema uses another file, and both can run side by side.
FILE_NAME: Final = "pages-2.sqlite3"

# How long to wait for another process's write. The longest, a whole page with its index, takes tens of milliseconds.
BUSY_SECONDS: Final = 5.0
_OPEN_ATTEMPTS: Final = 50
_OPEN_PAUSE: Final = 0.1

# More than any disk has.
NO_BOUND: Final = 2**63 - 1

# How long a word must be to be looked for by itself, and as the beginning of longer ones.
_TELLING: Final = 3
# The best so many are looked through for one that is called just so.
_LOOKED_AT: Final = 50

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
CREATE TABLE IF NOT EXISTS sections (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, line INTEGER NOT NULL, path BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS sections_key ON sections (key);
CREATE VIRTUAL TABLE IF NOT EXISTS section_text USING fts5 (
    heading, parents, body, tokenize = "unicode61 tokenchars '_'"
);
"""

# A word in the section's own heading says far more than one in its body; one in the headings above it, a little more.
SEARCH: Final = """
SELECT d.key, s.line, s.path, snippet(section_text, 2, '', '', ' … ', 32), -bm25(section_text, 10.0, 2.0, 1.0) AS score
FROM section_text
JOIN sections s ON s.id = section_text.rowid
JOIN memberships m ON m.key = s.key AND m.library_id = ?
JOIN documents d ON d.key = s.key
WHERE section_text MATCH ?
ORDER BY score DESC, s.id LIMIT ?
"""

# Primary result codes (the low byte) of a disk or a neighbour that does not let us; sqlite.org/rescode.html.
_UNWILLING = {
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
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

_paths = msgspec.json.Decoder(tuple[str, ...])
_headings = msgspec.json.Decoder(tuple[Heading, ...])
_encode = msgspec.json.encode


class Store:
    """The file. Every method may be called from one thread only."""

    def __init__(
        self,
        directory: Path,
        max_bytes: int = NO_BOUND,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = directory / FILE_NAME
        self.is_in_memory = False
        self.room = Room(max_bytes, clock)
        self._identity: tuple[int, int] | None = None
        self._connection = self._open()

    # --- opening, and opening again -----------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        try:
            make_private(self.path)
            try:
                return self._connect(str(self.path))
            except sqlite3.DatabaseError as error:
                if _code(error) not in _DAMAGED:
                    raise
                self._remove(error)
                make_private(self.path)
                return self._connect(str(self.path))
        except (OSError, sqlite3.DatabaseError) as error:
            _log.warning("the cache %s cannot be used (%s); pages are kept in memory only", self.path, error)
            self.is_in_memory = True
            return self._connect(":memory:")

    def _connect(self, place: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            place, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            _prepare(connection)
            self._identity = _identity(place)
        except BaseException:
            connection.close()
            raise
        return connection

    def _remove(self, error: Exception) -> None:
        """Take away a damaged file, unless another process has already put a new one in its place."""
        if self._identity is not None and _identity(str(self.path)) != self._identity:
            return
        _log.warning("the cache %s is damaged (%s); it is made anew", self.path, error)
        for suffix in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.path}{suffix}")

    def _safely(self, what: str, operation: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return operation()
        except sqlite3.DatabaseError as error:
            if _code(error) not in _DAMAGED or self.is_in_memory:
                return _missed(what, error, otherwise)
            self._connection.close()
            with contextlib.suppress(OSError):  # then opening it fails too, and memory takes its place
                self._remove(error)
            self._connection = self._open()
            self.room.forget()
        try:
            return operation()
        except sqlite3.DatabaseError as error:
            return _missed(what, error, otherwise)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.DatabaseError):  # SQLite may have rolled back by itself
                connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Let go of the file."""

        def operation() -> None:
            with self._transaction() as connection:
                self.room.write_uses(connection)
                self.room.leave(connection)

        if self.room.has_something_to_say:
            self._safely("write", operation, None)
        self._connection.close()

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, key: str) -> Document | None:
        """What is kept under this key."""

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
            except (zlib.error, UnicodeDecodeError, msgspec.DecodeError) as error:
                _log.warning("what the cache keeps of %s is damaged: %s", key, error)
                return None  # it is fetched and written again
            self.room.touch(key)
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
        if self.room.has_much_pending:
            self._write_uses()
        return found

    def holds(self, key: str) -> bool:
        """Whether it is kept on the disk, where others find it."""

        def operation() -> bool:
            row = self._connection.execute("SELECT 1 FROM documents WHERE key = ?", (key,)).fetchone()
            return row is not None

        return not self.is_in_memory and self._safely("look up a document", operation, False)

    def libraries_linking(self, url: str) -> tuple[str, ...]:
        """The libraries whose own index has this exact link."""

        def operation() -> tuple[str, ...]:
            rows = self._connection.execute("SELECT library_id FROM links WHERE url = ?", (url,))
            return tuple(row[0] for row in rows)

        return self._safely("look up a link", operation, ())

    def count_pages(self, library_id: str) -> int:
        """How many pages of a library can be searched."""

        def operation() -> int:
            rows = self._connection.execute(
                "SELECT count(*) FROM memberships m JOIN documents d ON d.key = m.key"
                " WHERE m.library_id = ? AND d.kind = 'page'",
                (library_id,),
            )
            return int(rows.fetchone()[0])

        return self._safely("count pages", operation, 0)

    def search(self, library_id: str, query: str, limit: int) -> list[Hit]:
        """The sections of a library that have every word of the query, then those that have some of them.

        First comes what is called just so: who looks for a class wants its own section, not each that returns one.
        """
        words = [word for word in re.findall(r"\w+", query) if word.strip("_")]
        if not words:
            return []
        every = " ".join(f'"{word}"' for word in words)
        # Short words stand everywhere, and everything begins with them.
        telling = [word for word in words if len(word) >= _TELLING] or words
        begun = [f'"{stem(word)}"*' if len(word) >= _TELLING else f'"{word}"' for word in telling]
        is_asked_for = names(words)

        def operation() -> list[Hit]:
            found: dict[tuple[str, int], Hit] = {}
            for match in (every, " ".join(begun), " OR ".join(begun)):
                if len(found) >= limit:
                    break
                rows = self._connection.execute(SEARCH, (library_id, match, max(limit * 2, _LOOKED_AT)))
                hits = [
                    Hit(url, line, _paths.decode(path), " ".join(snippet.split()), score)
                    for url, line, path, snippet, score in rows
                ]
                for hit in sorted(hits, key=lambda hit: not is_asked_for(hit.heading_path)):
                    found.setdefault((hit.url, hit.line), hit)
            return list(found.values())[:limit]

        return self._safely("search", operation, [])

    def status(self) -> CacheStatus:
        """How much is kept."""

        def operation() -> CacheStatus:
            documents = self._connection.execute("SELECT count(*) FROM documents").fetchone()[0]
            sections = self._connection.execute("SELECT count(*) FROM sections").fetchone()[0]
            size = file_bytes(self._connection)
            return CacheStatus(str(self.path), self.is_in_memory, documents, sections, size)

        return self._safely("be counted", operation, CacheStatus(str(self.path), self.is_in_memory, 0, 0, 0))

    # --- writing ------------------------------------------------------------------------------------------------------

    def put(
        self,
        document: Document,
        library_ids: Iterable[str] = (),
        sections: Iterable[Section] = (),
        links: Iterable[str] | None = None,
    ) -> bool:
        """Keep a document and all that was made of it; whether that worked. `links` replaces those of each library."""
        # Lone surrogates cannot be written as UTF-8; no decoder of ours makes them, but a JSON index may hold them.
        packed = zlib.compress(document.text.encode("utf-8", "replace"), 1)
        headings = _encode(document.headings)
        ids, listed, parts = tuple(library_ids), None if links is None else tuple(links), tuple(sections)
        weight = weigh(packed, headings, parts, listed or ())

        def operation() -> bool:
            with self._transaction() as connection:
                delete_sections(connection, document.key)
                self.room.enter(connection, document.key, weight)
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
                    _join(connection, library_id, document.key)
                    if listed is not None:
                        connection.execute("DELETE FROM links WHERE library_id = ?", (library_id,))
                        connection.executemany(
                            "INSERT OR IGNORE INTO links VALUES (?, ?)", ((url, library_id) for url in listed)
                        )
                _insert_sections(connection, document.key, parts)
            return True

        return self._safely("write", operation, False)

    def join(self, library_id: str, key: str) -> None:
        """Say that a document belongs to a library too."""

        def operation() -> None:
            with self._transaction() as connection:
                _join(connection, library_id, key)

        self._safely("write", operation, None)

    def confirm(self, key: str, checked_at: float) -> None:
        """Note that the host says that a document is unchanged."""

        def operation() -> None:
            with self._transaction() as connection:
                connection.execute("UPDATE documents SET checked_at = ? WHERE key = ?", (checked_at, key))

        self._safely("write", operation, None)

    def clean(self, before: float) -> int:
        """Remove what was last confirmed before then; how many documents that were."""

        def operation() -> int:
            with self._transaction() as connection:
                rows = connection.execute(
                    "SELECT key FROM documents WHERE checked_at < ?", (before,)
                ).fetchall()
                delete_documents(connection, (key for (key,) in rows))
            return len(rows)

        return self._safely("clean up", operation, 0)

    @property
    def is_full(self) -> bool:
        """Whether the file is larger than it may be: then `make_room` is to be called until it is not."""
        return self._safely("be measured", lambda: self.room.is_exceeded(self._connection), False)

    def make_room(self) -> bool:
        """Do a piece of what makes the file smaller again; whether there is more to do."""
        return self._safely("make room", lambda: self.room.make(self._connection, self._transaction), False)

    def _write_uses(self) -> None:
        def operation() -> None:
            with self._transaction() as connection:
                self.room.write_uses(connection)

        self._safely("write", operation, None)


def _missed(what: str, error: sqlite3.DatabaseError, otherwise: _T) -> _T:
    """What to answer instead, if the disk is to blame; raises the error if we are."""
    if _code(error) not in _UNWILLING | _DAMAGED:
        raise error
    _log.warning("the cache could not %s: %s", what, error)
    return otherwise


def _prepare(connection: sqlite3.Connection) -> None:
    """WAL and the tables. Changing to WAL takes a lock that does not wait its turn, when two processes start at once."""
    for pause in (*([_OPEN_PAUSE] * _OPEN_ATTEMPTS), None):
        try:
            # Survives the death of the process at any point; a power cut may undo the last pages, and they are a cache.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # heard while the file is empty only
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(SCHEMA + ROOM_SCHEMA)
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or pause is None:
                raise
        time.sleep(pause)


def _join(connection: sqlite3.Connection, library_id: str, key: str) -> None:
    connection.execute("INSERT OR IGNORE INTO memberships VALUES (?, ?)", (library_id, key))


def _insert_sections(connection: sqlite3.Connection, key: str, sections: Iterable[Section]) -> None:
    for section in sections:
        row = connection.execute(
            "INSERT INTO sections (key, line, path) VALUES (?, ?, ?)",
            (key, section.line, _encode(section.path)),
        )
        heading, parents = section.path[-1] if section.path else "", " / ".join(section.path[:-1])
        body = section.body.encode("utf-8", "replace").decode("utf-8")
        connection.execute(
            "INSERT INTO section_text (rowid, heading, parents, body) VALUES (?, ?, ?, ?)",
            (row.lastrowid, heading, parents, body),
        )


def _code(error: sqlite3.Error) -> int | None:
    """The primary result code: the extended one without its upper bytes."""
    extended: int | None = getattr(error, "sqlite_errorcode", None)
    return None if extended is None else extended & 0xFF


def _identity(place: str) -> tuple[int, int] | None:
    try:
        found = os.stat(place)
    except OSError:
        return None
    return found.st_dev, found.st_ino


__all__ = ["FILE_NAME", "Store"]
