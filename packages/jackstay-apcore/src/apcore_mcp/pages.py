"""Routing of the pages besides the endpoint: health, metrics and the inspector."""

from typing import TYPE_CHECKING

from apcore_mcp.health import HEALTH_PATH, make_health
from jackstay.inspector import respond

if TYPE_CHECKING:
    from apcore_mcp.bridge import Bridge
    from jackstay.server.http import App, Asgi, Receive, Scope, Send


def wrap_app(bridge: "Bridge", app: "App") -> "Asgi":
    """Return an app that serves the pages and passes everything else to the endpoint `app`."""
    pages = pages_of(bridge, app)
    endpoint: Asgi = app
    page = pages.get(bridge.options.inspector_prefix) if bridge.options.explorer else None
    if page is not None:
        endpoint = page.messages.record(app)  # type: ignore[attr-defined]  # it is an Inspector
        bridge.on_close(page.messages.close)  # type: ignore[attr-defined]  # the same
    has_root = app.options.path.rstrip("/") == ""
    inspector = bridge.options.inspector_prefix if bridge.options.explorer and not has_root else None

    async def served(scope: "Scope", receive: "Receive", send: "Send") -> None:
        path: str = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        for prefix, page in pages.items():
            if scope["type"] == "http" and (path == prefix or path.startswith(f"{prefix}/")):
                await page(scope, receive, send)
                return
        if inspector is not None and scope["type"] == "http" and path in ("", "/") and scope["method"] == "GET":
            # A browser that opens the root of the server gets the inspector.
            location = f"{scope.get('root_path', '')}{inspector}"
            await respond(send, 307, "text/plain; charset=utf-8", f"{location}\n".encode(), (("location", location),))
            return
        await endpoint(scope, receive, send)

    return served


def pages_of(bridge: "Bridge", app: "App") -> "dict[str, Asgi]":
    """Return the pages by path."""
    options = bridge.options
    export = None
    pages = {HEALTH_PATH: make_health(app, bridge.catalogue, bridge.started_at)}
    if options.has_metrics:
        from apcore_mcp.metrics import METRICS_PATH, Metrics  # noqa: PLC0415  # few servers need it

        metrics = Metrics(bridge.catalogue, options.metrics_collector)
        bridge.router.on_call(metrics.observe)
        pages[METRICS_PATH] = metrics.page(app)
        export = metrics.export
    if options.usage_collector is not None:
        from apcore_mcp.usage import make_usage  # noqa: PLC0415  # few servers need it

        path = f"{options.inspector_prefix}/api/usage"
        pages[path] = make_usage(app, options.usage_collector, path)
    if options.explorer:
        from apcore_mcp.inspector import routes  # noqa: PLC0415  # needed only with the inspector

        pages[options.inspector_prefix] = routes(
            app,
            bridge.catalogue,
            bridge.router,
            options.inspector_prefix,
            may_call=options.allow_execute,
            metrics=export,
        )
    return pages


__all__ = ["pages_of", "wrap_app"]
