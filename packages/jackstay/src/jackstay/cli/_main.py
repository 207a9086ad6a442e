"""Run the command that was typed, and convert an error to a message and an exit code.

Results go to standard output, everything else to standard error. The words after the first `--` are the command of a
server; they are removed before the arguments are parsed, so that options of the server are not parsed as ours.
"""

import json
import sys
from typing import NoReturn

from jackstay.cli._commands import COMMANDS, command_parser, load, main_parser
from jackstay.cli._exits import exit_code
from jackstay.errors import Json, JsonRpcError, McpError, TimeoutError
from jackstay.shell import StatusLine, did_you_mean

# How many lines of a crashed server's standard error are printed: enough for the end of a traceback.
STDERR_TAIL_LINES = 10

# What to do about an error -32021, by the client capability that the server requires.
CAPABILITY_HINTS = {
    "elicitation": "; the server requests input: run the command at a terminal, without --json",
    "roots": "; the server requests roots: pass --roots DIRECTORY",
    "sampling": "; the server requests sampling, which this command does not have: use jackstay inspect",
}
# Appended if a server was not ready in time. The library's message cannot name options of the command.
TIMEOUT_HINT = "; is this an MCP server? Try a longer --timeout, or --log-level info to see its output"

# Text in a message of the library -> the same for a user of the command.
FLAG_WORDING = (
    ("as ca=FILE", "with --ca FILE"),
    ("; pass insecure=True to send them unencrypted", ""),
    ("(--port)", "(--http PORT)"),
    (
        "exists; pass overwrite=True or append=True, or another file",
        "already exists; use another name, --append to append to it, or --force to overwrite it",
    ),
)


def run(words: list[str]) -> int:
    """Run the command and return the exit code. Raises: SystemExit (argparse), KeyboardInterrupt, OSError."""
    try:
        return _dispatch(words)
    except McpError as error:
        _report(error, as_json="--json" in _before_dashes(words))
        return exit_code(error)


def _dispatch(words: list[str]) -> int:
    """Find the command, parse its arguments, and run it."""
    if words[:1] == ["help"]:
        topic = words[1:2]
        is_known = not topic or topic[0].startswith("-") or topic[0] in {"help", *(row.name for row in COMMANDS)}
        # An unknown command gets no --help, and is rejected below.
        words = [*(word for word in topic if word != "help"), *(["--help"] if is_known else [])]
    own_words = _before_dashes(words)
    # Options before the command take no value, so the first word without a dash is the command.
    name = next((word for word in own_words if not word.startswith("-")), None)
    row = next((row for row in COMMANDS if row.name == name), None)
    if row is None:
        _reject(own_words)
    index = own_words.index(row.name)
    if index > 0:
        main = main_parser()
        _, unknown = main.parse_known_args(own_words[:index])  # exits after --help and --version
        main.error(f"options must follow the command: jackstay {row.name} {' '.join(unknown)} ...")
    with StatusLine("starting"):
        command = load(row)
    parser = command_parser(row, command)
    arguments = parser.parse_intermixed_args(own_words[index + 1 :])
    rest = words[len(own_words) :]
    if rest and not row.has_server:
        parser.error("this command starts no server: remove -- and the words after it")
    if rest == ["--"]:
        parser.error("the command of a server is missing after --")
    arguments.server = rest[1:] or None
    code: int = command.run(arguments)
    return code


def _before_dashes(words: list[str]) -> list[str]:
    return words[: words.index("--")] if "--" in words else words


def _reject(words: list[str]) -> NoReturn:
    """Exit because the command is missing or unknown. Options are parsed first, for `--help` and unknown options."""
    main = main_parser()
    _, unknown = main.parse_known_args(words)
    options = [word for word in unknown if word.startswith("-")]
    if options:
        main.error(f"unrecognized arguments: {' '.join(options)}")
    if unknown:
        names = [row.name for row in COMMANDS]
        if unknown[0] == "login":
            main.error("unknown command 'login'; sign in with an option of a command: jackstay info --login URL")
        hint = did_you_mean(unknown[0].lower(), names) or f"; valid commands: {', '.join(names)}"
        main.error(f"unknown command {unknown[0]!r}{hint}")
    main.print_help(sys.stderr)
    main.exit(2, "jackstay: error: a COMMAND is required\n")


def _report(error: McpError, *, as_json: bool) -> None:
    """Print an error to standard error, as a sentence or as a JSON object."""
    if as_json:
        fields: dict[str, Json] = {
            "type": error.type,
            "message": str(error),
            "code": error.code,
            "mayHaveRun": error.may_have_run,
            "retryable": error.retryable,
            "details": error.details,
        }
        if isinstance(error, JsonRpcError) and error.data is not None:
            fields["data"] = error.data  # set by the server; from a proxy, it contains mayHaveRun
        print(json.dumps({"error": fields}, default=str), file=sys.stderr)
        return
    from jackstay.shell import Screen, escape_controls, print_error  # noqa: PLC0415  # only after an error

    message = str(error)
    for library_text, command_text in FLAG_WORDING:
        message = message.replace(library_text, command_text)
    hint = TIMEOUT_HINT if isinstance(error, TimeoutError) and not error.may_have_run else ""
    if isinstance(error, JsonRpcError) and isinstance(error.data, dict):
        required = error.data.get("requiredCapabilities")
        hint = CAPABILITY_HINTS.get(next(iter(required), ""), "") if isinstance(required, dict) else hint
    tail = getattr(error, "stderr_tail", "") or getattr(getattr(error, "reason", None), "stderr_tail", "")
    lines = tail.strip("\n").splitlines()[-STDERR_TAIL_LINES:]
    if len(lines) > 1:  # a single line is part of the message
        message = message.replace(f" [stderr: {lines[-1]}]", "")
    print_error("jackstay", f"{message}{hint}")
    if len(lines) > 1:
        screen = Screen(sys.stderr)
        screen.print_line("last lines of the server's standard error:")
        screen.print_line("\n".join(f"  {escape_controls(line)}" for line in lines))
