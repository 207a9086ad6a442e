"""Names and modules of apcore-mcp 0.23.3 that programs import."""

import importlib
import sys
from dataclasses import make_dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from apcore import Executor, Registry

import apcore_mcp
from apcore_mcp import ERROR_CODES, MODULE_ID_PATTERN

# `__all__` of apcore-mcp 0.23.3.
NAMES = (
    "APCoreMCP",
    "serve",
    "async_serve",
    "to_openai_tools",
    "MetricsExporter",
    "MCPServer",
    "MCPServerFactory",
    "ExecutionRouter",
    "RegistryListener",
    "TransportManager",
    "AsyncTaskBridge",
    "META_TOOL_NAMES",
    "APCORE_META_TOOL_PREFIX",
    "ApprovalStore",
    "InMemoryApprovalStore",
    "StorageBackedApprovalHandler",
    "ApprovalBridge",
    "APPROVAL_META_TOOL_NAMES",
    "Authenticator",
    "JWTAuthenticator",
    "ClaimMapping",
    "AuthMiddleware",
    "auth_identity_var",
    "get_current_identity",
    "AnnotationMapper",
    "ElicitationApprovalHandler",
    "SchemaConverter",
    "ErrorMapper",
    "MCPErrorFormatter",
    "McpErrorFormatter",
    "ModuleIDNormalizer",
    "internal_error_response",
    "OpenAIConverter",
    "MCP_NAMESPACE",
    "MCP_ENV_PREFIX",
    "MCP_DEFAULTS",
    "register_mcp_namespace",
    "register_mcp_formatter",
    "REGISTRY_EVENTS",
    "ERROR_CODES",
    "MODULE_ID_PATTERN",
    "APCORE_EVENTS",
    "report_progress",
    "elicit",
    "ElicitResult",
    "MCP_PROGRESS_KEY",
    "MCP_ELICIT_KEY",
)

# Its modules, and a name of each.
MODULES = {
    "acl_builder": "build_acl_from_config",
    "adapters.approval": "StorageBackedApprovalHandler",
    "adapters.formatter": "register_mcp_formatter",
    "apcore_mcp": "APCoreMCP",
    "approval_store": "InMemoryApprovalStore",
    "auth": "AuthMiddleware",
    "auth.jwt": "JWTAuthenticator",
    "auth.middleware": "auth_identity_var",
    "auth.protocol": "Authenticator",
    "config": "register_mcp_namespace",
    "constants": "ERROR_CODES",
    "explorer": "create_explorer_mount",
    "helpers": "elicit",
    "markdown": "render_module_markdown",
    "middleware_builder": "build_middleware_from_config",
    "openapi_backend": "openapi_backend",
    "server.approval_bridge": "ApprovalBridge",
    "server.async_task_bridge": "RESERVED_PREFIX",
    "server.server": "MCPServer",
}


def test_every_name_can_be_imported() -> None:
    assert len(NAMES) == 47
    assert [name for name in NAMES if getattr(apcore_mcp, name, None) is None] == []


def test_every_module_can_be_imported() -> None:
    assert len(MODULES) == 19
    for module, name in MODULES.items():
        assert hasattr(importlib.import_module(f"apcore_mcp.{module}"), name), module


def test_names_of_packages() -> None:
    """`__all__` of the packages in apcore-mcp."""
    for module, names in (("adapters", "ElicitationApprovalHandler"), ("auth", "extract_headers")):
        assert hasattr(importlib.import_module(f"apcore_mcp.{module}"), names), module


def test_registry_and_executor_of_either(registry: Registry, executor: Executor) -> None:
    from apcore_mcp._utils import resolve_executor, resolve_registry

    assert resolve_registry(registry) is registry
    assert resolve_registry(executor) is executor.registry
    assert resolve_executor(executor) is executor
    assert resolve_executor(registry).registry is registry
    with pytest.raises(ValueError, match=r"strategy: .*'bogus'"):
        resolve_executor(registry, strategy="bogus")


def test_constants() -> None:
    assert ERROR_CODES["ACL_DENIED"] == "ACL_DENIED"
    assert MODULE_ID_PATTERN.match("math.add")
    assert not MODULE_ID_PATTERN.match("Math")


def test_markdown(descriptor: Any) -> None:
    from apcore_mcp.markdown import is_available, render_module_markdown

    assert is_available()
    text = render_module_markdown(descriptor({"type": "object"}, description="Resizes", tags=["image"]))
    assert text is not None
    assert text.startswith("# image.resize\n\nResizes\n\nTags: image\n\n## Parameters\n")
    assert render_module_markdown(SimpleNamespace()) is None


def test_scanned_module(descriptor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A type of apcore-toolkit, which is not installed here."""
    from apcore_mcp.markdown import descriptor_to_scanned_module

    scanned = make_dataclass("ScannedModule", ["module_id", "tags", "warnings"])
    monkeypatch.setitem(sys.modules, "apcore_toolkit", cast(Any, SimpleNamespace(ScannedModule=scanned)))
    assert descriptor_to_scanned_module(descriptor(tags=("a",))) == scanned("image.resize", ["a"], [])


def test_exporter_is_also_in_the_module_of_transports() -> None:
    from apcore_mcp.server import transport  # the module of 0.23.3

    assert transport.MetricsExporter is apcore_mcp.MetricsExporter
