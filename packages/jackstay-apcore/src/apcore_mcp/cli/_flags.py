"""The command-line flags: each is also an environment variable and a line of `--help`.

`APCORE_MCP_PORT=9000` is equivalent to `--port 9000`; a flag takes precedence. apcore is not imported here, so that
`--help` is fast.
"""

import os
import re
from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from typing import Any, Final, NamedTuple, NoReturn

from apcore_mcp._version import __version__
from apcore_mcp.options import APPROVAL_ALIASES, APPROVALS, LOG_LEVELS, OUTPUT_FORMATS, TRANSPORTS
from jackstay.shell import CommandParser

# The prefix of the environment variables.
PREFIX: Final = "APCORE_MCP_"

CLIENTS: Final = ("claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "gemini", "codex", "goose", "zed")
SHAPES: Final = ("openai", "openai-responses", "anthropic", "gemini")
SHELLS: Final = ("bash", "zsh", "fish")
STRATEGIES: Final = ("standard", "internal", "testing", "performance", "minimal")

_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")


class Flag(NamedTuple):
    """One flag. `metavar` is empty for a switch; an `is_many` flag may be repeated."""

    name: str
    metavar: str
    help: str
    default: str | None = None
    choices: tuple[str, ...] = ()
    is_many: bool = False
    # Separates values in an environment variable.
    separator: str = ","
    # An empty environment variable is refused: it may be meant to protect modules.
    protects: bool = False

    @property
    def flag(self) -> str:
        """The flag with its dashes."""
        return f"--{self.name}"

    @property
    def dest(self) -> str:
        """The attribute in the namespace."""
        return self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return PREFIX + self.dest.upper()


GROUPS: Final[tuple[tuple[str, tuple[Flag, ...]], ...]] = (
    (
        "modules",
        (
            Flag("extensions-dir", "DIR", "directory of apcore modules", is_many=True, separator=os.pathsep),
            Flag("bindings", "DIR", "directory of *.binding.yaml files", is_many=True, separator=os.pathsep),
            Flag("tags", "TAG", "only modules with all these tags", is_many=True, protects=True),
            Flag("prefix", "TEXT", "only modules whose ids start with this", protects=True),
            Flag("dynamic", "", "watch the directories for changes"),
        ),
    ),
    (
        "transport",
        (
            Flag("transport", "NAME", "stdio (default), streamable-http, sse (deprecated)", "stdio", TRANSPORTS),
            Flag("host", "HOST", "address to listen on, for HTTP", "127.0.0.1"),
            Flag("port", "PORT", "1 to 65535, for HTTP", "8000"),
            Flag("allow-host", "HOST", "accept this Host too (default: localhost)", is_many=True),
            Flag("cors", "ORIGIN", "allow web pages of this origin", is_many=True),
            Flag("auth-key-env", "NAME", "require the key in this variable", is_many=True, protects=True),
        ),
    ),
    (
        "server",
        (
            Flag("name", "NAME", "the name of the server", "apcore-mcp"),
            Flag("version", "VERSION", "the version of the server (default: the package's)"),
            Flag("validate-inputs", "", "report every invalid field of the arguments"),
            Flag("approval", "HOW", "required approvals: elicit (default), allow or deny", "elicit", APPROVALS),
            Flag("explorer", "", "serve the Tool Inspector, for HTTP"),
            Flag("inspector-prefix", "PATH", "the path of the inspector", "/inspector"),
            Flag("metrics", "", "serve Prometheus metrics at /metrics, for HTTP"),
            Flag("log-level", "LEVEL", "DEBUG, INFO (default), WARNING, ERROR or CRITICAL", "INFO", LOG_LEVELS),
        ),
    ),
    (
        "instead of serving",
        (
            Flag("check", "", "list served and skipped modules, with reasons"),
            Flag("export", "SHAPE", "for openai, openai-responses, anthropic or gemini", choices=SHAPES),
            Flag("strict", "", "with --export: schemas for strict mode"),
            Flag("embed-annotations", "", "with --export: annotations in descriptions"),
            Flag("install", "CLIENT", "add it to a client, with a copy of its old file", choices=CLIENTS),
            Flag("uninstall", "CLIENT", "remove the server NAME from a client", choices=CLIENTS),
            Flag(
                "print-config", "CLIENT", f"for {', '.join(CLIENTS[:-1])} or {CLIENTS[-1]}", choices=CLIENTS
            ),
            Flag("print-completion", "SHELL", "a completion script for bash, zsh or fish", choices=SHELLS),
        ),
    ),
)  # fmt: skip

FLAGS: Final = tuple(flag for _, flags in GROUPS for flag in flags)

# Flags that are not in the help, which is one screen: those of apcore-mcp 0.23.3, and limits. docs/apcore.md has them.
UNLISTED: Final = (
    Flag("dry-run", "", "with --install and --uninstall: show the change, and write nothing"),
    Flag("max-frame-bytes", "BYTES", "the largest message"),
    Flag("backend", "URL", "share state in this Redis; or a variable with its URL"),
    Flag("otel", "", "spans and durations for OpenTelemetry"),
    Flag("page-size", "NUMBER", "the number of tools in a page of the list"),
    Flag("jwt-secret", "TEXT", "require tokens signed with this secret", protects=True),
    Flag("jwt-key-file", "FILE", "require tokens signed with the key of this PEM file", protects=True),
    Flag("jwt-algorithm", "NAME", "the algorithm of the tokens", "HS256"),
    Flag("jwt-audience", "TEXT", "the audience of the tokens", protects=True),
    Flag("jwt-issuer", "TEXT", "the issuer of the tokens", protects=True),
    Flag("jwt-require-auth", "", "refuse requests without a token, which is the default"),
    Flag("no-jwt-require-auth", "", "accept requests without a token, without an identity"),
    Flag("exempt-paths", "PATHS", "paths that need no token, separated by commas"),
    Flag("explorer-prefix", "PATH", "the path of the inspector"),
    Flag("allow-execute", "", "allow calls from the inspector, which is the default"),
    Flag("observability", "", "metrics, and the usage of each module below the inspector"),
    Flag("strategy", "NAME", "the execution strategy of apcore", choices=STRATEGIES),
    Flag("output-format", "NAME", "the text of results", choices=OUTPUT_FORMATS),
    Flag("from-openapi", "SPEC", "serve the operations of this OpenAPI document: a URL or a path"),
    Flag("openapi-base-url", "URL", "the URL of the API"),
    Flag("openapi-prefix", "TEXT", "a prefix for the ids of operations"),
    Flag("openapi-include", "REGEX", "only operations whose ids match", protects=True),
    Flag("openapi-exclude", "REGEX", "no operations whose ids match", protects=True),
    Flag("openapi-no-deprecated", "", "no deprecated operations"),
    Flag("openapi-header", "NAME:VALUE", "a header for fetching the document", is_many=True),
)

# Flags that have an effect only with HTTP, for a warning. (Host and port are ignored silently.)
HTTP_ONLY: Final = tuple(
    flag for flag in FLAGS if flag.name in ("allow-host", "cors", "auth-key-env", "explorer", "metrics")
)

_EPILOG = """\
*: may be repeated. Environment: APCORE_MCP_PORT for --port, and so on.
examples:
  apcore-mcp --extensions-dir modules --check
  apcore-mcp --extensions-dir modules --transport streamable-http --explorer
exit codes: 0 success, 1 bad value (--check: skipped), 2 usage or start error"""

# The width of a standard terminal.
COLUMNS: Final = 80


_SWITCH: Final[dict[str, Any]] = {"action": "store_const", "const": True}


class _Format(RawDescriptionHelpFormatter):
    """Formats one line for each flag."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=min(COLUMNS, get_terminal_size().columns))


class _Parser(CommandParser):
    """A parser without empty lines between its groups, and with hints for common mistakes."""

    def error(self, message: str) -> NoReturn:
        """Print an error, with hints that are specific to this command."""
        if message == "argument --version: expected one argument":
            message += f": the version of the server; the version of jackstay-apcore is {__version__}"
        argument = message.removeprefix("unrecognized arguments: ")
        if argument != message and os.path.isdir(argument):
            message = f"unrecognized argument {argument!r}; did you mean --extensions-dir {argument}?"
        super().error(message)

    def format_help(self) -> str:
        """Return the help without empty lines except before the first group, so that it fits 40 lines."""
        starts = "|".join([*(f"{title}:" for title, _ in GROUPS[1:]), r"\*:", str(self.description)])
        # Newer versions of Python colour the titles.
        return re.sub(rf"\n(\n(?:\x1b\[[\d;]*m)*(?:{starts}))", r"\1", super().format_help())


def make_parser() -> ArgumentParser:
    """Return the parser. It has no defaults, so that missing values can come from the environment."""
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
    for flag in UNLISTED:
        more: dict[str, Any] = {} if flag.metavar else _SWITCH
        parser.add_argument(flag.flag, help=SUPPRESS, default=None, **({"action": "append"} if flag.is_many else more))
    return parser


def _add(group: object, flag: Flag) -> None:
    add = group.add_argument  # type: ignore[attr-defined]  # the class of groups is private to argparse
    has_default = flag.default is None or "(default" in flag.help
    text = flag.help if has_default else f"{flag.help} (default: {flag.default})"
    text = f"{text} *" if flag.is_many else text
    text = text.replace("%", "%%")
    if not flag.metavar:
        add(flag.flag, default=None, help=text, **_SWITCH)
    elif flag.is_many:
        add(flag.flag, action="append", metavar=flag.metavar, default=None, help=text)
    else:
        add(flag.flag, metavar=flag.metavar, default=None, help=text)


def read(arguments: Sequence[str] | None, environment: Mapping[str, str]) -> Namespace:
    """Parse the arguments, completed from the environment and the defaults, as strings, lists of strings and booleans.

    Exits with code 2 for an unknown flag or choice, as argparse does.
    """
    parser = make_parser()
    args = parser.parse_args(arguments)
    # The flag or variable that each value comes from, for error messages.
    args.sources = {}
    # What was given, not a default.
    args.given = set()
    # Variables of flags that protect modules, but have no value.
    args.empty = []
    for flag in (*FLAGS, *UNLISTED):
        value = getattr(args, flag.dest)
        source = flag.flag
        if value is None and flag.variable in environment:
            value, source = _from_environment(parser, flag, environment[flag.variable]), flag.variable
            if value is None and flag.protects:
                args.empty.append(flag.variable)
        args.sources[flag.dest] = source
        if value is not None:
            args.given.add(flag.dest)
        if value is None:
            value = flag.default if flag.metavar and not flag.is_many else ([] if flag.is_many else False)
        if flag.choices and value is not None:
            given = APPROVAL_ALIASES.get(value, value) if flag.name == "approval" else value
            value = _choose(parser, flag, given, source)
        setattr(args, flag.dest, value)
    args.tags = [tag.strip() for value in args.tags for tag in value.split(",")]
    return args


def _from_environment(parser: ArgumentParser, flag: Flag, text: str) -> object:
    if flag.is_many:
        return [part for part in text.split(flag.separator) if part] or None
    if flag.metavar:
        return text or None
    if not text:
        return None
    if text.lower() not in _TRUE + _FALSE:
        parser.error(f"{flag.variable} must be 1 or 0, not {text!r}")
    return text.lower() in _TRUE


def _choose(parser: ArgumentParser, flag: Flag, value: str, source: str) -> str:
    """Return the choice in its canonical case."""
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
    "STRATEGIES",
    "UNLISTED",
    "Flag",
    "make_parser",
    "read",
]
