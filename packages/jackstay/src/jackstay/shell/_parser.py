"""An argparse parser whose errors suggest a correction and refer to `--help`."""

import sys
from argparse import SUPPRESS, ArgumentParser, RawDescriptionHelpFormatter
from typing import NoReturn

# The prefix of argparse's message about unknown arguments.
_UNKNOWN = "unrecognized arguments: "


# The names of other programs for our options.
_SYNONYMS = {"--port": "--http", "-p": "--http"}


class CommandParser(ArgumentParser):
    """An ArgumentParser without abbreviations, with `--help` hidden from the help, and with suggestions in errors.

    The lines of the description and the epilog are printed as they are.
    """

    # True if arguments are written KEY=VALUE, so that an unknown option is probably one of them.
    takes_pairs = False

    def __init__(self, prog: str, **options: object) -> None:
        # Abbreviations are off: an option that is added later must not change the meaning of an existing script.
        options.setdefault("formatter_class", RawDescriptionHelpFormatter)
        super().__init__(prog, allow_abbrev=False, add_help=False, **options)  # type: ignore[arg-type]  # as argparse takes them
        # Hidden to keep the help within 24 lines.
        self.add_argument("-h", "--help", action="help", help=SUPPRESS)

    def error(self, message: str) -> NoReturn:
        """Print the usage, the error and a suggestion, and exit with 2."""
        self.print_usage(sys.stderr)
        explained = self._explain(message)
        see = " See" if explained.endswith("?") else "; see"
        self.exit(2, f"{self.prog}: error: {explained}{see} {self.prog} --help\n")

    def _explain(self, message: str) -> str:
        if not message.startswith(_UNKNOWN):
            return message
        words = message.removeprefix(_UNKNOWN).split()
        option = next((word for word in words if word.startswith("-") and word != "--"), None)
        if option is None:
            return f"unexpected argument {words[-1]!r}" if words else message
        flags = [flag for action in self._actions if action.help for flag in action.option_strings]
        from jackstay.errors import did_you_mean  # noqa: PLC0415  # only after a typing error

        name, _, value = option.lstrip("-").partition("=")
        if self.takes_pairs and not any(flag.startswith(f"--{name[:4]}") for flag in flags):
            return f"unknown option {option!r}; an argument of the tool is written {name}={value or 'VALUE'}"
        synonym = _SYNONYMS.get(option.partition("=")[0])
        if synonym in flags:
            return f"unknown option {option!r}; did you mean {synonym!r}?"
        return f"unknown option {option!r}{did_you_mean(option.partition('=')[0], flags)}"
