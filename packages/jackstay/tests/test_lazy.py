"""A lazy room loads a name once, from its home, and has no other."""

import sys
from pathlib import Path

import pytest

from jackstay._lazy import lazy


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with one lazy name, whose home counts how often it is loaded."""
    folder = tmp_path / "lazyroom"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from jackstay._lazy import lazy\n__getattr__ = lazy(__name__, {'Thing': '_home', 'Lost': '_home'})\n"
    )
    (folder / "_home.py").write_text("class Thing: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "lazyroom"
    for name in [name for name in sys.modules if name.startswith("lazyroom")]:
        del sys.modules[name]


def test_a_name_is_loaded_when_it_is_asked_for_and_then_kept(room: str) -> None:
    module = __import__(room)
    assert "lazyroom._home" not in sys.modules
    thing = module.Thing
    assert "lazyroom._home" in sys.modules
    assert module.__dict__["Thing"] is thing


def test_a_name_that_is_none_is_refused_as_a_module_does(room: str) -> None:
    module = __import__(room)
    with pytest.raises(AttributeError, match="module 'lazyroom' has no attribute 'Nothing'"):
        _ = module.Nothing
    with pytest.raises(ImportError):
        exec("from lazyroom import Nothing")


def test_a_home_without_the_name_says_so(room: str) -> None:
    module = __import__(room)
    with pytest.raises(AttributeError, match="Lost"):
        _ = module.Lost


def test_the_function_is_made_for_one_module() -> None:
    get = lazy("jackstay", {})
    with pytest.raises(AttributeError, match="jackstay"):
        get("x")
