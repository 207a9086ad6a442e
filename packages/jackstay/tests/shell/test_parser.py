"""Errors of the parser, and their suggestions."""

import pytest

from jackstay.shell import CommandParser, did_you_mean


@pytest.fixture
def parser() -> CommandParser:
    parser = CommandParser("boat load", description="Load it.")
    parser.add_argument("--verbose", action="store_true", help="print more")
    parser.add_argument("--level", choices=("high", "low"), help="how")
    parser.add_argument("crate", nargs="?", help="what")
    return parser


# arguments -> last line of the error
ERRORS = {
    "--verbos": "unknown option '--verbos'; did you mean '--verbose'? See boat load --help",
    "--levle=low": "unknown option '--levle=low'; did you mean '--level'? See boat load --help",
    "--xyz": "unknown option '--xyz'; see boat load --help",
    "a b c": "unexpected argument 'c'; see boat load --help",
    "a -- b": "unexpected argument 'b'; see boat load --help",
    "--level": "argument --level: expected one argument; see boat load --help",
    "--lev low": "unknown option '--lev'; did you mean '--level'? See boat load --help",
}


def test_errors(parser: CommandParser, capsys: pytest.CaptureFixture[str]) -> None:
    for typed, message in ERRORS.items():
        with pytest.raises(SystemExit) as ended:
            parser.parse_args(typed.split())
        assert ended.value.code == 2, typed
        out, err = capsys.readouterr()
        assert out == "", typed
        assert err.startswith("usage: boat load"), typed
        assert err.splitlines()[-1] == f"boat load: error: {message}", typed


def test_help_does_not_list_help(parser: CommandParser, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser.parse_args(["-h"])
    assert "--help" not in capsys.readouterr().out


def test_a_suggestion_requires_a_similar_word() -> None:
    assert did_you_mean("toools", ["tools", "prompts"]) == "; did you mean 'tools'?"
    assert did_you_mean("xyz", ["tools", "prompts"]) == ""
