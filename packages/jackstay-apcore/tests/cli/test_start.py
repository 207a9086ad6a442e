"""The start of the command: no garbage is looked for while everything is loaded, and all of it is as before in the end."""

import gc
from pathlib import Path
from typing import Any

import pytest

from apcore_mcp.cli import main
from apcore_mcp.server.transport import TransportManager


@pytest.mark.parametrize("is_on", [True, False])
def test_what_is_loaded_is_set_aside_while_it_serves(
    modules: Path, monkeypatch: pytest.MonkeyPatch, is_on: bool
) -> None:
    """The cold start; where somebody has turned the collector off, it is left alone."""
    seen: list[Any] = []
    monkeypatch.setattr(
        TransportManager, "run", lambda *words: seen.append((gc.isenabled(), gc.get_freeze_count() > 1000))
    )
    if not is_on:
        gc.disable()
    try:
        assert main(["--extensions-dir", str(modules)]) == 0
        seen.append((gc.isenabled(), gc.get_freeze_count() > 1000))
    finally:
        gc.enable()
    assert seen == [(is_on, is_on), (is_on, False)]


def test_a_start_that_fails_leaves_the_collector_on(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*words: Any) -> None:
        raise OSError("taken")

    monkeypatch.setattr(TransportManager, "run", fail)
    assert main(["--extensions-dir", str(modules)]) == 2
    assert gc.isenabled()
    assert gc.get_freeze_count() < 1000
