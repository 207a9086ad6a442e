"""Two small programs that use every feature of shell completion."""

from argparse import SUPPRESS, ArgumentParser

import pytest

from jackstay.shell import Command, Option, Program, Value, command_from_parser


def commands() -> tuple[Command, ...]:
    """Two commands: one with a server, one with files."""
    query = ArgumentParser(prog="boat query")
    query.add_argument("words", nargs="*", metavar="TARGET")
    query.add_argument("--config", metavar="FILE", help="the captain's 50%% [file]: names")
    query.add_argument("--level", choices=("high", "low"), default="low", help="how (default: %(default)s)")
    query.add_argument("--tag", action="append", metavar="WORD")
    query.add_argument("-v", "--verbose", action="store_true", help="print more")
    query.add_argument("--unseen", help=SUPPRESS)
    load = ArgumentParser(prog="boat load")
    load.add_argument("kind", choices=("crate", "barrel"))
    load.add_argument("files", nargs="+", metavar="FILE")
    load.add_argument("--into", metavar="DIR")
    load.add_argument("--version", action="version", version="1")
    return (
        command_from_parser("query", "query a server", query, has_server=True),
        command_from_parser("load", "load what's there", load),
    )


@pytest.fixture
def boat() -> Program:
    """A program with commands."""
    return Program(
        "boat",
        commands(),
        (Option(("-h", "--help"), "show this help"),),
        "completion",
        "completion --names",
    )


@pytest.fixture
def raft() -> Program:
    """A program without commands."""
    options = (
        Option(("--shore",), "which", Value(choices=("left", "right"))),
        Option(("--rope",), "from this directory", Value("directory"), is_repeatable=True),
    )
    return Program("small-raft", (), options, "--print-completion")
