"""Run an HTTP server as a process: the listening sockets, the HTTP server on them, and a graceful shutdown.

The first signal drains, a second one exits at once, and a watchdog limits the shutdown, as over stdio. To drain, the
server closes its listeners, refuses new requests with 503, waits for running handlers, ends streams and runs the
shutdown hooks. With several workers this process only supervises them.
"""

import asyncio
import ipaddress
import logging
import os
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Protocol

from jackstay.errors import UsageError
from jackstay.extras import install_command, missing_modules
from jackstay.protocol import Setting, SettingsBase, refuse_unknown, settings_of
from jackstay.protocol.http import LOCAL_HOSTS
from jackstay.server._backend import with_stores
from jackstay.server._run import END_TIMEOUT, Shutdown, fill_standard_descriptors
from jackstay.server.http._auth import read_auth
from jackstay.server.http._options import HTTP_OPTIONS, HttpOptions, are_strings, as_sequences, make_http_options
from jackstay.server.http._sockets import bind_sockets, port_of, url_host
from jackstay.server.http._workers import Supervisor, Worker, own_command

if TYPE_CHECKING:
    from jackstay.server._server import Server
    from jackstay.server.http._app import App
    from jackstay.server.http._asgi import Asgi
    from jackstay.server.http._keywords import RunHttpKeywords

logger = logging.getLogger("jackstay.server.http")

# Seconds beyond the drain timeout, for flushing, hooks and the shutdown of the HTTP server. The same as over stdio.
END_MARGIN: Final = END_TIMEOUT - 1.0

# Seconds that idle connections stay open in a drain. A request that was already on its way then gets a 503, which
# states that it did not run; on a closed connection the client could not know.
DRAIN_GRACE: Final = 0.1

_EVERYWHERE: Final = ("0.0.0.0", "::", "")  # noqa: S104  # compared with, not bound to

# More workers than this are taken for a mistake in the configuration.
MAX_WORKERS: Final = 256


def _is_file(value: object) -> bool:
    return isinstance(value, str | os.PathLike)


def _are_networks(value: object) -> bool:
    try:
        return are_strings(value) and all(row == "*" or ipaddress.ip_network(row, strict=False) for row in value)
    except ValueError:
        return False


class RunOptions(SettingsBase, frozen=True, kw_only=True):
    """The options of `run()` with their defaults, described in `docs/settings.md`.

    Raises: UsageError, naming the option and its valid values.
    """

    # fmt: off
    # Loopback only: listening on every address must be an explicit decision.
    host: Annotated[str, Setting("The address or name to listen on. `0.0.0.0` and `::` are every address; then set"
        " `hosts`, too.")] = "127.0.0.1"
    port: Annotated[int, Setting("The port to listen on. 0 selects a free one, which is printed to standard error.",
        low=0, high=65_535)] = 8000
    workers: Annotated[int, Setting("Processes that share the port.", low=1, high=MAX_WORKERS)] = 1
    certfile: Annotated[str | None, Setting("The certificate chain in PEM format, for TLS without a proxy.",
        is_valid=_is_file, expected="a file")] = None
    keyfile: Annotated[str | None, Setting("The private key in PEM format, if it is not in `certfile`.",
        is_valid=_is_file, expected="a file")] = None
    keyfile_password: Annotated[str | None, Setting("The password of the private key.", is_secret=True)] = None
    # None by default: any client can send X-Forwarded-* headers.
    trusted_proxies: Annotated[Sequence[str], Setting("Addresses or networks whose `X-Forwarded-For` and"
        " `X-Forwarded-Proto` are trusted.", is_valid=_are_networks,
        expected='addresses or networks such as "10.0.0.5" or "10.0.0.0/8", or "*"')] = ()
    # Longer than the idle timeout of proxies (nginx and AWS: 60 s), so that the proxy closes first and loses no
    # request.
    keepalive_timeout: Annotated[float, Setting("Seconds that a connection may be idle.", low=0.001,
        high=86_400)] = 75.0
    # The URL and all headers, large enough for the largest tokens.
    max_header_bytes: Annotated[int, Setting("Maximum size of URL and headers together, and of the trailers of a body;"
        " above it 431.", low=1024, high=1_048_576)] = 65_536
    header_timeout: Annotated[float, Setting("Seconds for URL and headers to arrive.", low=0.001, high=86_400)] = 10.0
    access_log: Annotated[bool, Setting("Log each request to `jackstay.server.http.access`, without the query string."
        )] = False
    parser: Annotated[Literal["auto", "httptools", "h11"], Setting('The HTTP parser. "auto": httptools if it is'
        ' installed.')] = "auto"
    loop: Annotated[Literal["auto", "uvloop", "asyncio"], Setting('The event loop. "auto": uvloop if it is installed.'
        )] = "auto"
    # fmt: on

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keyfile is not None and self.certfile is None:
            raise UsageError("keyfile was given without certfile; pass both", path="certfile")
        for name in ("certfile", "keyfile"):
            file: str | None = getattr(self, name)
            if file is not None and not os.path.isfile(file):
                raise UsageError(f"{name} does not exist or is not a file: {file!r}", path=name)

    @property
    def scheme(self) -> str:
        """The scheme of the URL."""
        return "http" if self.certfile is None else "https"


# By name, in the order of the documentation.
RUN_OPTIONS: Final = settings_of(RunOptions)


def run_http(
    server: "Server",
    given: "RunHttpKeywords",
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    exit_process: Callable[[int], Any] = os._exit,
    wrap_app: "Callable[[App], Asgi] | None" = None,
) -> int:
    """Implement `Server.run(transport="http")`. `exit_process` ends the process if the shutdown hangs.

    Raises: UsageError, TransportError.
    """
    _check_environment()
    fill_standard_descriptors()
    refuse_unknown(given, (*RUN_OPTIONS, *HTTP_OPTIONS), 'run(transport="http")')
    run_options: dict[str, Any] = {name: value for name, value in given.items() if name in RUN_OPTIONS}
    options = RunOptions(**as_sequences(run_options, "trusted_proxies"))
    endpoint_options: dict[str, Any] = {name: value for name, value in given.items() if name not in RUN_OPTIONS}
    endpoint_options = with_stores(server._backend, _with_host(options.host, endpoint_options))
    endpoint = make_http_options(**endpoint_options)  # invalid options are reported before the port is bound
    _check_workers(options, endpoint, server)
    worker = Worker.from_env()
    if worker is None:
        sockets = bind_sockets(options.host, options.port)
    else:
        sockets = worker.sockets
        server._shared_secrets = worker.request_state_secrets
    try:
        url = _url(options, endpoint, sockets)
        if endpoint.auth is not None:
            endpoint_options["auth"] = read_auth(endpoint.auth)
            endpoint_options["auth"].set_default_resource(url)
        app = server.asgi(**endpoint_options)
        served = _behind_proxies(app if wrap_app is None else wrap_app(app), options.trusted_proxies)
        context = ServeContext(options, app, served, url, sockets, worker)
        if worker is None and options.workers > 1:
            return _supervise(context, exit_process)
        return _serve(context, loop_factory, exit_process)
    finally:
        for sock in (*sockets, *(() if worker is None else (worker.control,))):
            sock.close()


class ServeContext(NamedTuple):
    """What one process serves: the app as `app`, and as `served` with its wrappers."""

    options: RunOptions
    app: "App"
    served: "Asgi"
    url: str
    sockets: list[socket.socket]
    worker: Worker | None

    def announce(self) -> None:
        """Print the URL to standard error."""
        workers = f" ({self.options.workers} workers)" if self.options.workers > 1 else ""
        options = self.app.options
        sse = f" and {self.url.removesuffix(options.path)}{options.sse_path}" if options.sse_path is not None else ""
        _announce(f"{self.app.server.name} serves {self.url}{sse}{workers}")
        if self.options.host in _EVERYWHERE and tuple(self.app.options.hosts) == LOCAL_HOSTS:
            logger.warning(
                "listening on every address, but only requests to localhost are accepted; set `hosts` (--allow-host)"
                " to allow others"
            )


def _announce(line: str) -> None:
    """Print the line to standard error, or log it if logs are structured (`--log-format json`)."""
    for handler in (*logging.getLogger().handlers, *logging.getLogger("jackstay").handlers):
        if getattr(handler.formatter, "is_structured", False):
            handler.handle(logger.makeRecord(logger.name, logging.INFO, "", 0, line, (), None))
            return
    # Without `end` the newline is a second write, and a log line of another thread could come between.
    print(f"{line}\n", end="", file=sys.stderr, flush=True)


def _url(options: RunOptions, endpoint: HttpOptions, sockets: list[socket.socket]) -> str:
    host = "localhost" if options.host in _EVERYWHERE else url_host(options.host)
    return f"{options.scheme}://{host}:{port_of(sockets)}{endpoint.path}"


def _with_host(host: str, endpoint_options: dict[str, Any]) -> dict[str, Any]:
    """Allow the listening address as Host, unless `hosts` was given."""
    if "hosts" in endpoint_options or host in (*_EVERYWHERE, *LOCAL_HOSTS):
        return endpoint_options
    return {**endpoint_options, "hosts": (*LOCAL_HOSTS, url_host(host))}


def _check_workers(options: RunOptions, endpoint: HttpOptions, server: "Server") -> None:
    problem = ""
    if endpoint.needs_one_process:
        problem = (
            "sessions=True keeps sessions in the memory of one process, but any worker may get the next request:"
            " disable sessions, or pass a shared session_store (and event_store, if any), or use one worker"
        )
    elif endpoint.sse_path is not None:
        problem = "sse_path (HTTP+SSE) works with one worker only: requests must reach the process that has the stream"
    elif server._extensions is not None and server._extensions.needs_one_process:
        problem = (
            "tasks are in the memory of one process, but any worker may get the next request: pass a shared store,"
            " such as Tasks(SqliteTaskStore(path)), or use one worker"
        )
    if problem and options.workers > 1:
        raise UsageError(problem, path="workers")


def _check_environment() -> None:
    if "uvicorn" in missing_modules("http"):
        raise UsageError(f'run(transport="http") needs the extra `http`: {install_command("http")}')
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError("run() cannot be called from a running event loop; pass server.asgi() to an ASGI server instead")


# --- several processes ------------------------------------------------------------------------------------------------


def _supervise(context: ServeContext, exit_process: Callable[[int], Any]) -> int:
    if threading.current_thread() is not threading.main_thread():
        raise UsageError("run() with several workers must be called from the main thread", path="workers")
    options = context.app.server.options
    supervisor = Supervisor(
        own_command(),
        context.sockets,
        context.options.workers,
        request_state_secrets=options.request_state_secrets or (os.urandom(32),),
        end_timeout=_end_timeout(context.app.server),
        on_ready=context.announce,
        exit_process=exit_process,
    )
    return supervisor.run()


# --- one process ------------------------------------------------------------------------------------------------------


def _serve(
    context: ServeContext,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None,
    exit_process: Callable[[int], Any],
) -> int:
    server, worker = context.app.server, context.worker
    on_ready = context.announce if worker is None else worker.notify_ready
    http = _make_http_server(context, on_ready, lambda: shutdown.drain())
    loop = (loop_factory or _loop_factory(context.options.loop))()
    draining: list[asyncio.Task[None]] = []

    def drain() -> None:
        # At once: another worker can accept a connection that this one leaves in the backlog, while a connection
        # accepted here would only be refused.
        http.stop()
        draining.append(loop.create_task(context.app.drain()))
        server._lifetime.cancel_startup()

    def watch_supervisor(worker: Worker) -> None:
        if worker.parent_is_gone():
            loop.remove_reader(worker.control)
            logger.warning("the supervisor process has exited: draining this worker")
            shutdown.drain()

    shutdown = Shutdown(drain, loop, exit_process, _end_timeout(server))
    if worker is not None:
        loop.add_reader(worker.control, watch_supervisor, worker)
    return shutdown.run(server, _serve_until_drained(context, http))


def _end_timeout(server: "Server") -> float:
    """Return the maximum duration of a shutdown in seconds: handlers, shutdown hooks, and the rest."""
    return server.options.drain_timeout + server.options.shutdown_timeout + END_MARGIN


async def _serve_until_drained(context: ServeContext, http: "HttpServer") -> None:
    if await context.app.lifecycle.start():
        await http.serve(context.sockets)
    await context.app.lifecycle.end()


class HttpServer(Protocol):
    """Serves the app of a process."""

    async def serve(self, sockets: list[socket.socket]) -> None:
        """Serve until `stop()`, then close all connections."""

    def stop(self) -> None:
        """Stop listening at once, and let `serve()` return. It may be called before `serve()`."""


def _make_http_server(context: ServeContext, on_ready: Callable[[], None], drain: Callable[[], None]) -> HttpServer:
    options = context.options
    if options.parser == "h11" or not _can_import("httptools", "parser", options.parser):
        from jackstay.server.http._uvicorn import make_uvicorn  # noqa: PLC0415  # an extra

        return make_uvicorn(context, on_ready, drain)
    from jackstay.server.http._app import App  # noqa: PLC0415  # loaded already, with the app
    from jackstay.server.http._listening import Http1Server  # noqa: PLC0415  # needs httptools

    def on_tick() -> None:
        if context.app.is_draining:  # `server.drain()` was called, perhaps from another thread
            drain()

    return Http1Server(
        context.served,
        # Only if nothing wraps the app, and it is not a subclass with its own routes: they are written for ASGI.
        handle=context.app.serve if context.served is context.app and type(context.app) is App else None,
        keepalive_timeout=options.keepalive_timeout,
        header_timeout=options.header_timeout,
        max_header_bytes=options.max_header_bytes,
        has_access_log=options.access_log,
        ssl_context=load_certificate(options),
        grace=DRAIN_GRACE,
        # Handlers have a limit of their own, and the watchdog limits the whole shutdown.
        shutdown_timeout=context.app.server.options.drain_timeout + END_MARGIN,
        on_ready=on_ready,
        on_tick=on_tick,
    )


def _behind_proxies(app: "Asgi", proxies: Sequence[str]) -> "Asgi":
    """Return the app with the client address and the scheme that these proxies forward."""
    if not proxies:
        return app
    from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware  # noqa: PLC0415  # an extra

    # uvicorn declares the same callables with other types of messages.
    return ProxyHeadersMiddleware(app, trusted_hosts=list(proxies))  # type: ignore[arg-type,return-value]


def load_certificate(options: RunOptions) -> ssl.SSLContext | None:
    """Return the context for TLS; None without a certificate. Raises: UsageError for an invalid one."""
    if options.certfile is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # An empty password instead of none: OpenSSL would read it from the terminal.
        context.load_cert_chain(options.certfile, options.keyfile, options.keyfile_password or "")
    except OSError as error:  # ssl.SSLError is one
        raise UsageError(f"cannot load certfile and keyfile: {error}", path="certfile") from error
    context.set_alpn_protocols(["http/1.1"])
    return context


def _loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if name == "asyncio" or not _can_import("uvloop", "loop", name):
        return asyncio.new_event_loop
    import uvloop  # noqa: PLC0415  # an extra

    return uvloop.new_event_loop


def _can_import(module: str, option: str, value: str) -> bool:
    """Return whether a module of the extra can be loaded. Raises: UsageError if not, although `value` requires it."""
    try:
        import_module(module)
    except ImportError as error:  # also if it is installed and cannot be loaded
        if value == module:
            raise UsageError(f"{option}={module!r} is not installed: {install_command('http')}", path=option) from error
        return False
    return True
