"""The objects that serve one registry."""

from types import SimpleNamespace

import pytest
from apcore import ACL, AlwaysDenyHandler, Executor, Middleware, Registry

from apcore_mcp.bridge import Bridge, to_executor
from apcore_mcp.options import make_options


def test_to_executor(registry: Registry, executor: Executor) -> None:
    assert to_executor(executor) is executor
    assert to_executor(registry).registry is registry


def test_other_types_are_rejected(subtests: pytest.Subtests) -> None:
    for given in [None, "", object()]:
        with (
            subtests.test(given=given),
            pytest.raises(TypeError, match="expected an apcore Registry or Executor, not"),
        ):
            to_executor(given)


def test_options_are_passed_on(registry: Registry) -> None:
    bridge = Bridge(
        registry,
        make_options(name="demo", prefix="math.", approval="allow", hosts=["a.b"], cors=["https://c.d"]),
    )
    assert bridge.server.name == "demo"
    assert [entry.id for entry in bridge.catalogue.tools()] == ["math.add", "math.later"]
    assert bridge.router.catalogue is bridge.catalogue
    assert bridge.http_options() == {"auth": None, "cors": ("https://c.d",), "hosts": ("a.b",)}
    assert "hosts" not in Bridge(registry, make_options()).http_options()


def test_a_backend_is_passed_on(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[tuple[str, str]] = []
    monkeypatch.setattr("jackstay.redis.use_redis", lambda server, target: used.append((server.name, target)))
    Bridge(registry, make_options(name="demo", backend="redis://host")).close()
    assert used == [("demo", "redis://host")]
    with pytest.raises(ValueError, match="backend must not be empty"):
        make_options(backend="")


def test_empty_registry_with_dynamic(kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry()
    bridge = Bridge(registry, make_options(dynamic=True))
    assert "No modules registered" in caplog.text
    registry.register("new.one", kinds.Plain(lambda i, c: {}))
    assert list(bridge.server.catalogue.tools) == ["new.one"]
    bridge.close()
    bridge.close()
    registry.register("new.two", kinds.Plain(lambda i, c: {}))
    assert list(bridge.server.catalogue.tools) == ["new.one"]


def test_options_that_the_strategy_ignores_are_refused(registry: Registry, executor: Executor) -> None:
    """A strategy may lack the steps for them; then a protected module would run without a word."""
    rules, handler, middleware = ACL(rules=[], default_effect="deny"), AlwaysDenyHandler(), [Middleware()]
    for options, strategies in (
        ({"acl": rules}, ("minimal", "internal", "testing")),
        ({"approval_handler": handler}, ("minimal", "internal", "testing")),
        ({"middleware": middleware}, ("minimal", "performance")),
        ({"acl": rules}, ({"remove": ["acl_check"]},)),
    ):
        for strategy in strategies:
            with pytest.raises(ValueError, match=rf"^{next(iter(options))} .*has no effect with the strategy"):
                to_executor(registry, make_options(**options, strategy=strategy))
        assert to_executor(registry, make_options(**options, strategy="standard"))
    with pytest.raises(ValueError, match="acl"):
        to_executor(Executor(registry, strategy="minimal"), make_options(acl=rules))
