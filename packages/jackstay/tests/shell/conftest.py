"""A program to complete, small but with everything in it."""

from argparse import SUPPRESS, ArgumentParser

import pytest

from jackstay.shell import Command, Option, Program, Value, command_of


def commands() -> tuple[Command, ...]:
    """Two: one about a server, one about files."""
    ask = ArgumentParser(prog="boat ask")
    ask.add_argument("words", nargs="*", metavar="TARGET")
    ask.add_argument("--config", metavar="FILE", help="the captain's 50%% [file]: names")
    ask.add_argument("--level", choices=("high", "low"), default="low", help="how (default: %(default)s)")
    ask.add_argument("--say", action="append", metavar="WORD")
    ask.add_argument("-v", "--verbose", action="store_true", help="say more")
    ask.add_argument("--unseen", help=SUPPRESS)
    load = ArgumentParser(prog="boat load")
    load.add_argument("kind", choices=("crate", "barrel"))
    load.add_argument("files", nargs="+", metavar="FILE")
    load.add_argument("--into", metavar="DIR")
    load.add_argument("--version", action="version", version="1")
    return (
        command_of("ask", "ask a server", ask, words={"words": Value("server")}, has_server=True),
        command_of("load", "load what's there", load),
    )


@pytest.fixture
def boat() -> Program:
    """With commands."""
    return Program(
        "boat",
        commands(),
        (Option(("-h", "--help"), "explain it"),),
        "completion",
        "completion --names",
    )


@pytest.fixture
def raft() -> Program:
    """Without: options are all there is."""
    options = (
        Option(("--shore",), "which", Value(choices=("left", "right"))),
        Option(("--rope",), "from this directory", Value("directory"), is_many=True),
    )
    return Program("small-raft", (), options, "--print-completion")
