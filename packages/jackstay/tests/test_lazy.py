"""Lazy packages import a name once, on first use."""

import sys
from pathlib import Path

import pytest

from jackstay._lazy import lazy


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with lazy names."""
    folder = tmp_path / "lazypackage"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from jackstay._lazy import lazy\n__getattr__ = lazy(__name__, {'Thing': '_module', 'Lost': '_module'})\n"
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


def test_the_error_names_the_package() -> None:
    get = lazy("jackstay", {})
    with pytest.raises(AttributeError, match="jackstay"):
        get("x")
