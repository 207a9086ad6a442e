"""The downloaded pair: atomic replacement, checksums, and what a crash leaves (reference, section 8)."""

import json
import os
from datetime import UTC
from pathlib import Path

import pytest

from procontext.errors import RegistryError
from procontext.registry import Store, checksum, standard_directory
from procontext.registry import _store as home


def registry(version: str) -> bytes:
    return json.dumps({"version": version, "libraries": [{"id": "a", "name": "A"}]}).encode()


def test_a_registry_is_put_in_place_with_its_state(tmp_path: Path) -> None:
    """State file, checksum, version, time."""
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
    assert sorted(file.name for file in store.directory.iterdir()) == sorted(
        [state.file, "registry-state.json"]
    )
    assert "registry" in repr(store)


def test_a_newer_one_takes_its_place_and_the_old_file_goes(tmp_path: Path) -> None:
    """One pair at a time."""
    store = Store(tmp_path)
    old = store.replace(registry("1"))
    new = store.replace(registry("2"))
    assert not (tmp_path / old.file).exists()
    loaded = store.load()
    assert loaded is not None
    assert loaded.version == new.version == "2"


def test_what_is_no_registry_never_replaces_one(tmp_path: Path) -> None:
    """Never a bad file over a good one."""
    store = Store(tmp_path)
    store.replace(registry("1"))
    with pytest.raises(RegistryError):
        store.replace(b'{"version": "2", "libraries": []}')
    assert store.load() is not None


@pytest.mark.parametrize("step", [0, 1])
def test_a_crash_at_any_step_leaves_the_old_pair_whole(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rename of the state file is the only step that counts."""
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


# (what is done to the pair, what is said)
DAMAGES = [
    (lambda folder, state: (folder / state.file).write_bytes(registry("9")), "checksum"),
    (lambda folder, state: (folder / state.file).unlink(), "cannot be read"),
    (lambda folder, state: (folder / home.STATE_NAME).write_text("{"), "cannot be read"),
    (
        lambda folder, state: (folder / home.STATE_NAME).write_text(
            (folder / home.STATE_NAME).read_text().replace('"1"', '"2"')
        ),
        "is version 1, not 2",
    ),
    (
        lambda folder, state: (folder / home.STATE_NAME).write_text(
            (folder / home.STATE_NAME).read_text().replace(state.file, "../../etc/passwd")
        ),
        "cannot be read",
    ),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGES)
def test_a_pair_that_does_not_fit_is_no_pair(damage: object, said: str, tmp_path: Path) -> None:
    """Torn, tampered with, or pointing elsewhere."""
    store = Store(tmp_path)
    state = store.replace(registry("1"))
    assert callable(damage)
    damage(tmp_path, state)
    with pytest.raises(RegistryError, match=said):
        store.load()


def test_the_standard_place_is_the_platforms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Reference, section 8: platformdirs.user_data_dir("procontext")/registry."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert standard_directory().parts[-2:] == ("procontext", "registry")


def test_old_files_that_cannot_be_removed_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader may hold one open on other platforms; platforms without O_DIRECTORY skip that flush."""
    store = Store(tmp_path)
    store.replace(registry("1"))

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "in use")

    monkeypatch.setattr(Path, "unlink", refuse)
    monkeypatch.delattr(os, "O_DIRECTORY")
    assert store.replace(registry("2")).version == "2"
