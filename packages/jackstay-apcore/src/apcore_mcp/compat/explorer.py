"""The explorer of apcore-mcp as routes for a Starlette app: a small page, and its JSON API.

`serve(explorer=True)` and `asgi_app(registry, explorer=True)` have the inspector instead, which needs no Starlette.
"""

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from apcore_mcp.compat.authentication import auth_identity_var, call_authenticator, extract_headers
from apcore_mcp.usage import PERIOD, find_usage
from apcore_mcp.validation import ArgumentRules
from jackstay.inspector import RequestRejected

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Mount, Route

_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>TITLE</title>
<style>body{font:1rem/1.5 system-ui;margin:2rem;max-width:60rem}textarea{width:100%;height:8rem}
.curl-block,.resp-pane{overflow-x:auto;padding:.5rem;border:1px solid}.curl-section{margin-top:1rem}
.copy-btn{float:right}.resp-header{font-weight:bold}.resp-tab[aria-pressed=true]{text-decoration:underline}</style>
<h1>TITLE</h1><p class="auth-bar"><label>Authorization: Bearer <input id="auth-token" type="password"></label></p>
<p><label>Tool <select id="tool"></select></label></p><p id="description"></p>
<textarea id="arguments" aria-label="Arguments as JSON">{}</textarea>
<p><button data-action="validate">Validate</button> <button data-action="call">Call</button></p>
<div class="curl-section"><button class="copy-btn">Copy</button><pre class="curl-block" id="curl"></pre></div>
<p class="resp-header"><span id="status"></span> <button class="resp-tab" data-pane="result" aria-pressed="true">Body
</button> <button class="resp-tab" data-pane="headers" aria-pressed="false">Headers</button></p>
<pre class="resp-pane" id="result"></pre><pre class="resp-pane" id="headers" hidden></pre>
<script>
const at = (id) => document.getElementById(id);
const base = location.pathname.replace(/\\/$/, "");
const tools = new Map();
fetch(base + "/tools").then((response) => response.json()).then((rows) => {
  for (const row of rows) { tools.set(row.name, row); at("tool").append(new Option(row.name)); }
  at("tool").dispatchEvent(new Event("change"));
});
at("tool").onchange = () => { at("description").textContent = tools.get(at("tool").value)?.description ?? ""; };
const quoted = (text) => "'" + text.replaceAll("'", "'\\\\''") + "'";
for (const button of document.querySelectorAll("[data-action]")) button.onclick = async () => {
  const headers = {"Content-Type": "application/json"};
  if (at("auth-token").value) headers.Authorization = "Bearer " + at("auth-token").value;
  const url = `${base}/tools/${encodeURIComponent(at("tool").value)}/${button.dataset.action}`;
  at("curl").textContent = ["curl -X POST", quoted(location.origin + url),
    ...Object.entries(headers).map(([name, value]) => "-H " + quoted(`${name}: ${value}`)),
    "-d", quoted(at("arguments").value)].join(" ");
  const response = await fetch(url, {method: "POST", headers, body: at("arguments").value});
  at("status").textContent = response.status;
  at("headers").textContent = [...response.headers].map((row) => row.join(": ")).join("\\n");
  at("result").textContent = JSON.stringify(await response.json(), null, 2);
};
document.querySelector(".copy-btn").onclick = () => navigator.clipboard.writeText(at("curl").textContent);
for (const tab of document.querySelectorAll(".resp-tab")) tab.onclick = () => {
  for (const other of document.querySelectorAll(".resp-tab")) {
    other.setAttribute("aria-pressed", other === tab);
    at(other.dataset.pane).hidden = other !== tab;
  }
};
</script></html>
"""


def create_explorer_mount(
    tools: Sequence[Any],
    router: Any,
    *,
    allow_execute: bool = False,
    explorer_prefix: str = "/explorer",
    authenticator: Any = None,
    title: str = "MCP Tool Explorer",
    project_name: str | None = None,
    project_url: str | None = None,  # noqa: ARG001  # the page has no links
) -> "Mount":
    """Return a Starlette mount with the page and its API. Calls need an identity if there is an `authenticator`."""
    from starlette.responses import HTMLResponse  # noqa: PLC0415  # only here
    from starlette.routing import Mount, Route  # noqa: PLC0415

    page = _PAGE.replace("TITLE", html.escape(f"{title}: {project_name}" if project_name else title))

    async def show_page(_: "Request") -> HTMLResponse:
        return HTMLResponse(page)

    api = _Api(tools, router, authenticator, allow_execute=allow_execute)
    routes = [
        Route("/", show_page),
        Route("/tools", api.list_tools),
        Route("/tools/{name}", api.show_tool),
        Route("/tools/{name}/validate", api.validate, methods=["POST"]),
        Route("/tools/{name}/call", api.call, methods=["POST"]),
    ]
    return Mount(explorer_prefix, routes=routes)


class _Api:
    """The JSON API of the page."""

    def __init__(self, tools: Sequence[Any], router: Any, authenticator: Any, *, allow_execute: bool) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._router = router
        self._authenticator = authenticator
        self._allows_calls = allow_execute

    async def list_tools(self, _: "Request") -> "JSONResponse":
        return _respond([_summary(tool) for tool in self._tools.values()])

    async def show_tool(self, request: "Request") -> "JSONResponse":
        tool = self._tools.get(request.path_params["name"])
        if tool is None:
            return _respond({"error": "unknown tool"}, 404)
        return _respond({**_summary(tool), "inputSchema": tool.inputSchema})

    async def validate(self, request: "Request") -> "JSONResponse":
        tool = self._tools.get(request.path_params["name"])
        if tool is None:
            return _respond({"error": "unknown tool"}, 404)
        arguments = await _arguments(request)
        if arguments is None:
            return _respond({"error": "the body must be a JSON object"}, 400)
        rows = ArgumentRules(tool.inputSchema).problems(arguments)
        errors = [{"path": f"/{field.replace('.', '/')}", "message": f"{field}: {text}"} for field, text, _ in rows]
        return _respond({"valid": False, "errors": errors} if errors else {"valid": True})

    async def call(self, request: "Request") -> "JSONResponse":
        name = request.path_params["name"]
        if not self._allows_calls:
            return _respond({"error": "calls are disabled: use allow_execute=True"}, 403)
        if name not in self._tools:
            return _respond({"error": "unknown tool"}, 404)
        identity = None
        if self._authenticator is not None:
            identity = await call_authenticator(self._authenticator, extract_headers(request.scope))
            if identity is None:
                return _respond({"error": "Unauthorized"}, 401)
        arguments = await _arguments(request)
        if arguments is None:
            return _respond({"error": "the body must be a JSON object"}, 400)
        reset = auth_identity_var.set(identity)
        try:
            content, is_error, trace_id = await self._router.handle_call(name, arguments)
        finally:
            auth_identity_var.reset(reset)
        result = {"content": content, "isError": is_error}
        if trace_id is not None:
            result["_meta"] = {"_trace_id": trace_id}
        return _respond(result, 500 if is_error else 200)


def _respond(content: Any, status: int = 200) -> "JSONResponse":
    from starlette.responses import JSONResponse  # noqa: PLC0415  # only here

    return JSONResponse(content, status)


def create_usage_routes(collector: Any, *, prefix: str = "/explorer") -> "list[Route]":
    """Return two Starlette routes with the usage of all modules, and of one, as JSON."""
    from starlette.routing import Route  # noqa: PLC0415  # only here

    async def show(request: "Request") -> "JSONResponse":
        period = request.query_params.get("period", PERIOD)
        try:
            return _respond(find_usage(collector, request.path_params.get("module_id", ""), period))
        except RequestRejected:
            return _respond({"error": f"invalid period: {period[:50]!r}"}, 400)

    path = f"{prefix.rstrip('/')}/api/usage"
    return [Route(path, show), Route(f"{path}/{{module_id:path}}", show)]


def _summary(tool: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"name": tool.name, "description": tool.description}
    hints = tool.annotations
    if hints is not None:
        dump = getattr(hints, "model_dump", None)
        values: Mapping[str, Any] = dump(exclude_none=True) if callable(dump) else dict(hints)
        found["annotations"] = {name: value for name, value in values.items() if value is not None}
    return found


async def _arguments(request: "Request") -> dict[str, Any] | None:
    """Return the body; None unless it is a JSON object with that type, which a page of another site cannot send."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return None
    try:
        found = await request.json()
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


__all__ = ["create_explorer_mount", "create_usage_routes"]
