"""Tasks in an SQLite file."""

from pathlib import Path

import pytest

from jackstay.errors import StateError, UsageError
from jackstay.server import SqliteTaskStore
from jackstay.testing.task_store_suite import RECORD, TaskStoreSuite


class TestSqliteTaskStore(TaskStoreSuite):
    @pytest.fixture(autouse=True)
    def _path(self, tmp_path: Path) -> None:
        self._file = tmp_path / "tasks.db"

    def make(self) -> tuple[SqliteTaskStore, SqliteTaskStore]:
        return SqliteTaskStore(self._file), SqliteTaskStore(str(self._file))


async def test_servers_with_other_names_do_not_share_tasks(tmp_path: Path) -> None:
    first, second = SqliteTaskStore(tmp_path / "tasks.db"), SqliteTaskStore(tmp_path / "tasks.db")
    await first.open("a")
    await second.open("b")
    assert await first.create(RECORD, 1) == RECORD
    assert await second.load("one") is None
    assert await second.create(RECORD, 1) == RECORD
    await first.close()
    await second.close()


async def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot open the task store"):
        await SqliteTaskStore(tmp_path / "missing" / "tasks.db").open("a")
    (tmp_path / "text.db").write_text("not a database" * 100)
    with pytest.raises(UsageError, match="cannot open the task store"):
        await SqliteTaskStore(tmp_path / "text.db").open("a")


async def test_a_store_that_is_not_open_refuses(tmp_path: Path) -> None:
    store = SqliteTaskStore(tmp_path / "tasks.db")
    with pytest.raises(StateError, match="not open"):
        await store.load("one")
    await store.close()
    assert "tasks.db" in repr(store)


async def test_a_creation_that_fails_stores_nothing(tmp_path: Path) -> None:
    store = SqliteTaskStore(tmp_path / "tasks.db")
    await store.open("a")
    with pytest.raises(TypeError):
        await store.create(RECORD, None)  # type: ignore[arg-type]  # compared with a number inside the transaction
    assert await store.load("one") is None
    assert await store.create(RECORD, 1) == RECORD
    await store.close()
