"""Apps of tools: `@server.tool(app=...)` registers the page as a resource, and declares the extension."""

from typing import TYPE_CHECKING

from jackstay.apps import APP_MIME_TYPE, App, Apps
from jackstay.errors import Json, UsageError
from jackstay.server._resources import ResourceOptions, resource_from_function
from jackstay.types import TextResourceContents

if TYPE_CHECKING:
    from jackstay.server._server import Server


def enable_app(server: "Server", app: App) -> None:
    """Serve the page of an app, once. Raises: UsageError for a duplicate URI, or if the server already serves."""
    extensions = server._extensions
    if extensions is None or not any(isinstance(row, Apps) for row in extensions.rows):
        if "_dispatch" in server.__dict__:
            message = "the server is running without apps: create it with Server(extensions=[Apps()])"
            raise UsageError(message, path="app")
        server.add_extensions((Apps(),))
    known = server.catalogue.find_resource(app.uri)
    if known is not None and getattr(known.entry.call, "app", None) == app:
        return
    options = ResourceOptions(name=app.uri.removeprefix("ui://"), mime_type=APP_MIME_TYPE, meta=app.meta)
    server.catalogue.add_resources(resource_from_function(app.uri, _Page(app), options))


class _Page:
    """Reads the page of an app."""

    def __init__(self, app: App) -> None:
        self.app = app

    def __call__(self) -> TextResourceContents:
        app = self.app
        return TextResourceContents(uri=app.uri, mime_type=APP_MIME_TYPE, text=app.read(), meta=app.meta or None)


def tool_meta(app: App | None, *, app_only: bool, name: str) -> dict[str, Json]:
    """Return what the `_meta` of a tool has for its app. Raises: UsageError for a bad option."""
    if app is None:
        if app_only:
            raise UsageError(f"{name}: app_only=True needs app=", path="app_only")
        return {}
    if not isinstance(app, App):
        raise UsageError(f"{name}: app must be an App, not {app!r}", path="app")
    ui: dict[str, Json] = {"resourceUri": app.uri}
    if app_only:
        ui["visibility"] = ["app"]
    return {"ui": ui}
