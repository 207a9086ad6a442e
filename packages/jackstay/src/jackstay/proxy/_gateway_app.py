"""The ASGI app of a gateway: selects the host for a request by its path and its caller, and serves metrics."""

import asyncio
import re
from typing import TYPE_CHECKING, Final

import msgspec

from jackstay.protocol.http import ErrorResponse, fold_headers
from jackstay.proxy._gateway_config import EVERYTHING, NOTHING, RULE, Rule
from jackstay.proxy._pages import METRICS_PATH, Pages
from jackstay.server.http import App, Guard, HttpOptions, Receive, Scope, Send

if TYPE_CHECKING:
    from jackstay.proxy._gateway import Gateway

_SERVER = re.compile(r"/servers/([^/]+)/mcp/?")
_PREFIX: Final = "jackstay_gateway"


class GatewayApp(App):
    """Serves the catalogue at the path of the endpoint, and each server at `/servers/NAME/mcp`."""

    def __init__(self, gateway: "Gateway", options: HttpOptions, guard: Guard | None = None) -> None:
        super().__init__(gateway, options, guard)
        self._gateway = gateway
        # The apps of other hosts than the gateway itself, by rule and server.
        self._others: dict[tuple[Rule, str], App] = {}
        self._pages = Pages(self, {METRICS_PATH: self._metrics}, super().__call__)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan of the process."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        path: str = scope["path"]
        found = _SERVER.fullmatch(path)
        name = found[1] if found is not None and found[1] in self._gateway.running else ""
        rule = EVERYTHING if self._gateway.config.rules is None else await self._rule(scope)
        if name and rule != NOTHING and not rule.has_server(name):
            name = ""  # as a server that does not exist; with NOTHING the caller may have to authenticate first
        if not name and path.rstrip("/") != self.options.path.rstrip("/"):
            RULE.set(rule)
            await self._pages(scope, receive, send)
            return
        if rule == EVERYTHING and not name:
            await super().__call__(scope, receive, send)
        else:
            app = await self._app_for(rule, name)
            await app(scope, receive, send)

    async def _rule(self, scope: Scope) -> Rule:
        if self.guard is None:
            return NOTHING
        headers = fold_headers(scope["headers"])
        caller = await self.guard.authenticate(scope["method"], scope["path"], headers)
        # A refused caller gets the refusal from an app that has nothing to show.
        return NOTHING if isinstance(caller, ErrorResponse) else self._gateway.config.rule_for(caller.id)

    async def _app_for(self, rule: Rule, name: str) -> App:
        app = self._others.get((rule, name))
        if app is None:
            path = f"/servers/{name}/mcp" if name else self.options.path
            options = msgspec.structs.replace(self.options, path=path, health=False)
            app = self._others[rule, name] = App(self._gateway.host(rule, name), options, self.guard)
            await app.lifecycle.start()
        return app

    async def drain(self) -> None:
        """Drain all hosts, as `App.drain`."""
        for app in self._others.values():
            app.refuse_new()
        await asyncio.gather(super().drain(), *(app.drain() for app in self._others.values()))

    async def _metrics(self) -> str:
        checked = await self._gateway.check_servers(RULE.get())
        gauges = (
            ("server_up", "gauge", "1 while the server responds.", [state == "ok" for _, (state, _) in checked]),
            ("server_restarts_total", "counter", "Restarts of the server.", [row.restarts for row, _ in checked]),
            ("in_flight", "gauge", "Calls in flight.", [row.in_flight for row, _ in checked]),
            ("tools", "gauge", "Tools that are listed.", [row.tools for row, _ in checked]),
        )
        lines: list[str] = []
        names = [row.config.name for row, _ in checked]
        for metric, kind, meaning, values in gauges:
            lines += _head(metric, kind, meaning)
            lines += [
                f'{_PREFIX}_{metric}{{server="{name}"}} {int(value)}' for name, value in zip(names, values, strict=True)
            ]
        lines += _head("calls_total", "counter", "Calls that ended, by server, method and outcome.")
        for row, _ in checked:
            for (method, outcome), number in sorted(row.proxy._report.calls.items()):
                labels = f'server="{row.config.name}",method="{method}",outcome="{outcome}"'
                lines.append(f"{_PREFIX}_calls_total{{{labels}}} {number}")
        lines += _head("call_seconds_total", "counter", "Duration of all calls together, by server and method.")
        for row, _ in checked:
            for method, seconds in sorted(row.proxy._report.seconds.items()):
                labels = f'server="{row.config.name}",method="{method}"'
                lines.append(f"{_PREFIX}_call_seconds_total{{{labels}}} {seconds:.6f}")
        return "\n".join([*lines, ""])


def _head(name: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP {_PREFIX}_{name} {meaning}", f"# TYPE {_PREFIX}_{name} {kind}"]
