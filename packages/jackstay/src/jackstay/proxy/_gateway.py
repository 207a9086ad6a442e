"""`Gateway`: many servers behind one endpoint, as one catalogue and each on its own.

Each server has a proxy. A host is a `Server` in which some of the proxies are mounted: all of them for the catalogue,
one of them for the server's own path. Callers that may not use everything get hosts of their own, so that lists are
prepared for each class of callers.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Unpack

from jackstay._signatures import shows
from jackstay.errors import Json, McpError, UsageError
from jackstay.proxy._gateway_config import EVERYTHING, RULE, GatewayConfig, Rule, UpstreamConfig, read_gateway
from jackstay.proxy._proxy import HTTP_CLOSE_STEP, HTTP_SHUTDOWN, STDIO_CLOSE_STEP, Proxy
from jackstay.server import CAPABILITIES, Mount, Server, mount_servers, share_bus, share_numbers, unmount, with_stores
from jackstay.transport import kill_children

if TYPE_CHECKING:
    from jackstay.server.http import App, Asgi, Guard, HttpKeywords, Principal, RunHttpKeywords, TokenVerifier

logger = logging.getLogger("jackstay.proxy")

# How often the configuration file is checked for changes, and a server that was removed for calls in flight.
RELOAD_INTERVAL = 1.0
DRAIN_INTERVAL = 0.1


class Verifier:
    """Delegates to the verifiers of the current configuration."""

    def __init__(self, verifiers: "list[TokenVerifier]") -> None:
        self.current = verifiers

    async def verify(self, token: str) -> "Principal | None":
        """Return the principal of this key or token, or None."""
        for verifier in self.current:
            found = await verifier.verify(token)
            if found is not None:
                return found
        return None


class Running:
    """A server behind the gateway, as it was configured when it was started."""

    def __init__(self, config: UpstreamConfig, close_step: float) -> None:
        self.config = config
        self.proxy = Proxy(config.target, config.options, settings={"close_step": close_step})

    def __repr__(self) -> str:
        return f"<Running {self.config.name} {self.proxy!r}>"

    @property
    def in_flight(self) -> int:
        """The number of calls in flight."""
        return sum(len(upstream.in_flight) for upstream in self.proxy._eras.all)

    @property
    def restarts(self) -> int:
        """How many times the server was restarted."""
        return sum(max(0, upstream.starts - 1) for upstream in self.proxy._eras.all)

    @property
    def tools(self) -> int:
        """The number of tools that the gateway lists."""
        return sum(map(self.config.allows, self.proxy.catalogue.tools))

    def adopt(self, before: "Running") -> None:
        """Continue what clients subscribed to at the connections that this server replaces."""
        eras, others = self.proxy._eras, before.proxy._eras
        for other, is_stateless in ((others.first, True), (others.second, False)):
            if other is not None:
                eras.find(is_stateless=is_stateless).adopt(other)

    async def check(self) -> tuple[str, str]:
        """Return the state (`ok`, `down` or `unresponsive`) and its cause."""
        first, mirror = self.proxy._eras.first, self.proxy._mirror
        if first is None:
            return "down", "not started"
        state, cause = await first.check()
        return state, cause or ("" if mirror is None else mirror.cause)


class Gateway(Server):
    """A server that serves all servers of a configuration file. Run it, or mount it, like any `Server`.

    Args:
        path: the configuration file (`docs/guides/gateway.md`). It is read again when it changes.
        environment: provides the variables in the file; default: `os.environ`.

    Raises: UsageError that names file and key.
    """

    def __init__(self, path: str | os.PathLike[str], *, environment: Mapping[str, str] | None = None) -> None:
        self.path = os.fspath(path)
        self._environment = environment
        self.config = read_gateway(path, environment=environment)
        # Declared in any case: while a reload replaces all servers, there are none for a moment.
        super().__init__(self.config.name, shutdown_timeout=HTTP_SHUTDOWN, capabilities=CAPABILITIES)
        self._file = _fingerprint(self.path)
        self._close_step = HTTP_CLOSE_STEP
        self._verifier: Verifier | None = None
        self.running = {name: Running(row, self._close_step) for name, row in self.config.upstreams.items()}
        # Hosts by their rule and the name of their only server; empty for the catalogue.
        self._hosts: dict[tuple[Rule, str], Server] = {(EVERYTHING, ""): self}
        self._retiring: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        for running in self.running.values():
            self._mount(self, running, EVERYTHING, "")
        self.on_startup(self._watch)
        self.on_shutdown(self._stop_watching)

    def __repr__(self) -> str:
        return f"<Gateway {self.path}: {', '.join(self.running)}>"

    # --- hosts --------------------------------------------------------------------------------------------------------

    def host(self, rule: Rule, name: str = "") -> Server:
        """Return the server for callers with this rule: the catalogue, or one server on its own."""
        found = self._hosts.get((rule, name))
        if found is None:
            found = self._hosts[rule, name] = Server(name or self.name)
            share_numbers(found, self)
            share_bus(found, self)
            mount_servers(found, ())
            for running in self.running.values():
                self._mount(found, running, rule, name)
        return found

    def _mount(self, host: Server, running: Running, rule: Rule, name: str, replaced: Mount | None = None) -> None:
        config = running.config
        if not rule.has_server(config.name) or name not in ("", config.name):
            return
        mount = running.proxy._make_mount(host, "" if name else config.prefix, "_")
        if replaced is not None:
            mount.blocks = replaced.blocks  # the same place in the lists
        mount.transform(config.transforms)
        mount.allows = lambda tool: config.allows(tool) and rule.has_tool(config.catalogue_name(tool))
        mount_servers(host, [mount])

    def _make_mount(self, host: Server, prefix: str, separator: str) -> Mount:
        """Return a mount of the catalogue. Raises: UsageError if the gateway authenticates its callers."""
        if self.config.has_auth:
            raise UsageError(
                f"{self.path} has [keys] or [jwt], which do not apply to a gateway that is mounted: remove them, and "
                "use the authentication of the server in which it is mounted",
                path="other",
            )
        return super()._make_mount(host, prefix, separator)

    # --- serving ------------------------------------------------------------------------------------------------------

    @shows("jackstay.server.http:HttpOptions", "jackstay.server.http:RunOptions")
    def run(
        self,
        *,
        transport: str = "stdio",
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
        exit_process: Callable[[int], object] = os._exit,
        wrap_app: "Callable[[App], Asgi] | None" = None,
        **options: "Unpack[RunHttpKeywords]",
    ) -> int:
        """Run like `Server.run`. Over HTTP, sessions and `/health` are on by default.

        Raises: the errors of `Server.run`.
        """
        if transport == "stdio":
            self._close_step = STDIO_CLOSE_STEP
            for running in self.running.values():
                running.proxy._settings["close_step"] = STDIO_CLOSE_STEP
        else:
            options.setdefault("sessions", True)
            options.setdefault("health", True)
            if self.config.has_auth:
                self._verifier = Verifier(self.config.verifiers())
                options.setdefault("auth", self.config.auth(self._verifier))

        def kill_and_exit(code: int) -> object:
            kill_children()  # a second signal, or the shutdown timed out
            return exit_process(code)

        return super().run(
            transport=transport, loop_factory=loop_factory, exit_process=kill_and_exit, wrap_app=wrap_app, **options
        )

    @shows("jackstay.server.http:HttpOptions")
    def asgi(self, *, guard: "Guard | None" = None, **options: "Unpack[HttpKeywords]") -> "App":
        """Return the app of the gateway: `/mcp`, `/servers/NAME/mcp`, `/metrics`, and `/health` if it is on."""
        from jackstay.proxy._gateway_app import GatewayApp  # noqa: PLC0415  # only over HTTP
        from jackstay.server.http import make_http_options  # noqa: PLC0415  # only over HTTP

        if self.config.has_auth and "auth" not in options and guard is None:
            self._verifier = Verifier(self.config.verifiers())
            options["auth"] = self.config.auth(self._verifier)
        app = GatewayApp(self, make_http_options(**with_stores(self._backend, options)), guard)
        self._apps.add(app)
        app.check_health_with(self.check_health)
        return app

    async def check_health(self) -> tuple[str, Mapping[str, Json]]:
        """Return the state of the gateway, which is `ok` while it serves, and the state of each visible server."""
        servers: dict[str, Json] = {}
        for running, (state, cause) in await self.check_servers(RULE.get()):
            row: dict[str, Json] = {"state": state, "restarts": running.restarts, "tools": running.tools}
            servers[running.config.name] = {**row, "cause": cause.splitlines()[0][:200]} if cause else row
        return "ok", {"servers": servers}

    async def check_servers(self, rule: Rule = EVERYTHING) -> list[tuple[Running, tuple[str, str]]]:
        """Return each server of the rule with its state and the cause of any other than `ok`."""
        rows = [running for running in self.running.values() if rule.has_server(running.config.name)]
        checks = await asyncio.gather(*(running.check() for running in rows))
        return list(zip(rows, checks, strict=True))

    # --- reloading ----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        self._watching = asyncio.get_running_loop().create_task(self._reload_on_change())

    async def _stop_watching(self) -> None:
        hosts = [host for host in self._hosts.values() if host is not self]
        tasks = [task for task in (self._watching, *self._retiring) if task is not None]
        for task in tasks:
            task.cancel()
        # A server that was started by a reload has the gateway as a user, besides its mounts.
        servers = [running.proxy.shutdown(running) for running in self.running.values()]
        await asyncio.gather(*tasks, *servers, *(host.shutdown() for host in hosts), return_exceptions=True)

    async def _reload_on_change(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_INTERVAL)
            found = _fingerprint(self.path)
            if found is not None and found != self._file:
                self._file = found
                await self.reload()

    async def reload(self) -> None:
        """Read the file again and apply the changes. An invalid file is reported in the log and changes nothing.

        Servers that did not change continue. A changed server is replaced when the new one is ready; the calls in
        flight at the old one are completed. Subscriptions and log levels continue at the new one.
        """
        try:
            config = read_gateway(self.path, environment=self._environment)
            if config.has_auth != self.config.has_auth and self._apps:
                raise UsageError(f"{self.path}: to add or remove keys and jwt, restart the gateway", path="keys")
            verifiers = config.verifiers() if self._verifier is not None else []
        except McpError as error:
            logger.error("the configuration was not reloaded: %s", error)
            return
        before, self.config = self.config, config
        if self._verifier is not None:
            self._verifier.current = verifiers
        changed = [name for name, row in config.upstreams.items() if _entry(before, name) != row.entry]
        removed = [name for name in before.upstreams if name not in config.upstreams]
        fresh = {name: Running(config.upstreams[name], self._close_step) for name in changed}
        for name in removed:
            self._retire(self.running.pop(name))
        for running in fresh.values():
            running.proxy._mirror_lists()
        await asyncio.gather(*(running.proxy.startup(running) for running in fresh.values()))
        for name, running in fresh.items():
            self._replace(name, running)
        self.running = {name: self.running[name] for name in config.upstreams if name in self.running}
        logger.warning(
            "the configuration was reloaded: %d servers added or changed, %d removed", len(changed), len(removed)
        )

    def _replace(self, name: str, running: Running) -> None:
        before = self.running.get(name)
        self.running[name] = running
        mounts = () if before is None else self._retire(before)
        for (rule, only), host in list(self._hosts.items()):
            replaced = next((mount for mount in mounts if mount.host is host), None)
            self._mount(host, running, rule, only, replaced)
        if before is not None:
            running.adopt(before)

    def _retire(self, running: Running) -> tuple[Mount, ...]:
        """Remove a server from all hosts, and stop it when its calls have ended. Returns its mounts."""
        mounts = unmount(running.proxy)
        task = asyncio.get_running_loop().create_task(self._stop_when_idle(running))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)
        return mounts

    async def _stop_when_idle(self, running: Running) -> None:
        try:
            while running.in_flight:
                await asyncio.sleep(DRAIN_INTERVAL)
        finally:
            await running.proxy.shutdown()


def _entry(config: GatewayConfig, name: str) -> Mapping[str, Json] | None:
    row = config.upstreams.get(name)
    return None if row is None else row.entry


def _fingerprint(path: str) -> tuple[int, int, int] | None:
    """Return what changes when a file is written; None if there is no file, for example while an editor replaces it."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
