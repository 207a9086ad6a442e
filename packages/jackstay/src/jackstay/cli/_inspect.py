"""`jackstay inspect`: serve a web page that inspects a server, until Ctrl-C."""

import shlex
import sys
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

from jackstay.cli import _target
from jackstay.cli._commands import add_help
from jackstay.cli._exits import DONE
from jackstay.cli._logs import add_log_arguments, log_to_stderr
from jackstay.cli._running import run_until_signal
from jackstay.client import read_config
from jackstay.errors import UsageError
from jackstay.shell import StatusLine

if TYPE_CHECKING:
    from jackstay.inspector import Choice, Inspection


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_help(
        parser,
        "URL",
        "FILE.json [TARGET]",
        "-- COMMAND [ARGUMENT ...]",
        examples=("-- python server.py", "https://example.org/mcp", "mcp.json"),
        more="\nThe page is on this machine only, with a random key in its URL.",
    )
    parser.add_argument("words", nargs="*", metavar="TARGET", help=SUPPRESS)
    parser.set_defaults(config=None, login=None, env=[], pass_env=False)
    _target.add_url_arguments(parser)
    add_page_arguments(parser)


def add_page_arguments(parser: ArgumentParser) -> None:
    """Declare the options of the page."""
    parser.add_argument("--port", type=_port, default=0, help="the port of the page (default: a free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the URL, and do not open a browser")
    add_log_arguments(parser)


def run(arguments: Namespace) -> int:
    """Serve the page until a signal arrives."""
    with StatusLine("starting"):
        from jackstay.inspector import Inspection  # noqa: PLC0415  # only this command needs it

    session = Inspection(_choices(arguments))
    with log_to_stderr(arguments):
        return run_until_signal(serve_page(session, arguments))


async def serve_page(session: "Inspection", arguments: Namespace) -> int:
    """Serve the page and open it in a browser."""
    from jackstay.inspector import serve_inspection  # noqa: PLC0415  # as above

    await serve_inspection(session, arguments.port, lambda url: _show(url, with_browser=not arguments.no_browser))
    return DONE


def _show(url: str, *, with_browser: bool) -> None:
    print(f"The inspector: {url}", file=sys.stderr, flush=True)
    if with_browser:
        from jackstay.oauth import open_in_browser  # noqa: PLC0415  # only with a browser

        open_in_browser(url)


def _choices(arguments: Namespace) -> "list[Choice]":
    """Return the servers of the command line: the selected one first. Raises: UsageError."""
    from jackstay.inspector import Choice  # noqa: PLC0415  # as above

    words = arguments.words
    if arguments.server is None and words and words[0].endswith(".json"):
        path = words.pop(0)
        config = read_config(path)
        names = [name for name in config.names if not config.is_disabled(name)]
        if words:
            _target.select_server(Namespace(**{**vars(arguments), "config": path}))  # checks the name
            first = words.pop(0)
            names = [first, *(name for name in names if name != first)]
        _target.expect_no_more(words)
        if not names:
            raise UsageError(f"{path!r} has no server that is not disabled", path=path)
        return [Choice(name, shlex.join(config.display(name)), config.target(name)) for name in names]
    selected, words = _target.select_server(arguments)
    _target.expect_no_more(words)
    return [Choice(selected.target.name, selected.display, selected.target)]


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise ArgumentTypeError(f"expected a number from 0 to 65535, got {text!r}")
    return int(text)
