"""`Fleet`, blocking: the face of `jackstay.client.Fleet` for code without an event loop.

Above: users. Below: `_client`, `_portal`, `jackstay.client`.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self, Unpack

from jackstay.client import CallOptions, ToolOptions
from jackstay.client import Fleet as AsyncFleet
from jackstay.errors import Json, McpError, ShutdownError
from jackstay.protocol.client import FleetKeywords
from jackstay.sync._client import Client
from jackstay.sync._portal import Passage
from jackstay.transport import Target
from jackstay.types import CallToolResult, Tool


class Fleet:
    """Named servers as one. Use it with `with`; safe to share between threads.

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
        self._take(
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
        """The servers of an `mcpServers` file: those named in `servers`, or all that are not `disabled`.

        Raises: UsageError, naming file and key, before anything is started; and as the class itself.
        """
        fleet = cls.__new__(cls)
        fleet._take(
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

    def _take(self, fleet: AsyncFleet) -> None:
        self._fleet = fleet
        self._passage = Passage()
        self._portal = self._passage.portal
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
        """The newest failure of each server that has one: why it was not opened, or why its tools are not the newest."""
        return self._portal.ask(lambda: self._fleet.errors)

    # --- opening and closing ------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def open(self) -> None:
        """Open every server at once, and list the tools; returns when each is ready or has failed.

        Raises: StateError at the second time; with `require_all`, the error of the
        first server that failed, in their order. Nothing is left running then.
        """
        is_ours = self._portal.hold(self._fleet, self._fleet.stop)
        try:
            self._portal.wait(self._fleet.open)
        except BaseException:
            if is_ours:  # not at a second `open()`, which is refused and changes nothing
                self._shut()
            raise

    def stop(self, drain: float | None = None) -> None:
        """End every server, as `client.stop()` does; returns when all are gone."""
        self._portal.wait(self._fleet.stop, drain)
        self._shut()

    def _shut(self) -> None:
        """It has ended: calls fail with the reason from now on, without the loop that it lived on."""
        for client in self._clients.values():
            client._shut()
        if "new" not in self.states.values():
            self._passage.end = ShutdownError("the fleet was stopped")
        self._portal.drop(self._fleet)

    # --- the tools ----------------------------------------------------------------------------------------------------

    def tools(self, **options: Unpack[CallOptions]) -> list[Tool]:
        """The tools of all servers under their names in the fleet, server by server.

        A server that cannot answer now is shown with the tools it last had, and its error in `errors`. A name that tools of two
        servers would have is left out, and so are all tools of a server two of whose tools would have one name; `errors` has
        the reason.
        """
        return self._passage.wait(self._fleet.tools, **options)

    @property
    def names(self) -> Mapping[str, tuple[str, str]]:
        """The table: each name in the fleet, and the server and tool that it stands for."""
        return self._fleet.names

    def name_of(self, server: str, tool: str) -> str:
        """What a server's tool is called in the fleet. Raises: UsageError if that is not listed."""
        return self._fleet.name_of(server, tool)

    def call(
        self, name: str, arguments: Mapping[str, Json] | None = None, **options: Unpack[ToolOptions]
    ) -> CallToolResult:
        """Run a tool by its name in the fleet; as `client.tools.call()`.

        Raises: UsageError for a name that no server has, ClosedError where its server could not be opened, and as every call.
        """
        return self._passage.wait(self._fleet.call, name, arguments, **options)
