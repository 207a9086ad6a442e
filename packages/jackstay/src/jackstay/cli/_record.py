"""`jackstay record FILE TARGET`: forward messages between a client and a server, and record them in a file.

A client's configuration names this command instead of the server's. Standard input and output belong to the client; the
server's standard error is forwarded. If the file cannot be written, the messages are still forwarded.
"""

from argparse import SUPPRESS, ArgumentParser, Namespace

from jackstay.cli import _target
from jackstay.cli._commands import add_help, add_repeatable
from jackstay.cli._exits import DONE, FAILED
from jackstay.cli._logs import add_log_arguments, log_to_stderr
from jackstay.cli._running import run_until_signal
from jackstay.errors import UsageError
from jackstay.shell import escape_controls, print_error
from jackstay.testing import RecordedTarget, pass_through, recorded
from jackstay.transport import StdioTarget, own_stdio


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_help(
        parser,
        "FILE URL",
        "--config CONFIG FILE TARGET",
        "FILE -- COMMAND [ARGUMENT ...]",
        examples=(
            "git.jsonl -- uvx mcp-server-git --repository .",
            "git.jsonl --config mcp.json git --append --redact token",
            "docs.jsonl https://example.org/mcp",
        ),
        more="\nUse it instead of the server's command in a client's configuration.",
    )
    parser.add_argument("words", nargs="*", metavar="FILE TARGET", help=SUPPRESS)
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument("--append", action="store_true", help="append to FILE if it exists")
    existing.add_argument("--force", action="store_true", help="overwrite FILE if it exists")
    add_repeatable(parser, "--redact", "NAME", "do not record the values of members with this name")
    _target.add_server_arguments(parser)
    add_log_arguments(parser)


def run(arguments: Namespace) -> int:
    """Forward messages until one side disconnects. Returns 0 if the client disconnected and nothing failed.

    Raises: UsageError; TransportError if the server cannot be started.
    """
    if not arguments.words:
        raise UsageError("FILE and the server are missing; see jackstay record --help")
    file, *arguments.words = arguments.words
    if "://" in file:
        raise UsageError(f"{escape_controls(file)!r} is a URL: the FILE to write must come first", path=file)
    selected = _target.select_only_server(arguments)
    server = selected.target
    if isinstance(server, StdioTarget):
        server = server.with_stderr("inherit")
    target = recorded(server, file, redact=arguments.redact, overwrite=arguments.force, append=arguments.append)
    with log_to_stderr(arguments):
        return run_until_signal(_forward(selected, target))


async def _forward(selected: _target.SelectedServer, target: RecordedTarget) -> int:
    if selected.sign_in is not None:
        await selected.sign_in()
    passed = await pass_through(own_stdio(), target)
    if passed.error is not None and passed.was_silent:
        raise passed.error  # the server sent nothing: it could not be started
    if passed.error is not None:
        print_error("jackstay", str(passed.error))
        return FAILED
    return DONE if target.error is None else FAILED
