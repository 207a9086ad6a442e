"""What can be said on the command line, as rows: each is a flag, a variable of the environment, and a line of `--help`.

The environment is for containers: `APCORE_MCP_PORT=9000` says what `--port 9000` does. A flag wins over it.

Must never know apcore, so that `--help` is quick. Above: `_main`. Below: `apcore_mcp.options`.
"""

import os
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from apcore_mcp.options import APPROVALS, LOG_LEVELS, TRANSPORTS

# Before the name of a flag in the environment.
PREFIX: Final = "APCORE_MCP_"

CLIENTS: Final = ("claude-desktop", "claude-code", "cursor", "vscode", "windsurf")
SHAPES: Final = ("openai", "openai-responses", "anthropic")

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
            Flag("extensions-dir", "DIR", "directory of apcore modules; may be said again", is_many=True, separator=os.pathsep),
            Flag("bindings", "DIR", "directory of *.binding.yaml files; may be said again", is_many=True, separator=os.pathsep),
            Flag("tags", "TAG", "only modules with this tag, listed and callable; may be said again, all must be there", is_many=True),
            Flag("prefix", "TEXT", "only modules whose ids begin so"),
            Flag("dynamic", "", "watch the directories: modules come, change and go while it serves"),
        ),
    ),
    (
        "transport",
        (
            Flag("transport", "NAME", "stdio, streamable-http, or sse (deprecated)", "stdio", TRANSPORTS),
            Flag("host", "HOST", "where to listen, over HTTP", "127.0.0.1"),
            Flag("port", "PORT", "1 to 65535, over HTTP", "8000"),
            Flag("allow-host", "HOST", "answer as this name, too (default: localhost only); may be said again", is_many=True),
            Flag("cors", "ORIGIN", "let web pages of this origin call and read; may be said again", is_many=True),
            Flag("auth-key-env", "NAME", "callers need the key that is in this variable; may be said again", is_many=True),
        ),
    ),
    (
        "server",
        (
            Flag("name", "NAME", "what clients are told it is called, at most 255 characters", "apcore-mcp"),
            Flag("version", "VERSION", "and of which version (default: that of the package)"),
            Flag("validate-inputs", "", "check arguments before a module is run, naming every wrong field"),
            Flag("approval", "HOW", "modules that require approval: ask the client, or allow them", "ask", APPROVALS),
            Flag("explorer", "", "serve the Tool Inspector, over HTTP"),
            Flag("inspector-prefix", "PATH", "where it is", "/inspector"),
            Flag("metrics", "", "serve Prometheus metrics at /metrics, over HTTP"),
            Flag("log-level", "LEVEL", "DEBUG, INFO, WARNING or ERROR, on standard error", "INFO", LOG_LEVELS),
        ),
    ),
    (
        "instead of serving",
        (
            Flag("check", "", "say which modules are offered and which are skipped, and why; 1 if one is skipped"),
            Flag("export", "SHAPE", "print the tools as JSON for: " + ", ".join(SHAPES), choices=SHAPES),
            Flag("strict", "", "with --export: as strict mode wants schemas"),
            Flag("embed-annotations", "", "with --export: tell annotations in descriptions"),
            Flag("print-config", "CLIENT", "print what to put into the configuration of: " + ", ".join(CLIENTS), choices=CLIENTS),
        ),
    ),
)  # fmt: skip

FLAGS: Final = tuple(flag for _, flags in GROUPS for flag in flags)

_EPILOG = """\
Every option can be set by the environment: --port by APCORE_MCP_PORT, several values with commas (directories with
colons), switches with 1. The exit code is 0 at the end, 1 for a bad value, 2 if it cannot start."""


def make_parser() -> ArgumentParser:
    """The parser; it knows no defaults, so that what was not said can be looked for elsewhere."""
    parser = ArgumentParser(
        prog="apcore-mcp",
        usage="apcore-mcp --extensions-dir DIR [options]",
        description="Serve apcore modules as MCP tools.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for title, flags in GROUPS:
        group = parser.add_argument_group(title)
        for flag in flags:
            _add(group, flag)
    return parser


def _add(group: object, flag: Flag) -> None:
    add = group.add_argument  # type: ignore[attr-defined]  # argparse keeps the class of groups to itself
    words = flag.help if flag.default is None else f"{flag.help} (default: {flag.default})"
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
    for flag in FLAGS:
        value = getattr(said, flag.dest)
        source = flag.flag
        if value is None and flag.variable in environment:
            value, source = _from_environment(parser, flag, environment[flag.variable]), flag.variable
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


__all__ = ["CLIENTS", "FLAGS", "GROUPS", "PREFIX", "SHAPES", "Flag", "make_parser", "read"]
