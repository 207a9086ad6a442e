"""`jackstay replay FILE`: answer as the server did that was recorded, over standard input and output, to any client.

What was never recorded is refused, and said on standard error too.

Above: `_main`. Below: `jackstay.testing`, `_standing`.
"""

import sys
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace

from jackstay.cli._exits import DONE, FAILED
from jackstay.cli._logs import Logs, add_log_arguments
from jackstay.cli._screen import clean
from jackstay.cli._standing import stand
from jackstay.testing import serve_recording
from jackstay.transport import own_stdio

EXAMPLES = (
    "git.jsonl",
    "git.jsonl --speed 1",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Which file, and how fast."""
    parser.usage = "jackstay replay [options] FILE"
    parser.description = f"{parser.description}\nFILE is what `jackstay record` wrote."
    lines = "".join(f"  jackstay replay {example}\n" for example in EXAMPLES)
    parser.epilog = f"examples:\n{lines}{parser.epilog}"
    parser.add_argument("file", metavar="FILE", help=SUPPRESS)
    parser.add_argument(
        "--speed",
        type=_speed,
        metavar="FACTOR",
        help="keep the recorded delays; 2: twice as fast (default: no delays)",
    )
    add_log_arguments(parser)


def run(arguments: Namespace) -> int:
    """Answer until the client is gone. 1 where the recorded server ended the connection, as it did then.

    Raises: UsageError for a file that cannot be used.
    """
    with Logs(arguments.log_level, arguments.log_format):
        return stand(_serve(arguments))


async def _serve(arguments: Namespace) -> int:
    end = await serve_recording(arguments.file, own_stdio(), speed=arguments.speed)
    if end is None:
        return DONE
    print(f"jackstay: {clean(str(end))}", file=sys.stderr)
    return FAILED


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0.001 <= speed <= 1e6:  # NaN is not, either
        raise ArgumentTypeError(f"must be a number from 0.001 to 1000000, not {text!r}")
    return speed
