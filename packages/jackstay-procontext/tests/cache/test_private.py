"""File permissions of the cache and of the side files of SQLite."""

import logging
import os
import stat
from pathlib import Path

import pytest

from procontext.cache import _private
from procontext.cache._private import make_private
from procontext.cache._store import FILE_NAME, Store


@pytest.fixture(autouse=True)
def usual_umask() -> object:
    """Set the umask of most systems."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes(folder: Path) -> dict[str, int]:
    return {entry.name: mode(entry) for entry in folder.iterdir()}


def test_new_cache_is_private_with_side_files(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "cache"
    store = Store(folder)
    assert store.contains("x") is False
    assert set(modes(folder)) >= {FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"}
    assert set(modes(folder).values()) == {0o600}
    assert (mode(folder), mode(folder.parent)) == (0o700, 0o700)
    store.close()


def test_existing_cache_is_restricted(tmp_path: Path) -> None:
    """This includes files of another version and side files of a killed process."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o755)
    other = Store(folder)
    for entry in folder.iterdir():
        entry.chmod(0o644)
    folder.chmod(0o755)
    (folder / "pages-1.sqlite3").write_text("old")
    store = Store(folder)
    assert set(modes(folder).values()) == {0o600}
    assert mode(folder) == 0o700
    store.close()
    other.close()


def test_recreated_cache_is_private(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 1000)
    store = Store(tmp_path)
    assert not store.is_in_memory
    assert set(modes(tmp_path).values()) == {0o600}
    store.close()


def test_shared_directory_keeps_its_mode(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o755)
    (folder / "notes.txt").write_text("")
    (folder / "pages-link").symlink_to("/dev/null")
    Store(folder).close()
    assert mode(folder) == 0o755
    assert mode(folder / "notes.txt") == 0o644
    assert mode(folder / FILE_NAME) == 0o600


def test_chmod_failure_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / FILE_NAME
    file.write_text("")

    def refuse(self: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    with caplog.at_level(logging.WARNING, _private.__name__):
        make_private(file)
    assert "other users may be able to read the cache" in caplog.text
    monkeypatch.setattr(Path, "stat", lambda self: (_ for _ in ()).throw(FileNotFoundError()))
    _private._restrict(tmp_path / "gone")
