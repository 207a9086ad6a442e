"""From the words that were typed to the command that does them, and from an error to a sentence and an exit code.

Results go to standard output and everything else to standard error; a wrong argument is told in one line, with what to try. This
file knows no command by name.

Everything after the first `--` is the command of a server, and no argument of ours: it is taken away before arguments
are read, so that no option of a server's can be mistaken for one of ours.

Above: `_entry`. Below: `_commands`, `_parsers`, and the file of the command that was typed.
"""

import argparse
import json
import sys
from typing import NoReturn

from jackstay.cli._commands import COMMANDS, CommandRow, load
from jackstay.cli._exits import code_of
from jackstay.cli._parsers import front, parser_of
from jackstay.errors import Json, JsonRpcError, McpError, TimeoutError
from jackstay.shell import meant

# Of what a server that died said last: enough for the end of a traceback.
LAST_WORDS = 10

# What may help where a server was not ready in time: the error cannot know that this is a command.
TOO_SLOW = "; --timeout SECONDS gives it longer, --log-level info shows what it writes"

# What a library says to its user -> how it is typed here.
AS_TYPED = (
    ("give the authority's in ca=FILE", "give the authority's with --ca FILE"),
    ("use https, or pass insecure=True", "use https"),
)


def run(words: list[str]) -> int:
    """Do what was typed; the exit code. Raises: SystemExit, as argparse does; KeyboardInterrupt; OSError."""
    try:
        return _dispatch(words)
    except McpError as error:
        _tell(error, as_json="--json" in _ours(words))
        return code_of(error)


def _dispatch(words: list[str]) -> int:
    """Find the row that was typed, let its file declare its arguments, and run it."""
    if words[:1] == ["help"]:
        asked = words[1:2]
        is_known = (
            not asked or asked[0].startswith("-") or asked[0] in {"help", *(row.name for row in COMMANDS)}
        )
        # A word that is no command is refused as one, below.
        words = [*(word for word in asked if word != "help"), *(["--help"] if is_known else [])]
    ours = _ours(words)
    # Options before the command take no value, so the first word without a dash is the command.
    typed = next((word for word in ours if not word.startswith("-")), None)
    row = next((row for row in COMMANDS if row.name == typed), None)
    if row is None:
        _refuse(ours)
    place = ours.index(row.name)
    if place > 0:
        before = front()
        _, unknown = before.parse_known_args(ours[:place])  # --help and --version end here
        before.error(f"options come after the command: jackstay {row.name} {' '.join(unknown)} ...")
    command = load(row)
    parser = parser_of(row, command)
    arguments = parser.parse_intermixed_args(ours[place + 1 :])
    _take_server(row, parser, arguments, words[len(ours) :])
    return command.run(arguments)


def _ours(words: list[str]) -> list[str]:
    return words[: words.index("--")] if "--" in words else words


def _take_server(
    row: CommandRow, parser: argparse.ArgumentParser, arguments: argparse.Namespace, rest: list[str]
) -> None:
    """Put the words after `--` where the command finds them: None if there was no `--`."""
    if rest and not row.has_server:
        parser.error("there is nothing to start here: no words after --")
    if rest == ["--"]:
        parser.error("after -- there must be the command of a server")
    arguments.server = rest[1:] or None


def _refuse(words: list[str]) -> NoReturn:
    """No command was typed, or none that exists. Options are read first: one may be `--help`, or the real mistake."""
    before = front()
    _, unknown = before.parse_known_args(words)
    options = [word for word in unknown if word.startswith("-")]
    if options:
        before.error(f"unrecognized arguments: {' '.join(options)}")
    if unknown:
        names = [row.name for row in COMMANDS]
        hint = meant(unknown[0].lower(), names) or f"; there are {', '.join(names)}"
        before.error(f"there is no command {unknown[0]!r}{hint}")
    before.error("a COMMAND is required")


def _tell(error: McpError, *, as_json: bool) -> None:
    """Say what went wrong on standard error: a sentence for people, an object for programs."""
    if as_json:
        said: dict[str, Json] = {
            "type": error.type,
            "message": str(error),
            "code": error.code,
            "mayHaveRun": error.may_have_run,
            "retryable": error.retryable,
            "details": error.details,
        }
        if isinstance(error, JsonRpcError) and error.data is not None:
            said["data"] = error.data  # the server's own; of a proxy, whether it may have run
        print(json.dumps({"error": said}, default=str), file=sys.stderr)
        return
    from jackstay.cli._screen import clean  # noqa: PLC0415  # only where there is something to clean

    message = clean(str(error))
    for spoken, typed in AS_TYPED:
        message = message.replace(spoken, typed)
    advice = TOO_SLOW if isinstance(error, TimeoutError) and not error.may_have_run else ""
    print(f"jackstay: {message}{advice}", file=sys.stderr)
    tail = getattr(error, "stderr_tail", "") or getattr(getattr(error, "reason", None), "stderr_tail", "")
    lines = tail.strip("\n").splitlines()[-LAST_WORDS:]
    if len(lines) > 1:  # the last one is in the sentence
        print("its last words on standard error were:", file=sys.stderr)
        print("\n".join(f"  {clean(line)}" for line in lines), file=sys.stderr)
