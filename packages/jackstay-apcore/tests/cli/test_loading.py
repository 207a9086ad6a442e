"""Loading of a registry from directories."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from apcore_mcp.cli._loading import LoadedModules

Write = Callable[..., Path]


def test_broken_files_are_collected_with_reasons(modules: Path, write: Write) -> None:
    (modules / "broken.py").write_text("def x(:\n")
    (modules / "_hidden.py").write_text("raise RuntimeError\n")
    loaded = LoadedModules([modules], [])
    assert loaded.registry.list() == ["math.add"]
    assert list(loaded.unloaded) == ["broken"]
    assert "invalid syntax" in loaded.unloaded["broken"]
    (modules / "broken.py").unlink()
    write("modules/more.py")
    loaded.discover()
    assert loaded.registry.list() == ["math.add", "more"]
    assert loaded.unloaded == {}


def test_faults_are_isolated(modules: Path, write: Write, caplog: pytest.LogCaptureFixture) -> None:
    """Discovery in apcore would end at the second fault, and the third would end the process."""
    (modules / "broken.py").write_text("def x(:\n")
    write("modules/bad.py")
    (modules / "bad_meta.yaml").write_text("{unbalanced: [")
    (modules / "script.py").write_text("import sys\nsys.exit(3)\n")
    loaded = LoadedModules([modules], [])
    assert loaded.registry.list() == ["math.add"]
    assert sorted(loaded.unloaded) == ["bad", "broken", "script"]
    assert loaded.unloaded["script"] == "SystemExit: 3"
    assert "skipped module bad: ConfigError: " in caplog.text


def test_registered_module_is_not_skipped_for_bad_metadata(modules: Path, caplog: pytest.LogCaptureFixture) -> None:
    loaded = LoadedModules([modules], [])
    (modules / "math" / "add_meta.yaml").write_text("{unbalanced: [")
    loaded.discover()
    assert loaded.registry.list() == ["math.add"]
    assert loaded.unloaded == {}
    assert "skipped" not in caplog.text


def test_other_errors_are_raised(modules: Path) -> None:
    loaded = LoadedModules([modules], [])
    shutil.rmtree(modules)
    with pytest.raises(Exception, match="modules"):
        loaded.discover()


def test_other_warnings_are_ignored(modules: Path) -> None:
    (modules / "math" / "add_meta.yaml").write_text("dependencies: 7\n")
    loaded = LoadedModules([modules], [])
    assert loaded.registry.list() == ["math.add"]
    assert loaded.unloaded == {}


def test_reasons_are_collected_with_warnings_disabled(modules: Path) -> None:
    (modules / "broken.py").write_text("def x(:\n")
    source = logging.getLogger("apcore.registry")
    source.setLevel(logging.CRITICAL)
    try:
        assert list(LoadedModules([modules], []).unloaded) == ["broken"]
        assert source.level == logging.CRITICAL
        assert source.propagate
    finally:
        source.setLevel(logging.NOTSET)


def test_rediscovery_is_quiet_and_notifies(modules: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`--dynamic` discovers modules repeatedly."""
    loaded = LoadedModules([modules], [])
    notified: list[dict[str, str]] = []
    loaded.on_unloaded = notified.append
    (modules / "broken.py").write_text("def x(:\n")
    caplog.clear()
    loaded.discover()
    assert list(notified[-1]) == ["broken"]
    assert "already registered" not in caplog.text
    assert "No modules" not in caplog.text
    assert "broken" in caplog.text
    (modules / "broken.py").unlink()
    loaded.discover()
    assert notified[-1] == {}


def test_several_directories_prefix_ids(modules: Path, write: Write, tmp_path: Path) -> None:
    other = write("others/sub.py")
    loaded = LoadedModules([modules, tmp_path / "others"], [])
    assert loaded.registry.list() == ["modules.math.add", "others.sub"]
    assert loaded.module_id(other) == "others.sub"
    assert loaded.module_id(modules / "math" / "add.py") == "modules.math.add"
    assert loaded.module_id(tmp_path / "elsewhere.py") is None
    assert LoadedModules([modules], []).module_id(modules / "math" / "add.py") == "math.add"


def test_bindings(tmp_path: Path) -> None:
    """A bad file does not affect the others."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    (good / "x.binding.yaml").write_text(
        "spec_version: '1.0'\nbindings:\n  - module_id: text.basename\n    target: 'posixpath:basename'\n"
        "    description: The last part of a path\n"
        "    input_schema: {type: object, properties: {p: {type: string}}, required: [p]}\n"
        "    output_schema: {type: object}\n"
    )
    (bad / "x.binding.yaml").write_text("bindings: 7\n")
    shutil.copy(good / "x.binding.yaml", bad / "y.binding.yaml")
    loaded = LoadedModules([], [bad])
    assert loaded.registry.list() == ["text.basename"]
    assert list(loaded.unloaded) == [str(bad / "x.binding.yaml")]
    assert LoadedModules([], [good]).unloaded == {}
    (tmp_path / "modules").mkdir()
    both = LoadedModules([tmp_path / "modules"], [bad])
    both.discover()
    assert list(both.unloaded) == [str(bad / "x.binding.yaml")]
