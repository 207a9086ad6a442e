"""Mount a server that is elsewhere: a URL, a transport, an `mcpServers` file or a `Fleet`, each through a proxy."""

import os
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Raw

from jackstay.client import Fleet, as_target, fleet_parts
from jackstay.errors import McpError, UsageError
from jackstay.protocol.server import events as e
from jackstay.proxy._failures import to_client_error
from jackstay.proxy._gateway_config import read_gateway
from jackstay.proxy._proxy import Proxy
from jackstay.server import ALL, Driver, Mount, Outcome, Transforms

# Returns whether a tool of the server is served; None: every tool.
Allows: TypeAlias = "Callable[[str], bool] | None"

_ROOTS_CHANGED = "notifications/roots/list_changed"


class ProxyMount(Mount):
    """A mounted proxy: requests go to its upstream server, and its entries to the host while that server is ready."""

    child: Proxy

    @property
    def is_down(self) -> bool:
        first = self.child._eras.first
        return first is None or not first.is_ready()

    @property
    def is_listed(self) -> bool:
        return self.child._mirror is not None and self.child._mirror.is_listed

    def registered(self) -> tuple[bool, bool, bool, bool]:
        """Return all capabilities: those of the server may change whenever it is restarted."""
        return ALL

    def _serve_child(self, connection: Driver, request: e.Serve, caller: Any) -> Outcome:  # noqa: ARG002  # see Mount
        return self.child._relay.serve(connection, request)

    async def subscribe(self, connection: Driver, uri: str, key: tuple[int, int], *, is_stateless: bool) -> bool:
        try:
            await self.child._find(connection, is_stateless=is_stateless).subscribe(uri, key)
        except McpError as error:
            raise to_client_error(error, self.child.name) from error
        return True

    def unsubscribe(self, uri: str, key: tuple[int, int]) -> None:
        for upstream in self.child._eras.all:
            upstream.unsubscribe(uri, key)

    def forget(self, connection: Driver) -> None:
        self.child._router.forget(connection)
        for upstream in self.child._eras.all:
            upstream.forget(connection.number)

    async def set_level(self, connection: Driver) -> None:
        upstream = self.child._find(connection, is_stateless=False)
        await self.child._relay.request_level(upstream, connection)

    def notified(self, connection: Driver, method: str, params: Raw | None) -> None:
        # Not progress: its token does not identify the server that it is for.
        if method == _ROOTS_CHANGED:
            self.child._relay.notified(connection, method, params)


def proxies_for(other: object, prefix: str, separator: str) -> list[tuple[str, str, Proxy, Allows, Transforms]]:
    """Return a prefix, a separator, a proxy, which tools are served and how they change, for each server of `other`.

    Raises: UsageError for something that cannot be mounted.
    """
    if isinstance(other, Fleet):
        if any(state != "new" for state in other.states.values()):
            raise UsageError("mount() expected a Fleet that is not open: the server opens it", path="other")
        targets, settings = fleet_parts(other)
        inner = other.separator
        return [
            (_joined(prefix, inner, name), inner, Proxy(target, settings=settings), None, {})
            for name, target in targets.items()
        ]
    if isinstance(other, str | os.PathLike) and os.fspath(other).endswith((".json", ".toml")):
        config = read_gateway(other)
        if config.has_auth:
            raise UsageError(
                f"{os.fspath(other)} has [keys] or [jwt], which apply only if it is served as a gateway: run it with "
                "`jackstay gateway`, or remove them and use the authentication of your server",
                path="other",
            )
        return [
            (
                _joined(prefix, separator, row.prefix),
                separator,
                Proxy(row.target, row.options),
                row.allows,
                row.transforms,
            )
            for row in config.upstreams.values()
        ]
    target = as_target(other, "mount()")  # type: ignore[arg-type]  # checked there
    return [(prefix, separator, Proxy(target), None, {})]


def _joined(prefix: str, separator: str, name: str) -> str:
    return f"{prefix}{separator}{name}" if prefix and name else prefix or name
