"""`--print-config`, `--install` and `--uninstall`: this server in the configuration of an MCP client.

The command and the directories are absolute paths, because programs started from a desktop have another PATH and
working directory than a shell.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apcore_mcp.cli._flags import FLAGS, UNLISTED, Flag
from jackstay.shell import HostedServer, config_text, find_host, to_entry

# Flags that are not part of the command that starts the server.
_OMITTED = (
    *("install", "uninstall", "dry-run", "print-config", "print-completion"),
    *("check", "export", "strict", "embed-annotations"),
    *("transport", "host", "port"),
    # Access over HTTP; the program that starts a server over stdio is its only client.
    *("jwt-secret", "jwt-key-file", "jwt-algorithm", "jwt-audience", "jwt-issuer", "jwt-require-auth"),
    *("no-jwt-require-auth", "exempt-paths"),
)


def client_config(client: str, args: Namespace, directories: Sequence[str], bindings: Sequence[str]) -> str:
    """Return the configuration for a client, in the format of its file."""
    host = find_host(client)
    entry = to_entry(host, args.name, hosted_server(args, directories, bindings))
    if args.transport == "sse" and "type" in entry:
        entry["type"] = "sse"
    return config_text(host, args.name, entry)


def hosted_server(args: Namespace, directories: Sequence[str], bindings: Sequence[str]) -> HostedServer:
    """Return the command or the URL of this server."""
    if args.transport == "stdio":
        return HostedServer((sys.executable, "-m", "apcore_mcp", *_arguments(args, directories, bindings)))
    path = "/sse" if args.transport == "sse" else "/mcp"
    address = "127.0.0.1" if args.host in ("0.0.0.0", "::") else args.host  # noqa: S104  # compared with
    address = f"[{address}]" if ":" in address else address
    return HostedServer(url=f"http://{address}:{args.port}{path}")


def _arguments(args: Namespace, directories: Sequence[str], bindings: Sequence[str]) -> list[str]:
    """Return the command line with absolute paths and without default values."""
    document = args.from_openapi
    if document and "://" not in document:
        document = str(Path(document).absolute())
    absolute = {"extensions-dir": directories, "bindings": bindings, "from-openapi": document}
    arguments: list[str] = []
    for flag in (*FLAGS, *UNLISTED):
        if flag.name not in _OMITTED:
            arguments += _to_arguments(flag, absolute.get(flag.name, getattr(args, flag.dest)))
    return arguments


def _to_arguments(flag: Flag, value: Any) -> list[str]:
    if flag.is_many:
        return [argument for item in value for argument in (flag.flag, item)]
    if not flag.metavar:
        return [flag.flag] if value else []
    return [] if value in (None, flag.default) else [flag.flag, value]


__all__ = ["client_config", "hosted_server"]
