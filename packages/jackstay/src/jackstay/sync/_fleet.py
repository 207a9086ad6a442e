"""The blocking `Fleet`: wraps `jackstay.client.Fleet`."""

import os
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self, Unpack

from jackstay.client import CallOptions, ToolOptions
from jackstay.client import Fleet as AsyncFleet
from jackstay.errors import Json, McpError, ShutdownError
from jackstay.protocol.client import FleetKeywords
from jackstay.sync._client import Client
from jackstay.sync._portal import ClientPortal
from jackstay.transport import Target
from jackstay.types import CallToolResult, Tool


class Fleet:
    """Several named servers as one. Use it with `with`; safe to share between threads.

    `fleet["git"]` is the client of one server: use it to register handlers before the fleet is opened and for
    everything but tools. `separator` is placed between server and tool names. With `require_all`, opening fails if any
    server fails. `parallel_starts` limits how many servers are started or restarted at the same time (default: the
    number of processors, at least 4). `settings` are those of `docs/settings.md`, for every server.

    Raises: UsageError for an unknown setting or a bad value.
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
        self._init(
            AsyncFleet(
                targets,
                separator=separator,
                require_all=require_all,
                parallel_starts=parallel_starts,
                **settings,
            )
        )

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
        """Return a fleet of the servers in an `mcpServers` file: those in `servers`, or all that are not `disabled`.

        Raises: UsageError that names file and key, before anything is started; and as the class.
        """
        fleet = cls.__new__(cls)
        fleet._init(
            AsyncFleet.from_config(
                path,
                servers=servers,
                separator=separator,
                require_all=require_all,
                parallel_starts=parallel_starts,
                **settings,
            )
        )
        return fleet

    def _init(self, fleet: AsyncFleet) -> None:
        self._fleet = fleet
        self._client_portal = ClientPortal()
        self._portal = self._client_portal.portal
        self._clients = {name: Client(fleet[name]) for name in fleet}

    def __repr__(self) -> str:
        return f"<sync.{repr(self._fleet)[1:]}"

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
        return self._fleet.states

    @property
    def errors(self) -> dict[str, McpError]:
        """The most recent error by server: why it could not be opened, or why its tools could not be listed."""
        return self._portal.run_on_loop(lambda: self._fleet.errors)

    # --- opening and closing ------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def open(self) -> None:
        """Open the servers, `parallel_starts` at a time, and list their tools; return when each is ready or has failed.

        Raises: StateError if called twice; with `require_all`, the error of the first failed server in their order.
        Nothing is left running then.
        """
        is_registered = self._portal.register(self._fleet, self._fleet.stop)
        try:
            self._portal.wait(self._fleet.open)
        except BaseException:
            if is_registered:  # not for a second `open()`, which raises and changes nothing
                self._mark_closed()
            raise

    def stop(self, drain: float | None = None) -> None:
        """Close every server, as `client.stop()` does; return when all are closed."""
        self._portal.wait(self._fleet.stop, drain)
        self._mark_closed()

    def _mark_closed(self) -> None:
        """Store why the fleet closed, so that later calls fail with it without an event loop."""
        for client in self._clients.values():
            client._mark_closed()
        if "new" not in self.states.values():
            self._client_portal.closed_by = ShutdownError("the fleet was stopped")
        self._portal.unregister(self._fleet)

    # --- the tools ----------------------------------------------------------------------------------------------------

    def tools(self, **options: Unpack[CallOptions]) -> list[Tool]:
        """Return the tools of all servers with their names in the fleet, ordered by server.

        If a server cannot be listed now, its tools of the last listing are used and `errors` has the reason. A name
        that occurs in two servers is omitted, as are all tools of a server in which two tools get the same name;
        `errors` has the reason.
        """
        return self._client_portal.wait(self._fleet.tools, **options)

    @property
    def names(self) -> Mapping[str, tuple[str, str]]:
        """By name in the fleet: the server and its tool."""
        return self._fleet.names

    def name_of(self, server: str, tool: str) -> str:
        """Return the name of a server's tool in the fleet. Raises: UsageError if the tool is not listed."""
        return self._fleet.name_of(server, tool)

    def call(
        self, name: str, arguments: Mapping[str, Json] | None = None, **options: Unpack[ToolOptions]
    ) -> CallToolResult:
        """Call a tool by its name in the fleet; options as for `client.tools.call()`.

        Raises: UsageError for an unknown name, ClosedError if its server could not be opened, and as every call.
        """
        return self._client_portal.wait(self._fleet.call, name, arguments, **options)
