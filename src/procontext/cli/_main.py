"""The entry point: arguments in, exit code out, and the manners every command shares.

Results go to standard output and everything else to standard error; a reader that closes the pipe early and a Ctrl-C end the
program quietly; a wrong setting, a wrong argument and a failed request are told in words, never with a traceback.

Must never know a command by name, except the default. Above: the shell. Below: `_commands`.
"""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from mooring._version import __version__
from mooring.extras import install_command, missing_modules
from procontext.cli._commands import COMMANDS, DEFAULT, load

DONE = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130

EXIT_CODES = "exit codes: 0 done, 1 failed or not found, 2 wrong arguments or settings, 130 interrupted"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the `procontext` command and return its exit code; nothing is raised. `argv` defaults to what was typed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a terminal that cannot show a character gets its escape
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        code = _run(words)
        if sys.stdout is not None:  # None when the program was started with standard output closed
            sys.stdout.flush()  # here a closed pipe can still be met quietly
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else DONE
    except BrokenPipeError:
        _discard_output()
        return DONE
    except KeyboardInterrupt:
        _discard_output()
        return INTERRUPTED
    return code


def _run(words: list[str]) -> int:
    row = next((row for row in COMMANDS if words[:1] == [row.name]), None)
    if row is None:
        if words and words[0] in ("-h", "--help", "-V", "--version"):
            _front().parse_args(words[:1])
        if words and not words[0].startswith("-"):
            _refuse(words[0])
        row = next(row for row in COMMANDS if row.name == DEFAULT)
        words = [DEFAULT, *words]
    missing = missing_modules("procontext")
    if missing:
        needs = f"procontext needs {', '.join(missing)}, not installed here"
        print(f"procontext: {needs}: {install_command('procontext')}", file=sys.stderr)
        return USAGE
    command = load(row)
    parser = argparse.ArgumentParser(
        prog=f"procontext {row.name}",
        description=row.summary[0].upper() + row.summary[1:] + ".",
        epilog=EXIT_CODES,
        allow_abbrev=False,  # an option that is added later must not change what a script means
    )
    command.add_arguments(parser)
    return command.run(parser.parse_args(words[1:]))


def _front() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {row.name:<10}{row.summary}" for row in COMMANDS)
    parser = argparse.ArgumentParser(
        prog="procontext",
        usage="procontext [COMMAND] [ARGUMENTS]",
        description="The documentation server for coding agents.",
        epilog=f"commands:\n{listed}\n\n`procontext COMMAND --help` explains one. Settings are in procontext.yaml and"
        f" PROCONTEXT__ variables.\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="version", version=f"procontext {__version__}")
    return parser


def _refuse(word: str) -> NoReturn:
    names = ", ".join(row.name for row in COMMANDS)
    print(f"procontext: there is no command {word!r}; there are {names}", file=sys.stderr)
    raise SystemExit(USAGE)


def _discard_output() -> None:
    """What is still buffered has no reader: let it go, so that the interpreter's own flush does not complain."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (AttributeError, OSError, ValueError):
        pass  # no file behind it


__all__ = ["DONE", "EXIT_CODES", "FAILED", "INTERRUPTED", "USAGE", "main"]
