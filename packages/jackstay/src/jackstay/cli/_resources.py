"""`jackstay resources`: list the resources and resource templates of a server."""

from argparse import ArgumentParser, Namespace

from jackstay.cli import _target
from jackstay.cli._exits import DONE
from jackstay.cli._output import print_json
from jackstay.cli._running import with_client
from jackstay.client import Client
from jackstay.errors import JsonRpcError
from jackstay.protocol.wire import ErrorCode
from jackstay.shell import Screen, StatusLine, escape_controls, first_line
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

    async def work(client: Client) -> int:
        with StatusLine("listing resources"):
            resources = await client.resources.list()
            templates = await _templates(client)
        if arguments.json:
            print_json(
                {
                    "resources": [resource.raw for resource in resources],
                    "resourceTemplates": [template.raw for template in templates],
                }
            )
        else:
            _show(resources, templates)
        return DONE

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
            (
                escape_controls(resource.uri),
                escape_controls(resource.name),
                escape_controls(resource.mime_type or ""),
                "" if resource.size is None else str(resource.size),
                first_line(resource.description or resource.title),
            )
            for resource in resources
        ]
        screen.table(("URI", "NAME", "TYPE", "BYTES", "DESCRIPTION"), rows)
    if resources and templates:
        screen.print_line()
    if templates:
        rows_of_templates = [
            (
                escape_controls(template.uri_template),
                escape_controls(template.name),
                escape_controls(template.mime_type or ""),
                first_line(template.description or template.title),
            )
            for template in templates
        ]
        screen.table(("TEMPLATE", "NAME", "TYPE", "DESCRIPTION"), rows_of_templates)
