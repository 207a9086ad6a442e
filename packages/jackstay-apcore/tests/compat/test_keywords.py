"""The keywords of apcore-mcp."""

import asyncio
from typing import Any

import pytest
from apcore import MetricsCollector, Registry

from apcore_mcp.compat.approvals import InMemoryApprovalStore, StorageBackedApprovalHandler
from apcore_mcp.compat.authentication import EXEMPT_PATHS, AuthenticatorAuth
from apcore_mcp.compat.keywords import KEYWORDS, to_options
from apcore_mcp.options import make_options
from apcore_mcp.serving import async_serve, open_bridge

# The keywords of `serve()` and `MCPServer()` in apcore-mcp 0.23.3.
SERVE = (
    "transport",
    "host",
    "port",
    "name",
    "version",
    "on_startup",
    "on_shutdown",
    "tags",
    "prefix",
    "log_level",
    "dynamic",
    "validate_inputs",
    "metrics_collector",
    "explorer",
    "explorer_prefix",
    "allow_execute",
    "explorer_title",
    "explorer_project_name",
    "explorer_project_url",
    "authenticator",
    "require_auth",
    "exempt_paths",
    "approval_handler",
    "approval_store",
    "approval_notify",
    "output_formatter",
    "output_format",
    "strategy",
    "redact_output",
    "trace",
    "middleware",
    "acl",
    "observability",
    "async_tasks",
    "async_max_concurrent",
    "async_max_tasks",
)


class Everybody:
    def authenticate(self, headers: dict[str, str]) -> None:
        return None


def test_every_keyword_is_known() -> None:
    assert len(SERVE) == 36
    assert [name for name in SERVE if name not in KEYWORDS] == []


def test_defaults_of_apcore_mcp_change_nothing() -> None:
    """A program may pass the defaults of apcore-mcp."""
    given: dict[str, Any] = {
        "explorer_title": "APCore MCP Explorer",
        "explorer_project_name": "apcore-mcp",
        "explorer_project_url": None,
        "authenticator": None,
        "require_auth": True,
        "exempt_paths": None,
        "approval_handler": None,
        "approval_store": None,
        "approval_notify": None,
        "output_formatter": None,
        "output_format": None,
        "strategy": None,
        "metrics_collector": None,
        "observability": False,
        "async_tasks": False,
        "async_max_concurrent": 10,
        "async_max_tasks": 1000,
    }
    assert make_options(**to_options(given)) == make_options()


def test_translations() -> None:
    options = to_options({"explorer_prefix": "/explorer/", "authenticator": Everybody()})
    assert options["inspector_prefix"] == "/explorer"
    assert isinstance(options["auth"], AuthenticatorAuth)
    assert options["exempt_paths"] == EXEMPT_PATHS
    chosen = to_options({"authenticator": Everybody(), "exempt_paths": {"/x"}})
    assert chosen["exempt_paths"] == {"/x"}
    with pytest.raises(ValueError, match="explorer_prefix must start with"):
        to_options({"explorer_prefix": "x"})
    with pytest.raises(ValueError, match="not both"):
        to_options({"auth": object(), "authenticator": Everybody()})


def test_approval_store_is_a_handler_with_a_tool() -> None:
    options = to_options({"approval_store": InMemoryApprovalStore(), "approval_notify": None})
    assert isinstance(options["approval_handler"], StorageBackedApprovalHandler)
    assert len(options["extensions"]) == 2
    other = object()
    options = to_options({"approval_store": InMemoryApprovalStore(), "approval_handler": other})
    assert (options["approval_handler"], len(options["extensions"])) == (other, 1)


async def test_approval_store_starts_and_stops_with_the_server(registry: Registry) -> None:
    seen: list[str] = []

    class Store(InMemoryApprovalStore):
        def start(self) -> None:
            asyncio.get_running_loop()
            seen.append("started")

        def stop(self) -> None:
            seen.append("stopped")

    async with async_serve(registry, approval_store=Store()):
        assert seen == ["started"]
    assert seen == ["started", "stopped"]


def test_keywords_without_effect_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    to_options({"require_auth": True, "async_tasks": False, "async_max_tasks": 3})
    assert caplog.text == ""
    to_options({"require_auth": True, "transport": "sse", "async_max_tasks": 3})
    assert "require_auth=True has no effect" in caplog.text
    assert "without async_tasks=True" in caplog.text


def test_metrics_and_usage_are_made() -> None:
    options = to_options({"observability": True})
    assert isinstance(options["metrics_collector"], MetricsCollector)
    assert len(options["middleware"]) == 2
    assert options["usage_collector"] is not None
    collector = MetricsCollector()
    assert to_options({"metrics_collector": collector}) == {"metrics_collector": collector}
    assert to_options({"metrics_collector": False}) == {"metrics_collector": None}


async def test_observed_calls_are_counted(registry: Registry) -> None:
    options = make_options(**to_options({"observability": True}))
    with open_bridge(registry, options) as bridge:
        await bridge.executor.call_async("math.add", {"a": 1, "b": 2})
        (row,) = options.usage_collector.get_summary(period="24h")
        assert row.module_id == "math.add"
