"""`jackstay logout URL`: delete the tokens that `--login` stored for a server."""

from argparse import ArgumentParser, Namespace

from jackstay.cli._commands import add_help
from jackstay.cli._exits import DONE, FAILED
from jackstay.cli._running import run_until_signal
from jackstay.oauth import FileStore, OAuth
from jackstay.shell import Screen, escape_controls
from jackstay.transport.http import http


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_help(parser, examples=("https://example.org/mcp",))
    parser.add_argument("url", metavar="URL", help="the URL of the server")


def run(arguments: Namespace) -> int:
    """Delete the tokens. The exit code is 1 if there were none."""
    return run_until_signal(_sign_out(http(arguments.url).url))


async def _sign_out(url: str) -> int:
    store = FileStore()
    is_signed_out = await OAuth(store=store, show=None).sign_out(url)
    server = escape_controls(url.partition("?")[0])
    Screen().print_line(
        f"signed out of {server}: the tokens were deleted from {store.path}"
        if is_signed_out
        else f"no tokens for {server} in {store.path}"
    )
    return DONE if is_signed_out else FAILED
