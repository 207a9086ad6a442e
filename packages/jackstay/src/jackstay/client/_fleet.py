"""`Fleet`: named servers, opened together, with their tools in one list; a failed server does not affect the others.

A tool is called `SERVER__TOOL`. Model APIs allow 64 characters, so a longer name is cut and ends in a hash. Names are
resolved by a table and never split at the separator. Tools whose names collide, such as `b__c` of server `a` and `c` of
server `a__b`, are omitted.
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, Self, Unpack

import msgspec

from jackstay._signatures import shows
from jackstay.client._client import Client
from jackstay.client._config import read_config
from jackstay.client._connect import connect
from jackstay.client._deadline import Deadline
from jackstay.client._requests import CallOptions
from jackstay.client._throttled_target import ThrottledTarget
from jackstay.client._tools import ToolOptions, as_object, list_options, pop_raise_on_error
from jackstay.errors import ClosedError, Json, McpError, StateError, UsageError
from jackstay.protocol import refuse_unknown
from jackstay.protocol.client import FleetKeywords, Settings
from jackstay.transport import Target
from jackstay.types import CallToolResult, Tool

logger = logging.getLogger("jackstay.client")

# The longest function name that model APIs allow.
MAX_NAME = 64
# The length of the hash in a name that was cut: 64 bits, because a server can find a collision of 32 bits in a moment.
HASH_DIGITS = 16
# The minimum of `parallel_starts`; the default is the number of processors if that is larger.
PARALLEL_STARTS = 4


class Fleet:
    """Several named servers as one. Use it with `async with`; safe to share between tasks.

    `fleet["git"]` is the client of one server: use it to register handlers before the fleet is opened and for
    everything but tools. `separator` is placed between server and tool names. With `require_all`, opening fails if any
    server fails. `parallel_starts` limits how many servers are started or restarted at the same time (default: the
    number of processors, at least 4). `settings` are those of `docs/settings.md`, for every server.

    Raises: UsageError for an unknown setting or a bad value.
    """

    @shows("jackstay.protocol.client:Settings", without="name")
    def __init__(
        self,
        targets: Mapping[str, Target],
        *,
        separator: str = "__",
        require_all: bool = False,
        parallel_starts: int | None = None,
        **settings: Unpack[FleetKeywords],
    ) -> None:
        if not separator:
            raise UsageError("separator must not be empty", path="separator")
        refuse_unknown(settings, FleetKeywords.__annotations__, "Fleet()")
        Settings(**settings)  # checks the values
        if "" in targets:
            raise UsageError("a server name must not be empty", path="targets")
        if parallel_starts is None:
            parallel_starts = max(PARALLEL_STARTS, os.cpu_count() or 0)
        if type(parallel_starts) is not int or parallel_starts < 1:
            raise UsageError(
                f"parallel_starts must be a positive int or None, got {parallel_starts!r}", path="parallel_starts"
            )
        self.separator = separator
        self.require_all = require_all
        self.parallel_starts = parallel_starts
        self._targets = dict(targets)
        self._settings = settings
        self._clients = {name: connect(target, name=name, **settings) for name, target in targets.items()}
        slots = asyncio.Semaphore(parallel_starts)
        for client in self._clients.values():
            if not client._target.is_http:
                client._target = target = ThrottledTarget(client._target, slots)
                client._on_state = target.on_state
        self._errors: dict[str, McpError] = {}
        # By server, in their order.
        self._listed: dict[str, list[Tool]] = {name: [] for name in targets}
        # By name in the fleet: the server and its tool.
        self._table: dict[str, tuple[str, Tool]] = {}
        self._was_opened = False

    @classmethod
    @shows("jackstay.protocol.client:Settings", without="name")
    def from_config(
        cls,
        path: str | os.PathLike[str],
        *,
        servers: Iterable[str] | None = None,
        separator: str = "__",
        require_all: bool = False,
        parallel_starts: int | None = None,
        **settings: Unpack[FleetKeywords],
    ) -> Self:
        """Return a fleet of the servers in an `mcpServers` file: those in `servers`, or all that are not `disabled`.

        Raises: UsageError that names file and key, before anything is started; and as the class.
        """
        config = read_config(path)
        if servers is None:
            servers = [name for name in config.names if not config.is_disabled(name)]
        stderr = settings.get("stderr", "log")
        targets = {name: config.target(name, stderr=stderr) for name in servers}
        for name in targets:
            for member in ("allow", "deny"):
                if member in config.entry(name):
                    key = f"{config.section}.{name}.{member}"
                    logger.warning("%s: %s is for a gateway; a fleet has all tools of the server", config.path, key)
        return cls(targets, separator=separator, require_all=require_all, parallel_starts=parallel_starts, **settings)

    def __repr__(self) -> str:
        states = ", ".join(f"{name} {client.state}" for name, client in self._clients.items())
        return f"<Fleet {states or '(no servers)'}>"

    # --- the servers --------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Client:
        return self._clients[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._clients)

    def __len__(self) -> int:
        return len(self._clients)

    def __contains__(self, name: object) -> bool:
        return name in self._clients

    @property
    def states(self) -> dict[str, str]:
        """The state of each server, as `client.state`."""
        return {name: client.state for name, client in self._clients.items()}

    @property
    def errors(self) -> dict[str, McpError]:
        """The most recent error by server: why it could not be opened, or why its tools could not be listed."""
        return dict(self._errors)

    # --- opening and closing ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def open(self) -> None:
        """Open the servers, `parallel_starts` at a time, and list their tools; return when each is ready or has failed.

        Raises: StateError if called twice; with `require_all`, the error of the first failed server in their order.
        Nothing is left running then.
        """
        if self._was_opened:
            raise StateError("open", message="this fleet was already opened; create a new one")
        self._was_opened = True
        try:
            await asyncio.gather(*(self._open_client(name) for name in self._clients))
            for name in self._clients:
                if self.require_all and name in self._errors:
                    error = self._errors[name]
                    error.details["server"] = name
                    error.add_note(f"server {name!r} of a fleet with require_all=True")
                    raise error
            await self._list_all({}, None)
        except BaseException:  # cancelled or failed: nothing may be left running
            await asyncio.shield(self.stop())
            raise

    async def stop(self, drain: float | None = None) -> None:
        """Close every server, as `client.stop()` does; return when all are closed."""
        await asyncio.gather(*(client.stop(drain) for client in self._clients.values()))

    async def _open_client(self, name: str) -> None:
        client = self._clients[name]
        target = client._target
        try:
            async with target.opening() if isinstance(target, ThrottledTarget) else nullcontext():
                await client.open()
        except McpError as error:
            logger.warning("%s: opening failed: %s", name, error)
            self._errors[name] = error

    # --- the tools ----------------------------------------------------------------------------------------------------

    @shows("jackstay.client:CallOptions")
    async def tools(self, **options: Unpack[CallOptions]) -> list[Tool]:
        """Return the tools of all servers with their names in the fleet, ordered by server.

        If a server cannot be listed now, its tools of the last listing are used and `errors` has the reason. A name
        that occurs in two servers is omitted, as are all tools of a server in which two tools get the same name;
        `errors` has the reason.
        """
        await self._list_all(options, None)
        return [msgspec.structs.replace(tool, name=name) for name, (_, tool) in self._table.items()]

    @property
    def names(self) -> Mapping[str, tuple[str, str]]:
        """By name in the fleet: the server and its tool."""
        return {name: (server, tool.name) for name, (server, tool) in self._table.items()}

    def name_of(self, server: str, tool: str) -> str:
        """Return the name of a server's tool in the fleet. Raises: UsageError if the tool is not listed."""
        for name, (found, listed) in self._table.items():
            if (found, listed.name) == (server, tool):
                return name
        raise UsageError(f"unknown tool {tool!r} of server {server!r}")

    @shows("jackstay.client:ToolOptions")
    async def call(
        self, name: str, arguments: Mapping[str, Json] | None = None, **options: Unpack[ToolOptions]
    ) -> CallToolResult:
        """Call a tool by its name in the fleet; options as for `client.tools.call()`.

        Raises: UsageError for an unknown name, ClosedError if its server could not be opened, and as every call.
        """
        must_raise = pop_raise_on_error(options)
        deadline = None
        if name not in self._table:  # a server may have added it since the last listing
            self._check_open()
            shared = list_options(options)
            # All servers have the same settings.
            deadline = next((client._requests.deadline(shared) for client in self._clients.values()), None)
            await self._list_all(shared, deadline)
        if name not in self._table:
            raise self._unknown(name)
        server, tool = self._table[name]
        params = {"name": tool.name, "arguments": as_object(arguments)}
        return await self._clients[server].tools._call(tool.name, params, options, deadline, must_raise=must_raise)

    def _check_open(self) -> None:
        if not self._was_opened:
            raise StateError("new", message="the fleet is not open; use `async with` or `open()`")

    def _unknown(self, name: str) -> McpError:
        for server, error in self._errors.items():
            if name.startswith(server + self.separator):
                if isinstance(error, UsageError):  # a name collision: the tool is omitted
                    return UsageError(error.message, path=error.path)
                closed = ClosedError(error)
                closed.details["server"] = server
                return closed
        return UsageError(f"unknown tool {name!r}: no server of this fleet has it", path="name")

    async def _list_all(self, options: CallOptions, deadline: Deadline | None) -> None:
        await asyncio.gather(*(self._list_tools_of(name, options, deadline) for name in self._clients))
        self._table, collisions = _build_table(self._listed, self.separator)
        for name, error in collisions.items():
            logger.warning("%s: %s", name, error)
            self._errors[name] = error

    async def _list_tools_of(self, name: str, options: CallOptions, deadline: Deadline | None) -> None:
        client = self._clients[name]
        if client.state in ("new", "closed"):
            self._check_open()
            return  # `errors` has the reason
        try:
            has_tools = client._requests.has_capability("tools")
            self._listed[name] = await client.tools._list(options, deadline) if has_tools else []
        except McpError as error:
            logger.warning("%s: listing the tools failed: %s", name, error)
            self._errors[name] = error
        else:
            self._errors.pop(name, None)


def fleet_parts(fleet: Fleet) -> tuple[dict[str, Target], dict[str, Any]]:
    """Return the targets and the settings that a fleet was created with."""
    return fleet._targets, dict(fleet._settings)


def fleet_name(server: str, tool: str, separator: str) -> str:
    """Return the name of a tool in a fleet: the full name, or its beginning and a hash if it is too long."""
    full_name = f"{server}{separator}{tool}"
    return full_name if len(full_name) <= MAX_NAME else with_hash(full_name, full_name)


def with_hash(name: str, identity: str) -> str:
    """Return the beginning of a name and a hash of `identity`: `MAX_NAME` characters, or fewer."""
    digits = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]
    return f"{name[: MAX_NAME - HASH_DIGITS - 1]}_{digits}"


def _build_table(
    listed: Mapping[str, Iterable[Tool]], separator: str
) -> tuple[dict[str, tuple[str, Tool]], dict[str, UsageError]]:
    """Return the table of fleet names, and an error for each server with colliding names.

    A collision never removes other tools of an uninvolved server: the fleet does not control the names of tools.
    """
    claims: dict[str, list[tuple[str, Tool]]] = {}
    collisions: dict[str, UsageError] = {}
    for server, tools in listed.items():
        own: dict[str, tuple[str, Tool]] = {}
        for tool in tools:
            name = fleet_name(server, tool.name, separator)
            other = own.get(name, (server, tool))
            if other[1].name != tool.name:
                collisions[server] = _collision(name, other, (server, tool), "all tools of this server are omitted")
            own[name] = server, tool  # one that the server lists twice appears once
        if server not in collisions:
            for name, found in own.items():
                claims.setdefault(name, []).append(found)
    for name, (first, *others) in claims.items():
        for other in others:
            advice = "both are omitted; rename a server or choose another separator"
            collisions[first[0]] = collisions[other[0]] = _collision(name, first, other, advice)
    return {name: found[0] for name, found in claims.items() if len(found) == 1}, collisions


def _collision(name: str, first: tuple[str, Tool], second: tuple[str, Tool], advice: str) -> UsageError:
    tools = " and ".join(f"{tool.name!r} of {server!r}" for server, tool in (first, second))
    return UsageError(f"two tools have the name {name!r}: {tools}; {advice}", path=name)
