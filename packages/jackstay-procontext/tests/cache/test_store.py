"""The cache file: storage, search, full disk, corruption, several processes, SIGKILL."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from procontext.cache import Document, Section
from procontext.cache._store import FILE_NAME, Store
from procontext.models import Heading
from scripted.places import PYTHONPATH


def document(key: str = "https://a.example/", text: str = "# A\nbody", at: float = 100.0) -> Document:
    return Document(
        key=key,
        kind="page",
        url=key,
        text=text,
        headings=(Heading(1, "A", "a", 1),),
        etag='"1"',
        last_modified="then",
        fetched_at=at,
        checked_at=at,
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "cache")
    yield opened
    opened.close()


# --- documents --------------------------------------------------------------------------------------------------------


def test_put_and_get(store: Store) -> None:
    assert store.get("https://a.example/") is None
    assert store.put(document())
    assert store.get("https://a.example/") == document()
    assert store.put(document(text="new", at=200.0))
    assert store.get("https://a.example/") == document(text="new", at=200.0)


def test_documents_persist(tmp_path: Path) -> None:
    first = Store(tmp_path)
    first.put(document())
    first.close()
    second = Store(tmp_path)
    assert second.get("https://a.example/") == document()
    second.close()


def test_lone_surrogates_are_replaced(store: Store) -> None:
    assert store.put(document(text="a\ud800b"), ("lib",), [Section(1, ("x",), "a\ud800b")])
    stored = store.get("https://a.example/")
    assert stored is not None
    assert stored.text == "a?b"


def test_confirm_changes_only_checked_at(store: Store) -> None:
    store.put(document())
    store.confirm("https://a.example/", 500.0)
    stored = store.get("https://a.example/")
    assert stored is not None
    assert (stored.fetched_at, stored.checked_at) == (100.0, 500.0)


def test_links_of_an_index_are_replaced(store: Store) -> None:
    store.put(document("index"), ("lib",), (), ["https://x.example/1", "https://x.example/2"])
    store.put(document("other index"), ("other",), (), ["https://x.example/2"])
    assert store.libraries_linking("https://x.example/2") == ("lib", "other")
    store.put(document("index"), ("lib",), (), ["https://x.example/3"])
    assert store.libraries_linking("https://x.example/1") == ()
    assert store.libraries_linking("https://x.example/2") == ("other",)


def test_clean_removes_page_with_sections(store: Store) -> None:
    store.put(document("old", at=1.0), ("lib",), [Section(1, ("jackstay",), "rope")])
    store.put(document("new", at=9.0), ("lib",), [Section(1, ("jackstay",), "rope")])
    assert store.clean(5.0) == 1
    assert store.get("old") is None
    assert [hit.url for hit in store.search("lib", "rope", 10)] == ["new"]
    status = store.status()
    assert (status.documents, status.sections, status.is_in_memory) == (1, 1, False)
    assert status.bytes > 0
    assert status.path.endswith(FILE_NAME)


# --- search -----------------------------------------------------------------------------------------------------------

SECTIONS = [
    Section(1, ("Guide",), "Tie the boat to the pier with a bowline knot."),
    Section(10, ("Guide", "Knots"), "The bowline holds. It is used everywhere."),
    Section(20, ("Guide", "Knots", "Bowline"), "Make a loop."),
    Section(30, ("API", "moor_boat()"), "Calls `moor_boat` with lines."),
    Section(40, (), "Words before any heading."),
]


def test_headings_rank_higher_than_body(store: Store) -> None:
    store.put(document(), ("lib",), SECTIONS)
    hits = store.search("lib", "bowline", 10)
    assert [hit.line for hit in hits] == [20, 10, 1]
    assert hits[0].heading_path == ("Guide", "Knots", "Bowline")
    assert hits[0].snippet == "Make a loop."
    assert hits[0].score > hits[1].score > hits[2].score


def test_names_with_underscores_are_one_word(store: Store) -> None:
    store.put(document(), ("lib",), SECTIONS)
    assert [hit.line for hit in store.search("lib", "moor_boat", 10)] == [30]


def test_sections_with_all_terms_rank_first(store: Store) -> None:
    store.put(document(), ("lib",), SECTIONS)
    assert store.search("lib", "pier bowline", 10)[0].line == 1
    assert len(store.search("lib", "pier bowline", 10)) == 3
    assert len(store.search("lib", "pier bowline", 1)) == 1
    assert [hit.line for hit in store.search("lib", "bef", 10)] == [40]  # a prefix matches if nothing else does


def test_stems_match_other_forms(store: Store) -> None:
    store.put(document(), ("lib",), SECTIONS)
    assert {hit.line for hit in store.search("lib", "boats", 10)} == {1, 30}  # also a part of moor_boat
    assert store.search("lib", "piers knots", 10)[0].line == 1


def test_exact_heading_ranks_first(store: Store) -> None:
    """A search for a class finds its section before a function that returns it."""
    parts = [
        Section(1, ("API", "build() -> Pier"), "Makes one."),
        Section(
            2,
            ("API", "class harbour.Pier(length: int, width: int, depth: int, owner: str)"),
            "A place to moor at.",
        ),
    ]
    store.put(document(), ("lib",), parts)
    assert [hit.line for hit in store.search("lib", "Pier", 10)] == [2, 1]


def test_query_is_never_fts_syntax(store: Store) -> None:
    store.put(document(), ("lib",), SECTIONS)
    for query in ("", "  ", '"', "* OR NEAR(", "a AND", "^", "_", "col:x -y", "'; DROP TABLE sections"):
        store.search("lib", query, 10)
        assert store.status().sections == len(SECTIONS), query


def test_search_is_limited_to_library(store: Store) -> None:
    store.put(document("one"), ("lib",), SECTIONS)
    assert store.search("other", "bowline", 10) == []
    store.join("other", "one")
    assert len(store.search("other", "bowline", 10)) == 3


def test_replaced_page_is_not_found_by_old_text(store: Store) -> None:
    store.put(document(), ("lib",), SECTIONS)
    store.put(document(), ("lib",), [Section(1, ("New",), "nothing of before")])
    assert store.search("lib", "bowline", 10) == []


# --- failures ---------------------------------------------------------------------------------------------------------


def test_full_disk_is_a_miss(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """The request is still served, and older documents stay intact."""
    store.put(document(), ("lib",), SECTIONS)
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    large = "".join(f"{number * 7919 % 10007} " for number in range(200_000))
    assert store.put(document("large", large), ("lib",), [Section(1, ("x",), large)]) is False
    assert "cache operation 'write' failed" in caplog.text
    assert store.get("large") is None
    assert len(store.search("lib", "bowline", 10)) == 3
    store._connection.execute("PRAGMA max_page_count = 1000000")
    assert store.put(document("large", large))


def test_locked_file_is_a_miss(store: Store) -> None:
    store._connection.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert store.put(document()) is False
    store.confirm("x", 1.0)
    store.join("a", "b")
    assert store.clean(0.0) == 0
    other.execute("ROLLBACK")
    other.close()
    assert store.put(document()) is True


def test_invalid_file_is_recreated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"this is not a database, but long enough to be one" * 100)
    opened = Store(tmp_path)
    assert "a new one is created" in caplog.text
    assert opened.put(document())
    assert opened.get("https://a.example/") == document()
    opened.close()


def damage(path: Path) -> None:
    """Overwrite everything after the file header."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(100)
        file.write(b"\xa5" * (size - 100))


@pytest.mark.parametrize("operation", ["get", "put", "search", "status", "clean", "libraries_linking"])
def test_file_corrupted_in_use_is_recreated(tmp_path: Path, operation: str) -> None:
    opened = Store(tmp_path)
    for number in range(50):
        opened.put(document(f"page {number}", "text " * 500), ("lib",), SECTIONS, ["https://x.example/"])
    opened._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damage(tmp_path / FILE_NAME)
    opened._connection.execute("PRAGMA shrink_memory")
    arguments = {
        "get": ("page 1",),
        "put": (document(),),
        "search": ("lib", "bowline", 5),
        "status": (),
        "clean": (1e9,),
        "libraries_linking": ("https://x.example/",),
    }
    getattr(opened, operation)(*arguments[operation])
    assert opened.put(document())
    assert opened.get("https://a.example/") == document()
    assert not opened.is_in_memory
    opened.close()


def test_new_file_of_another_process_is_kept(tmp_path: Path) -> None:
    old = Store(tmp_path)
    old.put(document("old"))
    (tmp_path / FILE_NAME).unlink()
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"{FILE_NAME}{suffix}").unlink(missing_ok=True)
    new = Store(tmp_path)
    new.put(document("new"))
    old._remove(sqlite3.DatabaseError("corrupt"))
    assert (tmp_path / FILE_NAME).exists()
    old._connection.close()
    old._connection = old._open()
    assert old.get("new") is not None
    old.close()
    new.close()


def test_corrupt_row_is_a_miss(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.put(document())
    store._connection.execute("UPDATE documents SET text = x'00'")
    assert store.get("https://a.example/") is None
    assert "is corrupt" in caplog.text


def test_programming_errors_are_raised(store: Store) -> None:
    store._connection.execute("DROP TABLE documents")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        store.get("x")


def test_unusable_directory_falls_back_to_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("not a folder")
    opened = Store(tmp_path / "file" / "below")
    assert opened.is_in_memory
    assert "in memory only" in caplog.text
    assert opened.put(document())
    assert opened.get("https://a.example/") == document()
    opened.close()


def test_undeletable_file_falls_back_to_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 1000)

    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("procontext.cache._store.os.unlink", refuse)
    opened = Store(tmp_path)
    assert opened.is_in_memory
    opened.close()


def test_open_waits_for_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(tmp_path).close()
    other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None, check_same_thread=False)
    other.execute("PRAGMA journal_mode = DELETE")
    other.execute("BEGIN EXCLUSIVE")
    waited: list[float] = []

    def release(seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # `time.sleep` is replaced for every thread, also for those that other tests left behind
        waited.append(seconds)
        if len(waited) == 1:
            other.execute("COMMIT")
            other.close()

    monkeypatch.setattr("procontext.cache._store.BUSY_SECONDS", 0.0)
    monkeypatch.setattr("procontext.cache._store.time.sleep", release)
    opened = Store(tmp_path)
    assert waited
    assert not opened.is_in_memory
    opened.close()


def test_open_gives_up_on_permanent_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(tmp_path).close()
    other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
    other.execute("PRAGMA journal_mode = DELETE")
    other.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr("procontext.cache._store.BUSY_SECONDS", 0.0)
    monkeypatch.setattr("procontext.cache._store.time.sleep", lambda seconds: None)
    opened = Store(tmp_path)
    assert opened.is_in_memory
    opened.close()
    other.close()


def test_repeated_corruption_is_a_miss(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> int:
        error = sqlite3.DatabaseError("malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    assert store._safely("count", broken, 7) == 7
    assert "cache operation 'count' failed" in caplog.text


# --- several processes ------------------------------------------------------------------------------------------------

WRITER = """
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from procontext.cache import Document, Section
from procontext.cache._store import Store
store = Store(Path(sys.argv[1]))
for number in range(100_000):
    key = f"{sys.argv[2]} {number}"
    text = f"{key} word{number} " * 200
    page = Document(key=key, kind="page", url=key, text=text, fetched_at=1.0, checked_at=1.0)
    if store.put(page, ("lib",), [Section(1, ("Heading",), text)]):
        print(key, flush=True)
"""


def writer(directory: Path, name: str) -> "subprocess.Popen[str]":
    source = PYTHONPATH
    command = [sys.executable, "-c", WRITER, str(directory), name, source]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_killed_writers_lose_nothing(tmp_path: Path) -> None:
    """Two processes write concurrently and are killed: every page that was reported as stored is complete."""
    children = [writer(tmp_path, name) for name in ("one", "two")]
    written: list[str] = []
    for child in children:
        assert child.stdout is not None
        written += [child.stdout.readline().strip() for _ in range(15)]
    for child in children:
        child.send_signal(signal.SIGKILL)
        rest, _ = child.communicate()
        complete = rest.rpartition("\n")[0]
        written += complete.split("\n") if complete else []
    opened = Store(tmp_path)
    assert opened._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    for key in written:
        assert opened.get(key) is not None, f"{key} is lost"
        number = key.split()[1]
        assert key in {hit.url for hit in opened.search("lib", f"word{number}", 5)}
    assert opened.status().sections == opened.status().documents >= len(written) >= 30
    opened.close()


def test_concurrent_opens(tmp_path: Path) -> None:
    opened: list[Store] = []
    threads = [threading.Thread(target=lambda: opened.append(Store(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.is_in_memory for store in opened] == [False] * 8
    for store in opened:
        store.close()


@contextmanager
def unprivileged_user() -> Iterator[None]:
    """Run as `nobody`, because root may write everywhere."""
    original = os.geteuid()
    if original == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(original)


def test_read_only_cache_falls_back_to_memory() -> None:
    with tempfile.TemporaryDirectory() as name:  # not `tmp_path`, which only its owner may enter
        folder = Path(name)
        Store(folder).close()
        folder.chmod(0o555)
        (folder / FILE_NAME).chmod(0o444)
        with unprivileged_user():
            opened = Store(folder)
            assert opened.put(document()) is opened.is_in_memory
            opened.close()
        folder.chmod(stat.S_IRWXU)
