"""`jackstay call`: call one tool, show its progress, print its answer.

The answer goes to standard output; a tool that failed says why on standard error, and the exit code is 1.

Above: `_main`. Below: `_running`, `_values` (what was typed, as arguments).
"""

import json
import sys
from argparse import ArgumentParser, Namespace

from jackstay.cli import _target
from jackstay.cli._exits import DONE, FAILED
from jackstay.cli._output import print_json, print_text, text_of
from jackstay.cli._running import with_client
from jackstay.cli._screen import RED, ProgressLine, Screen, clean
from jackstay.cli._tools import find
from jackstay.cli._values import arguments_of
from jackstay.client import Client
from jackstay.types import CallToolResult


def add_arguments(parser: ArgumentParser) -> None:
    """Which server, which tool, with what."""
    _target.add_arguments(
        parser,
        "TOOL [KEY=VALUE ...]",
        "https://example.org/mcp forecast city=Rome days=3",
        'forecast city=Rome \'tags=["a", "b"]\' -- ./weather-server -x',
        '--arguments \'{"city":"Rome"}\' --config mcp.json weather forecast',
        more="Strings as typed, other values as JSON.",
    )
    parser.add_argument(
        "--arguments",
        metavar="JSON",
        help="all of them as one object; -: from standard input",
    )


def run(arguments: Namespace) -> int:
    """Call it."""
    chosen, words = _target.choose(arguments)
    name = _target.take_word(words, "TOOL", "jackstay tools lists those of a server")
    whole = sys.stdin.read() if arguments.arguments == "-" else arguments.arguments
    arguments_of(
        words, whole, {}
    )  # mistakes that can be seen without the server are told before it is started

    async def work(client: Client) -> int:
        tool = find(await client.tools.list(), name)
        given = arguments_of(words, whole, tool.input_schema)
        progress = ProgressLine()
        try:
            result = await client.tools.call(name, given, on_progress=progress)
        finally:
            progress.clear()
        return _show(name, result, as_json=arguments.json)

    return with_client(arguments, chosen, work)


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
        errors.say(
            f"jackstay: {errors.paint(f'{clean(name)} failed:', RED)} {clean(text) or 'it does not say why'}"
        )
    elif text:
        print_text(Screen(), text)
    return code
