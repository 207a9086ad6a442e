"""`--print-config`: the configuration of an MCP client for this server.

The command and the directories are absolute paths, because programs started from a desktop have another PATH and
working directory than a shell.
"""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from apcore_mcp.cli._flags import FLAGS, Flag

# The configuration file of each client.
CONFIG_FILES = {
    "claude-desktop": "claude_desktop_config.json (Settings, Developer, Edit Config)",
    "claude-code": ".mcp.json in the project, or: claude mcp add-json NAME 'JSON'",
    "cursor": "~/.cursor/mcp.json, or .cursor/mcp.json in the project",
    "vscode": ".vscode/mcp.json in the project",
    "windsurf": "~/.codeium/windsurf/mcp_config.json",
}

# Flags that are not part of the command that starts the server.
_OMITTED = (
    *("print-config", "print-completion", "check", "export", "strict", "embed-annotations"),
    *("transport", "host", "port"),
)


def client_config(client: str, args: Namespace, directories: Sequence[str], bindings: Sequence[str]) -> str:
    """Return the JSON for a client."""
    if args.transport == "stdio":
        server: dict[str, Any] = {
            "command": sys.executable,
            "args": ["-m", "apcore_mcp", *_arguments(args, directories, bindings)],
        }
    else:
        path = "/sse" if args.transport == "sse" else "/mcp"
        host = "127.0.0.1" if args.host in ("0.0.0.0", "::") else args.host  # noqa: S104  # compared with
        host = f"[{host}]" if ":" in host else host
        server = {"url": f"http://{host}:{args.port}{path}"}
    if client in ("vscode", "claude-code"):
        kind = {"stdio": "stdio", "sse": "sse"}.get(args.transport, "http")
        server = {"type": kind, **server}
    elif client == "windsurf" and "url" in server:
        server = {"serverUrl": server["url"]}
    elif client == "claude-desktop" and "url" in server:
        # Claude Desktop only starts programs; mcp-remote connects stdio to HTTP.
        server = {"command": "npx", "args": ["-y", "mcp-remote", server["url"]]}
    key = "servers" if client == "vscode" else "mcpServers"
    return json.dumps({key: {args.name: server}}, indent=2, ensure_ascii=False)


def _arguments(args: Namespace, directories: Sequence[str], bindings: Sequence[str]) -> list[str]:
    """Return the command line with absolute paths and without default values."""
    absolute = {"extensions-dir": directories, "bindings": bindings}
    arguments: list[str] = []
    for flag in FLAGS:
        if flag.name not in _OMITTED:
            arguments += _to_arguments(flag, absolute.get(flag.name, getattr(args, flag.dest)))
    return arguments


def _to_arguments(flag: Flag, value: Any) -> list[str]:
    if flag.is_many:
        return [argument for item in value for argument in (flag.flag, item)]
    if not flag.metavar:
        return [flag.flag] if value else []
    return [] if value in (None, flag.default) else [flag.flag, value]


__all__ = ["CONFIG_FILES", "client_config"]
