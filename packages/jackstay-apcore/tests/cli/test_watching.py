"""`--dynamic`: directories are watched."""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from apcore_mcp.bridge import Bridge
from apcore_mcp.cli._loading import LoadedModules
from apcore_mcp.cli._watching import Watch, scan
from apcore_mcp.options import make_options

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
    assert registered.wait(120)
    watch.stop()
    assert "cannot scan the directories" in caplog.text


def test_changed_module_is_never_gone(modules: Path, write: Write) -> None:
    """A module is replaced in one step, with one event; no other file is imported again."""
    write("modules/more.py", "More")
    loaded = LoadedModules([modules], [])
    watch = Watch(loaded)
    registry = loaded.registry
    events: list[tuple[str, str]] = []
    registry.on("register", lambda name, _: events.append(("register", name)))
    registry.on("unregister", lambda name, _: events.append(("unregister", name)))
    other, gone = registry.get("more"), []
    looked, ending = threading.Event(), threading.Event()

    def look() -> None:
        while not ending.is_set():
            if registry.get("math.add") is None:
                gone.append(1)
            looked.set()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for number in range(20):
            looked.clear()
            assert looked.wait(60)
            write("modules/math/add.py", "Version" + "+" * number)  # times of files are coarse: change the size
            settle(watch)
    finally:
        ending.set()
        thread.join()
    assert not gone
    assert events == [("register", "math.add")] * 20
    assert described(loaded) == {"math.add": "Version" + "+" * 19, "more": "More"}
    assert registry.get("more") is other


def test_failed_import_keeps_the_module(modules: Path, write: Write, caplog: pytest.LogCaptureFixture) -> None:
    loaded = LoadedModules([modules], [])
    watch = Watch(loaded)
    old = loaded.registry.get("math.add")
    for source in ("import no_such_package\n", "raise SystemExit(3)\n", "x = 1\n"):
        caplog.clear()
        (modules / "math" / "add.py").write_text(source)
        settle(watch)
        assert loaded.registry.get("math.add") is old
        assert "cannot load the changed module math.add, the old one stays" in caplog.text
    write("modules/math/add.py", "Mended")
    settle(watch)
    assert described(loaded) == {"math.add": "Mended"}


def test_replaced_module_is_unloaded_after_its_calls(modules: Path, write: Write) -> None:
    loaded = LoadedModules([modules], [])
    watch = Watch(loaded)
    order: list[str] = []
    loaded.registry.get("math.add").on_unload = lambda: order.append("unloaded")
    loaded.registry.wait_for_calls = lambda name: order.append(f"waited for {name}")
    write("modules/math/add.py", "New")
    settle(watch)
    assert order == ["waited for math.add", "unloaded"]
    loaded.registry.get("math.add").on_unload = lambda: 1 / 0
    write("modules/math/add.py", "Newer")
    settle(watch)
    assert described(loaded) == {"math.add": "Newer"}


def test_module_that_waits_for_another_is_loaded_with_it(modules: Path, write: Write) -> None:
    write("modules/late.py", "Late")
    (modules / "late_meta.yaml").write_text("dependencies: [{module_id: early}]\n")
    loaded = LoadedModules([modules], [])
    assert "late" in loaded.unloaded
    watch = Watch(loaded)
    write("modules/early.py", "Early")
    settle(watch)
    assert described(loaded) == {"math.add": "Add", "early": "Early", "late": "Late"}
    assert loaded.unloaded == {}


def test_bindings_are_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bindings = tmp_path / "bindings"
    bindings.mkdir()
    row = (
        "  - {{module_id: {0}, target: 'os.path:basename', description: {1}, "
        "input_schema: {{type: object}}, output_schema: {{type: object}}}}\n"
    )
    file = bindings / "a.binding.yaml"
    file.write_text("bindings:\n" + row.format("one", "First"))
    loaded = LoadedModules([], [bindings])
    watch = Watch(loaded)
    assert described(loaded) == {"one": "First"}
    file.write_text("bindings:\n" + row.format("one", "Changed") + row.format("two", "Second"))
    settle(watch)
    assert described(loaded) == {"one": "Changed", "two": "Second"}
    file.write_text("bindings: 7\n")
    settle(watch)
    assert described(loaded) == {"one": "Changed", "two": "Second"}
    assert f"skipped {file}" in caplog.text
    other = bindings / "b.binding.yaml"
    other.write_text("bindings:\n" + row.format("one", "Stolen") + row.format("three", "Third"))
    settle(watch)
    assert described(loaded) == {"one": "Changed", "two": "Second", "three": "Third"}
    assert "one is the id of another module" in caplog.text
    file.write_text("bindings:\n" + row.format("two", "Second"))
    other.unlink()
    settle(watch)
    assert described(loaded) == {"two": "Second"}


IS_SOAK = os.environ.get("JACKSTAY_PROFILE") == "soak"
MODULES, CHANGES, CALLERS = (1000, 50, 8) if IS_SOAK else (20, 8, 8)


async def test_no_call_fails_while_a_module_changes(
    modules: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(MODULES):
        write(f"modules/more{number}.py", "More")
    loaded = LoadedModules([modules], [])
    watch = Watch(loaded)
    bridge = Bridge(loaded.registry, make_options(dynamic=True))
    failed: list[str] = []
    calls, changes = 0, []
    bridge.catalogue.subscribe(changes.append)
    is_changing = True

    async def call() -> None:
        nonlocal calls
        while is_changing:
            result = await bridge.router.handle_call("math.add", {"a": 1})
            calls += 1
            if result.is_error:
                failed.append(result.error_text)

    def change() -> None:
        for number in range(CHANGES):
            write("modules/math/add.py", "Version" + "+" * number)
            settle(watch)

    callers = [asyncio.ensure_future(call()) for _ in range(CALLERS)]
    try:
        await asyncio.to_thread(change)
    finally:
        is_changing = False
        await asyncio.gather(*callers)
        bridge.close()
    with capsys.disabled() if IS_SOAK else nullcontext():
        print(
            f"{MODULES} modules, {CALLERS} parallel callers, {CHANGES} changes: {len(failed)} of {calls} calls failed"
        )
    assert (failed, len(changes)) == ([], CHANGES)
    assert calls > CALLERS


def test_file_outside_the_directories(modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = LoadedModules([modules], [])
    given: Any = {tmp_path / "elsewhere.py"}
    loaded.reload(set(), given)
    assert described(loaded) == {"math.add": "Add"}
