"""What is served beside the endpoint: the health page, the metrics and the inspector, each at its path.

Only paths are looked at here. The health page is for everybody, as load balancers come without a key; the other two are
held to the same rules as the endpoint, by whoever makes them.

Above: `bridge`. Below: `health`, `metrics`, `inspector`, jackstay's endpoint.
"""

from typing import TYPE_CHECKING

from apcore_mcp.answers import answer
from apcore_mcp.health import HEALTH_PATH, make_health

if TYPE_CHECKING:
    from apcore_mcp.bridge import Bridge
    from jackstay.server.http import App, Asgi, Receive, Scope, Send


def around(bridge: "Bridge", app: "App") -> "Asgi":
    """The app that is served in the place of the endpoint `app`."""
    pages = pages_of(bridge, app)
    has_root = app.options.path.rstrip("/") == ""
    leads_to = bridge.options.inspector_prefix if bridge.options.explorer and not has_root else None

    async def served(scope: "Scope", receive: "Receive", send: "Send") -> None:
        path: str = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        for prefix, page in pages.items():
            if scope["type"] == "http" and (path == prefix or path.startswith(f"{prefix}/")):
                await page(scope, receive, send)
                return
        if (
            leads_to is not None
            and scope["type"] == "http"
            and path in ("", "/")
            and scope["method"] == "GET"
        ):
            # Who opens the address of the server in a browser looks for the page.
            place = f"{scope.get('root_path', '')}{leads_to}"
            await answer(
                send, 307, "text/plain; charset=utf-8", f"{place}\n".encode(), (("location", place),)
            )
            return
        await app(scope, receive, send)

    return served


def pages_of(bridge: "Bridge", app: "App") -> "dict[str, Asgi]":
    """The pages by their paths."""
    options = bridge.options
    pages = {HEALTH_PATH: make_health(app, bridge.catalogue, bridge.started_at)}
    if options.has_metrics:
        from apcore_mcp.metrics import METRICS_PATH, Metrics  # noqa: PLC0415  # only who asks for numbers loads it

        metrics = Metrics(bridge.catalogue, options.metrics_collector)
        bridge.router.on_call(metrics.observe)
        pages[METRICS_PATH] = metrics.page(app)
    if options.explorer:
        from apcore_mcp.inspector import routes  # noqa: PLC0415  # the same

        pages[options.inspector_prefix] = routes(
            app, bridge.catalogue, bridge.router, options.inspector_prefix
        )
    return pages


__all__ = ["around", "pages_of"]
