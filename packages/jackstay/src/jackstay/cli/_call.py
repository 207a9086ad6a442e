"""`jackstay call`: call a tool, show its progress, and print its result.

The result goes to standard output. If the tool failed, its message goes to standard error, and the exit code is 1.
"""

import json
import sys
from argparse import Namespace

from jackstay.cli import _target
from jackstay.cli._exits import DONE, FAILED
from jackstay.cli._output import print_json, print_text, text_of
from jackstay.cli._running import with_client
from jackstay.cli._tools import find
from jackstay.cli._user_input import is_interactive, read_missing
from jackstay.cli._values import parse_arguments
from jackstay.client import Client
from jackstay.shell import RED, CommandParser, Screen, StatusLine, escape_controls, paint_json
from jackstay.types import CallToolResult


def add_arguments(parser: CommandParser) -> None:
    """Declare the arguments of this command."""
    _target.add_arguments(
        parser,
        "TOOL [KEY=VALUE ...]",
        "https://example.org/mcp forecast city=Rome days=3",
        'forecast city=Rome \'tags=["a", "b"]\' -- ./weather-server -x',
        '--arguments \'{"city":"Rome"}\' --config mcp.json weather forecast',
        more=" Values that are not strings are JSON.",
    )
    parser.takes_pairs = True
    parser.add_argument("--arguments", metavar="JSON", help="all arguments as JSON; -: read standard input")


def run(arguments: Namespace) -> int:
    """Call the tool and print its result."""
    selected, words = _target.select_server(arguments)
    name = _target.pop_word(words, "TOOL", "list the tools of a server with jackstay tools")
    json_text = sys.stdin.read() if arguments.arguments == "-" else arguments.arguments
    parse_arguments(words, json_text, {})  # report syntax errors before the server is started

    async def work(client: Client) -> int:
        with StatusLine("listing tools"):
            tool = find(await client.tools.list(), name)
        values = parse_arguments(words, json_text, tool.input_schema)
        if json_text is None and is_interactive(arguments):
            await read_missing(tool, values)
        with StatusLine(f"calling {name}") as status:
            result = await client.tools.call(
                name,
                values,
                on_progress=lambda progress: status.report(progress.progress, progress.total, progress.message),
                raise_on_error=False,
            )
        return _show(name, result, as_json=arguments.json)

    return with_client(arguments, selected, work)


def _show(name: str, result: CallToolResult, *, as_json: bool) -> int:
    code = FAILED if result.is_error else DONE
    if as_json:
        print_json(result.raw)
        return code
    text = "\n".join(text_of(block) for block in result.content)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, indent=2, ensure_ascii=False)
    if result.is_error:
        errors = Screen(sys.stderr)
        failed = errors.paint(f"{escape_controls(name)} failed:", RED)
        errors.print_line(f"jackstay: {failed} {escape_controls(text) or 'the tool gave no reason'}")
    elif text:
        _print(Screen(), text)
    return code


def _print(screen: Screen, text: str) -> None:
    """Print text; on a terminal, JSON gets indentation and colour."""
    try:
        value = json.loads(text) if screen.is_terminal and text.lstrip()[:1] in ("{", "[") else None
    except ValueError:
        value = None
    if value is None:
        print_text(screen, text)
    else:
        screen.print_line(paint_json(screen, escape_controls(json.dumps(value, indent=2, ensure_ascii=False))))
