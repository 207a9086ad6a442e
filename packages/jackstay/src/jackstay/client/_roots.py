"""`client.roots`: which places the server may look at.

Above: users. Below: `_asking`, `_requests`.
"""

from collections.abc import Iterable

from jackstay.client._asking import Asking
from jackstay.client._requests import Requests
from jackstay.errors import CapabilityError, ClosedError, ShutdownError, StateError, UsageError
from jackstay.protocol import Era
from jackstay.types import ListRootsResult, Root


class Roots:
    """The roots we declare. Set them before the client is opened, change them at any time."""

    def __init__(self, asking: Asking, requests: Requests) -> None:
        self._asking = asking
        self._requests = requests

    def set(self, roots: Iterable[Root | str]) -> None:
        """These, from now on: `file://` addresses. A server of the handshake era is told that they changed.

        Raises: UsageError for what is no list of addresses.
        """
        if isinstance(roots, str) or not isinstance(roots, Iterable):
            raise UsageError(f"roots are a list of addresses, not {roots!r}", path="roots")
        self._asking.roots = [_root(root) for root in roots]
        try:
            connection = self._requests.connection
            is_declared = "roots" in (connection.settings.capabilities or {})
            if is_declared and connection.server().era is Era.HANDSHAKE:
                connection.notify("notifications/roots/list_changed", b"{}")
        except (StateError, ShutdownError, ClosedError):
            pass  # not open, or between two connections: the server will ask when it wants to know

    async def list(self) -> list[Root]:
        """Ask the *server* for roots, which MCP does not have: for servers that declare it all the same.

        Raises: CapabilityError where the server does not declare `roots`.
        """
        if self._requests.connection.core.server is None or not self._requests.offers("roots"):
            raise CapabilityError("roots", "in MCP the server asks: declare ours with client.roots.set()")
        return list((await self._requests.ask("roots/list", {}, ListRootsResult, {})).roots)


def _root(root: object) -> Root:
    if isinstance(root, Root):
        return root
    if not isinstance(root, str) or ":" not in root:
        raise UsageError(f"a root is an address like file:///project, not {root!r}", path="roots")
    return Root(uri=root)
