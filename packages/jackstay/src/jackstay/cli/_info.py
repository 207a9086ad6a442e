"""`jackstay info`: the name, revision, capabilities and instructions of a server."""

from argparse import ArgumentParser, Namespace

from jackstay.cli import _target
from jackstay.cli._output import print_json
from jackstay.cli._running import with_client
from jackstay.client import Client
from jackstay.shell import BOLD, GREEN, Screen, escape_controls


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    _target.add_arguments(parser, "", "https://example.org/mcp", "--config mcp.json git", "-- uvx mcp-server-git")


def run(arguments: Namespace) -> int:
    """Print the server's description of itself."""
    selected = _target.select_only_server(arguments)

    async def work(client: Client) -> None:
        info, capabilities = client.server_info, client.server_capabilities.raw
        if arguments.json:
            print_json(
                {
                    "serverInfo": None if info is None else info.raw,
                    "protocolVersion": client.protocol_version,
                    "capabilities": capabilities,
                    "instructions": client.instructions,
                }
            )
            return
        screen = Screen()
        name = (
            "unnamed server" if info is None else escape_controls(f"{info.title or info.name} {info.version}".strip())
        )
        screen.print_line(screen.paint(name, f"{BOLD};{GREEN}"))
        screen.print_line(f"protocol: {client.protocol_version}")
        names = [_describe(key, value) for key, value in capabilities.items()]
        screen.print_wrapped(f"capabilities: {', '.join(names) or 'none'}")
        if client.instructions:
            screen.print_line()
            screen.print_wrapped(client.instructions)

    return with_client(arguments, selected, work)


def _describe(name: str, value: object) -> str:
    """Return a capability with its members that are on, as in `resources (subscribe)`."""
    members = [key for key, is_on in value.items() if is_on is not False] if isinstance(value, dict) else []
    return f"{name} ({', '.join(members)})" if members else name
