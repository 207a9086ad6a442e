"""The log of tasks in a file."""

from pathlib import Path

import pytest

from jackstay.client import FileTaskLog, LoggedTask
from jackstay.errors import UsageError

ONE, TWO = LoggedTask("1", "a", "build"), LoggedTask("2", "a", "build")


def test_tasks_are_pending_until_they_end(tmp_path: Path) -> None:
    log = FileTaskLog(tmp_path / "tasks.log")
    assert log.pending() == []
    log.began(ONE)
    log.began(TWO)
    assert FileTaskLog(tmp_path / "tasks.log").pending() == [ONE, TWO]
    log.ended(ONE)
    assert log.pending() == [TWO]
    log.ended(LoggedTask("2", "b", "build"))  # of another server
    assert log.pending() == [TWO]
    log.ended(TWO)
    assert log.pending() == []
    assert (tmp_path / "tasks.log").stat().st_size == 0
    assert "tasks.log" in repr(log)


def test_a_line_that_a_crash_cut_off_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "tasks.log"
    log = FileTaskLog(path)
    log.began(ONE)
    with path.open("ab") as file:
        file.write(b'{"id":"2","ser')
    log.began(TWO)
    assert log.pending() == [ONE, TWO]


def test_a_file_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write the task log"):
        FileTaskLog(tmp_path / "missing" / "tasks.log").began(ONE)
    with pytest.raises(UsageError, match="cannot read the task log"):
        FileTaskLog(tmp_path).pending()
