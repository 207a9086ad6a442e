"""A saved file restarts the server."""

import sys
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.inspector import restart_on_save
from scripted.inspected import Inspected, with_inspected


@with_inspected
async def test_each_change_connects_again(inspected: Inspected, monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[str] = []

    async def awatch(*paths: str, watch_filter: Any) -> AsyncIterator[set[tuple[int, str]]]:
        watched.extend(paths)
        assert watch_filter == "python"
        yield {(1, "server.py")}
        yield {(1, "b.py"), (1, "a.py"), (2, "c.py")}

    fake = SimpleNamespace(awatch=awatch, PythonFilter=lambda: "python")
    monkeypatch.setitem(sys.modules, "watchfiles", fake)  # type: ignore[arg-type]  # used as a module
    await restart_on_save(inspected.inspection, ["."])
    assert watched == ["."]
    notes = [event["text"] for event in inspected.events("note")]
    assert notes == [
        "server.py was saved: the server is restarted",
        "a.py and 2 more was saved: the server is restarted",
    ]
    await inspected.inspection.client.ready(60)
    assert (await inspected.call("add", a=1))[-1]["structured"] == {"result": 3}


@with_inspected
async def test_what_cannot_be_watched(inspected: Inspected, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="--watch: no such file or directory: 'nowhere'"):
        await restart_on_save(inspected.inspection, ["nowhere"])
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(UsageError, match=r"needs the extra `dev`: pip install 'jackstay\[dev\]'"):
        await restart_on_save(inspected.inspection, ["."])
