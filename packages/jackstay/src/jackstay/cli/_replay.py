"""`jackstay replay FILE`: serve the responses of a recorded server over stdio.

A request that was not recorded gets an error, which is also printed to standard error.
"""

from argparse import SUPPRESS, ArgumentParser, Namespace

from jackstay.cli._commands import add_help
from jackstay.cli._exits import DONE, FAILED
from jackstay.cli._logs import add_log_arguments, log_to_stderr
from jackstay.cli._running import run_until_signal
from jackstay.cli._target import parse_number
from jackstay.shell import print_error
from jackstay.testing import serve_recording
from jackstay.transport import own_stdio


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_help(
        parser, "FILE", examples=("git.jsonl", "git.jsonl --speed 1"), more="\nFILE was written by `jackstay record`."
    )
    parser.add_argument("file", metavar="FILE", help=SUPPRESS)
    parser.add_argument(
        "--speed", type=_speed, metavar="FACTOR", help="keep the recorded delays; 2: twice as fast (default: no delays)"
    )
    add_log_arguments(parser)


def run(arguments: Namespace) -> int:
    """Serve until the client disconnects. Returns 1 if the recorded server closed the connection.

    Raises: UsageError if the file cannot be used.
    """
    with log_to_stderr(arguments):
        return run_until_signal(_serve(arguments))


async def _serve(arguments: Namespace) -> int:
    end = await serve_recording(arguments.file, own_stdio(), speed=arguments.speed)
    if end is None:
        return DONE
    print_error("jackstay", str(end))
    return FAILED


def _speed(text: str) -> float:
    return parse_number(text, "a number from 0.001 to 1000000", 1e6)
