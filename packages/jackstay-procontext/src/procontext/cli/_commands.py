"""The sub-commands as rows: what each is called, what it does in one line, and which file holds it.

A file is named as text, so that `procontext --help` lists every command and loads none.

Above: `_main`. Below: nothing.
"""

import importlib
from argparse import ArgumentParser, Namespace
from typing import NamedTuple, Protocol, cast


class Command(Protocol):
    """What the file of a command provides."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments of this command."""

    def run(self, arguments: Namespace) -> int:
        """Do it, write the result to standard output, and return the exit code."""


class CommandRow(NamedTuple):
    """One sub-command; `home` is imported when it is the one that was typed, `examples` follow its name in `--help`."""

    name: str
    summary: str
    home: str
    examples: tuple[str, ...]


# What is run without a command: clients start the program with no arguments (reference, 7.1).
DEFAULT = "serve"

COMMANDS = (
    CommandRow(
        "serve",
        "serve MCP, over stdio or HTTP as the settings say (the default)",
        "_serve",
        ("", "--transport http --port 8080"),
    ),
    CommandRow(
        "resolve",
        "find a library by any name a developer would type",
        "_resolve",
        ("cv2", "'langchain[openai]>=0.3' --json"),
    ),
    CommandRow(
        "docs", "print the table of contents of a library", "_docs", ("fastapi", "fastapi --offset 40")
    ),
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
        "search the pages of a library that are in the cache",
        "_search",
        ("fastapi background tasks", "httpx timeout --limit 3 --json"),
    ),
    CommandRow(
        "fetch",
        "fetch libraries into the cache, to read and search them offline",
        "_fetch",
        ("fastapi httpx",),
    ),
    CommandRow("setup", "get the newest registry, and say which one is used", "_setup", ("",)),
    CommandRow("doctor", "check settings, registry, cache, network and sources", "_doctor", ("", "--json")),
    CommandRow(
        "completion",
        "print what completes these commands in your shell",
        "_completion",
        (
            "bash >> ~/.bashrc",
            "zsh > ~/.zfunc/_procontext",
            "fish > ~/.config/fish/completions/procontext.fish",
        ),
    ),
)


def load(row: CommandRow) -> Command:
    """The file of a command."""
    return cast(
        Command, importlib.import_module(f"procontext.cli.{row.home}")
    )  # the tests hold each to the protocol


__all__ = ["COMMANDS", "DEFAULT", "Command", "CommandRow", "load"]
