"""`jackstay uninstall`: one server is removed, and everything else stays."""

from collections.abc import Callable
from pathlib import Path

import pytest

from jackstay.cli import main


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_the_server_is_removed_again(home: Path, capsys: pytest.CaptureFixture[str], terminal: Callable) -> None:
    main(["install", "codex", "--name", "one", "--", "cat"])
    text = (home / ".codex/config.toml").read_text()
    main(["install", "codex", "--name", "two", "--", "cat"])
    terminal(80)
    assert main(["uninstall", "codex", "two", "--dry-run"]) == 0
    assert main(["uninstall", "codex", "two"]) == 0
    assert (home / ".codex/config.toml").read_text() == text
    assert "removed 'two' from Codex CLI" in capsys.readouterr().out
    assert main(["uninstall", "codex", "tow"]) == 2
    assert "has no server 'tow'" in capsys.readouterr().err
