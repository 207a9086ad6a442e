"""Discovery of a directory with faulty modules."""

from collections.abc import Callable
from pathlib import Path

import pytest
from apcore import ModuleLoadError, Registry

from apcore_mcp.cli._discovery import FaultIsolatingRegistry

Write = Callable[..., Path]


def discovered(directory: Path) -> FaultIsolatingRegistry:
    registry = FaultIsolatingRegistry(extensions_dir=str(directory))
    registry.discover()
    return registry


def test_discovery_of_valid_modules(modules: Path, write: Write) -> None:
    write("modules/more.py")
    (modules / "more_meta.yaml").write_text("description: From the file\ndependencies: [{module_id: math.add}]\n")
    registry = discovered(modules)
    assert registry.list() == ["math.add", "more"]
    assert registry.get_definition("more").description == "From the file"
    assert registry.faults == {}
    plain = Registry(extensions_dir=str(modules))
    assert plain.discover() == FaultIsolatingRegistry(extensions_dir=str(modules)).discover() == 2


LOADS = "\n    def on_load(self):\n        raise SystemExit(4)\n"
FAULTS = [
    ("bad_meta.yaml", "{unbalanced: [", "Invalid YAML"),
    ("bad_meta.yaml", "- a list", "must be a YAML mapping"),
    ("bad_meta.yaml", "annotations: 7", "no attribute"),
    ("bad_meta.yaml", "dependencies: [{module_id: nowhere}]", "dependency 'nowhere'"),
    ("bad_meta.yaml", "dependencies: [{module_id: bad}]", "bad -> bad"),
    ("bad.py", "import sys\nsys.exit(3)\n", "3"),
    ("bad.py", LOADS, "4"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=[reason for _, _, reason in FAULTS])
def test_faults_are_isolated(modules: Path, write: Write, fault: tuple[str, str, str]) -> None:
    name, text, reason = fault
    file = write("modules/bad.py")
    (modules / name).write_text(file.read_text() + text if text is LOADS else text)
    write("modules/needs.py")
    (modules / "needs_meta.yaml").write_text("dependencies: [{module_id: math.add}]\n")
    registry = discovered(modules)
    assert registry.list() == ["math.add", "needs"]
    assert list(registry.faults) == ["bad"]
    assert reason in str(registry.faults["bad"])
    # A corrected module is loaded. apcore still considers a module that exited in `on_load` as being loaded.
    if text is not LOADS:
        (modules / "bad_meta.yaml").unlink(missing_ok=True)
        write("modules/bad.py")
        registry.discover()
        assert registry.list() == ["bad", "math.add", "needs"]
        assert registry.faults == {}


def test_circular_dependencies(modules: Path, write: Write) -> None:
    for name, needed in (("one", "two"), ("two", "one"), ("three", "two")):
        write(f"modules/{name}.py")
        (modules / f"{name}_meta.yaml").write_text(f"dependencies: [{{module_id: {needed}}}]\n")
    registry = discovered(modules)
    assert registry.list() == ["math.add"]
    assert "one -> two" in str(registry.faults["one"])
    assert "one -> two" in str(registry.faults["two"])
    assert "dependency 'two'" in str(registry.faults["three"])


def test_validation_fault_is_isolated(modules: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("modules/bad.py")
    validate = Registry._validate_all

    def fail(self: Registry, classes: dict[str, type]) -> dict[str, type]:
        if "bad" in classes:
            raise RuntimeError("bug")
        return validate(self, classes)

    monkeypatch.setattr(Registry, "_validate_all", fail)
    registry = discovered(modules)
    assert registry.list() == ["math.add"]
    assert str(registry.faults["bad"]) == "bug"


def test_unattributed_ordering_error_is_raised(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> list[str]:
        raise ModuleLoadError(module_id="elsewhere", reason="bug")

    monkeypatch.setattr(Registry, "_resolve_load_order", fail)
    with pytest.raises(ModuleLoadError, match="bug"):
        discovered(modules)


def test_keyboard_interrupt_is_raised(modules: Path) -> None:
    (modules / "bad.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        discovered(modules)
