"""`jackstay resources`: the resources of a server, and the templates for more.

Above: `_main`. Below: `_running`.
"""

from argparse import ArgumentParser, Namespace

from jackstay.cli import _target
from jackstay.cli._exits import DONE
from jackstay.cli._output import print_json
from jackstay.cli._running import with_client
from jackstay.cli._screen import Screen, clean, first_line
from jackstay.client import Client
from jackstay.errors import JsonRpcError
from jackstay.protocol.wire import ErrorCode
from jackstay.types import Resource, ResourceTemplate


def add_arguments(parser: ArgumentParser) -> None:
    """Which server."""
    _target.add_arguments(
        parser,
        "",
        "https://example.org/mcp",
        "--config mcp.json notes",
        "-- npx -y @modelcontextprotocol/server-everything",
    )


def run(arguments: Namespace) -> int:
    """List them."""
    chosen, words = _target.choose(arguments)
    _target.take_no_more(words)

    async def work(client: Client) -> int:
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

    return with_client(arguments, chosen, work)


async def _templates(client: Client) -> list[ResourceTemplate]:
    """All templates; none where the server has resources and does not know the word."""
    try:
        return await client.resources.templates()
    except JsonRpcError as error:
        if error.code == ErrorCode.METHOD_NOT_FOUND:
            return []
        raise


def _show(resources: list[Resource], templates: list[ResourceTemplate]) -> None:
    screen = Screen()
    if not resources and not templates:
        screen.say("no resources")
    if resources:
        rows = [
            (
                clean(resource.uri),
                clean(resource.name),
                clean(resource.mime_type or ""),
                "" if resource.size is None else str(resource.size),
                first_line(resource.description or resource.title),
            )
            for resource in resources
        ]
        screen.table(("URI", "NAME", "TYPE", "BYTES", "DESCRIPTION"), rows)
    if resources and templates:
        screen.say()
    if templates:
        of_templates = [
            (
                clean(template.uri_template),
                clean(template.name),
                clean(template.mime_type or ""),
                first_line(template.description or template.title),
            )
            for template in templates
        ]
        screen.table(("TEMPLATE", "NAME", "TYPE", "DESCRIPTION"), of_templates)
