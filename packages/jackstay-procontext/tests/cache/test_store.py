"""The cache file (design, section 4: disk full, corruption, two processes, kill -9; section 2, point 1: search)."""

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


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_what_is_put_is_got_back(store: Store) -> None:
    assert store.get("https://a.example/") is None
    assert store.put(document())
    assert store.get("https://a.example/") == document()
    assert store.put(document(text="new", at=200.0))
    assert store.get("https://a.example/") == document(text="new", at=200.0)


def test_what_is_kept_outlives_the_process(tmp_path: Path) -> None:
    first = Store(tmp_path)
    first.put(document())
    first.close()
    second = Store(tmp_path)
    assert second.get("https://a.example/") == document()
    second.close()


def test_text_that_is_no_unicode_is_kept_all_the_same(store: Store) -> None:
    assert store.put(document(text="a\ud800b"), ("lib",), [Section(1, ("x",), "a\ud800b")])
    kept = store.get("https://a.example/")
    assert kept is not None
    assert kept.text == "a?b"


def test_a_confirmation_changes_the_time_alone(store: Store) -> None:
    store.put(document())
    store.confirm("https://a.example/", 500.0)
    kept = store.get("https://a.example/")
    assert kept is not None
    assert (kept.fetched_at, kept.checked_at) == (100.0, 500.0)


def test_links_of_an_index_replace_the_ones_before(store: Store) -> None:
    store.put(document("index"), ("lib",), (), ["https://x.example/1", "https://x.example/2"])
    store.put(document("other index"), ("other",), (), ["https://x.example/2"])
    assert store.libraries_linking("https://x.example/2") == ("lib", "other")
    store.put(document("index"), ("lib",), (), ["https://x.example/3"])
    assert store.libraries_linking("https://x.example/1") == ()
    assert store.libraries_linking("https://x.example/2") == ("other",)


def test_cleaning_takes_a_page_with_all_that_was_made_of_it(store: Store) -> None:
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


def test_a_word_in_a_heading_weighs_more_than_one_in_the_text(store: Store) -> None:
    store.put(document(), ("lib",), SECTIONS)
    hits = store.search("lib", "bowline", 10)
    assert [hit.line for hit in hits] == [20, 10, 1]
    assert hits[0].heading_path == ("Guide", "Knots", "Bowline")
    assert hits[0].snippet == "Make a loop."
    assert hits[0].score > hits[1].score > hits[2].score


def test_names_with_underscores_are_one_word(store: Store) -> None:
    store.put(document(), ("lib",), SECTIONS)
    assert [hit.line for hit in store.search("lib", "moor_boat", 10)] == [30]


def test_sections_with_every_word_come_before_those_with_some(store: Store) -> None:
    store.put(document(), ("lib",), SECTIONS)
    assert store.search("lib", "pier bowline", 10)[0].line == 1
    assert len(store.search("lib", "pier bowline", 10)) == 3
    assert len(store.search("lib", "pier bowline", 1)) == 1
    assert [hit.line for hit in store.search("lib", "bef", 10)] == [
        40
    ]  # the beginning of a word, if nothing else


def test_other_forms_of_a_word_are_found_where_the_word_itself_is_not(store: Store) -> None:
    store.put(document(), ("lib",), SECTIONS)
    assert [hit.line for hit in store.search("lib", "boats", 10)] == [1]
    assert store.search("lib", "piers knots", 10)[0].line == 1


def test_what_is_called_just_so_comes_first(store: Store) -> None:
    """Who looks for a class wants it, and not what returns one, however short that is."""
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


@pytest.mark.parametrize(
    "query", ["", "  ", '"', "* OR NEAR(", "a AND", "^", "_", "col:x -y", "'; DROP TABLE sections"]
)
def test_a_query_is_words_and_never_syntax(store: Store, query: str) -> None:
    store.put(document(), ("lib",), SECTIONS)
    store.search("lib", query, 10)
    assert store.status().sections == len(SECTIONS)


def test_a_search_stays_in_its_library(store: Store) -> None:
    store.put(document("one"), ("lib",), SECTIONS)
    assert store.search("other", "bowline", 10) == []
    store.join("other", "one")
    assert len(store.search("other", "bowline", 10)) == 3


def test_a_page_that_is_put_again_is_not_found_by_its_old_words(store: Store) -> None:
    store.put(document(), ("lib",), SECTIONS)
    store.put(document(), ("lib",), [Section(1, ("New",), "nothing of before")])
    assert store.search("lib", "bowline", 10) == []


# --- misfortunes ------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_a_miss_and_not_an_error(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Design, section 4: the answer still goes out. What was there before stays whole."""
    store.put(document(), ("lib",), SECTIONS)
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    large = "".join(f"{number * 7919 % 10007} " for number in range(200_000))
    assert store.put(document("large", large), ("lib",), [Section(1, ("x",), large)]) is False
    assert "the cache could not write" in caplog.text
    assert store.get("large") is None
    assert len(store.search("lib", "bowline", 10)) == 3
    store._connection.execute("PRAGMA max_page_count = 1000000")
    assert store.put(document("large", large))


def test_a_cache_that_is_locked_by_another_is_a_miss(store: Store) -> None:
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


def test_a_file_that_is_no_database_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"this is no database, but it is long enough to be looked at" * 100)
    opened = Store(tmp_path)
    assert "it is made anew" in caplog.text
    assert opened.put(document())
    assert opened.get("https://a.example/") == document()
    opened.close()


def damage(path: Path) -> None:
    """Overwrite everything after the head of the file."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(100)
        file.write(b"\xa5" * (size - 100))


@pytest.mark.parametrize("operation", ["get", "put", "search", "status", "clean", "libraries_linking"])
def test_a_file_that_is_damaged_while_in_use_is_made_anew(tmp_path: Path, operation: str) -> None:
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


def test_a_new_file_of_another_process_is_not_taken_away(tmp_path: Path) -> None:
    mine = Store(tmp_path)
    mine.put(document("mine"))
    (tmp_path / FILE_NAME).unlink()
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"{FILE_NAME}{suffix}").unlink(missing_ok=True)
    theirs = Store(tmp_path)
    theirs.put(document("theirs"))
    mine._remove(sqlite3.DatabaseError("as if it were damaged"))
    assert (tmp_path / FILE_NAME).exists()
    mine._connection.close()
    mine._connection = mine._open()
    assert mine.get("theirs") is not None
    mine.close()
    theirs.close()


def test_a_row_that_is_damaged_is_a_miss(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.put(document())
    store._connection.execute("UPDATE documents SET text = x'00'")
    assert store.get("https://a.example/") is None
    assert "is damaged" in caplog.text


def test_an_error_of_ours_is_not_hidden(store: Store) -> None:
    store._connection.execute("DROP TABLE documents")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        store.get("x")


def test_a_place_that_cannot_be_used_is_replaced_by_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    opened = Store(tmp_path / "file" / "below")
    assert opened.is_in_memory
    assert "in memory only" in caplog.text
    assert opened.put(document())
    assert opened.get("https://a.example/") == document()
    opened.close()


def test_what_cannot_be_removed_is_replaced_by_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 1000)

    def refuse(path: object) -> None:
        raise PermissionError(13, "not yours")

    monkeypatch.setattr("procontext.cache._store.os.unlink", refuse)
    opened = Store(tmp_path)
    assert opened.is_in_memory
    opened.close()


def test_opening_waits_for_another_that_is_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(tmp_path).close()
    other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None, check_same_thread=False)
    other.execute("PRAGMA journal_mode = DELETE")
    other.execute("BEGIN EXCLUSIVE")
    waited: list[float] = []

    def release(seconds: float) -> None:
        waited.append(seconds)
        if other.in_transaction:
            other.execute("COMMIT")
            other.close()

    monkeypatch.setattr("procontext.cache._store.BUSY_SECONDS", 0.0)
    monkeypatch.setattr("procontext.cache._store.time.sleep", release)
    opened = Store(tmp_path)
    assert waited
    assert not opened.is_in_memory
    opened.close()


def test_opening_gives_up_on_another_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_damage_that_comes_back_at_once_is_a_miss(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> int:
        error = sqlite3.DatabaseError("malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    assert store._safely("count", broken, 7) == 7
    assert "the cache could not count" in caplog.text


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
    made = Document(key=key, kind="page", url=key, text=text, fetched_at=1.0, checked_at=1.0)
    if store.put(made, ("lib",), [Section(1, ("Heading",), text)]):
        print(key, flush=True)
"""


def writer(directory: Path, name: str) -> "subprocess.Popen[str]":
    source = PYTHONPATH
    command = [sys.executable, "-c", WRITER, str(directory), name, source]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_share_one_cache_and_kill_loses_nothing(tmp_path: Path) -> None:
    """Both write at once and are killed in the middle: all that was reported as kept is there, whole and searchable."""
    children = [writer(tmp_path, name) for name in ("one", "two")]
    written: list[str] = []
    for child in children:
        assert child.stdout is not None
        written += [child.stdout.readline().strip() for _ in range(15)]
    for child in children:
        child.send_signal(signal.SIGKILL)
        rest, _ = child.communicate()
        whole = rest.rpartition("\n")[0]
        written += whole.split("\n") if whole else []
    opened = Store(tmp_path)
    assert opened._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    for key in written:
        kept = opened.get(key)
        assert kept is not None, f"{key} is lost"
        number = key.split()[1]
        assert key in {hit.url for hit in opened.search("lib", f"word{number}", 5)}
    assert opened.status().sections == opened.status().documents >= len(written) >= 30
    opened.close()


def test_processes_that_start_at_once_all_get_the_cache(tmp_path: Path) -> None:
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
def somebody_else() -> Iterator[None]:
    """Root may write everywhere: for as long as this lasts it is nobody."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(mine)


def test_a_cache_that_is_read_only_is_replaced_by_memory() -> None:
    with tempfile.TemporaryDirectory() as name:  # not pytest's own folders, which only their owner may enter
        folder = Path(name)
        Store(folder).close()
        folder.chmod(0o555)
        (folder / FILE_NAME).chmod(0o444)
        with somebody_else():
            opened = Store(folder)
            assert opened.put(document()) is opened.is_in_memory
            opened.close()
        folder.chmod(stat.S_IRWXU)
