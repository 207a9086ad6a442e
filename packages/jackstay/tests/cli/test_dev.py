"""`jackstay dev`: the server that it runs, and the page until a signal arrives."""

import os
import signal
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from jackstay.cli import main
from jackstay.cli._dev import _choice
from jackstay.errors import UsageError


def choice(*words: str, server: list[str] | None = None) -> tuple[str, str, str]:
    made, directory = _choice(Namespace(words=list(words), server=server))
    return made.name, made.display, directory


def test_a_file_a_module_and_a_command(tmp_path: Path) -> None:
    path = tmp_path / "server.py"
    path.write_text("")
    assert choice(f"{path}:app") == ("server", f"jackstay serve {path}:app", str(tmp_path))
    assert choice("package.module") == ("package.module", "jackstay serve package.module", ".")
    assert choice(server=["python", "x.py"]) == ("server", "python x.py", ".")


def test_invalid_words(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no such file: 'none\.py'"):
        choice("none.py")
    for words in ((), ("a", "b")):
        with pytest.raises(UsageError, match="expected one FILE_OR_MODULE"):
            choice(*words)
    with pytest.raises(UsageError, match="unexpected argument 'x'"):
        choice("x", server=["python"])


def test_a_page_until_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.py"
    path.write_text("from jackstay import Server\nserver = Server('demo')\n")
    monkeypatch.setattr("jackstay.oauth.open_in_browser", lambda url: os.kill(os.getpid(), signal.SIGTERM))
    assert main(["dev", str(path)]) == 0
    assert "The inspector: http://127.0.0.1:" in capsys.readouterr().err


def test_a_directory_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "server.py"
    path.write_text("")
    assert main(["dev", str(path), "--watch", str(tmp_path / "none"), "--no-browser"]) == 2
    assert "no such file or directory" in capsys.readouterr().err


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    assert main(["dev", "--no-browser", "--", sys.executable, "-c", "input()"]) == 2
    assert "pip install 'jackstay[dev]'" in capsys.readouterr().err
