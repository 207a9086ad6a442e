"""The functions for the frameworks, which are not installed here; tests/interop/agents uses them."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from jackstay import Server, UsageError, agents

NAMES = [name for name in agents.__all__ if name.islower()]
# function -> the module with its adapter, which is named after the framework
FRAMEWORKS = {name: name.rpartition("_")[0] for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_framework_that_is_not_installed_is_named_with_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = f"jackstay.agents._{FRAMEWORKS[name]}"
    monkeypatch.setitem(sys.modules, module, None)  # importing it fails
    extra = FRAMEWORKS[name].replace("_", "-")
    with pytest.raises(UsageError, match=rf"is not installed: pip install 'jackstay\[{extra}\]'"):
        getattr(agents, name)(Server("shop"))
    page = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert f"\n{extra} = [" in page


@pytest.mark.parametrize("name", NAMES)
def test_a_function_uses_the_adapter_of_its_framework(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Adapter(SimpleNamespace):
        def __getattr__(self, attribute: str) -> object:
            return lambda *arguments: (attribute, *arguments)

    monkeypatch.setitem(sys.modules, f"jackstay.agents._{FRAMEWORKS[name]}", Adapter())  # type: ignore[arg-type]
    server = Server("shop")

    @server.tool
    def add() -> str:
        """Add."""
        return ""

    made = getattr(agents, name)(server, only=None, request_timeout=5)
    if isinstance(made, agents.ToolList):
        with made as (tool,):
            assert tool[-1].name == "add"
    else:
        assert isinstance(made, tuple)
