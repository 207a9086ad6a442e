"""`run_tasks()`: what it refuses. tests/chaos/test_tasks.py runs it in a process of its own."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from jackstay import Server
from jackstay.errors import UsageError
from jackstay.server import SqliteTaskStore, Tasks, run_tasks


def test_a_server_without_tasks_that_others_see_is_refused() -> None:
    with pytest.raises(UsageError, match="has no tasks"):
        run_tasks(Server("none"))
    with pytest.raises(UsageError, match="in the memory of the process"):
        run_tasks(Server("memory", extensions=[Tasks()]))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_runs_until_a_signal(
    number: signal.Signals, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server("durable", extensions=[Tasks(SqliteTaskStore(tmp_path / "tasks.db"))])
    server.on_startup(lambda: asyncio.get_running_loop().call_soon(os.kill, os.getpid(), number))
    assert run_tasks(server) == code
    assert capsys.readouterr().err == "durable runs tasks\n"
