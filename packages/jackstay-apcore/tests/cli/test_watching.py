"""`--dynamic`: directories are watched."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apcore_mcp.cli._loading import LoadedModules
from apcore_mcp.cli._watching import Watch, scan

Write = Callable[..., Path]


def settle(watch: Watch) -> None:
    """Scan twice, because a change is loaded when two scans are equal."""
    watch.step()
    watch.step()


def described(loaded: LoadedModules) -> dict[str, str]:
    registry = loaded.registry
    return {module_id: registry.get_definition(module_id).description for module_id in registry.list()}


def test_added_changed_and_removed_files(modules: Path, write: Write) -> None:
    loaded = LoadedModules([modules], [])
    watch = Watch(loaded)
    settle(watch)
    assert described(loaded) == {"math.add": "Add"}
    more = write("modules/more.py", "More")
    settle(watch)
    assert described(loaded) == {"math.add": "Add", "more": "More"}
    write("modules/math/add.py", "Changed now")
    settle(watch)
    assert described(loaded) == {"math.add": "Changed now", "more": "More"}
    more.unlink()
    settle(watch)
    assert described(loaded) == {"math.add": "Changed now"}
    settle(watch)


def test_changed_metadata_reloads_the_module(modules: Path) -> None:
    loaded = LoadedModules([modules], [])
    watch = Watch(loaded)
    (modules / "math" / "add_meta.yaml").write_text("description: From the file\n")
    settle(watch)
    assert described(loaded) == {"math.add": "From the file"}


def test_removed_metadata_reloads_the_module(modules: Path) -> None:
    (modules / "math" / "add_meta.yaml").write_text("description: From the file\n")
    loaded = LoadedModules([modules], [])
    watch = Watch(loaded)
    (modules / "math" / "add_meta.yaml").unlink()
    settle(watch)
    assert described(loaded) == {"math.add": "Add"}


def test_change_and_removal_in_one_scan(modules: Path, write: Write) -> None:
    """As when another branch is checked out. A removal is applied at once, a change after two equal scans."""
    more = write("modules/more.py", "More")
    loaded = LoadedModules([modules], [])
    watch = Watch(loaded)
    more.unlink()
    write("modules/math/add.py", "Changed now")
    settle(watch)
    assert described(loaded) == {"math.add": "Changed now"}


def test_removed_bad_file_is_not_skipped(modules: Path) -> None:
    (modules / "broken.py").write_text("def x(:\n")
    loaded = LoadedModules([modules], [])
    watch = Watch(loaded)
    (modules / "broken.py").unlink()
    settle(watch)
    assert loaded.unloaded == {}


def test_invalid_metadata_keeps_the_module(modules: Path, caplog: pytest.LogCaptureFixture) -> None:
    loaded = LoadedModules([modules], [])
    watch = Watch(loaded)
    (modules / "math" / "add_meta.yaml").write_text("{unbalanced: [")
    settle(watch)
    assert described(loaded) == {"math.add": "Add"}
    assert "cannot load" in caplog.text
    assert "add_meta.yaml" in caplog.text


def test_unstable_file_is_not_loaded(modules: Path, write: Write) -> None:
    loaded = LoadedModules([modules], [])
    watch = Watch(loaded)
    write("modules/more.py", "x")
    watch.step()
    assert "more" not in described(loaded)
    write("modules/more.py", "longer")
    watch.step()
    assert "more" not in described(loaded)
    watch.step()
    assert described(loaded)["more"] == "longer"


def test_syntax_error_keeps_the_module(modules: Path, write: Write, caplog: pytest.LogCaptureFixture) -> None:
    loaded = LoadedModules([modules], [])
    watch = Watch(loaded)
    (modules / "math" / "add.py").write_text("def x(:\n")
    settle(watch)
    assert described(loaded) == {"math.add": "Add"}
    assert "cannot load" in caplog.text
    write("modules/math/add.py", "Fixed")
    settle(watch)
    assert described(loaded) == {"math.add": "Fixed"}


def test_ignored_files(modules: Path) -> None:
    (modules / "_private.py").write_text("")
    (modules / "__pycache__").mkdir()
    (modules / "__pycache__" / "x.py").write_text("")
    os.symlink(modules / "nowhere.py", modules / "dangling.py")
    assert [file.name for file in scan(LoadedModules([modules], []))] == ["add.py"]


def test_thread_survives_a_failure(
    modules: Path, write: Write, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = LoadedModules([modules], [])
    watch = Watch(loaded, interval=0.01)
    has_failed = threading.Event()
    step = watch.step

    def fail_once() -> None:
        if not has_failed.is_set():
            has_failed.set()
            raise RuntimeError("disk failure")
        step()

    monkeypatch.setattr(watch, "step", fail_once)
    registered = threading.Event()
    loaded.registry.on("register", lambda *_: registered.set())
    watch.start()
    write("modules/more.py", "x")
    assert registered.wait(30)
    watch.stop()
    assert "cannot scan the directories" in caplog.text


def test_file_outside_the_directories(modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = LoadedModules([modules], [])
    watch = Watch(loaded)
    given: Any = {tmp_path / "elsewhere.py"}
    watch._apply(set(), given)
    assert described(loaded) == {"math.add": "Add"}
