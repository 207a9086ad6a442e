"""A process that is an HTTP server: the port, uvicorn, and an end in order.

`run(transport="http")` owns the process, as it does over stdio (connection.md, section 8): signals drain, a second one ends
at once, and a watchdog ends what hangs. Draining is: no new connections, new requests are refused as passing (503), running
handlers get their time, streams are ended, shutdown hooks run. With several workers this process only watches over them.

Above: `Server.run`, the commands. Below: `_app` (what is served), `_workers`, `_sockets`, uvicorn.
"""

import asyncio
import contextlib
import ipaddress
import logging
import math
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from jackstay.errors import UsageError
from jackstay.extras import install_command, missing_modules
from jackstay.protocol.client import Setting
from jackstay.protocol.http import LOCAL_HOSTS
from jackstay.server._run import (
    END_TIMEOUT,
    Ending,
    fill_standard_descriptors,
    hear_warnings,
    settle,
    still_running,
)
from jackstay.server.http._auth import read_auth
from jackstay.server.http._options import (
    HTTP_OPTIONS,
    HttpKeywords,
    HttpOptions,
    are_texts,
    make_http_options,
    refuse_unknown,
)
from jackstay.server.http._sockets import BACKLOG, bind_sockets, port_of, url_host
from jackstay.server.http._uvicorn_logs import UvicornLogs
from jackstay.server.http._workers import Supervisor, Worker, adopt, own_command

if TYPE_CHECKING:
    import uvicorn

    from jackstay.server._server import Server
    from jackstay.server.http._app import App
    from jackstay.server.http._asgi import Asgi

logger = logging.getLogger("jackstay.server.http")

# Beyond what handlers get: flushing, hooks, and the ticks of uvicorn's own shutdown. The same as over stdio.
AFTER_HANDLERS: Final = END_TIMEOUT - 1.0

# How long connections on which nothing happens stay open in a drain. A request that was sent before the client could know is
# then refused in words (503: it did not run); closing at once would leave its sender to guess.
LATE_SECONDS: Final = 0.1

_EVERYWHERE: Final = ("0.0.0.0", "::", "")  # noqa: S104  # compared with, not bound to

# How many workers make sense: beyond it is a mistake in a configuration.
MOST_WORKERS: Final = 256


class RunHttpKeywords(HttpKeywords, total=False):
    """How an HTTP server is run, beside what its endpoint is; `docs/settings.md` explains each."""

    host: str
    port: int
    workers: int
    certfile: str | None
    keyfile: str | None
    keyfile_password: str | None
    trusted_proxies: Sequence[str]
    keepalive_timeout: float
    max_header_bytes: int
    header_timeout: float
    access_log: bool
    parser: str
    loop: str


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How an HTTP server is run. Defaults are here; what each may be, and means, is in the rows below.

    Raises: UsageError, naming the option and what it may be.
    """

    # Only this machine, unless it is said: a server on every address is a decision.
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    certfile: str | None = None
    keyfile: str | None = None
    keyfile_password: str | None = None
    # Others could write into X-Forwarded-* what they like.
    trusted_proxies: Sequence[str] = ()
    # Longer than proxies keep theirs (nginx and AWS: 60 s): who closes first while the other sends has lost a request.
    keepalive_timeout: float = 75.0
    # Names, values and the URL together: room for the largest tokens, and no more.
    max_header_bytes: int = 65_536
    header_timeout: float = 10.0
    access_log: bool = False
    parser: str = "auto"
    loop: str = "auto"

    def __post_init__(self) -> None:
        for row in RUN_OPTIONS.values():
            row.check(getattr(self, row.name))
        password: object = self.keyfile_password
        if password is not None and not isinstance(password, str):  # and it is never shown
            raise UsageError("keyfile_password must be text, or None", path="keyfile_password")
        if self.keyfile is not None and self.certfile is None:
            raise UsageError("keyfile needs a certfile", path="certfile")
        for name in ("certfile", "keyfile"):
            file: str | None = getattr(self, name)
            if file is not None and not os.path.isfile(file):
                raise UsageError(f"{name}: there is no file {file}", path=name)

    @property
    def scheme(self) -> str:
        """As in a URL."""
        return "http" if self.certfile is None else "https"


def _is_file(value: object) -> bool:
    return isinstance(value, str | os.PathLike)


def _are_networks(value: object) -> bool:
    try:
        return are_texts(value) and all(
            row == "*" or ipaddress.ip_network(row, strict=False) for row in value
        )
    except ValueError:
        return False


# By name, in the order of the documentation.
RUN_OPTIONS: Final = {
    row.name: row
    for row in (
        Setting("host", "The address or name to listen on; `0.0.0.0` and `::` are every address. Then `hosts` says how it is called."),
        Setting("port", "The port to listen on. 0 takes a free one; the line on standard error says which.",
                low=0, high=65_535, is_whole=True),
        Setting("workers", "Processes that share the port.", low=1, high=MOST_WORKERS, is_whole=True),
        Setting("certfile", "The certificate chain, PEM: TLS without a proxy.", is_optional=True, holds=_is_file, must="a file"),
        Setting("keyfile", "Its private key, PEM, where it is not in the same file.", is_optional=True, holds=_is_file, must="a file"),
        Setting("keyfile_password", "What the private key is locked with.", is_optional=True, holds=lambda _: True, must="text"),
        Setting("trusted_proxies", "Addresses or networks whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.",
                holds=_are_networks, must='addresses or networks such as "10.0.0.5" or "10.0.0.0/8", or "*"'),
        Setting("keepalive_timeout", "How long a connection may be idle.", low=0.001, high=86_400),
        Setting("max_header_bytes", "URL and headers together, and the trailers of a body; above it 431.", low=1_024, high=1_048_576, is_whole=True),
        Setting("header_timeout", "How long URL and headers may take.", low=0.001, high=86_400),
        Setting("access_log", "A line for each request under `jackstay.server.http.access`, without the query.", is_flag=True),
        Setting("parser", '"auto" takes httptools where it is installed.', choices=("auto", "httptools", "h11")),
        Setting("loop", '"auto" takes uvloop where it is installed.', choices=("auto", "uvloop", "asyncio")),
    )
}  # fmt: skip


def run_http(
    server: "Server",
    given: RunHttpKeywords,
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    leave: Callable[[int], Any] = os._exit,
    around: "Callable[[App], Asgi] | None" = None,
) -> int:
    """As `Server.run(transport="http")`; `leave` ends the process.

    Raises: UsageError, TransportError.
    """
    _check_surroundings()
    fill_standard_descriptors()
    refuse_unknown(given, (*RUN_OPTIONS, *HTTP_OPTIONS))
    options = _run_options({name: value for name, value in given.items() if name in RUN_OPTIONS})
    asked = _with_host(
        options.host, {name: value for name, value in given.items() if name not in RUN_OPTIONS}
    )
    endpoint = make_http_options(**asked)  # what is wrong is told before the port is taken
    _check_workers(options, endpoint)
    worker = adopt()
    if worker is None:
        sockets = bind_sockets(options.host, options.port)
    else:
        sockets = worker.sockets
        server.share_keys(worker.keys)
    try:
        url = _url(options, endpoint, sockets)
        if endpoint.auth is not None:
            asked["auth"] = read_auth(endpoint.auth)
            asked["auth"].settle(url)
        app = server.asgi(**asked)
        place = Place(server, options, app, app if around is None else around(app), url, sockets, worker)
        if worker is None and options.workers > 1:
            return _supervise(place, leave)
        return _serve(place, loop_factory, leave)
    finally:
        for one in (*sockets, *(() if worker is None else (worker.control,))):
            one.close()


def _run_options(given: dict[str, Any]) -> RunOptions:
    proxies = given.get("trusted_proxies")
    if isinstance(proxies, str):  # one is a list of one
        given = {**given, "trusted_proxies": (proxies,)}
    return RunOptions(**given)


class Place(NamedTuple):
    """What is served, and where."""

    server: "Server"
    options: RunOptions
    app: "App"
    served: "Asgi"
    url: str
    sockets: list[socket.socket]
    worker: Worker | None

    def announce(self) -> None:
        """Say on standard error that it serves, and where."""
        workers = f" ({self.options.workers} workers)" if self.options.workers > 1 else ""
        _announce(f"{self.server.name} serves {self.url}{workers}")
        if self.options.host in _EVERYWHERE and tuple(self.app.options.hosts) == LOCAL_HOSTS:
            logger.warning(
                "listening on every address, but answering only as localhost: `hosts` says how else it is called"
            )


def _announce(line: str) -> None:
    """Write the line to standard error; where logs are structured (`--log-format json`), as a record among them."""
    for handler in (*logging.getLogger().handlers, *logging.getLogger("jackstay").handlers):
        if getattr(handler.formatter, "is_structured", False):
            handler.handle(logger.makeRecord(logger.name, logging.INFO, "", 0, line, (), None))
            return
    print(line, file=sys.stderr, flush=True)


def _url(options: RunOptions, endpoint: HttpOptions, sockets: list[socket.socket]) -> str:
    host = "localhost" if options.host in _EVERYWHERE else url_host(options.host)
    return f"{options.scheme}://{host}:{port_of(sockets)}{endpoint.path}"


def _with_host(host: str, asked: dict[str, Any]) -> dict[str, Any]:
    """A server that listens on one address is called by it, unless it was said otherwise."""
    if "hosts" in asked or host in (*_EVERYWHERE, *LOCAL_HOSTS):
        return asked
    return {**asked, "hosts": (*LOCAL_HOSTS, url_host(host))}


def _check_workers(options: RunOptions, endpoint: HttpOptions) -> None:
    if options.workers == 1:
        return
    if endpoint.needs_one_process:
        raise UsageError(
            "sessions=True keeps sessions in the memory of one process, and any worker may get the next request: turn"
            " sessions off, or pass a session_store that workers share (and an event_store, if any), or use one worker",
            path="workers",
        )
    if endpoint.sse_path is not None:
        raise UsageError(
            "HTTP+SSE (sse_path) needs the process that holds the stream: use one worker, or leave sse_path out",
            path="workers",
        )


def _check_surroundings() -> None:
    missing = [name for name in missing_modules("http") if name == "uvicorn"]
    if missing:
        raise UsageError(f"HTTP needs the extra `http`: {install_command('http')}")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        "run() cannot be used inside a running loop; give `server.asgi()` to your ASGI server there"
    )


# --- several processes ------------------------------------------------------------------------------------------------


def _supervise(place: Place, leave: Callable[[int], Any]) -> int:
    if threading.current_thread() is not threading.main_thread():
        raise UsageError("several workers can only be watched by the main thread", path="workers")
    server = place.server.options
    supervisor = Supervisor(
        own_command(),
        place.sockets,
        place.options.workers,
        keys=server.keys or (os.urandom(32),),
        end_timeout=_end_timeout(place.server),
        on_ready=place.announce,
        leave=leave,
    )
    unhear = hear_warnings()
    try:
        return supervisor.run()
    finally:
        unhear()


# --- one process ------------------------------------------------------------------------------------------------------


def _serve(
    place: Place,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None,
    leave: Callable[[int], Any],
) -> int:
    threads = set(threading.enumerate())
    server, worker = place.server, place.worker
    with UvicornLogs():
        on_ready = place.announce if worker is None else worker.tell_ready
        http = _make_uvicorn(place, on_ready, lambda: ending.drain())
        loop = (loop_factory or _loop_factory(place.options.loop))()
        draining: list[asyncio.Task[None]] = []

        def drain() -> None:
            # First of all, and not with uvicorn's next tick: a connection that is not taken here is taken by another
            # worker, where one that is taken would only be refused.
            for listener in getattr(http, "servers", ()):  # there are none before it has started
                listener.close()
            draining.append(loop.create_task(place.app.drain()))
            http.should_exit = True
            server.stop_starting()

        ending = Ending(drain, loop, leave, _end_timeout(server))
        ending.install()
        try:
            if worker is not None:
                loop.add_reader(worker.control, _watch_parent, loop, worker, ending)
            loop.run_until_complete(_serve_until_drained(place, http))
            is_left = server.blocking_calls > 0
            pending = loop.run_until_complete(settle(loop))
            loop.close()
            if is_left or pending or still_running(threads):
                ending.leave()
        finally:
            ending.restore()
            loop.close()
    return ending.code


def _end_timeout(server: "Server") -> float:
    """What the end takes at most: handlers, shutdown hooks, and the rest."""
    return server.options.drain_timeout + server.hooks_timeout + AFTER_HANDLERS


async def _serve_until_drained(place: Place, http: "uvicorn.Server") -> None:
    if await place.app.life.start():
        await http.serve(sockets=place.sockets)
    await place.app.life.end()


def _watch_parent(loop: asyncio.AbstractEventLoop, worker: Worker, ending: Ending) -> None:
    if worker.is_orphan():
        loop.remove_reader(worker.control)
        logger.warning("the process that started this worker is gone: draining")
        ending.drain()


def _make_uvicorn(place: Place, on_ready: Callable[[], None], drain: Callable[[], None]) -> "uvicorn.Server":
    import uvicorn  # noqa: PLC0415  # an extra, and large

    class Uvicorn(uvicorn.Server):
        """As it is, but the signals are ours, and what is on its way is still heard."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            on_ready()

        async def on_tick(self, counter: int) -> bool:
            # `server.drain()` was called, from whatever thread: the process has nothing more to do.
            if place.app.is_draining and not self.should_exit:
                drain()
            return await super().on_tick(counter)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await asyncio.sleep(LATE_SECONDS)
            await super().shutdown(sockets)

    options = place.options
    config = uvicorn.Config(
        place.served,
        http=_parser(options),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=options.access_log,
        server_header=False,
        proxy_headers=bool(options.trusted_proxies),
        forwarded_allow_ips=list(options.trusted_proxies) or None,
        backlog=BACKLOG,
        timeout_keep_alive=math.ceil(options.keepalive_timeout),
        # Handlers have their own limit, and the watchdog has the last word.
        timeout_graceful_shutdown=math.ceil(place.server.options.drain_timeout + AFTER_HANDLERS),
        h11_max_incomplete_event_size=options.max_header_bytes,
        ssl_certfile=options.certfile,
        ssl_keyfile=options.keyfile,
        ssl_keyfile_password=options.keyfile_password,
    )
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        raise UsageError(f"certfile and keyfile cannot be used: {error}", path="certfile") from error
    return Uvicorn(config)


def _parser(options: RunOptions) -> type[asyncio.Protocol]:
    if options.parser == "h11":
        return _h11(options)
    try:
        from jackstay.server.http._head import bounded  # noqa: PLC0415  # needs httptools
    except ImportError as missing:
        if options.parser == "auto":
            return _h11(options)
        raise UsageError(f"httptools is not installed: {install_command('http')}", path="parser") from missing
    return bounded(options.max_header_bytes, options.header_timeout)


def _h11(options: RunOptions) -> type[asyncio.Protocol]:
    from jackstay.server.http._h11 import timed  # noqa: PLC0415  # an extra

    return timed(options.header_timeout)


def _loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if name != "asyncio":
        try:
            import uvloop  # noqa: PLC0415  # an extra
        except ImportError as missing:
            if name == "uvloop":
                raise UsageError(
                    f"uvloop is not installed: {install_command('http')}", path="loop"
                ) from missing
        else:
            return uvloop.new_event_loop
    return asyncio.new_event_loop


__all__ = ["RUN_OPTIONS", "RunHttpKeywords", "RunOptions", "run_http"]
