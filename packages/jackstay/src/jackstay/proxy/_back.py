"""One server behind the proxy, held: started, watched, started again, and asked for others.

A client does most of it (`jackstay.client`): it notices the loss, tells every open call the truth and comes back. Here is what
it leaves open. A call made while the server is away waits for it, up to a bound. A client that has closed for good, because its
command was gone for a while or its key refused, is replaced by another after a while, for as long as the proxy lives. And
what others want of the server (subscriptions, a log level) is wanted of the next one too.

Must never know who asks, or what a message means. Above: `_relay`, `_proxy`. Below: `jackstay.client`.
"""

import asyncio
import builtins
import logging
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from jackstay.client import Call, Client, ProgressHandler, connect
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
from jackstay.proxy._flights import Flight, Flights
from jackstay.proxy._lists import Lists
from jackstay.proxy._options import ProxyOptions
from jackstay.transport import Target
from jackstay.types import is_part_of

logger = logging.getLogger("jackstay.proxy")

# Calls at one server at a time, those that wait for it included: as many as a client of it may have open by itself.
MOST_CALLS = 1024

# After so long a call is given up, whatever the client does: one that nobody will cancel must not stay for ever.
MOST_SECONDS = 3600.0

# What a request of our own may take: a list, a log level.
OWN_TIMEOUT = 30.0

# Notifications that wait for the first start of a server.
MAX_UNSENT = 64

# How long the server may take to answer a check of its health, and how long an answer counts for the next check.
CHECK_TIMEOUT = 2.0
CHECK_AGE = 1.0

# Between two attempts to send what could not be sent.
RETRY_AFTER = 0.25

# The body without `_meta`, members of `_meta`, and who asks: for a server of the stateless era, or of the other.
Composed: TypeAlias = tuple[bytes, bytes, bytes]
Compose: TypeAlias = Callable[[bool], Composed]


class Listener(Protocol):
    """Who hears what a server says by itself."""

    def came_back(self, back: "Back") -> None:
        """It is there again, and may be another than before."""

    def heard(self, back: "Back", method: str, params: bytes, flight: Flight | None) -> None:
        """It sent this notification; in the response to that call, where that is known."""

    async def asked(self, back: "Back", method: str, params: bytes, flight: Flight | None) -> bytes:
        """It sent this request; the encoded result. Raises: JsonRpcError, to refuse."""


class Sent(NamedTuple):
    """A call that was handed to the server, by this client of it, in this era."""

    client: Client
    call: Call[bytes]
    is_stateless: bool


class Patience:
    """How long one call waits for a server that is away, all its attempts together."""

    def __init__(self, seconds: float) -> None:
        self.until = asyncio.get_running_loop().time() + seconds

    async def lasts(self, error: TransportError) -> bool:
        """Wait a moment, and say whether to try again. Over HTTP nothing else tells that a server is away."""
        left = self.until - asyncio.get_running_loop().time()
        if not error.retryable or left <= 0:
            return False
        await asyncio.sleep(min(left, RETRY_AFTER if error.retry_in is None else error.retry_in))
        return True


class Back:
    """One server behind the proxy. `open()` it, or `begin()` to, and `stop()` it in the end."""

    def __init__(
        self,
        target: Target,
        settings: dict[str, Any],
        options: ProxyOptions,
        listener: Listener,
        era: Era | None = None,
    ) -> None:
        """Prepare a connection; `era` limits it to the revisions of one, until the server refuses that."""
        self.flights = Flights(asyncio.get_running_loop().time)
        self.lists = Lists()
        self._versions = settings.get("versions", VERSIONS)
        self._is_narrowed = era is not None
        if era is not None:
            settings = {**settings, "versions": of_era(self._versions, era)}
        self.client = connect(target, **{**settings, "max_attempts": 1})
        self._target = target
        # The next ones know that it can be started, and do not give up.
        self._settings = {**settings, "max_attempts": 1_000_000}
        self._options = options
        self._listener = listener
        self._is_ready = asyncio.Event()
        self._is_stopping = self._keeps_trying = False
        self._failures = 0
        # How often it was ready.
        self.starts = 0
        self._check: asyncio.Future[bytes] | None = None
        self._answered_at: float | None = None
        self._facts: ServerFacts | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # Notifications of a client before its server was started.
        self._unsent: deque[tuple[str, bytes]] = deque()
        # The calls under way by their ids at the server, for what arrives in their HTTP responses.
        self._by_id: dict[int, Flight] = {}
        # Calls that wait for the server to be there.
        self._waiting = 0
        # Who wants to hear of which resource; and the log level that somebody wants.
        self._wanted: dict[str, set[tuple[int, int]]] = {}
        self._level: str | None = None

    def __repr__(self) -> str:
        return f"<Back {self.client!r} {self.flights!r}>"

    # --- opening and closing ------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start it, and wait until it is there.

        Raises: why it cannot be started, after the first attempt; nothing is left then.
        """
        self._attach(self.client)
        await self.client.open()
        self._keeps_trying = True

    def begin(self) -> None:
        """Start it and return at once: calls wait for it. It is tried again and again."""
        self._keeps_trying = True
        self._attach(self.client)
        self.do_later(self.client.open(wait=False))

    async def stop(self) -> None:
        """End it, and return when nothing of it is left."""
        self._is_stopping = True
        self._is_ready.clear()
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await self.client.stop()

    @property
    def facts(self) -> ServerFacts:
        """What the server last said of itself. Raises: StateError before it was there for the first time."""
        return self.client.wire.facts if self._facts is None else self._facts

    @property
    def has_facts(self) -> bool:
        """True once the server was there for the first time."""
        return self._facts is not None

    @property
    def is_stateless(self) -> bool:
        """True if the server was last spoken to in the stateless era."""
        return self._facts is not None and self._facts.era is Era.STATELESS

    @property
    def is_http(self) -> bool:
        """True if every request to the server has headers of its own."""
        return self._target.is_http

    def is_there(self) -> bool:
        """True while it can be called."""
        return self._is_ready.is_set()

    # --- its health ---------------------------------------------------------------------------------------------------

    async def check(self) -> tuple[str, str]:
        """The state of the server, and why it is that: `ok`, `down`, or `unresponsive` if it does not answer in time.

        It is asked with `ping` or `server/discover`, at most once a second. A check that is not answered stays open, and the
        next ones wait for the same answer: a server that hangs does not get one request after the other.
        """
        if not self._is_ready.is_set():
            return "down", self._cause()
        now = asyncio.get_running_loop().time()
        if self._check is None and self._answered_at is not None and now - self._answered_at < CHECK_AGE:
            return "ok", ""
        if self._check is None:
            method = "server/discover" if self.is_stateless else "ping"
            call = self.client.wire.call(method, b"{}", timeout=None, max_timeout=MOST_SECONDS)
            self._check = call.future
            self._check.add_done_callback(self._checked)
        check = self._check
        await asyncio.wait((check,), timeout=CHECK_TIMEOUT)
        if not check.done():
            return "unresponsive", f"no answer to a check within {CHECK_TIMEOUT:g} s"
        return ("ok", "") if self._has_answered(check) else ("down", self._cause())

    def _checked(self, check: "asyncio.Future[bytes]") -> None:
        self._check = None
        if self._has_answered(check):
            self._answered_at = asyncio.get_running_loop().time()

    def _has_answered(self, check: "asyncio.Future[bytes]") -> bool:
        """True if the server answered, with a result or with an error of its own."""
        return not check.cancelled() and isinstance(check.exception(), JsonRpcError | None)

    def _cause(self) -> str:
        try:
            cause = self.client.wire.cause
        except StateError:  # not opened yet
            return "starting"
        return "starting" if cause is None else cause.message

    # --- calls --------------------------------------------------------------------------------------------------------

    def patience(self) -> Patience:
        """For one call, from now on."""
        return Patience(self._options.wait)

    async def send(
        self, flight: Flight, compose: Compose, on_progress: ProgressHandler | None, patience: Patience
    ) -> Sent:
        """Hand a call to the server as soon as it is there. Then `answer()` it, or `give_up()`.

        Raises: McpError. It surely did not run then.
        """
        if len(self.flights) + self._waiting >= MOST_CALLS:
            raise BackpressureError(f"{MOST_CALLS} calls are open")
        while True:
            if not self._is_ready.is_set():
                await self._until_ready(patience.until)
            client = self.client
            is_stateless = self.is_stateless
            body, meta, speaker = compose(is_stateless)
            call = client.wire.call(
                flight.method.name,
                body,
                meta=meta,
                speaker=speaker,
                on_progress=on_progress,
                timeout=self._options.timeout,
                max_timeout=max(self._options.timeout or 0.0, MOST_SECONDS),
            )
            if isinstance(call.see(), StateError | ShutdownError | ClosedError):
                self._is_ready.clear()  # lost this very moment, and we are told in the next
                continue
            self.flights.begin(flight)
            self._by_id[call.id] = flight
            call.future.add_done_callback(partial(self._settle, call.id, flight))
            return Sent(client, call, is_stateless)

    async def answer(self, flight: Flight, sent: Sent) -> bytes:
        """The encoded result. Raises: McpError, which says whether it may have run."""
        try:
            return await sent.call.future
        except asyncio.CancelledError:
            self.give_up(flight, sent)
            raise

    def _settle(self, id: int, flight: Flight, future: "asyncio.Future[bytes]") -> None:
        """A call has ended, whether or not somebody waits for it now."""
        if self._by_id.get(id) is flight:
            del self._by_id[id]
        if not future.cancelled():
            future.exception()  # seen, so that it is not reported as lost
        self.flights.end(flight)

    def give_up(self, flight: Flight, sent: Sent) -> None:
        """Nobody waits for this call any more: the server is told, once."""
        sent.client.wire.give_up(sent.call)
        self.flights.end(flight)

    async def fetch(self, method: str, params: bytes) -> bytes:
        """The encoded result of a request of our own. Raises: McpError."""
        call = self.client.wire.call(method, params, timeout=OWN_TIMEOUT)
        try:
            return await call.future
        except asyncio.CancelledError:
            self.client.wire.give_up(call)
            raise

    async def _until_ready(self, deadline: float) -> None:
        self._waiting += 1
        try:
            async with asyncio.timeout_at(deadline):
                await self._is_ready.wait()
        except builtins.TimeoutError as late:
            raise TimeoutError(self._options.wait, sent=False) from late
        finally:
            self._waiting -= 1

    def notify(self, method: str, params: bytes) -> None:
        """Send this to the server: when it is there for the first time, or now. A server that was lost does not get it."""
        if self._facts is None and len(self._unsent) < MAX_UNSENT:
            self._unsent.append((method, params))
            return
        try:
            self.client.wire.notify(method, params)
        except McpError as error:
            logger.info("%s was not passed on: %s", method, error)

    # --- what is wanted of every one of them --------------------------------------------------------------------------

    async def subscribe(self, uri: str, key: tuple[int, int]) -> None:
        """Hear of changes to this resource, for `key`. Raises: McpError."""
        self.flights.serve(key[0])
        holders = self._wanted.setdefault(uri, set())
        holders.add(key)
        try:
            while not await self._subscribe(uri):
                pass
        except BaseException:
            self._let_go(uri, key)
            raise

    async def _subscribe(self, uri: str) -> bool:
        """False: somebody else, who had begun it, gave it up meanwhile. Raises: McpError."""
        try:
            await self.client.resources.subscribe(
                uri, wait_for_ready=True, timeout=max(self._options.wait, 1.0)
            )
        except StateError as error:
            if error.state != "unsubscribed":
                raise
            return False
        return True

    async def _subscribe_again(self) -> None:
        """To everything that is wanted; what the client behind has already it does not ask for twice."""
        for uri in list(self._wanted):
            try:
                await self._subscribe(uri)
            except McpError as error:
                logger.warning("the server behind lets nobody hear of %s any more: %s", uri, error)

    def unsubscribe(self, uri: str, key: tuple[int, int]) -> None:
        """`key` wants to hear no more of it."""
        if self._let_go(uri, key):
            self.do_later(self._unsubscribe(uri))

    def forget(self, number: int) -> None:
        """Nothing is wanted any more by keys of this number."""
        for uri, holders in list(self._wanted.items()):
            for key in [key for key in holders if key[0] == number]:
                self.unsubscribe(uri, key)

    def wanted_for(self, uri: str) -> list[str]:
        """Under which addresses a change of this resource was subscribed to: its own, or one that it is a part of."""
        if uri in self._wanted:
            return [uri]
        return [wanted for wanted in self._wanted if is_part_of(uri, wanted)]

    def _let_go(self, uri: str, key: tuple[int, int]) -> bool:
        holders = self._wanted.get(uri)
        if holders is None or key not in holders:
            return False
        holders.discard(key)
        if holders:
            return False
        del self._wanted[uri]
        return True

    async def _unsubscribe(self, uri: str) -> None:
        if uri not in self._wanted:
            await self.client.resources.unsubscribe(uri)

    async def set_level(self, level: str) -> None:
        """Have log messages of this level and above. Raises: McpError."""
        self._level = level
        if self._is_ready.is_set() and not self.is_stateless:
            await self._set_level()

    async def _set_level(self) -> None:
        assert self._level is not None  # somebody wants one
        await self.fetch("logging/setLevel", b'{"level":"%b"}' % self._level.encode())

    # --- what happens to it -------------------------------------------------------------------------------------------

    def _attach(self, client: Client) -> None:
        client.wire.on_state = lambda state: self._changed(client, state)
        wire = client.wire

        def received(method: str, params: bytes, source: int) -> None:
            self._listener.heard(self, method, params, self._by_id.get(source))

        async def asked(method: str, params: bytes) -> bytes:
            return await self._listener.asked(self, method, params, self._by_id.get(wire.source()))

        wire.on_message = received
        wire.answer_with(asked)

    def _changed(self, client: Client, state: str) -> None:
        if client is not self.client or self._is_stopping:
            return
        if state == "ready":
            self._come()
            return
        self._is_ready.clear()
        if state in ("backoff", "closed") and self._keeps_trying:
            logger.warning("the server behind is not there: %s", client.wire.cause)
            if state == "closed":
                if self._is_narrowed and not isinstance(client.wire.cause, TransportError | TimeoutError):
                    # It came back as a server without this era. Better served in the other than not at all.
                    self._is_narrowed = False
                    self._settings["versions"] = self._versions
                self._replace_later()

    def _come(self) -> None:
        was_ready = self._facts is not None
        self._facts = self.client.wire.facts
        self._failures = 0
        self.starts += 1
        self._is_ready.set()
        while self._unsent:  # before any request: those that wait go on in a later turn
            self.notify(*self._unsent.popleft())
        self.flights.start_over()
        if self._level is not None and not self.is_stateless:
            self.do_later(self._set_level())
        if self._wanted:
            self.do_later(self._subscribe_again())
        if was_ready:
            logger.warning("the server behind is there again")
            self._listener.came_back(self)

    def _replace_later(self) -> None:
        delay = backoff_delay(self.client.settings, self._failures, random.random())  # noqa: S311  # jitter
        self._failures += 1
        self._timer = asyncio.get_running_loop().call_later(delay, self._replace)

    def _replace(self) -> None:
        self.client = connect(self._target, **self._settings)
        self._attach(self.client)
        self.do_later(self.client.open(wait=False))

    def do_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Have this done beside everything else, for as long as this lives. What goes wrong with the server is logged."""
        task = asyncio.get_running_loop().create_task(self._quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _quietly(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except McpError as error:
            logger.info("the server behind did not do what was wanted: %s", error)


def of_era(versions: Iterable[str], era: Era) -> tuple[str, ...]:
    """Those of the revisions that belong to this era."""
    return tuple(name for name in versions if REVISIONS[name].era is era)
