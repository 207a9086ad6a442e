"""`jackstay read`: print a resource. Binary contents are written to a file or pipe, never to a terminal."""

import base64
import binascii
import sys
from argparse import ArgumentParser, Namespace

from jackstay.cli import _target
from jackstay.cli._output import print_json, print_text, text_of_contents
from jackstay.cli._running import with_client
from jackstay.client import Client
from jackstay.errors import ProtocolError
from jackstay.shell import Screen, StatusLine
from jackstay.types import BlobResourceContents, ResourceContents


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    _target.add_arguments(
        parser,
        "URI",
        "https://example.org/mcp note://today --header 'X-Key: ${KEY}'",
        "--config mcp.json notes note://today",
        "file:///logo.png -- ./server.py > logo.png",
        more=" Binary contents need a file or pipe.",
    )


def run(arguments: Namespace) -> int:
    """Read the resource and print it."""
    selected, words = _target.select_server(arguments)
    uri = _target.pop_word(words, "URI", "list the resources of a server with jackstay resources")
    _target.expect_no_more(words)

    async def work(client: Client) -> None:
        with StatusLine(f"reading {uri}"):
            result = await client.resources.read(uri)
        if arguments.json:
            print_json(result.raw)
        else:
            screen = Screen()
            for contents in result.contents:
                _show(screen, contents)

    return with_client(arguments, selected, work)


def _show(screen: Screen, contents: ResourceContents) -> None:
    if not isinstance(contents, BlobResourceContents) or screen.is_terminal:
        print_text(screen, text_of_contents(contents))
        return
    try:
        data = base64.b64decode(contents.blob, validate=True)
    except binascii.Error as error:
        raise ProtocolError(f"invalid base64 in the contents of {contents.uri!r}", path="$.contents") from error
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
