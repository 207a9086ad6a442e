"""A request of the page as text to copy: Python, a pytest test, a shell command, curl or JSON-RPC."""

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from jackstay.errors import UsageError
from jackstay.transport import StdioTarget, Target


class Snippet(msgspec.Struct, frozen=True):
    """A request to a server: its method and params, and the protocol version of the connection.

    `chosen_version` is the one that the user chose, or empty if it was negotiated.
    """

    target: Target
    method: str
    params: dict[str, Any]
    version: str
    chosen_version: str = ""


def make_snippet(format: str, snippet: Snippet) -> str:
    """Return the request in this format. Raises: UsageError for an unknown format, or one without a meaning here."""
    if format not in FORMATS:
        raise UsageError(f"unknown format {format!r}; use one of {', '.join(FORMATS)}", path="format")
    return FORMATS[format](snippet)


def _json_rpc(snippet: Snippet) -> str:
    return json.dumps(_message(snippet), indent=2, ensure_ascii=False) + "\n"


def _message(snippet: Snippet) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": snippet.method, "params": snippet.params}


def _curl(snippet: Snippet) -> str:
    url = _url(snippet.target)
    if url is None:
        raise UsageError("curl needs a server at a URL; this one is a command", path="format")
    name = snippet.params.get("name", snippet.params.get("uri", ""))
    message = _message(snippet)
    if snippet.version >= "2026-07-28":
        # A stateless request has everything that it needs (2026-07-28 basic/transports/streamable-http).
        headers = {"MCP-Protocol-Version": snippet.version, "Mcp-Method": snippet.method}
        if name:
            headers["Mcp-Name"] = str(name)
        meta = {
            "io.modelcontextprotocol/protocolVersion": snippet.version,
            "io.modelcontextprotocol/clientInfo": _CURL,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        message["params"] = {**snippet.params, "_meta": meta}
        return f"curl {_curl_words(url, headers, message)}\n"
    # Earlier revisions: the handshake, whose response may have a session (2025-11-25 basic/transports). curl leaves out
    # a header without a value.
    version = {"MCP-Protocol-Version": snippet.version}
    params = {"protocolVersion": snippet.version, "capabilities": {}, "clientInfo": _CURL}
    start = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    session = '-H "Mcp-Session-Id: $session"'
    return (
        f"session=$(curl -s -o /dev/null -D - {_curl_words(url, {}, start)} |\n"
        "  tr -d '\\r' | awk 'tolower($1) == \"mcp-session-id:\" {print $2}')\n"
        f"curl -s {session} {_curl_words(url, version, ready)}\n"
        f"curl {session} {_curl_words(url, version, message)}\n"
    )


_CURL: Final = {"name": "curl", "version": "1"}


def _curl_words(url: str, headers: dict[str, str], message: dict[str, Any]) -> str:
    """Return the arguments of curl that send a message."""
    every = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
    lines = [shlex.quote(url)]
    lines += [f"-H {shlex.quote(f'{header}: {value}')}" for header, value in every.items()]
    lines.append(f"-d {shlex.quote(json.dumps(message, ensure_ascii=False))}")
    return " \\\n  ".join(lines)


def _shell(snippet: Snippet) -> str:
    """Return the `jackstay` command for the request."""
    params, target = snippet.params, snippet.target
    url = _url(target)
    server = [] if url is None else [url]
    if snippet.method == "tools/call":
        arguments = json.dumps(params.get("arguments", {}), ensure_ascii=False)
        words = ["call", *server, str(params.get("name")), "--arguments", arguments]
    elif snippet.method == "resources/read":
        words = ["read", *server, str(params.get("uri"))]
    elif snippet.method == "prompts/get":
        pairs = [f"{key}={value}" for key, value in params.get("arguments", {}).items()]
        words = ["prompts", *server, "get", str(params.get("name")), *pairs]
    else:
        raise UsageError(f"there is no jackstay command for {snippet.method!r}", path="format")
    if snippet.chosen_version:
        words += ["--protocol", snippet.chosen_version]
    if isinstance(target, StdioTarget):
        words += ["--", target.command, *target.arguments]
    return shlex.join(["jackstay", *words]) + "\n"


def _python(snippet: Snippet) -> str:
    return (
        "import asyncio\n\n"
        f"{_imports(snippet.target)}\n\n"
        "async def main() -> None:\n"
        f"    async with connect({_connection(snippet)}) as client:\n"
        f"        result = await {_call(snippet)}\n"
        "        print(result)\n\n\n"
        "asyncio.run(main())\n"
    )


def _pytest(snippet: Snippet) -> str:
    name = str(snippet.params.get("name", snippet.params.get("uri", snippet.method)))
    words = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name).strip("_").lower()
    check = {
        "tools/call": "assert not result.is_error, result.error_text",
        "resources/read": "assert result.contents",
        "prompts/get": "assert result.messages",
    }.get(snippet.method, "assert result is not None")
    return (
        "import asyncio\n\n"
        f"{_imports(snippet.target)}\n\n"
        f"def test_{words or 'request'}() -> None:\n"
        "    async def run() -> None:\n"
        f"        async with connect({_connection(snippet)}) as client:\n"
        f"            result = await {_call(snippet, is_test=True)}\n"
        f"            {check}\n\n"
        "    asyncio.run(run())\n"
    )


def _imports(target: Target) -> str:
    names = "connect, stdio" if isinstance(target, StdioTarget) else "connect"
    return f"from jackstay import {names}\n"


def _connection(snippet: Snippet) -> str:
    """Return the arguments of `connect()`."""
    versions = f", versions=({snippet.chosen_version!r},)" if snippet.chosen_version else ""
    return f"{_target(snippet.target)}{versions}"


def _target(target: Target) -> str:
    if isinstance(target, StdioTarget):
        return f"stdio({', '.join(repr(word) for word in (target.command, *target.arguments))})"
    return repr(_url(target) or target.name)


def _call(snippet: Snippet, *, is_test: bool = False) -> str:
    params = snippet.params
    if snippet.method == "tools/call":
        more = ", raise_on_error=False" if is_test else ""
        return f"client.tools.call({params.get('name')!r}, {params.get('arguments', {})!r}{more})"
    if snippet.method == "resources/read":
        return f"client.resources.read({params.get('uri')!r})"
    if snippet.method == "prompts/get":
        return f"client.prompts.get({params.get('name')!r}, {params.get('arguments', {})!r})"
    return f"client.submit({snippet.method!r}, {params!r})"


def _url(target: Target) -> str | None:
    """Return the URL of a server over HTTP, without its query, which may contain a key."""
    url: str | None = getattr(target, "url", None)
    return None if url is None else url.partition("?")[0]


# The formats by name.
FORMATS: Final[Mapping[str, Callable[[Snippet], str]]] = {
    "python": _python,
    "pytest": _pytest,
    "shell": _shell,
    "curl": _curl,
    "json-rpc": _json_rpc,
}
