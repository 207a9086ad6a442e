"""The documentation server as a process: builds the registry, documents, tools and server, and runs them.

To start quickly, the registry is parsed on a thread while the first client is already served, and the cache and the
fetcher are opened by the first request that reads. With `registry.url`, a second thread polls for a newer registry.
"""

import asyncio
import logging
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jackstay.errors import UsageError
from procontext._version import __version__
from procontext.config import Config, LocalSource
from procontext.config_files import ConfigFiles
from procontext.errors import ConfigError, RegistryError
from procontext.events import log_event, log_to_stderr
from procontext.interfaces import Documents
from procontext.registry import Installed, Registry, Store, default_directory, keep_fresh, update
from procontext.tools import Tools, make_server

if TYPE_CHECKING:
    from jackstay.protocol.http import ErrorResponse
    from jackstay.server import Metrics, Server
    from jackstay.server.http import BearerAuth, Principal
    from procontext.registry import PackageIndexes

logger = logging.getLogger("procontext")


def make_registry(config: Config) -> Registry:
    """Return the registry that the settings describe, not loaded yet."""
    local = [source for source in config.sources if isinstance(source, LocalSource)]
    return Registry(
        sources=[source.library() for source in config.sources if not isinstance(source, LocalSource)],
        local_sources=[source.library() for source in local],
        local_file=local[0].file if local else "",
        path=config.registry.path,
        store=Store(default_directory()),
        installed=Installed(Path.cwd(), default_directory() / "installed"),
        open_indexes=partial(_open_indexes, config) if config.packages.lookup and not config.fetcher.offline else None,
    )


def _open_indexes(config: Config) -> "PackageIndexes":
    from procontext.registry import PackageIndexes  # noqa: PLC0415  # TLS: not before it is needed

    # The names of private sources are known, so they are never looked up. The scopes of their packages are private.
    scopes = (name.partition("/")[0] for source in config.sources for name in source.packages.npm if "/" in name)
    private = (*config.packages.private, *(f"{scope.lower()}/*" for scope in scopes))
    packages = msgspec.structs.replace(config.packages, private=private)
    return PackageIndexes(packages, config.fetcher, default_directory() / "packages")


class Application:
    """The objects that serve one set of settings. The commands use `tools` without the server."""

    def __init__(self, config: Config, registry: Registry | None = None) -> None:
        self.config = config
        self.registry = make_registry(config) if registry is None else registry
        self.metrics: Metrics | None = None
        if config.server.metrics:
            from jackstay.server import prometheus  # noqa: PLC0415  # few servers need it

            self.metrics = prometheus("procontext", gauges=self.gauges)
        self.tools = Tools(self.registry, self.documents, config.output.max_chars)
        self._documents: Documents | None = None
        self._opening: asyncio.Task[Documents] | None = None

    def __repr__(self) -> str:
        return f"<Application {self.registry!r}>"

    async def documents(self) -> Documents:
        """Return the documents. The first call opens them."""
        if self._documents is None:
            if self._opening is None:
                self._opening = asyncio.ensure_future(self._open())
            # Shielded: the first caller may be cancelled while others still wait for the same task.
            self._documents = await asyncio.shield(self._opening)
        return self._documents

    async def _open(self) -> Documents:
        from procontext.page import LibraryDocuments  # noqa: PLC0415  # SQLite and TLS: not before they are needed

        return await LibraryDocuments.open(self.config, self.registry)

    async def close(self) -> None:
        """Close the documents if they were opened."""
        await self.registry.close()
        if self._opening is not None:
            opened = await self._opening
            self._opening = self._documents = None
            await opened.close()

    def server(self) -> "Server":
        """Return an MCP server with the tools."""
        server = make_server(self.tools, None if self.metrics is None else self.metrics.count)
        if self.config.server.otel:
            from jackstay.server import trace_requests  # noqa: PLC0415  # an optional dependency

            server.add_middleware(trace_requests())
        server.on_shutdown(self.close)
        return server

    def describe(self) -> str:
        """Return a line about the registry."""
        return f"Registry {self.registry.version}: {len(self.registry)} libraries, from {self.registry.origin}"

    def gauges(self) -> Mapping[str, float]:
        """Return the current values of the gauges."""
        return {"registry_libraries": len(self.registry), "registry_generation": self.registry.generation}

    async def refresh(self) -> bool:
        """Install a newer registry from `registry.url`, if there is one. Return True if one was installed.

        Raises: RegistryError.
        """
        url = self.config.registry.url
        if url is None:
            raise RegistryError(
                "registry.url", "not set; set it to the URL of a registry description to download a newer registry"
            )
        from procontext.registry import Downloader  # noqa: PLC0415  # TLS: not before it is needed

        download = Downloader(self.config.fetcher, url)
        try:
            state = await update(Store(default_directory()), url, download, self.registry.version)
        finally:
            await download.close()
        if state is None:
            return False
        await asyncio.to_thread(self.registry.load)
        log_event("registry_updated", registry_version=self.registry.version, libraries=len(self.registry))
        return True


def serve(config: Config, files: ConfigFiles = ConfigFiles()) -> int:  # noqa: B008  # frozen
    """Serve until the client disconnects or a signal arrives, and return the exit code. `files` is only logged.

    Raises: ConfigError for an unusable `server.auth_key`; McpError if the server cannot listen on the address.
    """
    log_to_stderr(config.logging.level)
    application = Application(config)
    server = application.server()
    if config.server.backend is not None:
        from jackstay.redis import use_redis  # noqa: PLC0415  # an optional dependency

        use_redis(server, config.server.backend)
    transport = config.server.transport
    # Built first, so that a wrong setting is reported before anything runs.
    auth = _auth(config) if transport == "http" else None
    failed = threading.Event()

    def loaded(error: RegistryError | None) -> None:
        if error is None:
            log_event("server_started", **_started(config, application.registry, files))
        else:
            failed.set()
            # There is nothing to serve: shut down in the regular way, so that everything is flushed.
            os.kill(os.getpid(), signal.SIGTERM)

    application.registry.start(loaded)
    if config.registry.url is not None and config.registry.path is None and not config.fetcher.offline:
        _start_refreshing(application)
    if transport == "http":
        code = _serve_http(application, server, auth)
    else:
        code = server.run()
    return 1 if failed.is_set() else code


def _started(config: Config, registry: Registry, files: ConfigFiles) -> Mapping[str, object]:
    return {
        "version": __version__,
        "transport": config.server.transport,
        "registry_version": registry.version,
        "libraries": len(registry),
        "offline": config.fetcher.offline,
        "settings": None if files.trusted is None else str(files.trusted),
        "local_settings": None if files.local is None else str(files.local),
    }


def _start_refreshing(
    application: Application, start: Callable[[threading.Thread], None] = threading.Thread.start
) -> None:
    every = application.config.registry.refresh_hours * 3600

    def run() -> None:
        asyncio.run(keep_fresh(application.refresh, every=every))

    start(threading.Thread(target=run, name="procontext-refresh", daemon=True))


def _serve_http(application: Application, server: "Server", auth: "BearerAuth | None") -> int:
    config = application.config.server
    from jackstay.protocol.http import LOCAL_HOSTS  # noqa: PLC0415  # loaded only for HTTP
    from procontext.status import StatusPage  # noqa: PLC0415  # the same

    names = _own_names(config.host)
    if auth is None:
        is_local = names and names[0] in LOCAL_HOSTS
        callers = "every process on this machine" if is_local else "everyone who can reach this address"
        log_event("auth_disabled", logging.WARNING, detail=f"{callers} can call this server")
    if not (names or config.allowed_hosts):
        log_event(
            "answers_as_localhost_only",
            logging.WARNING,
            detail="only requests with Host localhost are accepted; set server.allowed_hosts to allow other host names",
        )

    metrics = application.metrics
    hosts = (*LOCAL_HOSTS, *names, *config.allowed_hosts)
    page = StatusPage(application.documents, application.describe, hosts, auth)
    logging.getLogger("procontext").addHandler(page.problems)
    # Sessions, because each has its own list of resolved libraries.
    return server.run(
        transport="http",
        host=config.host,
        port=config.port,
        hosts=hosts,
        # Web pages of this machine only, whatever host names the server accepts.
        origins=tuple(f"{scheme}://{host}" for scheme in ("http", "https") for host in LOCAL_HOSTS),
        sessions=True,
        health=True,
        auth=auth,
        wrap_app=lambda app: page.wrap_app(app if metrics is None else metrics.wrap_app(app, auth)),
    )


def _own_names(host: str) -> tuple[str, ...]:
    """Return the host names that a listening address implies; none for a wildcard address."""
    if host in ("0.0.0.0", "::"):  # noqa: S104  # compared with, not bound to
        return ()
    return (f"[{host}]" if ":" in host else host,)


def _auth(config: Config) -> "BearerAuth | None":
    """Return the check of the bearer key, or None. A generated key is printed once, whatever the log level."""
    if not config.server.auth_enabled:
        return None
    from jackstay.server.http import BearerAuth, keys  # noqa: PLC0415  # loaded only for HTTP

    class KeyAuth(BearerAuth):
        """`BearerAuth` that answers 401 for every unusable key, also for a malformed one."""

        async def authenticate(self, method: str, path: str, headers: Mapping[str, str]) -> "Principal | ErrorResponse":
            found = await super().authenticate(method, path, headers)
            if getattr(found, "status", None) == 400:
                return self.challenge(401, "invalid_token", "invalid key")
            return found

    key = config.server.auth_key
    if not key:
        key = secrets.token_urlsafe(32)
        print(
            f"procontext: no server.auth_key is set; the key of this run is {key}",
            file=sys.stderr,
            flush=True,
        )
    try:
        return KeyAuth(keys({"procontext": key}))
    except UsageError as error:
        raise ConfigError("server.auth_key", error.message) from error


__all__ = ["Application", "make_registry", "serve"]
