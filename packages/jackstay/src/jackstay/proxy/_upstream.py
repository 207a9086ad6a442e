"""The connection to one upstream server.

`jackstay.client` detects a lost server and reconnects. This module adds three things: calls wait, for a limited time,
for a server that is down; a client that has closed permanently (missing command, rejected credentials) is replaced; and
subscriptions and the log level are restored after a reconnect.
"""

import asyncio
import builtins
import logging
import random
from collections import deque
from collections.abc import Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from jackstay.client import Call, Client, connect
from jackstay.errors import (
    BackpressureError,
    ClosedError,
    JsonRpcError,
    McpError,
    ShutdownError,
    StateError,
    TimeoutError,
    TransportError,
)
from jackstay.protocol import REVISIONS, VERSIONS, Era
from jackstay.protocol.client import ServerFacts, backoff_delay
from jackstay.proxy._in_flight import InFlightCall, InFlightCalls
from jackstay.proxy._lists import Lists
from jackstay.server import Driver
from jackstay.transport import Target
from jackstay.types import is_part_of

if TYPE_CHECKING:
    from jackstay.proxy._proxy import Proxy

logger = logging.getLogger("jackstay.proxy")

# Concurrent calls to one server, including those that wait for it. The same limit as for one client of a server.
MAX_CALLS = 1024

# A call is cancelled after this time even if its client never cancels it.
MAX_CALL_SECONDS = 3600.0

# The timeout of requests that the proxy sends itself: lists, log level.
OWN_TIMEOUT = 30.0

# Notifications that are queued until a server has started for the first time.
MAX_UNSENT = 64

# How long the server may take to respond to a health check, and for how long a response is reused.
CHECK_TIMEOUT = 2.0
CHECK_MAX_AGE = 1.0

# The delay before a call that could not be sent is sent again.
RETRY_DELAY = 0.25


class Sent(NamedTuple):
    """A call that was sent to the server: the `Client` that was used, the call, and the era of the connection."""

    client: Client
    call: Call[bytes]
    is_stateless: bool

    def cancel(self) -> None:
        """Cancel the call: nothing waits for it any more. The server is notified once."""
        self.client.forwarding.cancel_call(self.call)
        self.call.cancel()


class Upstream:
    """One upstream server. Call `open()` or `start()` first, and `stop()` at the end."""

    def __init__(
        self, target: Target, settings: dict[str, Any], handler: "Proxy", era: Era | None, owner: Driver | None
    ) -> None:
        """Prepare a connection. `era` limits it to revisions of that era, until the server rejects them."""
        # The only client of a dedicated server; None: the server is shared.
        self.owner = owner
        self.in_flight = InFlightCalls(asyncio.get_running_loop().time)
        self.lists = Lists()
        self._versions = settings.get("versions", VERSIONS)
        if era is not None:
            settings = {**settings, "versions": of_era(self._versions, era)}
        self.client = connect(target, **{**settings, "max_attempts": 1})
        self.target = target
        # Clients after the first: the server could be started once, so they retry without limit.
        self._settings = {**settings, "max_attempts": 1_000_000}
        self._options = handler.proxy_options
        self._handler = handler
        self._is_ready = asyncio.Event()
        self._keeps_trying = False
        self._failures = 0
        # Why the server is down, as it was last logged.
        self._reported = ""
        # How many times the server became ready.
        self.starts = 0
        # The newest health check, and until when its response is reused.
        self._check: asyncio.Future[bytes] | None = None
        self._checked_until = 0.0
        self._server_facts: ServerFacts | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # Notifications that clients sent before the server was started.
        self._unsent: deque[tuple[str, bytes]] = deque()
        # Calls in flight by their request id at the server, to attribute messages on their HTTP response streams.
        self._by_id: dict[int, InFlightCall] = {}
        # How many calls wait for the server to become ready.
        self._waiting = 0
        # Resource URI -> subscriber keys (connection number, request serial).
        self._subscriptions: dict[str, set[tuple[int, int]]] = {}
        # The log level that was requested last.
        self._level: str | None = None

    def __repr__(self) -> str:
        return f"<Upstream {self.client!r} {self.in_flight!r}>"

    # --- opening and closing ------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the server and wait until it is ready.

        Raises: McpError with the reason, after one failed attempt. Nothing is left running then.
        """
        self._attach()
        await self.client.open()
        self._keeps_trying = True

    def start(self) -> None:
        """Start the server and return at once. Calls wait for it; failed starts are retried without limit."""
        self._keeps_trying = True
        self._attach()
        self.run_in_background(self.client.open(wait=False))

    async def stop(self) -> None:
        """Stop the server, and return when it is closed and all background tasks are cancelled."""
        self.client.forwarding.on_state = None
        self._is_ready.clear()
        for task in list(self._tasks):
            task.cancel()
        await self.client.stop()

    def stop_in_background(self, stopping: set[asyncio.Task[None]]) -> None:
        """Stop the server, by a task that is one of `stopping` until the server has stopped."""
        task = asyncio.get_running_loop().create_task(self.stop())
        stopping.add(task)
        task.add_done_callback(stopping.discard)

    @property
    def facts(self) -> ServerFacts:
        """What the server last declared. Raises: StateError before it was ready for the first time."""
        return self.client.forwarding.facts if self._server_facts is None else self._server_facts

    @property
    def is_stateless(self) -> bool:
        """True if the last connection to the server used a stateless-era revision."""
        return self._server_facts is not None and self._server_facts.era is Era.STATELESS

    @property
    def cause(self) -> str:
        """Why the server is not ready."""
        try:
            cause = self.client.forwarding.cause
        except StateError:  # not opened yet
            return "starting"
        return "starting" if cause is None else cause.message

    def is_ready(self) -> bool:
        """True while calls can be sent."""
        return self._is_ready.is_set()

    # --- health -------------------------------------------------------------------------------------------------------

    async def check(self) -> tuple[str, str]:
        """Return the state of the server (`ok`, `down`, or `unresponsive`) and the cause of any other than `ok`.

        Sends `ping` or `server/discover` at most once a second. While a check is unanswered, later checks wait for the
        same response, so that requests do not pile up at a server that hangs.
        """
        if not self._is_ready.is_set():
            return "down", self.cause
        check = self._check
        if check is None or (check.done() and asyncio.get_running_loop().time() >= self._checked_until):
            method = "server/discover" if self.is_stateless else "ping"
            call = self.client.forwarding.call(method, b"{}", timeout=None, max_timeout=MAX_CALL_SECONDS)
            check = self._check = call.future
            check.add_done_callback(self._checked)
        await asyncio.wait((check,), timeout=CHECK_TIMEOUT)
        if not check.done():
            return "unresponsive", f"no response to a health check within {CHECK_TIMEOUT:g} s"
        return ("ok", "") if _has_answered(check) else ("down", self.cause)

    def _checked(self, check: "asyncio.Future[bytes]") -> None:
        # A failed check is repeated by the next one.
        self._checked_until = asyncio.get_running_loop().time() + CHECK_MAX_AGE if _has_answered(check) else 0.0

    # --- calls --------------------------------------------------------------------------------------------------------

    async def send(self, call: InFlightCall, deadline: float) -> Sent:
        """Send a call as soon as the server is ready. Await its future, or call `cancel()`.

        Raises: McpError if the call was not sent.
        """
        if len(self.in_flight) + self._waiting >= MAX_CALLS:
            raise BackpressureError(f"too many calls in flight: the limit is {MAX_CALLS}")
        while True:
            if not self._is_ready.is_set():
                await self._wait_until_ready(deadline)
            client = self.client
            is_stateless = self.is_stateless
            meta, on_behalf_of = call.encode_meta(is_stateless=is_stateless)
            forwarded = client.forwarding.call(
                call.method.name,
                call.body,
                meta=meta,
                on_behalf_of=on_behalf_of,
                on_progress=None if call.token is None else call.forward_progress,
                timeout=self._options.timeout,
                max_timeout=max(self._options.timeout or 0.0, MAX_CALL_SECONDS),
            )
            if isinstance(forwarded.retrieve_exception(), StateError | ShutdownError | ClosedError):
                self._is_ready.clear()  # just lost: the state callback follows in the next iteration of the loop
                continue
            self.in_flight.start(call)
            self._by_id[forwarded.id] = call
            forwarded.future.add_done_callback(partial(self._settle, forwarded.id, call))
            return Sent(client, forwarded, is_stateless)

    def _settle(self, id: int, call: InFlightCall, future: "asyncio.Future[bytes]") -> None:
        """Done callback of a call, whether or not anything still waits for it."""
        if self._by_id.get(id) is call:
            del self._by_id[id]
        self.in_flight.end(call, is_answered=_has_answered(future))

    async def fetch(self, method: str, params: bytes) -> bytes:
        """Send a request of the proxy itself and return the encoded result. Raises: McpError."""
        call = self.client.forwarding.call(method, params, timeout=OWN_TIMEOUT)
        try:
            return await call.future
        except asyncio.CancelledError:
            self.client.forwarding.cancel_call(call)
            raise

    async def _wait_until_ready(self, deadline: float) -> None:
        self._waiting += 1
        try:
            async with asyncio.timeout_at(deadline):
                await self._is_ready.wait()
        except builtins.TimeoutError as late:
            raise TimeoutError(self._options.wait, sent=False) from late
        finally:
            self._waiting -= 1

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification now, or when the server is ready for the first time. It is dropped while it is down."""
        if self._server_facts is None and len(self._unsent) < MAX_UNSENT:
            self._unsent.append((method, params))
            return
        try:
            self.client.forwarding.notify(method, params)
        except McpError as error:
            logger.info("%s was not forwarded: %s", method, error)

    # --- subscriptions and log level ----------------------------------------------------------------------------------

    async def subscribe(self, uri: str, key: tuple[int, int]) -> None:
        """Subscribe to a resource for the subscriber `key`. Raises: McpError."""
        self.in_flight.serve(key[0])
        subscribers = self._subscriptions.setdefault(uri, set())
        subscribers.add(key)
        try:
            await self._subscribe(uri)
        except BaseException:
            self._remove_subscriber(uri, key)
            raise

    async def _subscribe(self, uri: str) -> None:
        """Subscribe at the server, again if another subscriber cancelled it meanwhile. Raises: McpError."""
        while uri in self._subscriptions:
            try:
                await self.client.resources.subscribe(uri, wait_for_ready=True, timeout=max(self._options.wait, 1.0))
                return
            except StateError as error:
                if error.state != "unsubscribed":
                    raise

    async def _resubscribe(self) -> None:
        """Restore all subscriptions. The client does not repeat those that it still has."""
        for uri in list(self._subscriptions):
            try:
                await self._subscribe(uri)
            except McpError as error:
                logger.warning("cannot restore the subscription to %s at the upstream server: %s", uri, error)

    def adopt(self, other: "Upstream") -> None:
        """Continue the subscriptions and the log level of another connection, which is replaced by this one."""
        self._level = other._level
        for uri, subscribers in other._subscriptions.items():
            self._subscriptions.setdefault(uri, set()).update(subscribers)
            for number, _ in subscribers:
                self.in_flight.serve(number)
        if self._is_ready.is_set():  # else when it is ready
            self._restore()

    def _restore(self) -> None:
        self.run_in_background(self._request_level())
        self.run_in_background(self._resubscribe())

    def unsubscribe(self, uri: str, key: tuple[int, int]) -> None:
        """Remove the subscriber `key`; the last one to leave ends the subscription at the server."""
        if self._remove_subscriber(uri, key):
            self.run_in_background(self._unsubscribe(uri))

    def forget(self, number: int) -> None:
        """Remove all subscribers of the connection with this number."""
        for uri, subscribers in list(self._subscriptions.items()):
            for key in [key for key in subscribers if key[0] == number]:
                self.unsubscribe(uri, key)

    def subscriptions_for(self, uri: str) -> list[str]:
        """Return the subscribed URIs that a change of `uri` concerns: `uri` itself, or those that it is part of."""
        if uri in self._subscriptions:
            return [uri]
        return [subscribed for subscribed in self._subscriptions if is_part_of(uri, subscribed)]

    def _remove_subscriber(self, uri: str, key: tuple[int, int]) -> bool:
        """Remove a subscriber; return whether it was the last one."""
        subscribers = self._subscriptions.get(uri, set())
        if subscribers != {key}:
            subscribers.discard(key)
            return False
        del self._subscriptions[uri]
        return True

    async def _unsubscribe(self, uri: str) -> None:
        if uri not in self._subscriptions:
            await self.client.resources.unsubscribe(uri)

    async def set_level(self, level: str) -> None:
        """Request log messages of this level and above. Raises: McpError."""
        self._level = level
        if self._is_ready.is_set():
            await self._request_level()

    async def _request_level(self) -> None:
        if self._level is not None and not self.is_stateless:
            await self.fetch("logging/setLevel", b'{"level":"%b"}' % self._level.encode())

    # --- events of the client -----------------------------------------------------------------------------------------

    def _attach(self) -> None:
        forwarding, router = self.client.forwarding, self._handler._router
        forwarding.on_state = self._on_state_change
        forwarding.on_message = lambda method, params, source: router.handle_notification(
            self, method, params, self._by_id.get(source)
        )
        forwarding.handle_requests(
            lambda method, params: router.handle_request(self, method, params, self._by_id.get(forwarding.source()))
        )

    def _on_state_change(self, state: str) -> None:
        if state == "ready":
            self._on_ready()
            return
        self._is_ready.clear()
        if state in ("backoff", "closed") and self._keeps_trying:
            self._handler.state_changed(self)
            cause = str(self.client.forwarding.cause)
            if cause != self._reported:  # not again for each attempt
                logger.warning("the upstream server %s is down: %s", self.target.name, cause)
                self._reported = cause
            if state == "closed":
                if not isinstance(self.client.forwarding.cause, TransportError | TimeoutError):
                    # The server no longer supports the era that it was limited to: allow the other one.
                    self._settings["versions"] = self._versions
                delay = backoff_delay(self.client.settings, self._failures, random.random())  # noqa: S311  # jitter
                self._failures += 1
                self.run_in_background(self._replace(delay))

    def _on_ready(self) -> None:
        self._server_facts = self.client.forwarding.facts
        self._failures = 0
        self._reported = ""
        self.starts += 1
        self._is_ready.set()
        while self._unsent:  # before any request: waiting calls resume in a later iteration of the loop
            self.notify(*self._unsent.popleft())
        self.in_flight.reset()
        self._restore()
        self._handler.state_changed(self)
        if self.starts > 1:
            logger.warning("the upstream server %s is ready again", self.target.name)
            self._handler.reconnected(self)

    async def _replace(self, delay: float) -> None:
        await asyncio.sleep(delay)
        self.client = connect(self.target, **self._settings)
        self.start()

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` as a task that `stop()` cancels. An McpError is logged."""
        task = asyncio.get_running_loop().create_task(self._log_failures(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _log_failures(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except McpError as error:
            logger.info("a background request to the upstream server failed: %s", error)


async def wait_to_retry(deadline: float, error: TransportError) -> bool:
    """Wait for the retry delay and return True, or return False if the call must fail with this error.

    Over HTTP a failed request is the only sign that a server is down.
    """
    left = deadline - asyncio.get_running_loop().time()
    if not error.retryable or left <= 0:
        return False
    await asyncio.sleep(min(left, RETRY_DELAY if error.retry_in is None else error.retry_in))
    return True


def _has_answered(future: "asyncio.Future[bytes]") -> bool:
    """True if the server responded, with a result or with an error, which asyncio then does not log as ignored."""
    return not future.cancelled() and isinstance(future.exception(), JsonRpcError | None)


def of_era(versions: Iterable[str], era: Era) -> tuple[str, ...]:
    """Return the revisions that belong to this era."""
    return tuple(name for name in versions if REVISIONS[name].era is era)
