"""`jackstay dev`: run a server with the inspector page, and restart it when a file is saved."""

import asyncio
import os
import shlex
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from typing import TYPE_CHECKING

from jackstay.cli._commands import add_help, add_repeatable
from jackstay.cli._exits import DONE
from jackstay.cli._inspect import add_page_arguments, serve_page
from jackstay.cli._logs import log_to_stderr
from jackstay.cli._running import run_until_signal
from jackstay.errors import UsageError
from jackstay.shell import StatusLine
from jackstay.transport import stdio

if TYPE_CHECKING:
    from jackstay.inspector import Choice, Inspection


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_help(
        parser,
        "FILE_OR_MODULE[:NAME]",
        "-- COMMAND [ARGUMENT ...]",
        examples=("server.py", "--watch src -- python -m my_server"),
        more="\nThe page stays open, with its inputs, and shows tracebacks.",
    )
    parser.add_argument("words", nargs="*", metavar="FILE_OR_MODULE[:NAME]", help=SUPPRESS)
    add_repeatable(parser, "--watch", "PATH", "a directory or file to watch (default: that of the server)")
    add_page_arguments(parser)


def run(arguments: Namespace) -> int:
    """Serve the page until a signal arrives."""
    with StatusLine("starting"):
        from jackstay.inspector import Inspection  # noqa: PLC0415  # only this command needs it

    choice, directory = _choice(arguments)
    session = Inspection([choice])
    with log_to_stderr(arguments):
        return run_until_signal(_serve(session, arguments, arguments.watch or [directory]))


async def _serve(session: "Inspection", arguments: Namespace, paths: list[str]) -> int:
    from jackstay.inspector import restart_on_save  # noqa: PLC0415  # as above

    tasks = [
        asyncio.ensure_future(serve_page(session, arguments)),
        asyncio.ensure_future(restart_on_save(session, paths)),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        return DONE
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _choice(arguments: Namespace) -> "tuple[Choice, str]":
    """Return the server and the directory to watch. Raises: UsageError."""
    from jackstay.inspector import Choice  # noqa: PLC0415  # as above

    words = arguments.words
    if arguments.server is not None:
        if words:
            raise UsageError(f"unexpected argument {words[0]!r}; see jackstay dev --help")
        return Choice("server", shlex.join(arguments.server), stdio(*arguments.server)), "."
    if len(words) != 1:
        raise UsageError("expected one FILE_OR_MODULE[:NAME], or a command after --; see jackstay dev --help")
    file = words[0].partition(":")[0]
    is_file = file.endswith(".py")
    if is_file and not os.path.isfile(file):
        raise UsageError(f"no such file: {file!r}", path=file)
    directory = (os.path.dirname(file) or ".") if is_file else "."
    # A server without `server.run()` at its end is served as well.
    name = os.path.basename(file).removesuffix(".py")
    target = stdio(sys.executable, "-m", "jackstay", "serve", "--traceback", words[0], name=name)
    return Choice(target.name, f"jackstay serve {words[0]}", target), directory
