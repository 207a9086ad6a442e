"""Changes of a registry."""

import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from apcore import Registry

from apcore_mcp.catalogue import Catalogue
from apcore_mcp.server import MCPServerFactory, RegistryListener


def test_registry_is_followed_between_start_and_stop(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """Each change is logged."""
    listener = RegistryListener(registry, MCPServerFactory())
    assert len(listener.tools) == 4
    listener.start()
    listener.start()
    with caplog.at_level(logging.INFO, "apcore_mcp"):
        thread = threading.Thread(target=registry.register, args=("new.one", kinds.Plain(lambda i, c: {})))
        thread.start()
        thread.join()
        assert listener.tools["new.one"].name == "new.one"
        registry.unregister("new.one")
        assert "new.one" not in listener.tools
    lines = [record.getMessage() for record in caplog.records if record.name.endswith("listener")]
    assert lines == ["Tool registered: new.one", "Tool unregistered: new.one"]
    listener.stop()
    listener.stop()
    registry.register("new.two", kinds.Plain(lambda i, c: {}))
    assert "new.two" not in listener.tools


def test_start_catches_up_with_earlier_changes(registry: Registry, kinds: SimpleNamespace) -> None:
    catalogue = Catalogue(registry)
    listener = RegistryListener(registry, MCPServerFactory(), catalogue)
    registry.register("new.one", kinds.Plain(lambda i, c: {}))
    listener.start()
    assert catalogue.find("new.one") is not None


def test_filters_apply_to_new_modules(registry: Registry, kinds: SimpleNamespace) -> None:
    catalogue = Catalogue(registry, prefix="math.")
    listener = RegistryListener(registry, MCPServerFactory(), catalogue)
    listener.start()
    registry.register("new.one", kinds.Plain(lambda i, c: {}))
    assert set(listener.tools) == {"math.add", "math.later"}


def test_bad_module_is_logged(registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture) -> None:
    """No exception reaches apcore."""
    listener = RegistryListener(registry, MCPServerFactory())
    listener.start()
    registry.register("bad.one", kinds.Plain(lambda i, c: {}, input_schema={"type": "string"}))
    assert "bad.one" not in listener.tools
    assert registry.get_callback_errors("register") == 0
    listener._on_register("not.there", None)
    listener._on_unregister("not.there", None)
    assert "not.there" not in listener.tools


def test_failing_catalogue_is_logged(
    registry: Registry,
    kinds: SimpleNamespace,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalogue = Catalogue(registry)
    listener = RegistryListener(registry, MCPServerFactory(), catalogue)
    listener.start()

    def fail(module_id: str) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(catalogue, "update", fail)
    registry.register("new.one", kinds.Plain(lambda i, c: {}))
    assert "cannot apply a change of new.one" in caplog.text
    listener.stop()
    listener._on_register("new.one", None)


def test_registry_type_is_checked(subtests: pytest.Subtests) -> None:
    for given in [None, "registry", object()]:
        with subtests.test(given=given), pytest.raises(TypeError, match="apcore Registry"):
            RegistryListener(given, MCPServerFactory())


class Events:
    """A registry with nothing but events and definitions."""

    def __init__(self, registry: Registry) -> None:
        self.callbacks: dict[str, Callable[[str, object], None]] = {}
        self.get_definition = registry.get_definition

    def on(self, event: str, callback: Callable[[str, object], None]) -> None:
        self.callbacks[event] = callback


def test_registry_with_events_only_is_followed(registry: Registry) -> None:
    """As in apcore-mcp: its events determine which modules it has."""
    events = Events(registry)
    listener = RegistryListener(events, MCPServerFactory())
    listener.start()
    assert listener.tools == {}
    events.callbacks["register"]("math.add", None)
    events.callbacks["register"]("math.later", None)
    events.callbacks["unregister"]("math.later", None)
    assert set(listener.tools) == {"math.add"}
    listener.stop()
    events.callbacks["unregister"]("math.add", None)
    assert set(listener.tools) == {"math.add"}
