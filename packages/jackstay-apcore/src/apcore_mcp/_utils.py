"""Two functions of apcore-mcp that other projects import: a registry, or an executor, of either."""

from collections.abc import Sequence
from typing import Any

from apcore_mcp.bridge import to_executor
from apcore_mcp.options import make_options


def resolve_registry(registry_or_executor: Any) -> Any:
    """Return the registry of an executor, or the argument itself."""
    return getattr(registry_or_executor, "registry", registry_or_executor)


def resolve_executor(
    registry_or_executor: Any,
    *,
    approval_handler: Any = None,
    strategy: Any = None,
    middleware: Sequence[Any] | None = None,
    acl: Any = None,
) -> Any:
    """Return an executor with these options. Raises: TypeError; ValueError, as `serve()`."""
    options = make_options(approval_handler=approval_handler, strategy=strategy, middleware=middleware, acl=acl)
    return to_executor(registry_or_executor, options)


__all__ = ["resolve_executor", "resolve_registry"]
