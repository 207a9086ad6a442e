"""`Fleet`: many servers under their names, opened together, their tools one list. One that fails disturbs no other.

A tool of the fleet is called `NAME__TOOL`. Those who take such names allow 64 characters, so a longer one is cut and ends
in a hash of the whole; a table knows both names of every tool, and nothing is ever taken apart at the separator: a server
called `a` with a tool `b__c` and a server `a__b` with a tool `c` are a clash, and that name is left out.

What it must never know: how a client holds its connection. Above: users, `jackstay.sync`. Below: `_client`, `_config`.
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Self, Unpack

import msgspec

from jackstay.client._client import Client
from jackstay.client._config import read_config
from jackstay.client._connect import connect
from jackstay.client._deadline import Deadline
from jackstay.client._requests import CallOptions
from jackstay.client._starts import PacedTarget, Starts
from jackstay.client._tools import ToolOptions, of_any_call
from jackstay.errors import ClosedError, Json, McpError, StateError, UsageError
from jackstay.protocol.client import FleetKeywords
from jackstay.transport import Target
from jackstay.types import CallToolResult, Tool

logger = logging.getLogger("jackstay.client")

_NOT_OPEN = "the fleet is not open; use `async with` or `open()`"

# What model interfaces allow for the name of a function.
MAX_NAME = 64
# Of the hash behind a name that was cut. A server can find two names with the same 32 bits in a moment; 64 take years.
HASH_DIGITS = 16
# How many servers start at the same time, unless there are more processors. More only slow each other down.
PARALLEL_STARTS = 4


class Fleet:
    """Named servers as one. Use it with `async with`; safe to share between tasks.

    `fleet["git"]` is the client of one server: register handlers with it before the fleet is opened, call what is not a tool
    through it. `separator` stands between the names of a server and a tool; with `require_all` a server that cannot be
    opened fails the whole; `parallel_starts` is how many servers are started, or restarted, at the same time (default: as many
    as there are processors, at least 4). `settings` are those of `docs/settings.md`, for every server.

    Raises: UsageError for a setting that is unknown or out of range.
    """

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
        if "name" in settings:
            raise UsageError("name is not for a fleet: each server has its own", path="name")
        for name in targets:
            if not name:
                raise UsageError("the name of a server must not be empty", path="targets")
        if parallel_starts is None:
            parallel_starts = max(PARALLEL_STARTS, os.cpu_count() or 0)
        if not _is_count(parallel_starts):
            raise UsageError(
                f"parallel_starts must be an int from 1, or None, not {parallel_starts!r}",
                path="parallel_starts",
            )
        self.separator = separator
        self.require_all = require_all
        self.parallel_starts = parallel_starts
        self._clients = {name: connect(target, name=name, **settings) for name, target in targets.items()}
        self._starts = Starts(parallel_starts)
        for name, client in self._clients.items():
            if not client._target.is_http:
                client._target = PacedTarget(client._target, name, self._starts)
                client._on_state = partial(self._starts.changed, name)
        self._errors: dict[str, McpError] = {}
        self._listed: dict[str, list[Tool]] = {}
        self._table: dict[str, tuple[str, str]] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._was_opened = False

    @classmethod
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
        """The servers of an `mcpServers` file: those named in `servers`, or all that are not `disabled`.

        Raises: UsageError, naming file and key, before anything is started; and as the class itself.
        """
        config = read_config(path)
        if servers is None:
            names: Iterable[str] = [name for name in config.names if not config.is_disabled(name)]
        else:
            names = servers
        stderr = settings.get("stderr", "log")
        targets = {name: config.target(name, stderr=stderr) for name in names}
        return cls(
            targets,
            separator=separator,
            require_all=require_all,
            parallel_starts=parallel_starts,
            **settings,
        )

    def __repr__(self) -> str:
        states = ", ".join(f"{name} {client.state}" for name, client in self._clients.items())
        return f"<Fleet {states or 'of none'}>"

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
        """The newest failure of each server that has one: why it was not opened, or why its tools are not the newest."""
        return dict(self._errors)

    # --- opening and closing ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def open(self) -> None:
        """Open every server, `parallel_starts` at a time, and list the tools; returns when each is ready or has failed.

        Raises: StateError at the second time; with `require_all`, the error of the first server that failed, in their order.
        Nothing is left running then.
        """
        if self._was_opened:
            raise StateError("open", message="a fleet is opened once; make a new one")
        self._was_opened = True
        try:
            await asyncio.gather(*(self._open_one(name) for name in self._clients))
            if self.require_all:
                self._demand_all()
            await self._list_all({}, None)
        except BaseException:  # cancelled or refused: nothing may be left running
            await asyncio.shield(self.stop())
            raise

    async def stop(self, drain: float | None = None) -> None:
        """End every server, as `client.stop()` does; returns when all are gone."""
        await asyncio.gather(*(client.stop(drain) for client in self._clients.values()))

    async def _open_one(self, name: str) -> None:
        client = self._clients[name]
        try:
            if client._target.is_http:
                await client.open()
                return
            async with self._starts.opening(name):
                await client.open()
        except McpError as error:
            logger.warning("%s: could not be opened: %s", name, error)
            self._errors[name] = error

    def _demand_all(self) -> None:
        for name in self._clients:
            error = self._errors.get(name)
            if error is not None:
                error.details["server"] = name
                error.add_note(f"This was the server {name!r} of a fleet that requires all of its servers.")
                raise error

    # --- the tools ----------------------------------------------------------------------------------------------------

    async def tools(self, **options: Unpack[CallOptions]) -> list[Tool]:
        """The tools of all servers under their names in the fleet, server by server.

        A server that cannot answer now is shown with the tools it last had, and its error in `errors`. A name that tools of two
        servers would have is left out, and so are all tools of a server two of whose tools would have one name; `errors` has
        the reason.
        """
        await self._list_all(options, None)
        # By name: a server that lists a tool twice has one of that name all the same, and it is called once.
        named = {
            self._names[server, tool.name]: tool
            for server, tools in self._listed.items()
            for tool in tools
            if (server, tool.name) in self._names
        }
        return [msgspec.structs.replace(tool, name=name) for name, tool in named.items()]

    @property
    def names(self) -> Mapping[str, tuple[str, str]]:
        """The table: each name in the fleet, and the server and tool that it stands for."""
        return MappingProxyType(self._table)

    def name_of(self, server: str, tool: str) -> str:
        """What a server's tool is called in the fleet. Raises: UsageError if that is not listed."""
        try:
            return self._names[server, tool]
        except KeyError:
            raise UsageError(f"there is no tool {tool!r} of a server {server!r} in this fleet") from None

    async def call(
        self, name: str, arguments: Mapping[str, Json] | None = None, **options: Unpack[ToolOptions]
    ) -> CallToolResult:
        """Run a tool by its name in the fleet; as `client.tools.call()`.

        Raises: UsageError for a name that no server has, ClosedError where its server could not be opened, and as every call.
        """
        deadline = None
        if name not in self._table:
            deadline = self._deadline(options)
            await self._list_all(of_any_call(options), deadline)  # a server may have it since the last time
        if name not in self._table:
            raise self._unknown(name)
        server, tool = self._table[name]
        return await self._clients[server].tools._call(tool, arguments, options, deadline)

    def _deadline(self, options: CallOptions) -> Deadline | None:
        """Start the deadline of a call that takes more than one request: the settings of all servers are the same."""
        if not self._was_opened:
            raise StateError("new", message=_NOT_OPEN)
        for client in self._clients.values():
            return client._requests.deadline(of_any_call(options))
        return None

    def _unknown(self, name: str) -> McpError:
        for server, error in self._errors.items():
            if name.startswith(server + self.separator):
                if isinstance(error, UsageError):  # its tools, or this one, are left out
                    return UsageError(error.message, path=error.path)
                closed = ClosedError(error)
                closed.details["server"] = server
                return closed
        return UsageError(f"no server of this fleet has a tool {name!r}", path="name")

    async def _list_all(self, options: CallOptions, deadline: Deadline | None) -> None:
        await asyncio.gather(*(self._list_one(name, options, deadline) for name in self._clients))
        self._listed = {name: self._listed[name] for name in self._clients if name in self._listed}
        self._table, clashes = _table_of(self._listed, self.separator)
        for name, error in clashes.items():
            logger.warning("%s: %s", name, error)
            self._errors[name] = error
        self._names = {place: name for name, place in self._table.items()}

    async def _list_one(self, name: str, options: CallOptions, deadline: Deadline | None) -> None:
        client = self._clients[name]
        if client.state in ("new", "closed"):
            if not self._was_opened:
                raise StateError("new", message=_NOT_OPEN)
            return  # why is in `errors`
        try:
            has_tools = client._requests.offers("tools")
            self._listed[name] = await client.tools._list(options, deadline) if has_tools else []
        except McpError as error:
            logger.warning("%s: its tools could not be listed: %s", name, error)
            self._errors[name] = error
        else:
            self._errors.pop(name, None)


def fleet_name(server: str, tool: str, separator: str) -> str:
    """What a tool is called in a fleet: whole if it fits, else its beginning and a hash of the whole."""
    whole = f"{server}{separator}{tool}"
    if len(whole) <= MAX_NAME:
        return whole
    digits = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]
    return f"{whole[: MAX_NAME - HASH_DIGITS - 1]}_{digits}"


def _table_of(
    listed: Mapping[str, Iterable[Tool]], separator: str
) -> tuple[dict[str, tuple[str, str]], dict[str, UsageError]]:
    """Return what each name in the fleet stands for, and for each server with a clash the error that explains it.

    A clash never costs another server its tools: what servers call their tools is not in the hands of the fleet.
    """
    table: dict[str, tuple[str, str]] = {}
    clashes: dict[str, UsageError] = {}
    ambiguous: set[str] = set()
    for server, tools in listed.items():
        own: dict[str, str] = {}
        for tool in tools:
            name = fleet_name(server, tool.name, separator)
            if own.setdefault(name, tool.name) != tool.name:
                clashes[server] = _clash(
                    name, (server, own[name]), (server, tool.name), "its tools are left out"
                )
        if server in clashes:
            continue
        for name, tool_name in own.items():
            other = table.setdefault(name, (server, tool_name))
            if other != (server, tool_name):
                ambiguous.add(name)
                advice = "this name is left out: rename a server or choose another separator"
                clashes[server] = clashes[other[0]] = _clash(name, other, (server, tool_name), advice)
    for name in ambiguous:
        del table[name]
    return table, clashes


def _clash(name: str, one: tuple[str, str], other: tuple[str, str], advice: str) -> UsageError:
    return UsageError(
        f"two tools are called {name!r}: {one[1]!r} of {one[0]!r} and {other[1]!r} of {other[0]!r}; {advice}",
        path=name,
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
