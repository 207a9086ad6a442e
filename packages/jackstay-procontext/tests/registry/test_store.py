"""The downloaded registry: atomic replacement, checksums, crashes."""

import json
import os
from datetime import UTC
from pathlib import Path

import pytest

from procontext.errors import RegistryError
from procontext.registry import Store, checksum, default_directory
from procontext.registry import _store as module


def registry(version: str) -> bytes:
    return json.dumps({"version": version, "libraries": [{"id": "a", "name": "A"}]}).encode()


def test_replace_writes_registry_and_state(tmp_path: Path) -> None:
    store = Store(tmp_path / "made" / "registry")
    assert store.load() is None
    assert store.state() is None
    state = store.replace(registry("1"), "https://example.com/r.json")
    assert (state.version, state.sha256, state.url) == (
        "1",
        checksum(registry("1")),
        "https://example.com/r.json",
    )
    assert state.updated_at.tzinfo is UTC
    assert store.state() == state
    loaded = store.load()
    assert loaded is not None
    assert loaded.version == "1"
    assert sorted(file.name for file in store.directory.iterdir()) == sorted([state.file, "registry-state.json"])
    assert "registry" in repr(store)


def test_replace_removes_the_old_file(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old = store.replace(registry("1"))
    new = store.replace(registry("2"))
    assert not (tmp_path / old.file).exists()
    loaded = store.load()
    assert loaded is not None
    assert loaded.version == new.version == "2"


def test_invalid_registry_is_not_stored(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.replace(registry("1"))
    with pytest.raises(RegistryError):
        store.replace(b'{"version": "2", "libraries": []}')
    assert store.load() is not None


@pytest.mark.parametrize("step", [0, 1])
def test_crash_leaves_the_old_pair_intact(step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replacing the state file is the atomic step."""
    store = Store(tmp_path)
    store.replace(registry("1"))
    real, calls = Path.replace, [0]

    def crash(self: Path, target: Path) -> Path:
        calls[0] += 1
        if calls[0] > step:
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(OSError, match="No space"):
        store.replace(registry("2"))
    monkeypatch.undo()
    loaded = store.load()
    assert loaded is not None
    assert loaded.version == "1"
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


# (corruption of the pair, error)
CORRUPTIONS = [
    (lambda folder, state: (folder / state.file).write_bytes(registry("9")), "checksum"),
    (lambda folder, state: (folder / state.file).unlink(), "cannot read the file"),
    (lambda folder, state: (folder / module.STATE_NAME).write_text("{"), "cannot read the state file"),
    (
        lambda folder, state: (folder / module.STATE_NAME).write_text(
            (folder / module.STATE_NAME).read_text().replace('"1"', '"2"')
        ),
        "the version is '1', but registry-state.json has '2'",
    ),
    (
        lambda folder, state: (folder / module.STATE_NAME).write_text(
            (folder / module.STATE_NAME).read_text().replace(state.file, "../../etc/passwd")
        ),
        "cannot read the file",
    ),
]


def test_corrupt_pairs(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Files are missing, modified, or outside the directory."""
    for number, (corrupt, problem) in enumerate(CORRUPTIONS):
        with subtests.test(problem=problem):
            store = Store(tmp_path / str(number))
            corrupt(store.directory, store.replace(registry("1")))
            with pytest.raises(RegistryError, match=problem):
                store.load()


def test_default_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_directory().parts[-2:] == ("procontext", "registry")


def test_undeletable_old_files_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where another process may have a file open and `O_DIRECTORY` is missing."""
    store = Store(tmp_path)
    store.replace(registry("1"))

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "in use")

    monkeypatch.setattr(Path, "unlink", refuse)
    monkeypatch.delattr(os, "O_DIRECTORY")
    assert store.replace(registry("2")).version == "2"
