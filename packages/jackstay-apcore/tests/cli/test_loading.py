"""A registry from directories."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from apcore_mcp.cli._loading import Loaded

Write = Callable[..., Path]


def test_modules_are_found_and_broken_files_are_kept_with_their_reasons(modules: Path, write: Write) -> None:
    """Section 4: one bad module kills the start."""
    (modules / "broken.py").write_text("def x(:\n")
    (modules / "_hidden.py").write_text("raise RuntimeError\n")
    loaded = Loaded([modules], [])
    assert loaded.registry.list() == ["math.add"]
    assert list(loaded.unloaded) == ["broken"]
    assert "invalid syntax" in loaded.unloaded["broken"]
    (modules / "broken.py").unlink()
    write("modules/more.py")
    loaded.discover()
    assert loaded.registry.list() == ["math.add", "more"]
    assert loaded.unloaded == {}


def test_whatever_is_wrong_with_one_file_keeps_no_other_out(
    modules: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    """Section 4: one bad module kills the start. apcore's discovery ends at the second, and the process did at the third."""
    (modules / "broken.py").write_text("def x(:\n")
    write("modules/bad.py")
    (modules / "bad_meta.yaml").write_text("{unbalanced: [")
    (modules / "script.py").write_text("import sys\nsys.exit(3)\n")
    loaded = Loaded([modules], [])
    assert loaded.registry.list() == ["math.add"]
    assert sorted(loaded.unloaded) == ["bad", "broken", "script"]
    assert loaded.unloaded["script"] == "SystemExit: 3"
    assert "module bad is skipped: ConfigError: " in caplog.text


def test_a_module_that_works_is_not_skipped_for_its_new_metadata(
    modules: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loaded = Loaded([modules], [])
    (modules / "math" / "add_meta.yaml").write_text("{unbalanced: [")
    loaded.discover()
    assert loaded.registry.list() == ["math.add"]
    assert loaded.unloaded == {}
    assert "is skipped" not in caplog.text


def test_what_is_no_files_fault_is_raised(modules: Path) -> None:
    loaded = Loaded([modules], [])
    shutil.rmtree(modules)
    with pytest.raises(Exception, match="modules"):
        loaded.discover()


def test_a_complaint_about_something_else_is_no_skipped_module(modules: Path) -> None:
    (modules / "math" / "add_meta.yaml").write_text("dependencies: 7\n")
    loaded = Loaded([modules], [])
    assert loaded.registry.list() == ["math.add"]
    assert loaded.unloaded == {}


def test_the_reasons_are_heard_when_nobody_reads_warnings(modules: Path) -> None:
    (modules / "broken.py").write_text("def x(:\n")
    source = logging.getLogger("apcore.registry")
    source.setLevel(logging.CRITICAL)
    try:
        assert list(Loaded([modules], []).unloaded) == ["broken"]
        assert source.level == logging.CRITICAL
        assert source.propagate
    finally:
        source.setLevel(logging.NOTSET)


def test_to_look_again_is_no_mistake_and_changes_are_told(
    modules: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`--dynamic`: the reasons are kept up to date, and the log is not filled with what is well."""
    loaded = Loaded([modules], [])
    told: list[dict[str, str]] = []
    loaded.told = told.append
    (modules / "broken.py").write_text("def x(:\n")
    caplog.clear()
    loaded.discover()
    assert list(told[-1]) == ["broken"]
    assert "already registered" not in caplog.text
    assert "No modules" not in caplog.text
    assert "broken" in caplog.text
    (modules / "broken.py").unlink()
    loaded.discover()
    assert told[-1] == {}


def test_with_several_directories_ids_begin_with_their_names(
    modules: Path, write: Write, tmp_path: Path
) -> None:
    """apcore's own rule."""
    other = write("others/sub.py")
    loaded = Loaded([modules, tmp_path / "others"], [])
    assert loaded.registry.list() == ["modules.math.add", "others.sub"]
    assert loaded.module_id(other) == "others.sub"
    assert loaded.module_id(modules / "math" / "add.py") == "modules.math.add"
    assert loaded.module_id(tmp_path / "elsewhere.py") is None
    assert Loaded([modules], []).module_id(modules / "math" / "add.py") == "math.add"


def test_bindings_are_loaded_and_bad_ones_are_skipped(tmp_path: Path) -> None:
    """Section 3: `--bindings DIR`."""
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
    loaded = Loaded([], [bad])
    # A file that is bad does not lose those beside it.
    assert loaded.registry.list() == ["text.basename"]
    assert list(loaded.unloaded) == [str(bad / "x.binding.yaml")]
    assert Loaded([], [good]).unloaded == {}
    (tmp_path / "modules").mkdir()
    both = Loaded([tmp_path / "modules"], [bad])
    both.discover()
    assert list(both.unloaded) == [str(bad / "x.binding.yaml")]
