"""The keywords of `serve()` in apcore-mcp, translated to the options of this bridge."""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from apcore_mcp.options import ServeKeywords, ServeOptions

if TYPE_CHECKING:
    from apcore_mcp.bridge import Bridge

logger = logging.getLogger("apcore_mcp.compat")

# Keywords that only name things on a page, and what names them here.
_TITLES: Final = ("explorer_title", "explorer_project_name", "explorer_project_url")


class CompatKeywords(ServeKeywords, total=False):
    """The keywords of `serve()`, and those of apcore-mcp that have another name here."""

    # inspector_prefix
    explorer_prefix: str
    # The inspector shows the name of the server.
    explorer_title: str
    explorer_project_name: str | None
    explorer_project_url: str | None
    # auth
    authenticator: Any
    # approval_handler, with a tool that polls
    approval_store: Any
    approval_notify: Any
    # metrics, middleware, and a page of the usage
    observability: bool
    # Tools that run modules in the background.
    async_tasks: bool
    async_max_concurrent: int
    async_max_tasks: int


def to_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of this bridge for keywords of both. Raises: TypeError; ValueError."""
    options = dict(given)
    for name, translate in _TRANSLATIONS.items():
        if name in options:
            translate(options.pop(name), options)
    for name in _TITLES:
        if options.pop(name, None) is not None:
            logger.debug("%s has no effect: the inspector shows the name of the server", name)
    if options.get("require_auth") and options.get("auth") is None and options.get("transport", "stdio") != "stdio":
        logger.warning("require_auth=True has no effect: there is no authenticator= or auth=")
    limits = {name: options.pop(f"async_{name}", None) for name in ("max_concurrent", "max_tasks")}
    has_tasks = options.pop("async_tasks", None)
    if has_tasks is None and any(value is not None for value in limits.values()):
        logger.warning("async_max_concurrent= and async_max_tasks= have no effect without async_tasks=True")
    if has_tasks:
        from apcore_mcp.compat.tools import add_task_tools  # noqa: PLC0415  # imports apcore

        known = {name: value for name, value in limits.items() if value is not None}
        _extend(options, lambda bridge: add_task_tools(bridge, **known))
    return options


def _translate_prefix(value: Any, options: dict[str, Any]) -> None:
    if not isinstance(value, str) or not value.startswith("/"):
        raise ValueError("explorer_prefix must start with '/'")
    options.setdefault("inspector_prefix", value.rstrip("/") or value)


def _translate_authenticator(value: Any, options: dict[str, Any]) -> None:
    if value is None:
        return
    if options.get("auth") is not None:
        raise ValueError("pass auth= or authenticator=, not both")
    from apcore_mcp.compat.authentication import EXEMPT_PATHS, AuthenticatorAuth  # noqa: PLC0415  # only with it

    options["auth"] = AuthenticatorAuth(value)
    if options.get("exempt_paths") is None:
        options["exempt_paths"] = EXEMPT_PATHS


def _translate_exempt(value: Collection[str] | None, options: dict[str, Any]) -> None:
    if value is not None:
        options["exempt_paths"] = value


def _translate_store(store: Any, options: dict[str, Any]) -> None:
    notify = options.pop("approval_notify", None)
    if store is None:
        return
    from apcore_mcp.compat.approvals import StorageBackedApprovalHandler  # noqa: PLC0415  # imports apcore

    if options.get("approval_handler") is None:
        options["approval_handler"] = StorageBackedApprovalHandler(store, notify_callback=notify)
    _extend(options, lambda bridge: _start_with(bridge, store))


def _start_with(bridge: "Bridge", store: Any) -> None:
    """Call `start()` and `stop()` of a store, if it has them, on the event loop of the server."""

    def hook(method: Callable[[], object]) -> Callable[[], Awaitable[None]]:
        async def call() -> None:
            method()

        return call

    for name, register in (("start", bridge.server.on_startup), ("stop", bridge.server.on_shutdown)):
        method = getattr(store, name, None)
        if callable(method):
            register(hook(method))


def _translate_handler(handler: Any, options: dict[str, Any]) -> None:
    options["approval_handler"] = handler
    from apcore_mcp.compat.approvals import StorageBackedApprovalHandler  # noqa: PLC0415  # imports apcore

    if isinstance(handler, StorageBackedApprovalHandler):
        from apcore_mcp.compat.tools import add_approval_tool  # noqa: PLC0415  # imports apcore

        _extend(options, lambda bridge: add_approval_tool(bridge, handler))


def _translate_metrics(collector: Any, options: dict[str, Any]) -> None:
    if collector is True:
        from apcore.observability import (  # type: ignore[import-untyped]  # noqa: PLC0415  # only with it
            MetricsCollector,
            MetricsMiddleware,
        )

        collector = MetricsCollector()
        options["middleware"] = [*(options.get("middleware") or ()), MetricsMiddleware(collector)]
    options["metrics_collector"] = collector or None


def _translate_observability(is_wanted: Any, options: dict[str, Any]) -> None:
    if not is_wanted:
        return
    from apcore.observability import UsageCollector, UsageMiddleware  # noqa: PLC0415  # only with it

    if options.get("metrics_collector") is None:
        options["metrics_collector"] = True
    options["usage_collector"] = UsageCollector()
    options["middleware"] = [*(options.get("middleware") or ()), UsageMiddleware(options["usage_collector"])]


def _extend(options: dict[str, Any], extension: "Callable[[Bridge], None]") -> None:
    options["extensions"] = (*options.get("extensions", ()), extension)


# In this order: a keyword may set another one further down.
_TRANSLATIONS: Final[Mapping[str, Callable[[Any, dict[str, Any]], None]]] = {
    "explorer_prefix": _translate_prefix,
    "exempt_paths": _translate_exempt,
    "authenticator": _translate_authenticator,
    "approval_store": _translate_store,
    "approval_notify": lambda _value, _options: None,
    "approval_handler": _translate_handler,
    "observability": _translate_observability,
    "metrics_collector": _translate_metrics,
}

# Every keyword.
KEYWORDS: Final = (
    *ServeOptions.__struct_fields__,
    *(CompatKeywords.__annotations__.keys() - ServeKeywords.__annotations__),
)

__all__ = ["KEYWORDS", "CompatKeywords", "to_options"]
