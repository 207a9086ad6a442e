"""`--print-config`: what to put into a client's configuration so that it starts, or finds, this server.

Programs that are started from a desktop have another PATH and another directory than a shell, so the command is spelled out
whole and directories are absolute.

Pure. Above: `_main`. Below: nothing.
"""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from apcore_mcp.cli._flags import FLAGS, Flag

# Where each client keeps it.
PLACES = {
    "claude-desktop": "claude_desktop_config.json (Settings, Developer, Edit Config)",
    "claude-code": ".mcp.json in the project, or: claude mcp add-json NAME 'JSON'",
    "cursor": "~/.cursor/mcp.json, or .cursor/mcp.json in the project",
    "vscode": ".vscode/mcp.json in the project",
    "windsurf": "~/.codeium/windsurf/mcp_config.json",
}

# These say nothing of the server, or of where it listens.
_LEFT_OUT = (
    *("print-config", "print-completion", "check", "export", "strict", "embed-annotations"),
    *("transport", "host", "port"),
)


def client_config(client: str, said: Namespace, directories: Sequence[str], bindings: Sequence[str]) -> str:
    """The JSON for this client."""
    if said.transport == "stdio":
        server: dict[str, Any] = {
            "command": sys.executable,
            "args": ["-m", "apcore_mcp", *_arguments(said, directories, bindings)],
        }
    else:
        path = "/sse" if said.transport == "sse" else "/mcp"
        host = "127.0.0.1" if said.host in ("0.0.0.0", "::") else said.host  # noqa: S104  # compared with
        host = f"[{host}]" if ":" in host else host
        server = {"url": f"http://{host}:{said.port}{path}"}
    if client in ("vscode", "claude-code"):
        kind = {"stdio": "stdio", "sse": "sse"}.get(said.transport, "http")
        server = {"type": kind, **server}
    elif client == "windsurf" and "url" in server:
        server = {"serverUrl": server["url"]}
    elif client == "claude-desktop" and "url" in server:
        # It starts programs only; this one carries stdio to HTTP.
        server = {"command": "npx", "args": ["-y", "mcp-remote", server["url"]]}
    key = "servers" if client == "vscode" else "mcpServers"
    return json.dumps({key: {said.name: server}}, indent=2, ensure_ascii=False)


def _arguments(said: Namespace, directories: Sequence[str], bindings: Sequence[str]) -> list[str]:
    """The command line again, with whole paths and without what is as it would be anyway."""
    whole = {"extensions-dir": directories, "bindings": bindings}
    made: list[str] = []
    for flag in FLAGS:
        if flag.name not in _LEFT_OUT:
            made += _say(flag, whole.get(flag.name, getattr(said, flag.dest)))
    return made


def _say(flag: Flag, value: Any) -> list[str]:
    if flag.is_many:
        return [word for one in value for word in (flag.flag, one)]
    if not flag.metavar:
        return [flag.flag] if value else []
    return [] if value in (None, flag.default) else [flag.flag, value]


__all__ = ["PLACES", "client_config"]
