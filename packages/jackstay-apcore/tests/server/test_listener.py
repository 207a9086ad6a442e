"""F-015: following a registry."""

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Registry

from apcore_mcp.catalogue import Catalogue
from apcore_mcp.server import MCPServerFactory, RegistryListener


def test_modules_that_come_and_go_are_followed_between_start_and_stop(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """Seed 6.9: the log lines, too."""
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


def test_what_changed_before_it_was_started_is_caught_up_with(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    catalogue = Catalogue(registry)
    listener = RegistryListener(registry, MCPServerFactory(), catalogue)
    registry.register("new.one", kinds.Plain(lambda i, c: {}))
    listener.start()
    assert catalogue.find("new.one") is not None


def test_filters_hold_for_what_comes_later(registry: Registry, kinds: SimpleNamespace) -> None:
    """F-018."""
    catalogue = Catalogue(registry, prefix="math.")
    listener = RegistryListener(registry, MCPServerFactory(), catalogue)
    listener.start()
    registry.register("new.one", kinds.Plain(lambda i, c: {}))
    assert set(listener.tools) == {"math.add", "math.later"}


def test_a_bad_module_is_logged_and_nothing_crashes(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """Seed 6.9: no exception reaches apcore."""
    listener = RegistryListener(registry, MCPServerFactory())
    listener.start()
    registry.register("bad.one", kinds.Plain(lambda i, c: {}, input_schema={"type": "string"}))
    assert "bad.one" not in listener.tools
    assert registry.get_callback_errors("register") == 0
    listener._on_register("not.there", None)
    listener._on_unregister("not.there", None)
    assert "not.there" not in listener.tools


def test_a_catalogue_that_fails_is_logged(
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
    assert "a change of new.one could not be followed" in caplog.text
    listener.stop()
    listener._on_register("new.one", None)


@pytest.mark.parametrize("given", [None, "registry", object()])
def test_what_is_no_registry_is_refused(given: Any) -> None:
    """Seed 6.9."""
    with pytest.raises(TypeError, match="apcore Registry"):
        RegistryListener(given, MCPServerFactory())
