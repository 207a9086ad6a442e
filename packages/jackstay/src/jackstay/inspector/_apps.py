"""Apps on the page (SEP-1865): their documents, each under its own policy in an opaque origin, and their tool calls.

A document has a random path, because the browser requests it without the key of the page. It is sandboxed by its
policy, too, so that it has no origin even where it is not in the frame of the page.
"""

import secrets
from typing import TYPE_CHECKING, Any, Final

from jackstay.apps import App, is_for_app
from jackstay.client import Client
from jackstay.errors import UsageError
from jackstay.inspector._responses import respond

if TYPE_CHECKING:
    from jackstay.server.http import Send

PATH: Final = "/app/"
# Documents that are kept, the newest.
MAX_DOCUMENTS: Final = 32


def policy_of(app: App) -> str:
    """Return the policy of an app in the frame of the page: its own, without the files of the page, and a sandbox."""
    rows = app.policy.replace("base-uri 'self'", "base-uri 'none'").replace("'self' ", "").replace(" 'self'", "")
    return f"{rows}; frame-ancestors 'self'; sandbox allow-scripts"


class AppDocuments:
    """The documents of the apps that the page shows, by their random names."""

    def __init__(self) -> None:
        self._by_name: dict[str, App] = {}

    def add(self, app: App) -> dict[str, Any]:
        """Keep an app, and return what the page needs to show it."""
        name = secrets.token_urlsafe(24)
        self._by_name[name] = app
        while len(self._by_name) > MAX_DOCUMENTS:
            del self._by_name[next(iter(self._by_name))]
        return {
            "uri": app.uri,
            "path": PATH + name,
            "policy": policy_of(app),
            "border": app.prefers_border is not False,
        }

    async def respond(self, send: "Send", path: str) -> bool:
        """Respond with the document of a path. Returns False for any other path."""
        app = self._by_name.get(path.removeprefix(PATH)) if path.startswith(PATH) else None
        if app is None:
            return False
        headers = (("content-security-policy", policy_of(app)), ("permissions-policy", _NO_FEATURES))
        await respond(send, 200, "text/html; charset=utf-8", app.read().encode(), headers)
        return True


_NO_FEATURES: Final = "camera=(), clipboard-write=(), geolocation=(), microphone=()"


async def call_for_app(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool for an app of the same server. Raises: UsageError, if the tool is not for apps; as `tools.call()`."""
    listed = next((row for row in await client.tools.list() if row.name == tool), None)
    if listed is None or not is_for_app(listed):
        raise UsageError(f"the server has no tool {tool[:200]!r} for apps", path="tool")
    return (await client.tools.call(tool, arguments, raise_on_error=False)).raw
