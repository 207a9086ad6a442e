"""`jackstay record FILE TARGET`: stand between a client and a server, pass everything on, and write it to a file.

A client's configuration names this command in place of the server's. Standard input and output are the client's; what the
server writes to its standard error goes to ours. The conversation comes first: whatever happens to the file, it goes on.

Above: `_main`. Below: `jackstay.testing`, `_target`, `_standing`.
"""

import sys
from argparse import SUPPRESS, ArgumentParser, Namespace

from jackstay.cli import _target
from jackstay.cli._exits import DONE, FAILED
from jackstay.cli._logs import Logs, add_log_arguments
from jackstay.cli._screen import clean
from jackstay.cli._standing import stand
from jackstay.errors import UsageError
from jackstay.testing import RecordedTarget, pass_through, recorded
from jackstay.transport import StdioTarget, own_stdio

EXAMPLES = (
    "git.jsonl -- uvx mcp-server-git --repository .",
    "git.jsonl --config mcp.json git --append --redact token",
    "docs.jsonl https://example.org/mcp",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Where to, which server, and what not to write."""
    parser.usage = (
        "jackstay record [options] FILE URL\n"
        "       jackstay record [options] --config CONFIG FILE TARGET\n"
        "       jackstay record [options] FILE -- COMMAND [ARGUMENT ...]"
    )
    parser.description = (
        f"{parser.description}\nFor the place of the server's command in a client's configuration."
    )
    lines = "".join(f"  jackstay record {example}\n" for example in EXAMPLES)
    parser.epilog = f"examples:\n{lines}{parser.epilog}"
    parser.add_argument("words", nargs="*", metavar="FILE TARGET", help=SUPPRESS)
    known = parser.add_mutually_exclusive_group()
    known.add_argument("--append", action="store_true", help="go on in FILE if it is there")
    known.add_argument("--force", action="store_true", help="overwrite FILE if it is there")
    parser.add_argument(
        "--redact",
        action="append",
        default=[],
        metavar="NAME",
        help="do not write the values of members with this name",
    )
    _target.add_server_arguments(parser)
    add_log_arguments(parser)


def run(arguments: Namespace) -> int:
    """Pass everything on until one of them ends: 0 when the client left, and nothing went wrong.

    Raises: UsageError; TransportError, if the server cannot be started.
    """
    if not arguments.words:
        raise UsageError("where to? Give the FILE to write, then the server; see --help")
    file, *arguments.words = arguments.words
    if "://" in file:
        raise UsageError(f"{clean(file)!r} is a server: the FILE to write comes first", path=file)
    chosen, words = _target.choose(arguments)
    _target.take_no_more(words)
    server = chosen.target
    if isinstance(server, StdioTarget):
        server = server.with_stderr("inherit")
    try:
        target = recorded(
            server, file, redact=arguments.redact, overwrite=arguments.force, append=arguments.append
        )
    except UsageError as error:
        if "overwritten" in error.message:
            advice = "give another name, --append to go on in it, or --force to overwrite it"
            raise UsageError(f"{file} is there already: {advice}", path=file) from None
        raise
    with Logs(arguments.log_level, arguments.log_format):
        return stand(_pass(chosen, target))


async def _pass(chosen: _target.Chosen, target: RecordedTarget) -> int:
    if chosen.sign_in is not None:
        await chosen.sign_in()
    passed = await pass_through(own_stdio(), target)
    if passed.error is not None and passed.was_silent:
        raise passed.error  # it never said a word: it could not be started
    if passed.error is not None:
        print(f"jackstay: {clean(str(passed.error))}", file=sys.stderr)
        return FAILED
    return DONE if target.error is None else FAILED
