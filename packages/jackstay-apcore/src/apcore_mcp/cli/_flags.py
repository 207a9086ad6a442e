"""What can be said on the command line, as rows: each is a flag, a variable of the environment, and a line of `--help`.

The environment is for containers: `APCORE_MCP_PORT=9000` says what `--port 9000` does. A flag wins over it.

Must never know apcore, so that `--help` is quick. Above: `_main`. Below: `apcore_mcp.options`.
"""

import os
import re
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from typing import Final, NamedTuple, NoReturn

from apcore_mcp._version import __version__
from apcore_mcp.options import APPROVALS, LOG_LEVELS, TRANSPORTS
from jackstay.shell import CommandParser

# Before the name of a flag in the environment.
PREFIX: Final = "APCORE_MCP_"

CLIENTS: Final = ("claude-desktop", "claude-code", "cursor", "vscode", "windsurf")
SHAPES: Final = ("openai", "openai-responses", "anthropic")
SHELLS: Final = ("bash", "zsh", "fish")

_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("", "0", "false", "no", "off")


class Flag(NamedTuple):
    """One row. `metavar` is empty for a switch; `is_many`: it may be said again, or hold several in the environment."""

    name: str
    metavar: str
    help: str
    default: str | None = None
    choices: tuple[str, ...] = ()
    is_many: bool = False
    # What stands between several in the environment; paths have the system's own.
    separator: str = ","

    @property
    def flag(self) -> str:
        """As it is written."""
        return f"--{self.name}"

    @property
    def dest(self) -> str:
        """As it is found in what was parsed."""
        return self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        """As it is called in the environment."""
        return PREFIX + self.dest.upper()


GROUPS: Final[tuple[tuple[str, tuple[Flag, ...]], ...]] = (
    (
        "modules",
        (
            Flag("extensions-dir", "DIR", "directory of apcore modules", is_many=True, separator=os.pathsep),
            Flag("bindings", "DIR", "directory of *.binding.yaml files", is_many=True, separator=os.pathsep),
            Flag("tags", "TAG", "only modules with all these tags, also to call", is_many=True),
            Flag("prefix", "TEXT", "only modules whose ids begin so"),
            Flag("dynamic", "", "follow the directories while it serves"),
        ),
    ),
    (
        "transport",
        (
            Flag("transport", "NAME", "stdio (default), streamable-http, sse (deprecated)", "stdio", TRANSPORTS),
            Flag("host", "HOST", "where to listen, over HTTP", "127.0.0.1"),
            Flag("port", "PORT", "1 to 65535, over HTTP", "8000"),
            Flag("allow-host", "HOST", "answer as this name, too (default: localhost)", is_many=True),
            Flag("cors", "ORIGIN", "let web pages of this origin call and read", is_many=True),
            Flag("auth-key-env", "NAME", "callers need the key in this variable", is_many=True),
        ),
    ),
    (
        "server",
        (
            Flag("name", "NAME", "what clients are told it is", "apcore-mcp"),
            Flag("version", "VERSION", "and of which version (default: the package's)"),
            Flag("validate-inputs", "", "check arguments first, naming every wrong field"),
            Flag("approval", "HOW", "of modules that want it: ask (default) or allow", "ask", APPROVALS),
            Flag("explorer", "", "serve the Tool Inspector, over HTTP"),
            Flag("inspector-prefix", "PATH", "where it is", "/inspector"),
            Flag("metrics", "", "serve Prometheus metrics at /metrics, over HTTP"),
            Flag("log-level", "LEVEL", "DEBUG, INFO (default), WARNING or ERROR", "INFO", LOG_LEVELS),
        ),
    ),
    (
        "instead of serving",
        (
            Flag("check", "", "say what is offered, what is skipped, and why"),
            Flag("export", "SHAPE", "tools for openai, openai-responses or anthropic", choices=SHAPES),
            Flag("strict", "", "with --export: schemas as strict mode wants them"),
            Flag("embed-annotations", "", "with --export: annotations in descriptions"),
            Flag("print-config", "CLIENT", "for claude-desktop, claude-code, cursor, vscode or windsurf", choices=CLIENTS),
            Flag("print-completion", "SHELL", "for the tab key in bash, zsh or fish", choices=SHELLS),
        ),
    ),
)  # fmt: skip

FLAGS: Final = tuple(flag for _, flags in GROUPS for flag in flags)

# Those that somebody would miss: what only HTTP has. (Host and port are let be, as the seed says.)
HTTP_ONLY: Final = tuple(
    flag for flag in FLAGS if flag.name in ("allow-host", "cors", "auth-key-env", "explorer", "metrics")
)

_EPILOG = """\
*: may be said again. In the environment --port is APCORE_MCP_PORT, and so on.
examples:
  apcore-mcp --extensions-dir modules --check
  apcore-mcp --extensions-dir modules --transport streamable-http --explorer
exit codes: 0 ended in order, 1 bad value (--check: skipped some), 2 not started"""

# Of a terminal of the usual size.
COLUMNS: Final = 80


class _Format(RawDescriptionHelpFormatter):
    """A line for each flag."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=min(COLUMNS, get_terminal_size().columns))


class _Parser(CommandParser):
    """One that shows its groups without empty lines between them, for there are many, and knows what people try."""

    def error(self, message: str) -> NoReturn:
        """As always, after what this command alone can guess."""
        if message == "argument --version: expected one argument":
            message += f": what clients are told; this is apcore-mcp of jackstay {__version__}"
        word = message.removeprefix("unrecognized arguments: ")
        if word != message and os.path.isdir(word):
            message = f"did you mean --extensions-dir {word}?"
        super().error(message)

    def format_help(self) -> str:
        """On a screen of 40 lines."""
        titles = "|".join(title for title, _ in GROUPS[1:])
        # Newer Pythons paint the titles.
        return re.sub(rf"\n(\n(?:\x1b\[[\d;]*m)*(?:{titles}):)", r"\1", super().format_help())


def make_parser() -> ArgumentParser:
    """The parser; it knows no defaults, so that what was not said can be looked for elsewhere."""
    parser = _Parser(
        prog="apcore-mcp",
        usage="apcore-mcp --extensions-dir DIR [options]",
        description="Serve apcore modules as MCP tools.",
        epilog=_EPILOG,
        formatter_class=_Format,
    )
    for title, flags in GROUPS:
        group = parser.add_argument_group(title)
        for flag in flags:
            _add(group, flag)
    return parser


def _add(group: object, flag: Flag) -> None:
    add = group.add_argument  # type: ignore[attr-defined]  # argparse keeps the class of groups to itself
    is_said = flag.default is None or "(default" in flag.help
    words = flag.help if is_said else f"{flag.help} (default: {flag.default})"
    words = f"{words} *" if flag.is_many else words
    words = words.replace("%", "%%")
    if not flag.metavar:
        add(flag.flag, action="store_const", const=True, default=None, help=words)
    elif flag.is_many:
        add(flag.flag, action="append", metavar=flag.metavar, default=None, help=words)
    else:
        add(flag.flag, metavar=flag.metavar, default=None, help=words)


def read(arguments: Sequence[str] | None, environment: Mapping[str, str]) -> Namespace:
    """What was said, completed from the environment and the defaults, as text, lists of it, and truths.

    Ends the process with 2 for a flag or a choice that is none, as argparse does.
    """
    parser = make_parser()
    said = parser.parse_args(arguments)
    # How each was said: for whoever has to complain.
    said.sources = {}
    for flag in FLAGS:
        value = getattr(said, flag.dest)
        source = flag.flag
        if value is None and flag.variable in environment:
            value, source = _from_environment(parser, flag, environment[flag.variable]), flag.variable
        said.sources[flag.dest] = source
        if value is None:
            value = flag.default if flag.metavar and not flag.is_many else ([] if flag.is_many else False)
        if flag.choices and value is not None:
            value = _choose(parser, flag, value, source)
        setattr(said, flag.dest, value)
    said.tags = [tag.strip() for several in said.tags for tag in several.split(",")]
    return said


def _from_environment(parser: ArgumentParser, flag: Flag, text: str) -> object:
    if flag.is_many:
        return [part for part in text.split(flag.separator) if part] or None
    if flag.metavar:
        return text or None
    if text.lower() not in _TRUE + _FALSE:
        parser.error(f"{flag.variable} must be 1 or 0, not {text!r}")
    return text.lower() in _TRUE


def _choose(parser: ArgumentParser, flag: Flag, value: str, source: str) -> str:
    """The choice, in the case that it is written in."""
    found = [choice for choice in flag.choices if choice.lower() == value.lower()]
    if not found:
        parser.error(f"{source} must be one of {', '.join(flag.choices)}, not {value!r}")
    return found[0]


__all__ = [
    "CLIENTS",
    "FLAGS",
    "GROUPS",
    "HTTP_ONLY",
    "PREFIX",
    "SHAPES",
    "SHELLS",
    "Flag",
    "make_parser",
    "read",
]
