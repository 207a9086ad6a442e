"""The table of subcommands. Modules are named by strings, so that `procontext --help` imports none of them."""

import importlib
from argparse import ArgumentParser, Namespace
from typing import NamedTuple, Protocol, cast


class Command(Protocol):
    """The interface of a command module."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments of this command."""

    def run(self, arguments: Namespace) -> int:
        """Run the command, write the result to standard output, and return the exit code."""


class CommandRow(NamedTuple):
    """One subcommand. `module` is imported when the command runs; `examples` are shown in `--help`."""

    name: str
    summary: str
    module: str
    examples: tuple[str, ...]


# The command that runs without arguments: MCP clients start the program that way.
DEFAULT = "serve"

COMMANDS = (
    CommandRow(
        "serve",
        "run the MCP server, over stdio or HTTP (the default)",
        "_serve",
        ("", "--transport http --port 8080"),
    ),
    CommandRow(
        "resolve",
        "find a library by any name a developer would type",
        "_resolve",
        ("cv2", "'langchain[openai]>=0.3' --json"),
    ),
    CommandRow("docs", "print the table of contents of a library", "_docs", ("fastapi", "fastapi --offset 40")),
    CommandRow(
        "read",
        "print a documentation page, or a section of one, as Markdown",
        "_read",
        (
            "https://docs.pydantic.dev/latest/ --headings",
            "https://docs.pydantic.dev/latest/ --heading 'Data validation'",
        ),
    ),
    CommandRow(
        "search",
        "search the documentation of a library",
        "_search",
        ("fastapi background tasks", "httpx timeout --limit 3 --json"),
    ),
    CommandRow(
        "fetch",
        "fetch libraries into the cache, to read and search them offline",
        "_fetch",
        ("fastapi httpx",),
    ),
    CommandRow(
        "setup",
        "add the server to a host, or download the newest registry",
        "_setup",
        ("claude-code", "claude-code --undo", ""),
    ),
    CommandRow("doctor", "check settings, registry, cache, network and sources", "_doctor", ("", "--json")),
    CommandRow(
        "completion",
        "print a completion script for your shell",
        "_completion",
        (
            "bash >> ~/.bashrc",
            "zsh > ~/.zfunc/_procontext",
            "fish > ~/.config/fish/completions/procontext.fish",
        ),
    ),
)


def load(row: CommandRow) -> Command:
    """Import the module of a command."""
    return cast(Command, importlib.import_module(f"procontext.cli.{row.module}"))  # a test checks each module


__all__ = ["COMMANDS", "DEFAULT", "Command", "CommandRow", "load"]
