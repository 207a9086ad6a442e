"""An inspected server: one client at a time, its events, and the questions of the server that the page answers.

A change of the server, the protocol version, the headers or the roots closes the client and opens another one. The
events of all of them are in one log.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from jackstay.apps import Apps
from jackstay.client import Client, Notification, connect
from jackstay.errors import McpError, ShutdownError, UsageError
from jackstay.inspector._events import EventLog, describe_failure
from jackstay.inspector._faults import FaultsOnDemand
from jackstay.inspector._questions import Questions
from jackstay.inspector._tasks import StartedTasks
from jackstay.inspector._transcript import Transcript
from jackstay.protocol import VERSIONS
from jackstay.protocol.client import interactive_timeouts
from jackstay.testing import RecordedTarget
from jackstay.transport import StdioTarget, Target

if TYPE_CHECKING:
    from jackstay.transport.http import HttpTarget

# Seconds for a request that the page sends without a time of its own.
REQUEST_TIMEOUT: Final = 60.0

# The lines of a server's stderr that are shown when it ends.
MAX_STDERR_LINES: Final = 200


class Choice(msgspec.Struct, frozen=True):
    """A server that can be inspected; `display` is its command or URL."""

    name: str
    display: str
    target: Target


class ConnectionOptions(msgspec.Struct, frozen=True):
    """How the page connects. `version` is a protocol revision, or empty to negotiate."""

    server: str = ""
    version: str = ""
    headers: list[tuple[str, str]] = []
    roots: list[str] = []


class Inspection:
    """The inspected server. `connect()` must be called on the event loop, and `close()` at the end."""

    def __init__(self, choices: Sequence[Choice], *, events: EventLog | None = None) -> None:
        self.choices = {choice.name: choice for choice in choices}
        self.events = events or EventLog()
        self.options = ConnectionOptions(server=choices[0].name)
        self.transcript = Transcript(choices[0].name, self.events)
        self.questions = Questions(self.events)
        self.faults: FaultsOnDemand | None = None
        self.tasks = StartedTasks(self.events)
        self.subscribed: set[str] = set()
        self.log_level = ""
        self._client: Client | None = None
        self._stderr: list[str] = []
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Inspection {self.options.server} {self.state}>"

    @property
    def client(self) -> Client:
        """The current client. Raises: UsageError before `connect()`."""
        if self._client is None:
            raise UsageError("the inspector is not connected to a server")
        return self._client

    async def settled_client(self) -> Client:
        """Return the current client, after a change of the connection that is in progress."""
        async with self._turn:
            return self.client

    @property
    def state(self) -> str:
        """The state of the current client."""
        return "closed" if self._client is None else self._client.state

    @property
    def choice(self) -> Choice:
        """The selected server."""
        return self.choices[self.options.server]

    # --- connecting ---------------------------------------------------------------------------------------------------

    async def connect(self, options: ConnectionOptions | None = None) -> None:
        """Close the current client, if any, and connect with these options; returns before the client is ready.

        Raises: UsageError for an unknown server or an invalid option. Then the current client stays.
        """
        options = options or self.options
        if options.server not in self.choices:
            raise UsageError(f"unknown server {options.server!r}; use one of {', '.join(self.choices)}", path="server")
        async with self._turn:
            faults, client = self._prepare(options)
            await self._stop()
            self.options, self.faults, self._client = options, faults, client
            self._stderr.clear()
            self.subscribed.clear()
            await client.open(wait=False)

    def _prepare(self, options: ConnectionOptions) -> tuple[FaultsOnDemand | None, Client]:
        target = self.choices[options.server].target
        if isinstance(target, StdioTarget):
            target = target.with_stderr(self._receive_stderr)
        elif target.is_http:
            target = self._http_target(target, options.headers)
        faults = None if target.is_http else FaultsOnDemand(target, self.events)
        versions = (options.version,) if options.version else VERSIONS
        recorded = RecordedTarget(faults or target, self.transcript)
        client = connect(
            recorded,
            versions=versions,
            request_timeout=REQUEST_TIMEOUT,
            max_timeout=None,
            extensions=(Apps(),),
            **interactive_timeouts(target.init_timeout),
        )
        client.elicitation.handle(self.questions.elicit)
        client.sampling.handle(self.questions.sample)
        client.roots.set(options.roots)
        client.on_event(self._receive_event)
        client.on_notification(self._receive_notification)
        return faults, client

    def _http_target(self, target: Any, headers: list[tuple[str, str]]) -> "HttpTarget":
        """Return the target with these headers and a sign-in on the page."""
        from jackstay.inspector._sign_in import PageSignIn  # noqa: PLC0415  # only for HTTP
        from jackstay.transport.http import is_loopback  # noqa: PLC0415

        found: HttpTarget = target.with_headers(headers) if headers else target
        if found.has_credentials or not (found.url.startswith("https:") or is_loopback(found.url)):
            return found
        return found.with_authorizer(PageSignIn(self.events))

    async def reconnect(self, why: str) -> None:
        """Connect again with the same options, for a server whose program has changed."""
        self.events.publish("note", {"text": why})
        await self.connect()

    async def close(self) -> None:
        """Close the client, and end every stream of a page."""
        await self._stop()
        self.events.close()

    async def _stop(self) -> None:
        self.questions.cancel()
        await self.tasks.stop()
        if self._client is not None:
            await self._client.stop()

    # --- events of the client -----------------------------------------------------------------------------------------

    def _receive_event(self, name: str, fields: Any) -> None:
        kind = name.removeprefix("jackstay.")
        if kind == "connection.transition":
            error = fields["reason"]
            shown = {key: fields[key] for key in ("from", "to", "epoch", "attempt")}
            reason = describe_failure(error) if isinstance(error, McpError) else None
            self.events.publish("state", {**shown, "reason": reason, "time": time.time()})
            if fields["to"] in ("starting", "ready"):
                self._stderr.clear()  # otherwise the end of each attempt would repeat those before it
            if fields["to"] in ("ready", "closed"):
                self.events.publish("changed", {})  # a client that is closed has no lists
            # ShutdownError: the page connects again, or the program ends.
            has_failed = isinstance(error, McpError) and not isinstance(error, ShutdownError)
            if has_failed and fields["to"] in ("backoff", "closing", "closed"):
                self._publish_end(error)
        elif kind == "request.exception":
            shown = {key: fields[key] for key in ("method", "id", "may_have_run", "duration_ns")}
            self.events.publish("failure", {**shown, "reason": str(fields["reason"])})
        elif kind in ("protocol.violation", "child.exit", "response.late", "response.unknown"):
            shown = {key: value for key, value in fields.items() if key != "client"}
            self.events.publish("note", {"text": f"{kind.replace('.', ' ')}: {_pairs(shown)}"})

    def _receive_notification(self, notification: Notification) -> None:
        if notification.method.endswith("/list_changed"):
            self.events.publish("changed", {})
        self.events.publish("notification", {"method": notification.method, "params": notification.params})

    def _receive_stderr(self, line: str) -> None:
        self._stderr.append(line)
        del self._stderr[:-MAX_STDERR_LINES]
        self.events.publish("stderr", {"line": line})

    def _publish_end(self, error: McpError) -> None:
        """Publish why the server ended, with what it wrote before: a traceback, for example."""
        lines = self._stderr or str(getattr(error, "stderr_tail", "") or "").splitlines()
        self.events.publish("ended", {**describe_failure(error), "stderr": "\n".join(lines[-MAX_STDERR_LINES:])})


def describe_server(client: Client) -> dict[str, Any]:
    """Return what the server sent about itself."""
    info = client.server_info
    return {
        "name": "" if info is None else info.name,
        "version": "" if info is None else info.version,
        "protocol": client.protocol_version,
        "capabilities": client.server_capabilities.raw,
        "instructions": client.instructions,
    }


def _pairs(fields: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in fields.items())
