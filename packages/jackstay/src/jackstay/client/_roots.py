"""`client.roots`: the roots that the client declares to the server."""

from collections.abc import Iterable

from jackstay.client._request_handlers import ClientRequestHandlers
from jackstay.client._requests import Requests
from jackstay.errors import CapabilityError, ClosedError, ShutdownError, StateError, UsageError
from jackstay.protocol import Era
from jackstay.types import ListRootsResult, Root


class Roots:
    """The roots of the client. Set them before the client is opened; they can be changed at any time."""

    def __init__(self, request_handlers: ClientRequestHandlers, requests: Requests) -> None:
        self._request_handlers = request_handlers
        self._requests = requests

    def set(self, roots: Iterable[Root | str]) -> None:
        """Replace the roots, which are `file://` URIs. A handshake-era server is notified of the change.

        Raises: UsageError if `roots` is not an iterable of URIs.
        """
        if isinstance(roots, str) or not isinstance(roots, Iterable):
            raise UsageError(f"roots must be a list of URIs such as ['file:///project'], got {roots!r}", path="roots")
        self._request_handlers.roots = [_root(root) for root in roots]
        try:
            connection = self._requests.connection
            is_declared = "roots" in (connection.settings.capabilities or {})
            if is_declared and connection.server().era is Era.HANDSHAKE:
                connection.notify("notifications/roots/list_changed", b"{}")
        except (StateError, ShutdownError, ClosedError):
            pass  # not connected: the server requests the roots when it needs them

    async def list(self) -> list[Root]:
        """Request roots from the *server*, which MCP does not define; for servers that declare `roots` nevertheless.

        Raises: CapabilityError if the server does not declare `roots`.
        """
        if self._requests.connection.core.server is None or not self._requests.has_capability("roots"):
            raise CapabilityError(
                "roots", "the server does not provide roots; to declare roots of this client use client.roots.set()"
            )
        return list((await self._requests.request("roots/list", {}, ListRootsResult, {})).roots)


def _root(root: object) -> Root:
    if isinstance(root, Root):
        return root
    if not isinstance(root, str) or ":" not in root:
        raise UsageError(f"a root must be a URI such as 'file:///project', got {root!r}", path="roots")
    return Root(uri=root)
