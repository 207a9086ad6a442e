"""Everything that one served registry needs, joined."""

from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Executor, Registry

from apcore_mcp.bridge import Bridge, to_executor
from apcore_mcp.options import make_options


def test_an_executor_is_itself_and_a_registry_gets_one(registry: Registry, executor: Executor) -> None:
    """F-014."""
    assert to_executor(executor) is executor
    assert to_executor(registry).registry is registry


@pytest.mark.parametrize("given", [None, "", object()])
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="expected an apcore Registry or Executor, not"):
        to_executor(given)


def test_the_options_reach_their_parts(registry: Registry) -> None:
    bridge = Bridge(
        registry,
        make_options(name="mine", prefix="math.", approval="allow", hosts=["a.b"], cors=["https://c.d"]),
    )
    assert bridge.server.name == "mine"
    assert [entry.id for entry in bridge.catalogue.tools()] == ["math.add", "math.later"]
    assert bridge.router.catalogue is bridge.catalogue
    assert bridge.http_options() == {"auth": None, "cors": ("https://c.d",), "hosts": ("a.b",)}
    assert "hosts" not in Bridge(registry, make_options()).http_options()


def test_an_empty_registry_that_grows_is_followed(
    kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """F-015, and F-009: zero modules, a warning."""
    registry = Registry()
    bridge = Bridge(registry, make_options(dynamic=True))
    assert "No modules registered" in caplog.text
    registry.register("new.one", kinds.Plain(lambda i, c: {}))
    assert list(bridge.server.catalogue.tools) == ["new.one"]
    bridge.close()
    bridge.close()
    registry.register("new.two", kinds.Plain(lambda i, c: {}))
    assert list(bridge.server.catalogue.tools) == ["new.one"]
