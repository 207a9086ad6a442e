"""A parser whose complaints say what to try."""

import pytest

from jackstay.shell import CommandParser, meant


@pytest.fixture
def parser() -> CommandParser:
    parser = CommandParser("boat load", description="Load it.")
    parser.add_argument("--verbose", action="store_true", help="say more")
    parser.add_argument("--level", choices=("high", "low"), help="how")
    parser.add_argument("crate", nargs="?", help="what")
    return parser


# what is typed -> the last line
COMPLAINTS = {
    "--verbos": "there is no option --verbos; did you mean --verbose? See boat load --help",
    "--levle=low": "there is no option --levle=low; did you mean --level? See boat load --help",
    "--xyz": "there is no option --xyz; see boat load --help",
    "a b c": "'c' is one word too many; see boat load --help",
    "a -- b": "'b' is one word too many; see boat load --help",
    "--level": "argument --level: expected one argument; see boat load --help",
    "--lev low": "there is no option --lev; did you mean --level? See boat load --help",
}


@pytest.mark.parametrize(("typed", "said"), COMPLAINTS.items())
def test_a_complaint_says_what_was_wrong_and_what_to_try(
    typed: str, said: str, parser: CommandParser, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(typed.split())
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: boat load")
    assert err.splitlines()[-1] == f"boat load: error: {said}"


def test_help_has_no_line_of_its_own(parser: CommandParser, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser.parse_args(["-h"])
    assert "--help" not in capsys.readouterr().out


def test_a_word_is_meant_only_if_it_is_like_one() -> None:
    assert meant("toools", ["tools", "prompts"]) == "; did you mean tools?"
    assert meant("xyz", ["tools", "prompts"]) == ""
