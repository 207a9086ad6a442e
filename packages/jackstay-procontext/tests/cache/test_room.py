"""How large the cache may grow, and what goes first (design, section 4: two processes; `cache.max_bytes`)."""

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from procontext.cache import Document, Section
from procontext.cache._room import (
    BELIEVED_SECONDS,
    ENOUGH_PART,
    MOST_PENDING,
    Part,
    Room,
    file_bytes,
    used_bytes,
    weigh,
)
from procontext.cache._store import FILE_NAME, Store
from scripted.places import PYTHONPATH

BOUND = 1_500_000
WORDS = ["".join(random.Random(number).choices("abcdefghijklmnop", k=6)) for number in range(2000)]


class Clock:
    """A time that is set by hand, and goes on a little with every look."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    opened = Store(tmp_path, BOUND, clock)
    yield opened
    opened.close()


def put(store: Store, number: int, words: int = 1500) -> str:
    """A page whose text is about ten kilobytes; its key."""
    key = f"https://a.example/{number}"
    text = f"page{number}x " + " ".join(random.Random(number).choices(WORDS, k=words))
    made = Document(key=key, kind="page", url=key, text=text, fetched_at=1.0, checked_at=1.0)
    assert store.put(made, ("lib",), [Section(1, ("Heading",), text)])
    return key


def fill(store: Store) -> int:
    """Pages until it is full, and not only of free pages; how many, or the number of the one after."""
    number = max(numbers(store), default=-1) + 1
    while not (store.is_full and used_bytes(store._connection) > ENOUGH_PART * BOUND):
        put(store, number)
        number += 1
    return number


def make_room(store: Store) -> int:
    """To the end; how many pieces it took."""
    pieces = 1
    while store.make_room():
        pieces += 1
    return pieces


def numbers(store: Store) -> set[int]:
    rows = store._connection.execute("SELECT key FROM documents").fetchall()
    return {int(key.rpartition("/")[2]) for (key,) in rows}


def test_the_pages_that_were_used_longest_ago_go_first(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Also those that were only touched count as used; the file is below its bound afterwards, and what stays is whole."""
    assert not store.make_room()
    count = fill(store)
    clock.now += 7200
    store.get("https://a.example/0")
    store.room.touch("https://a.example/1")
    assert make_room(store) > 3
    left = numbers(store)
    gone = set(range(count)) - left
    assert gone == set(range(2, 2 + len(gone)))
    assert 0 < len(gone) < count / 3
    assert file_bytes(store._connection) <= BOUND
    assert not store.is_full
    for number in left:
        assert [hit.url for hit in store.search("lib", f"page{number}x", 1)] == [
            f"https://a.example/{number}"
        ]
    assert all(store.search("lib", f"page{number}x", 5) == [] for number in gone)
    status = store.status()
    assert status.documents == status.sections == len(left)
    assert store._connection.execute("SELECT count(*) FROM uses").fetchone()[0] == len(left)
    assert "too small" not in caplog.text


def test_a_cache_that_is_written_all_day_stays_below_its_bound(store: Store, tmp_path: Path) -> None:
    """Five times its size goes through it; the room that a merge needs is a little more for a moment."""
    largest = 0
    for number in range(400):
        put(store, number, words=1000)
        if store.is_full:
            make_room(store)
            assert not store.is_full
        largest = max(largest, (tmp_path / FILE_NAME).stat().st_size)
    assert largest < 1.4 * BOUND
    assert numbers(store) >= set(range(380, 400))
    assert store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_what_goes_though_it_was_just_read_is_told(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Once: a person can set `cache.max_bytes`."""
    fill(store)
    make_room(store)
    assert caplog.text.count("cache.max_bytes is too small") == 1


def test_one_page_that_is_larger_than_all_the_room_goes_too(tmp_path: Path, clock: Clock) -> None:
    """The answer that it was fetched for has gone out; the file must not stay."""
    opened = Store(tmp_path, 200_000, clock)
    put(opened, 1, words=30_000)
    assert opened.is_full
    make_room(opened)
    assert numbers(opened) == set()
    assert not opened.is_full
    opened.close()


def test_a_bound_that_was_lowered_is_met(tmp_path: Path, clock: Clock) -> None:
    """What is free in the file goes back to the disk."""
    opened = Store(tmp_path, BOUND, clock)
    fill(opened)
    opened.close()
    opened = Store(tmp_path, BOUND // 3, clock)
    make_room(opened)
    opened._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert (tmp_path / FILE_NAME).stat().st_size <= BOUND // 3
    assert numbers(opened)
    opened.close()


def test_free_pages_alone_are_given_back_without_a_loss(tmp_path: Path, clock: Clock) -> None:
    """As after a cleaning: nothing more has to go."""
    opened = Store(tmp_path, BOUND, clock)
    count = fill(opened)
    opened._connection.execute("DELETE FROM section_text")
    opened._connection.execute("INSERT INTO section_text (section_text) VALUES ('optimize')")
    make_room(opened)
    assert numbers(opened) == set(range(count))
    assert file_bytes(opened._connection) <= BOUND
    opened.close()


def index(store: Store, key: str, library_id: str, links: list[str]) -> None:
    made = Document(key=key, kind="index", url=key, text="x", fetched_at=1.0, checked_at=1.0)
    store.put(made, (library_id,), (), links)


def test_the_links_of_an_index_go_with_it_and_not_before(store: Store) -> None:
    """They allow addresses: without the index nobody vouches for them, and with another one of the library they stay."""
    index(store, "index one", "lib", ["https://x.example/"])
    index(store, "index two", "lib", ["https://x.example/"])
    index(store, "index other", "other", ["https://x.example/"])
    put(store, 1)
    store._connection.execute(
        "UPDATE documents SET checked_at = 0 WHERE key IN ('index one', 'https://a.example/1')"
    )
    assert store.clean(0.5) == 2
    assert store.libraries_linking("https://x.example/") == ("lib", "other")
    store._connection.execute("UPDATE documents SET checked_at = 0 WHERE key = 'index two'")
    assert store.clean(0.5) == 1
    assert store.libraries_linking("https://x.example/") == ("other",)


def test_a_document_weighs_what_was_made_of_it() -> None:
    sections = [Section(1, ("ab",), "c" * 100)]
    assert weigh(b"1234", b"[]", sections, ["https://x"]) == 4 + 2 + 2 * 102 + 3 * 9


# --- uses -------------------------------------------------------------------------------------------------------------


def used_at(store: Store, key: str) -> float:
    found: float = store._connection.execute("SELECT used_at FROM uses WHERE key = ?", (key,)).fetchone()[0]
    return found


def test_uses_are_written_by_themselves_when_there_are_many(store: Store, clock: Clock) -> None:
    """A server that only reads must tell the others what it reads."""
    key = put(store, 1)
    before = used_at(store, key)
    for number in range(MOST_PENDING):
        store.room.touch(f"nothing {number}")
    clock.now += 100
    store.get(key)
    assert used_at(store, key) > before + 99


def test_uses_are_written_at_the_end_and_never_go_back(tmp_path: Path, clock: Clock) -> None:
    """Of two processes the later use counts, whoever writes last."""
    first, second = Store(tmp_path, BOUND, clock), Store(tmp_path, BOUND, clock)
    key = put(first, 1)
    first.get(key)
    clock.now += 100
    second.get(key)
    second.close()
    later = used_at(first, key)
    first.close()
    third = Store(tmp_path, BOUND, clock)
    assert used_at(third, key) == later
    third.close()


# --- several processes, and misfortunes -------------------------------------------------------------------------------


def test_of_two_processes_one_makes_room(tmp_path: Path, clock: Clock) -> None:
    """Else both would take a tenth, and then another. If the one is killed, the other goes on after a while."""
    first, second = Store(tmp_path, BOUND, clock), Store(tmp_path, BOUND, clock)
    fill(first)
    assert first.make_room()
    assert second.is_full
    assert not second.make_room()
    clock.now -= 10 * BELIEVED_SECONDS  # a clock that was set back must not stop it for as long
    make_room(second)
    assert not second.is_full
    first.room.forget()
    fill(first)
    assert first.make_room()
    clock.now += BELIEVED_SECONDS + 1
    make_room(second)
    assert not second.is_full
    for opened in (first, second):
        opened.close()


def test_who_closes_in_the_middle_lets_the_next_one_go_on_at_once(tmp_path: Path, clock: Clock) -> None:
    """A command that fetches ends soon; the next one has not to wait until nobody believes it any more."""
    first = Store(tmp_path, BOUND, clock)
    fill(first)
    assert first.make_room()
    first.close()
    second = Store(tmp_path, BOUND, clock)
    make_room(second)
    assert not second.is_full
    second.close()


def test_another_that_writes_is_no_reason_to_fail(store: Store) -> None:
    """It is tried again with the next page."""
    fill(store)
    store._connection.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert not store.make_room()
    other.execute("ROLLBACK")
    other.close()
    make_room(store)
    assert not store.is_full


def test_a_file_that_was_made_anew_is_begun_from_the_beginning(store: Store, clock: Clock) -> None:
    """Damage in the middle of making room."""
    fill(store)
    store.make_room()
    assert repr(store.room) == f"<Room of {BOUND} bytes, next: {Part.MERGE_ALL.value}>"
    store.room.forget()
    assert repr(store.room) == f"<Room of {BOUND} bytes, next: {Part.NOTHING.value}>"
    clock.now += BELIEVED_SECONDS + 1
    make_room(store)
    assert not store.is_full


WRITER = """
import random, sys
from pathlib import Path
sys.path[:0] = sys.argv[4:]
from procontext.cache import Document, Section
from procontext.cache._store import Store
store = Store(Path(sys.argv[1]), int(sys.argv[2]))
words = [f"w{number}" for number in range(3000)]
for number in range(100_000):
    key = f"{sys.argv[3]}{number}"
    text = " ".join(random.choices(words, k=2000))
    store.put(
        Document(key=key, kind="page", url=key, text=text, fetched_at=1.0, checked_at=1.0),
        ("lib",), [Section(1, ("H",), text)],
    )
    while store.is_full and store.make_room():
        pass
    print(number, flush=True)
"""


def test_two_processes_write_far_more_than_the_bound_and_are_killed(tmp_path: Path) -> None:
    """The file is whole, and not much larger than its bound; the next one who opens it makes room."""
    source = PYTHONPATH
    children = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(BOUND), name, source],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    for child in children:
        assert child.stdout is not None
        while int(child.stdout.readline()) < 60:
            pass
    for child in children:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    opened = Store(tmp_path, BOUND, lambda: time.time() + BELIEVED_SECONDS)
    assert opened._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert file_bytes(opened._connection) < 2 * BOUND
    assert opened.status().sections == opened.status().documents > 10
    make_room(opened)
    assert not opened.is_full
    assert opened.status().sections == opened.status().documents > 10
    opened.close()


def test_a_room_says_what_it_does_next() -> None:
    assert repr(Room(5, lambda: 0.0)) == "<Room of 5 bytes, next: nothing>"
