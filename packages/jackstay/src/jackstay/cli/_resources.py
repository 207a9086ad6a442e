"""`jackstay resources`: list the resources and resource templates of a server."""

from argparse import ArgumentParser, Namespace

from jackstay.cli import _target
from jackstay.cli._output import print_json
from jackstay.cli._running import with_client
from jackstay.client import Client
from jackstay.errors import JsonRpcError
from jackstay.protocol.wire import ErrorCode
from jackstay.shell import Screen, StatusLine, first_line
from jackstay.types import Resource, ResourceTemplate


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    _target.add_arguments(
        parser,
        "",
        "https://example.org/mcp",
        "--config mcp.json notes",
        "-- npx -y @modelcontextprotocol/server-everything",
    )


def run(arguments: Namespace) -> int:
    """Print the resources and templates."""
    selected = _target.select_only_server(arguments)

    async def work(client: Client) -> None:
        with StatusLine("listing resources"):
            resources = await client.resources.list()
            templates = await _templates(client)
        if arguments.json:
            raw = {"resources": [each.raw for each in resources], "resourceTemplates": [each.raw for each in templates]}
            print_json(raw)
        else:
            _show(resources, templates)

    return with_client(arguments, selected, work)


async def _templates(client: Client) -> list[ResourceTemplate]:
    """Return all templates; none if the server does not implement `resources/templates/list`."""
    try:
        return await client.resources.templates()
    except JsonRpcError as error:
        if error.code == ErrorCode.METHOD_NOT_FOUND:
            return []
        raise


def _show(resources: list[Resource], templates: list[ResourceTemplate]) -> None:
    screen = Screen()
    if not resources and not templates:
        screen.print_line("no resources")
    if resources:
        rows = [
            (each.uri, each.name, each.mime_type, each.size, first_line(each.description or each.title))
            for each in resources
        ]
        screen.table(("URI", "NAME", "TYPE", "BYTES", "DESCRIPTION"), rows)
    if resources and templates:
        screen.print_line()
    if templates:
        more = [
            (each.uri_template, each.name, each.mime_type, first_line(each.description or each.title))
            for each in templates
        ]
        screen.table(("TEMPLATE", "NAME", "TYPE", "DESCRIPTION"), more)
