"""The commands and options that are read from argparse parsers."""

from argparse import ArgumentParser

from jackstay.shell import Option, Program, Value, command_from_parser, value_from_metavar


def test_options_of_a_parser(boat: Program) -> None:
    """Choices, files and directories are recognized; hidden options are left out."""
    query, load = boat.commands
    assert query.options == (
        Option(("-h", "--help"), "show this help"),
        Option(("--config",), "the captain's 50% [file]: names", Value("file")),
        Option(("--level",), "how (default: low)", Value(choices=("high", "low"))),
        Option(("--tag",), "", Value(), is_repeatable=True),
        Option(("-v", "--verbose"), "print more"),
    )
    assert load.options[1:] == (
        Option(("--into",), "", Value("directory")),
        Option(("--version",), "print the version"),
    )


def test_positionals_of_a_parser(boat: Program) -> None:
    query, load = boat.commands
    assert (query.positionals, query.has_server) == ((Value("server"),), True)
    assert load.positionals == (Value(choices=("crate", "barrel")), Value("file", is_repeatable=True))
    assert load.has_server is False


def test_kind_of_a_metavar() -> None:
    kinds = {"FILE": "file", "FILE_OR_MODULE[:NAME]": "file", "DIR": "directory", "N": ""}
    assert {metavar: value_from_metavar(metavar) for metavar in kinds} == {
        metavar: Value(kind) for metavar, kind in kinds.items()
    }


def test_choices_take_precedence_over_the_metavar() -> None:
    assert value_from_metavar("FILE", ("a", "b")) == Value("", ("a", "b"))
    parser = ArgumentParser()
    parser.add_argument("--point", nargs=2, metavar=("X", "Y"))
    assert command_from_parser("x", "", parser).options[1] == Option(("--point",), "", Value())
