"""The mounts of one server, the host: requests for entries of mounted servers are forwarded to them.

A request is forwarded with its original name, on the same connection, so that progress, log messages, cancellation and
requests to the client need no translation. Servers elsewhere are mounted through a proxy (`jackstay.proxy`), which is a
server, too.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from jackstay.errors import JsonRpcError, ProtocolError, UsageError
from jackstay.server._catalogue import Kind
from jackstay.server._failures import InsufficientScopeError
from jackstay.server._mount import SEPARATOR, Mount
from jackstay.server._mounted_entries import (
    Members,
    Mounted,
    MountedResource,
    MountedTool,
    read_member,
    read_members,
)
from jackstay.server._transforms import Transforms
from jackstay.server._visibility import discard_rules
from jackstay.types import DECODE_ERRORS, SubscriptionsListenRequestParams, decode

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping
    from typing import TypeAlias

    from jackstay.protocol.server import events as e
    from jackstay.server._dispatch import Dispatch
    from jackstay.server._driver import Caller, Driver, Outcome, Serve
    from jackstay.server._entries import Entry
    from jackstay.server._server import Server
    from jackstay.transport import Target

    # What `Server.mount()` accepts. Any: a `Fleet`, which is in a layer that this one does not import.
    Mountable: TypeAlias = "Server | Target | str | os.PathLike[str] | Any"


class Mounts:
    """The mounts of one server. Serves the requests for their entries; all others go to the server's own functions."""

    def __init__(self, host: Server) -> None:
        self.host = host
        self.rows: list[Mount] = []
        self._own: dict[str, Serve] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        host._lifetime.startup_hooks.append(self.start)
        host._lifetime.shutdown_hooks.append(self.stop)

    def __repr__(self) -> str:
        return f"<Mounts {self.rows!r}>"

    # --- adding and removing ------------------------------------------------------------------------------------------

    def add(self, mount: Mount) -> None:
        """Add a mount. If the server runs already, start the mounted one in the background.

        Raises: UsageError for a cycle, a prefix that another mount has, or a name that the host has.
        """
        path = _path(mount.child, self.host)
        if path is not None:
            names = " -> ".join([self.host.name, *(server.name for server in path)])
            message = f"cannot mount {mount.child.name!r}: this is a cycle: {names}; remove one of these mounts"
            raise UsageError(message, path="other")
        if mount.prefix and any(other.prefix == mount.prefix for other in self.rows):
            message = f"prefix {mount.prefix!r} is used by another mount of {self.host.name!r}; use another one"
            raise UsageError(message, path="prefix")
        mount.refresh(is_strict=True)
        self.rows.append(mount)
        mount.child._mounted_in = (*mount.child._mounted_in, mount)
        share_numbers(mount.child, self.host)
        if mount.child._views is not None:
            mount.child._views.apply_at_host(mount)
        if self.host._lifetime.has_users:
            self._run_in_background(mount.start())

    def remove(self, mount: Mount) -> None:
        """Remove a mount with its entries. Calls in flight continue; `mount.stop()` stops the mounted server."""
        self.rows.remove(mount)
        mount.child._mounted_in = tuple(other for other in mount.child._mounted_in if other is not mount)
        mount.clear()
        discard_rules(self.host, mount)

    def _run_in_background(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def registered(self) -> tuple[bool, bool, bool, bool]:
        """Return the capabilities of the server with all mounts, as `Catalogue.registered`."""
        rows = [self.host.catalogue.registered, *(mount.registered() for mount in self.rows)]
        tools, resources, prompts, completions = (any(column) for column in zip(*rows, strict=True))
        return tools, resources, prompts, completions

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all mounted servers at the same time. Raises: whatever a startup hook of one raises."""
        await asyncio.gather(*(mount.start() for mount in self.rows))

    async def stop(self) -> None:
        """Stop all mounted servers."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*(mount.stop() for mount in self.rows), *self._tasks, return_exceptions=True)

    def forget(self, connection: Driver) -> None:
        """Release what belongs to a connection that has ended."""
        for mount in self.rows:
            mount.forget(connection)

    # --- requests -----------------------------------------------------------------------------------------------------

    def install(self, dispatch: Dispatch) -> None:
        """Serve requests for mounted entries instead of this dispatcher."""
        self._own = dispatch.intercept(
            {
                "tools/call": self._call_tool,
                "prompts/get": self._get_prompt,
                "resources/read": self._read_resource,
                "completion/complete": self._complete,
                "resources/subscribe": self._subscribe,
                "resources/unsubscribe": self._unsubscribe,
                "subscriptions/listen": self._listen,
                "logging/setLevel": self._set_level,
            },
            self._notified,
        )

    def _serve_own(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        return self._own[request.method.name](connection, request, caller)

    def _call_tool(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        name, members = read_member(request, "name")
        entry = self.host.catalogue.find_tool(name)
        scopes = entry.scopes if isinstance(entry, MountedTool) else None
        if scopes and caller.scopes is not None and not scopes <= caller.scopes:
            raise InsufficientScopeError(*scopes)
        mount, original = self._find_named(Kind.TOOLS, name, entry)
        plan = None if mount is None else mount.plans.get(name)
        members = members if plan is None else plan.apply(members)
        outcome = self._forward(mount, connection, request, caller, {**members, "name": _encoded(original)})
        return outcome if plan is None else plan.translate(outcome)

    def _get_prompt(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        name, members = read_member(request, "name")
        mount, original = self._find_named(Kind.PROMPTS, name, self.host.catalogue.prompts.get(name))
        return self._forward(mount, connection, request, caller, {**members, "name": _encoded(original)})

    def _read_resource(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        uri, members = read_member(request, "uri")
        mount, original = self._find_resource(uri)
        return self._forward(mount, connection, request, caller, {**members, "uri": _encoded(original)})

    def _complete(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        try:
            members = read_members(request.params or b"{}")
            reference = msgspec.json.decode(members["ref"], type=dict[str, Any])
        except (*DECODE_ERRORS, KeyError):
            return self._serve_own(connection, request, caller)
        kind, member = (Kind.PROMPTS, "name") if reference.get("type") == "ref/prompt" else (Kind.TEMPLATES, "uri")
        mount, original = self._find_completed(kind, str(reference.get(member)))
        members["ref"] = Raw(msgspec.json.encode({**reference, member: original}))
        return self._forward(mount, connection, request, caller, members)

    def _forward(
        self, mount: Mount | None, connection: Driver, request: e.Serve, caller: Caller, members: Members
    ) -> Outcome:
        if mount is None:
            return self._serve_own(connection, request, caller)
        return mount.serve(connection, request, caller, members)

    def _find_named(self, kind: Kind, key: str, entry: Entry | None) -> tuple[Mount | None, str]:
        """Return the mount and the original name of the entry that the host has under this name, or of none."""
        if isinstance(entry, Mounted):
            return entry.mount, entry.original
        return self._unlisted(kind, key) if entry is None else (None, "")

    def _unlisted(self, kind: Kind, key: str) -> tuple[Mount | None, str]:
        """Return the mount and the original name of an entry whose server is down, or has not started yet."""
        for mount in self.rows if self._may_be_unlisted(kind, key) else ():
            original = mount.routes[kind].get(key)
            if original is None and not mount.is_listed and mount.prefix and key.startswith(mount.name_of("")):
                original = key.removeprefix(mount.name_of(""))
                is_allowed = kind is not Kind.TOOLS or mount.allows is None or mount.allows(original)
                if mount.table is not None or not is_allowed:
                    continue  # what the name means after a transform is known only with the lists
            if original is not None:
                return mount, original
        return None, ""

    def _may_be_unlisted(self, kind: Kind, key: str) -> bool:
        """Return whether a request for something that is not listed is forwarded.

        Not if it is disabled, nor with rules of visibility: they apply to what is listed.
        """
        return self.host._views is None and not self.host.catalogue.is_disabled(kind, key)

    def _find_completed(self, kind: Kind, key: str) -> tuple[Mount | None, str]:
        catalogue = self.host.catalogue
        known: Mapping[str, Entry] = catalogue.prompts if kind is Kind.PROMPTS else catalogue.templates
        entry = known.get(key)
        if entry is None and kind is Kind.TEMPLATES:
            return self._find_resource(key)
        return self._find_named(kind, key, entry)

    def _find_resource(self, uri: str) -> tuple[Mount | None, str]:
        """Return the mount that serves a URI, and the original URI. A URI need not be listed to be served."""
        found = self.host.catalogue.find_resource(uri)
        if found is not None:
            entry = found.entry
            if not isinstance(entry, MountedResource):
                return None, ""
            original = entry.mount.uris.remove(uri) or uri
            return (entry.mount, original) if entry.mount.serves(original) else (None, "")
        if not self._may_be_unlisted(Kind.RESOURCES, uri):
            return None, ""
        for mount in self.rows:
            prefixed = mount.uris.remove(uri)
            if prefixed is not None:
                return (mount, prefixed) if mount.serves(prefixed) else (None, "")
        unprefixed = [mount for mount in self.rows if not mount.prefix]
        return (unprefixed[0], uri) if len(unprefixed) == 1 and unprefixed[0].serves(uri) else (None, "")

    # --- subscriptions, log level and notifications -------------------------------------------------------------------

    async def subscribe(self, connection: Driver, uri: str, key: tuple[int, int], *, is_stateless: bool) -> bool:
        """Subscribe to a resource of the host or of a mounted server. Returns False if it does not exist."""
        mount, original = self._find_resource(uri)
        if mount is None:
            return self.host.catalogue.find_resource(uri) is not None
        return await mount.subscribe(connection, original, key, is_stateless=is_stateless)

    def unsubscribe(self, uri: str, key: tuple[int, int]) -> None:
        """End the subscription `key` to a resource."""
        mount, original = self._find_resource(uri)
        if mount is not None:
            mount.unsubscribe(original, key)

    def _subscribe(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        uri, _ = read_member(request, "uri")
        mount, original = self._find_resource(uri)
        if mount is None:
            return self._serve_own(connection, request, caller)
        return self._subscribe_mounted(mount, connection, uri, original)

    async def _subscribe_mounted(self, mount: Mount, connection: Driver, uri: str, original: str) -> bytes:
        connection.subscriptions.subscribe(uri)
        try:
            is_known = await mount.subscribe(connection, original, (connection.number, 0), is_stateless=False)
        except BaseException:
            connection.subscriptions.unsubscribe(uri)
            raise
        if not is_known:
            connection.subscriptions.unsubscribe(uri)
            raise JsonRpcError(-32002, "resource not found", {"uri": uri})
        return b"{}"

    def _unsubscribe(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        uri, _ = read_member(request, "uri")
        self.unsubscribe(uri, (connection.number, 0))
        return self._serve_own(connection, request, caller)

    def _listen(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        params = bytes(request.params or b"{}")
        try:
            wanted = decode(SubscriptionsListenRequestParams, params).notifications
        except ProtocolError:
            return self._serve_own(connection, request, caller)
        if not any(self._find_resource(uri)[0] for uri in wanted.resource_subscriptions or ()):
            return self._serve_own(connection, request, caller)
        return self._listen_mounted(connection, msgspec.structs.replace(request, params=None, meta=None), wanted)

    async def _listen_mounted(self, connection: Driver, request: e.Serve, wanted: Any) -> bytes:
        """Open a stateless-era subscription with those resources that exist."""
        key = (connection.number, request.serial)
        accepted: list[str] = []

        def unsubscribe() -> None:
            for uri in accepted:
                self.unsubscribe(uri, key)

        connection.on_stop(request.serial, unsubscribe)
        uris = list(dict.fromkeys(wanted.resource_subscriptions))
        try:
            found = await asyncio.gather(
                *(self.subscribe(connection, uri, key, is_stateless=True) for uri in uris), return_exceptions=True
            )
        except asyncio.CancelledError:
            accepted += uris
            unsubscribe()
            raise
        accepted += [uri for uri, is_known in zip(uris, found, strict=True) if is_known is True]
        connection.subscriptions.listen(request, msgspec.structs.replace(wanted, resource_subscriptions=list(accepted)))
        return b""  # the request stays open

    def _set_level(self, connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        outcome = self._serve_own(connection, request, caller)
        connection.store["level"] = connection.log_level
        self._run_in_background(self.set_level(connection))
        return outcome

    async def set_level(self, connection: Driver) -> None:
        """Forward the log level of a client to all mounted servers. A server that fails does not affect the others."""
        await asyncio.gather(*(mount.set_level(connection) for mount in self.rows), return_exceptions=True)

    def _notified(self, connection: Driver, method: str, params: Raw | None) -> None:
        for mount in self.rows:
            mount.notified(connection, method, params)


def make_mounts(host: Server, other: Mountable, prefix: str, transforms: Transforms | None = None) -> list[Mount]:
    """Return the mounts for what `Server.mount()` accepts. Raises: UsageError."""
    found: list[tuple[str, str, Any, Any, Transforms]] = [(prefix, SEPARATOR, other, None, {})]
    if not hasattr(other, "_make_mount"):
        # The client and the proxy are layers above this one. They are loaded only if something elsewhere is mounted.
        found = import_module("jackstay.proxy").proxies_for(other, prefix, SEPARATOR)
    mounts: list[Mount] = []
    for full_prefix, separator, server, allows, rows in found:
        mounts.append(server._make_mount(host, full_prefix, separator))
        mounts[-1].allows = allows
        mounts[-1].transform({**rows, **(transforms or {})})  # those of a file apply first
    return mounts


def mount_servers(host: Server, mounts: Iterable[Mount]) -> None:
    """Add these mounts to a server, all or none. Raises: UsageError."""
    if host._mounts is None:
        host._mounts = Mounts(host)
        if "_dispatch" in host.__dict__:
            host._mounts.install(host._dispatch)
            if host._views is not None:  # which entries a caller sees is decided first
                host._views.install(host._dispatch)
    for mount in mounts:
        host._mounts.add(mount)


def unmount(server: Server) -> tuple[Mount, ...]:
    """Remove a server from all servers that it is mounted in, and return the mounts."""
    mounts = server._mounted_in
    for mount in mounts:
        assert mount.host._mounts is not None  # it has this mount
        mount.host._mounts.remove(mount)
    return mounts


def clients_of(server: Server) -> list[Driver]:
    """Return the connections of a server, and of all servers that it is mounted in."""
    found = {id(connection): connection for connection in list(server._connections.values())}
    for mount in server._mounted_in:
        found.update((id(connection), connection) for connection in clients_of(mount.host))
    return list(found.values())


def _path(server: Server, wanted: Server) -> list[Server] | None:
    """Return the servers on the way from `server` to `wanted` along mounts, or None if there is no way."""
    if server is wanted:
        return [server]
    for mount in () if server._mounts is None else server._mounts.rows:
        path = _path(mount.child, wanted)
        if path is not None:
            return [server, *path]
    return None


def share_numbers(server: Server, host: Server) -> None:
    """Number the connections of a mounted server and of its host in one sequence: they are compared in the proxy."""
    server._numbers = host._numbers
    for mount in () if server._mounts is None else server._mounts.rows:
        share_numbers(mount.child, host)


def _encoded(text: str) -> Raw:
    return Raw(msgspec.json.encode(text))
