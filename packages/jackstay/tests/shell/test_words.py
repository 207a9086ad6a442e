"""The rows that completion is written from: read from parsers, so that nothing has to be kept in step."""

from argparse import ArgumentParser

import pytest

from jackstay.shell import Option, Program, Value, command_of, value_of


def test_a_parser_gives_its_options_with_what_completes_them(boat: Program) -> None:
    """Choices, files, directories; what is not for people is left out, and `--help` has words of its own."""
    ask, load = boat.commands
    assert ask.options == (
        Option(("-h", "--help"), "explain it"),
        Option(("--config",), "the captain's 50% [file]: names", Value("file")),
        Option(("--level",), "how (default: low)", Value(choices=("high", "low"))),
        Option(("--say",), "", Value(), is_many=True),
        Option(("-v", "--verbose"), "say more"),
    )
    assert load.options[1:] == (
        Option(("--into",), "", Value("directory")),
        Option(("--version",), "print the version"),
    )


def test_a_parser_gives_its_words_in_order(boat: Program) -> None:
    ask, load = boat.commands
    assert (ask.words, ask.is_endless, ask.has_server) == ((Value("server"),), False, True)
    assert load.words == (Value(choices=("crate", "barrel")), Value("file"))
    assert (load.is_endless, load.has_server) == (True, False)


@pytest.mark.parametrize(
    ("metavar", "kind"),
    [("FILE", "file"), ("FILE_OR_MODULE[:NAME]", "file"), ("DIR", "directory"), ("N", "")],
)
def test_what_help_calls_a_value_says_what_completes_it(metavar: str, kind: str) -> None:
    assert value_of(metavar) == Value(kind)


def test_choices_say_more_than_the_name_of_a_value() -> None:
    assert value_of("FILE", ("a", "b")) == Value("", ("a", "b"))
    parser = ArgumentParser()
    parser.add_argument("--point", nargs=2, metavar=("X", "Y"))  # a name that is no text
    assert command_of("x", "", parser).options[1] == Option(("--point",), "", Value())
