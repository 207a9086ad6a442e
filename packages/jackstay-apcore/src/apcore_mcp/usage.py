"""How often modules are called and by whom, from a `UsageCollector` of apcore, as JSON below the inspector.

`GET .../api/usage` lists the modules and `GET .../api/usage/MODULE` describes one; `?period=24h` is the time span.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, unquote

import msgspec

from apcore_mcp.access import authorize
from apcore_mcp.text import to_utf8
from jackstay.inspector import RequestRejected, respond, respond_error
from jackstay.protocol.http import error_response

if TYPE_CHECKING:
    from jackstay.server.http import App, Asgi, Receive, Scope, Send

# The time span without `period`.
PERIOD: Final = "24h"


def make_usage(app: "App", collector: Any, path: str) -> "Asgi":
    """Return the page at `path`, for callers that may use the endpoint."""

    async def page(scope: "Scope", receive: "Receive", send: "Send") -> None:  # noqa: ARG001  # the ASGI signature
        try:
            await authorize(app, scope)
            if scope["method"] not in ("GET", "HEAD"):
                raise RequestRejected(error_response(405, f"{path} allows only GET"))
            given = parse_qs(scope.get("query_string", b"").decode("latin-1"))
            below = scope["path"].removeprefix(scope.get("root_path", "")).removeprefix(path)
            found = find_usage(collector, unquote(below.strip("/")), given.get("period", [PERIOD])[0])
        except RequestRejected as error:
            await respond_error(send, error.response)
            return
        await respond(send, 200, "application/json", msgspec.json.encode(found, enc_hook=str))

    return page


def find_usage(collector: Any, module_id: str, period: str) -> dict[str, Any]:
    """Return the usage of one module, or of all without an id. Raises: RequestRejected for a bad period."""
    try:
        if module_id:
            return _plain(collector.get_module(module_id, period=period))
        return {"period": period, "modules": [_plain(row) for row in collector.get_summary(period=period)]}
    except ValueError as error:
        raise RequestRejected(error_response(400, to_utf8(str(error))[:200])) from error


def _plain(row: Any) -> dict[str, Any]:
    return dataclasses.asdict(row) if dataclasses.is_dataclass(row) and not isinstance(row, type) else dict(row)


__all__ = ["PERIOD", "find_usage", "make_usage"]
