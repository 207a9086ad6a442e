"""The functions of apcore-mcp that mount its explorer in a Starlette app. Here the inspector is an ASGI app."""

from typing import Any, NoReturn


def create_explorer_mount(*_: Any, **__: Any) -> NoReturn:
    """Raise NotImplementedError that names the replacement."""
    raise NotImplementedError(
        "create_explorer_mount() needs Starlette: use serve(explorer=True), or mount asgi_app(registry, explorer=True)"
    )


def create_usage_routes(*_: Any, **__: Any) -> NoReturn:
    """Raise NotImplementedError that names the replacement."""
    raise NotImplementedError(
        "create_usage_routes() needs Starlette: use serve(observability=True), which serves /inspector/api/usage"
    )


__all__ = ["create_explorer_mount", "create_usage_routes"]
