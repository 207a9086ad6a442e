"""A parser whose complaints say what to try: the word that was perhaps meant, and where everything is listed.

Must never know a command. Above: the parsers of the commands. Below: argparse.
"""

import sys
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Iterable
from typing import NoReturn

# How argparse begins its sentence about words that nobody asked for.
_UNKNOWN = "unrecognized arguments: "


class CommandParser(ArgumentParser):
    """An ArgumentParser of a command: no abbreviations, `--help` without a line of its own, advice after mistakes."""

    def __init__(self, prog: str, **options: object) -> None:
        # An option that is added later must not change what a script means.
        super().__init__(prog, allow_abbrev=False, add_help=False, **options)  # type: ignore[arg-type]  # as argparse takes them
        # Who reads it has found it, and a screen has 24 lines.
        self.add_argument("-h", "--help", action="help", help=SUPPRESS)

    def error(self, message: str) -> NoReturn:
        """End with 2, after the usage, what was wrong, and what to try."""
        self.print_usage(sys.stderr)
        said = self._explained(message)
        see = " See" if said.endswith("?") else "; see"
        self.exit(2, f"{self.prog}: error: {said}{see} {self.prog} --help\n")

    def _explained(self, message: str) -> str:
        if not message.startswith(_UNKNOWN):
            return message
        words = message.removeprefix(_UNKNOWN).split()
        option = next((word for word in words if word.startswith("-") and word != "--"), None)
        if option is None:
            return f"{words[-1]!r} is one word too many" if words else message
        flags = [flag for action in self._actions if action.help for flag in action.option_strings]
        return f"there is no option {option}{meant(option.partition('=')[0], flags)}"


def meant(word: str, known: Iterable[str]) -> str:
    """What to add to a sentence about a word that is not known: the one that is like it, if there is one."""
    from difflib import get_close_matches  # noqa: PLC0415  # only for who mistyped

    close = get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""


__all__ = ["CommandParser", "meant"]
