"""`--dynamic`: directories that are followed."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apcore_mcp.cli._loading import Loaded
from apcore_mcp.cli._watching import Watch, look

Write = Callable[..., Path]


def settle(watch: Watch) -> None:
    """A change is loaded when it was seen twice."""
    watch.step()
    watch.step()


def described(loaded: Loaded) -> dict[str, str]:
    registry = loaded.registry
    return {module_id: registry.get_definition(module_id).description for module_id in registry.list()}


def test_files_that_come_change_and_go_are_followed(modules: Path, write: Write) -> None:
    loaded = Loaded([modules], [])
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


def test_metadata_that_change_reload_their_module(modules: Path) -> None:
    loaded = Loaded([modules], [])
    watch = Watch(loaded)
    (modules / "math" / "add_meta.yaml").write_text("description: From the file\n")
    settle(watch)
    assert described(loaded) == {"math.add": "From the file"}


def test_metadata_that_go_leave_their_module_as_the_code_says(modules: Path) -> None:
    (modules / "math" / "add_meta.yaml").write_text("description: From the file\n")
    loaded = Loaded([modules], [])
    watch = Watch(loaded)
    (modules / "math" / "add_meta.yaml").unlink()
    settle(watch)
    assert described(loaded) == {"math.add": "Add"}


def test_a_file_that_changes_while_another_goes_is_loaded(modules: Path, write: Write) -> None:
    """As when another branch is checked out: the one that went is seen at once, the other when it has settled."""
    more = write("modules/more.py", "More")
    loaded = Loaded([modules], [])
    watch = Watch(loaded)
    more.unlink()
    write("modules/math/add.py", "Changed now")
    settle(watch)
    assert described(loaded) == {"math.add": "Changed now"}


def test_a_bad_file_that_goes_is_skipped_no_longer(modules: Path) -> None:
    (modules / "broken.py").write_text("def x(:\n")
    loaded = Loaded([modules], [])
    watch = Watch(loaded)
    (modules / "broken.py").unlink()
    settle(watch)
    assert loaded.unloaded == {}


def test_metadata_that_cannot_be_read_do_not_take_the_module_away(
    modules: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loaded = Loaded([modules], [])
    watch = Watch(loaded)
    (modules / "math" / "add_meta.yaml").write_text("{unbalanced: [")
    settle(watch)
    assert described(loaded) == {"math.add": "Add"}
    assert "add_meta.yaml is not loaded" in caplog.text


def test_a_file_that_is_still_being_written_is_left_alone(modules: Path, write: Write) -> None:
    loaded = Loaded([modules], [])
    watch = Watch(loaded)
    write("modules/more.py", "x")
    watch.step()
    assert "more" not in described(loaded)
    write("modules/more.py", "longer")
    watch.step()
    assert "more" not in described(loaded)
    watch.step()
    assert described(loaded)["more"] == "longer"


def test_a_syntax_error_does_not_take_away_what_works(
    modules: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    loaded = Loaded([modules], [])
    watch = Watch(loaded)
    (modules / "math" / "add.py").write_text("def x(:\n")
    settle(watch)
    assert described(loaded) == {"math.add": "Add"}
    assert "is not loaded" in caplog.text
    write("modules/math/add.py", "Mended")
    settle(watch)
    assert described(loaded) == {"math.add": "Mended"}


def test_what_apcore_would_not_look_at_is_not_looked_at(modules: Path) -> None:
    (modules / "_private.py").write_text("")
    (modules / "__pycache__").mkdir()
    (modules / "__pycache__" / "x.py").write_text("")
    os.symlink(modules / "nowhere.py", modules / "dangling.py")
    assert [file.name for file in look(Loaded([modules], []))] == ["add.py"]


def test_the_thread_looks_by_itself_and_survives_a_failure(
    modules: Path, write: Write, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = Loaded([modules], [])
    watch = Watch(loaded, interval=0.01)
    has_failed = threading.Event()
    step = watch.step

    def fail_once() -> None:
        if not has_failed.is_set():
            has_failed.set()
            raise RuntimeError("disk gone")
        step()

    monkeypatch.setattr(watch, "step", fail_once)
    came = threading.Event()
    loaded.registry.on("register", lambda *_: came.set())
    watch.start()
    write("modules/more.py", "x")
    assert came.wait(30)
    watch.stop()
    assert "could not be followed" in caplog.text


def test_a_file_of_nobody_is_nobodys(modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Loaded([modules], [])
    watch = Watch(loaded)
    given: Any = {tmp_path / "elsewhere.py"}
    watch._apply(set(), given)
    assert described(loaded) == {"math.add": "Add"}
