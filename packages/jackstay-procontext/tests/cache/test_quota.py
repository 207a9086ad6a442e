"""Eviction from the cache file, also with several processes."""

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
from procontext.cache._quota import (
    LEASE_SECONDS,
    MAX_PENDING,
    VACUUM_FRACTION,
    Phase,
    Quota,
    file_bytes,
    used_bytes,
    weigh,
)
from procontext.cache._search import tables
from procontext.cache._store import FILE_NAME, Store
from scripted.places import PYTHONPATH

QUOTA = 1_500_000
WORDS = ["".join(random.Random(number).choices("abcdefghijklmnop", k=6)) for number in range(2000)]


class Clock:
    """A fake clock that advances a little with every call."""

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
    opened = Store(tmp_path, QUOTA, clock)
    yield opened
    opened.close()


def put(store: Store, number: int, words: int = 1500) -> str:
    """Store a page of about ten kilobytes and return its key."""
    key = f"https://a.example/{number}"
    text = f"page{number}x " + " ".join(random.Random(number).choices(WORDS, k=words))
    page = Document(key=key, kind="page", url=key, text=text, fetched_at=1.0, checked_at=1.0)
    assert store.put(page, ("lib",), [Section(1, ("Heading",), text)])
    return key


def fill(store: Store) -> int:
    """Store pages until the quota is exceeded by pages in use. Return the next number."""
    number = max(numbers(store), default=-1) + 1
    while not (store.is_full and used_bytes(store._connection) > VACUUM_FRACTION * QUOTA):
        put(store, number)
        number += 1
    return number


def evict(store: Store) -> int:
    """Evict completely and return the number of steps."""
    steps = 1
    while store.evict_step():
        steps += 1
    return steps


def numbers(store: Store) -> set[int]:
    rows = store._connection.execute("SELECT key FROM documents").fetchall()
    return {int(key.rpartition("/")[2]) for (key,) in rows}


def test_least_recently_used_pages_are_evicted_first(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Touched pages count as used. Afterwards the file is below its quota, and the other pages are complete."""
    assert not store.evict_step()
    count = fill(store)
    clock.now += 7200
    store.get("https://a.example/0")
    store.quota.touch("https://a.example/1")
    assert evict(store) > 3
    kept = numbers(store)
    evicted = set(range(count)) - kept
    assert evicted == set(range(2, 2 + len(evicted)))
    assert 0 < len(evicted) < count / 3
    assert file_bytes(store._connection) <= QUOTA
    assert not store.is_full
    for number in kept:
        assert [hit.url for hit in store.search("lib", f"page{number}x", 1)] == [f"https://a.example/{number}"]
    assert all(store.search("lib", f"page{number}x", 5) == [] for number in evicted)
    status = store.status()
    assert status.documents == status.sections == len(kept)
    assert store._connection.execute("SELECT count(*) FROM uses").fetchone()[0] == len(kept)
    assert "increase cache.max_bytes" not in caplog.text


def test_continuous_writes_stay_below_quota(store: Store, tmp_path: Path) -> None:
    """Five times the quota is written. A merge needs a little more space temporarily."""
    largest = 0
    for number in range(400):
        put(store, number, words=1000)
        if store.is_full:
            evict(store)
            assert not store.is_full
        largest = max(largest, (tmp_path / FILE_NAME).stat().st_size)
    assert largest < 1.4 * QUOTA
    assert numbers(store) >= set(range(380, 400))
    assert store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_eviction_of_recent_pages_is_logged(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """The warning is logged once and names the setting."""
    fill(store)
    evict(store)
    assert caplog.text.count("increase cache.max_bytes") == 1


def test_page_larger_than_quota_is_evicted(tmp_path: Path, clock: Clock) -> None:
    """The request that fetched it was served; the file must not stay too large."""
    opened = Store(tmp_path, 200_000, clock)
    put(opened, 1, words=30_000)
    assert opened.is_full
    evict(opened)
    assert numbers(opened) == set()
    assert not opened.is_full
    opened.close()


def test_lowered_quota(tmp_path: Path, clock: Clock) -> None:
    """Free pages are returned to the file system."""
    opened = Store(tmp_path, QUOTA, clock)
    fill(opened)
    opened.close()
    opened = Store(tmp_path, QUOTA // 3, clock)
    evict(opened)
    opened._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert (tmp_path / FILE_NAME).stat().st_size <= QUOTA // 3
    assert numbers(opened)
    opened.close()


def test_free_pages_are_truncated_without_eviction(tmp_path: Path, clock: Clock) -> None:
    """`clean` leaves free pages; no further document is removed."""
    opened = Store(tmp_path, QUOTA, clock)
    count = fill(opened)
    for table in tables(opened._connection):
        opened._connection.execute(f"DELETE FROM {table}")
        opened._connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
    evict(opened)
    assert numbers(opened) == set(range(count))
    assert file_bytes(opened._connection) <= QUOTA
    opened.close()


def index(store: Store, key: str, library_id: str, links: list[str]) -> None:
    document = Document(key=key, kind="index", url=key, text="x", fetched_at=1.0, checked_at=1.0)
    store.put(document, (library_id,), (), links)


def test_links_are_deleted_with_last_index(store: Store) -> None:
    """Links allow URLs. They are deleted with the last index of a library, and kept with another index."""
    index(store, "index one", "lib", ["https://x.example/"])
    index(store, "index two", "lib", ["https://x.example/"])
    index(store, "index other", "other", ["https://x.example/"])
    put(store, 1)
    store._connection.execute("UPDATE documents SET checked_at = 0 WHERE key IN ('index one', 'https://a.example/1')")
    assert store.clean(0.5) == 2
    assert store.libraries_linking("https://x.example/") == ("lib", "other")
    store._connection.execute("UPDATE documents SET checked_at = 0 WHERE key = 'index two'")
    assert store.clean(0.5) == 1
    assert store.libraries_linking("https://x.example/") == ("other",)


def test_weigh() -> None:
    sections = [Section(1, ("ab",), "c" * 100)]
    assert weigh(b"1234", b"[]", sections, ["https://x"]) == 4 + 2 + 2 * 102 + 3 * 9


# --- uses -------------------------------------------------------------------------------------------------------------


def used_at(store: Store, key: str) -> float:
    found: float = store._connection.execute("SELECT used_at FROM uses WHERE key = ?", (key,)).fetchone()[0]
    return found


def test_many_pending_uses_are_flushed(store: Store, clock: Clock) -> None:
    """A server that only reads must still record its uses for other processes."""
    key = put(store, 1)
    before = used_at(store, key)
    for number in range(MAX_PENDING):
        store.quota.touch(f"nothing {number}")
    clock.now += 100
    store.get(key)
    assert used_at(store, key) > before + 99


def test_uses_are_flushed_on_close_and_never_go_back(tmp_path: Path, clock: Clock) -> None:
    """The later use counts, whichever process writes last."""
    first, second = Store(tmp_path, QUOTA, clock), Store(tmp_path, QUOTA, clock)
    key = put(first, 1)
    first.get(key)
    clock.now += 100
    second.get(key)
    second.close()
    later = used_at(first, key)
    first.close()
    third = Store(tmp_path, QUOTA, clock)
    assert used_at(third, key) == later
    third.close()


# --- several processes and failures -----------------------------------------------------------------------------------


def test_only_one_process_evicts(tmp_path: Path, clock: Clock) -> None:
    """Two processes would evict twice as much. If the evicting process is killed, another continues after the lease."""
    first, second = Store(tmp_path, QUOTA, clock), Store(tmp_path, QUOTA, clock)
    fill(first)
    assert first.evict_step()
    assert second.is_full
    assert not second.evict_step()
    clock.now -= 10 * LEASE_SECONDS  # a clock that was set back must not extend the lease
    evict(second)
    assert not second.is_full
    first.quota.reset()
    fill(first)
    assert first.evict_step()
    clock.now += LEASE_SECONDS + 1
    evict(second)
    assert not second.is_full
    for opened in (first, second):
        opened.close()


def test_close_releases_the_lease(tmp_path: Path, clock: Clock) -> None:
    """The next process need not wait for the end of the lease."""
    first = Store(tmp_path, QUOTA, clock)
    fill(first)
    assert first.evict_step()
    first.close()
    second = Store(tmp_path, QUOTA, clock)
    evict(second)
    assert not second.is_full
    second.close()


def test_locked_file_is_retried(store: Store) -> None:
    """Eviction is retried with the next page."""
    fill(store)
    store._connection.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert not store.evict_step()
    other.execute("ROLLBACK")
    other.close()
    evict(store)
    assert not store.is_full


def test_reset_after_recreation(store: Store, clock: Clock) -> None:
    """The file is replaced during an eviction."""
    fill(store)
    store.evict_step()
    assert repr(store.quota) == f"<Quota of {QUOTA} bytes, phase: {Phase.MERGE_START.value}>"
    store.quota.reset()
    assert repr(store.quota) == f"<Quota of {QUOTA} bytes, phase: {Phase.IDLE.value}>"
    clock.now += LEASE_SECONDS + 1
    evict(store)
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
    while store.is_full and store.evict_step():
        pass
    print(number, flush=True)
"""


def test_killed_writers_leave_intact_file(tmp_path: Path) -> None:
    """The file is intact and not much larger than its quota; the next process evicts."""
    source = PYTHONPATH
    children = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(QUOTA), name, source],
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
    opened = Store(tmp_path, QUOTA, lambda: time.time() + LEASE_SECONDS)
    assert opened._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert file_bytes(opened._connection) < 2 * QUOTA
    assert opened.status().sections == opened.status().documents > 10
    evict(opened)
    assert not opened.is_full
    assert opened.status().sections == opened.status().documents > 10
    opened.close()


def test_repr() -> None:
    assert repr(Quota(5, lambda: 0.0)) == "<Quota of 5 bytes, phase: idle>"
