"""Lazy packages import a name once, on first use."""

import json
import sys
from pathlib import Path

import pytest

from jackstay._lazy import attach


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with lazy names."""
    folder = tmp_path / "lazypackage"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from jackstay._lazy import attach\n"
        "__all__, __getattr__, __dir__ = attach(__name__, {'._module': 'Thing Lost', 'json': 'loads'})\n"
    )
    (folder / "_module.py").write_text("class Thing: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "lazypackage"
    for name in [name for name in sys.modules if name.startswith("lazypackage")]:
        del sys.modules[name]


def test_a_name_is_imported_on_first_use(package: str) -> None:
    module = __import__(package)
    assert "lazypackage._module" not in sys.modules
    thing = module.Thing
    assert "lazypackage._module" in sys.modules
    assert module.__dict__["Thing"] is thing


def test_an_unknown_name_raises_attribute_error(package: str) -> None:
    module = __import__(package)
    with pytest.raises(AttributeError, match="module 'lazypackage' has no attribute 'Nothing'"):
        _ = module.Nothing
    with pytest.raises(ImportError):
        exec("from lazypackage import Nothing")


def test_a_module_without_the_name_raises_attribute_error(package: str) -> None:
    module = __import__(package)
    with pytest.raises(AttributeError, match="Lost"):
        _ = module.Lost


def test_a_name_of_another_package(package: str) -> None:
    assert __import__(package).loads is json.loads


def test_the_names_are_known_before_they_are_loaded(package: str) -> None:
    module = __import__(package)
    assert module.__all__ == ["Thing", "Lost", "loads"]
    assert {"Thing", "Lost", "loads", "__name__"} <= set(dir(module))
    assert "attach" not in dir(module)
    assert "Thing" not in vars(module)


def test_the_error_names_the_package() -> None:
    _, get, _ = attach("jackstay", {})
    with pytest.raises(AttributeError, match="jackstay"):
        get("x")
