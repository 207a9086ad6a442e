"""Garbage collection during the start of the command."""

import gc
from pathlib import Path
from typing import Any

import pytest

from apcore_mcp.cli import main
from apcore_mcp.server.transport import TransportManager


@pytest.mark.parametrize("is_on", [True, False])
def test_objects_are_frozen_while_serving(modules: Path, monkeypatch: pytest.MonkeyPatch, is_on: bool) -> None:
    """A disabled collector stays disabled."""
    seen: list[Any] = []
    monkeypatch.setattr(TransportManager, "run", lambda *_: seen.append((gc.isenabled(), gc.get_freeze_count() > 1000)))
    if not is_on:
        gc.disable()
    try:
        assert main(["--extensions-dir", str(modules)]) == 0
        seen.append((gc.isenabled(), gc.get_freeze_count() > 1000))
    finally:
        gc.enable()
    assert seen == [(is_on, is_on), (is_on, False)]


def test_failed_start_enables_gc(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError("in use")

    monkeypatch.setattr(TransportManager, "run", fail)
    assert main(["--extensions-dir", str(modules)]) == 2
    assert gc.isenabled()
    assert gc.get_freeze_count() < 1000
