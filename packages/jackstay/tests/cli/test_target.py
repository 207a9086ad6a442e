"""Which server: the words of a command line, as a table."""

import json
from argparse import ArgumentParser
from pathlib import Path

import pytest

from jackstay.cli import main
from jackstay.cli._target import add_arguments, choose, take_no_more, take_word
from jackstay.errors import UsageError


def parsed(words: list[str], server: list[str] | None) -> tuple[str, list[str]]:
    parser = ArgumentParser(prog="jackstay x", epilog="codes")
    add_arguments(parser, "[WORD]", "words", "an example")
    arguments = parser.parse_intermixed_args(words)
    arguments.server = server
    chosen, rest = choose(arguments)
    return chosen.shown, rest


@pytest.fixture
def config(tmp_path: Path) -> str:
    servers = {
        "git": {"command": "uvx", "args": ["mcp-server-git", "a b"], "env": {"TOKEN": "s3cret"}},
        "plain": {"command": "x", "args": ["${JACKSTAY_TEST_SECRET:-s3cret}"]},
        "web": {"url": "https://x"},
    }
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return str(path)


def test_a_command_after_the_dashes_leaves_every_word_to_the_command() -> None:
    assert parsed(["a", "b"], ["uvx", "x y"]) == ("uvx 'x y'", ["a", "b"])
    assert parsed([], ["uvx"]) == ("uvx", [])


def test_a_name_from_a_file_is_the_first_word(config: str) -> None:
    shown = "uvx mcp-server-git 'a b' (with TOKEN set)"
    assert parsed(["--config", config, "git", "more"], None) == (shown, ["more"])
    assert parsed(["git", "--json", "more", "--config", config], None) == (shown, ["more"])


def test_no_value_of_a_variable_is_shown(config: str) -> None:
    assert parsed(["--config", config, "plain"], None)[0] == "x '${JACKSTAY_TEST_SECRET:-s3cret}'"


def test_a_url_is_a_server_and_its_query_is_not_shown(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JACKSTAY_TEST_SECRET", "s3cret")
    words = [
        "https://x/mcp?token=s3cret",
        "more",
        "--header",
        "X-Key: ${JACKSTAY_TEST_SECRET}",
        "--header=X-B:2",
    ]
    assert parsed(words, None) == ("https://x/mcp", ["more"])
    assert parsed(["--config", config, "web"], None) == ("https://x", [])


MISTAKES = [
    ([], None, "which server"),
    (["--config", "CONFIG"], None, "which server? CONFIG names git, plain, web"),
    (
        ["git"],
        None,
        "where is 'git' named? Give the file with --config FILE, a URL (http://... or https://...)",
    ),
    (["example.org/mcp"], None, "a URL (https://example.org/mcp)"),
    (["localhost:8000"], None, "a URL (http://localhost:8000)"),
    (["127.0.0.1"], None, "a URL (http://127.0.0.1)"),
    (["--ca", "x.pem"], ["uvx"], "--ca is for a URL"),
    (["--ca", "x.pem", "--config", "CONFIG", "web"], None, "for one in a file set SSL_CERT_FILE"),
    (["--ca", "/no/such.pem", "https://x"], None, "cannot use the certificates in /no/such.pem"),
    (["ftp://x/mcp?token=s3cret"], None, "only http and https URLs"),
    (["https://x", "--config", "CONFIG"], None, "--config and a URL are two servers"),
    (["https://x", "--header", "s3cret"], None, "a header is written 'NAME: VALUE'"),
    (["https://x", "--header", ": s3cret"], None, "a header is written 'NAME: VALUE'"),
    (["https://x", "--header", "A: ${UNSET_EVERYWHERE}"], None, "needs the variable UNSET_EVERYWHERE"),
    (["https://x", "--header", "Host: s3cret"], None, "Host is said by the client itself"),
    (["--header", "A: s3cret"], ["uvx"], "--header is for a URL"),
    (["--config", "CONFIG", "git", "--header", "A: s3cret"], None, "--header is for a URL"),
    (["--config", "CONFIG", "gti"], None, "names no server 'gti'; it names git, plain, web"),
    (["--config", "absent.json", "git"], None, "cannot read absent.json"),
    (["--config", "CONFIG", "git"], ["uvx"], "two servers: give one"),
]


@pytest.mark.parametrize(("words", "server", "said"), MISTAKES)
def test_a_mistake_says_what_to_try(
    words: list[str], server: list[str] | None, said: str, config: str
) -> None:
    with pytest.raises(UsageError) as raised:
        parsed([config if word == "CONFIG" else word for word in words], server)
    assert said.replace("CONFIG", config) in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_words_are_taken_one_by_one() -> None:
    words = ["a"]
    assert take_word(words, "TOOL") == "a"
    take_no_more(words)
    with pytest.raises(UsageError, match="TOOL is missing"):
        take_word(words, "TOOL")
    with pytest.raises(UsageError, match="'b' is one word too many"):
        take_no_more(["b"])


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon", "1e10"])
def test_a_timeout_must_be_a_number_of_seconds(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ping", f"--timeout={seconds}", "--", "x"]) == 2
    assert f"must be a number of seconds above 0, not {seconds!r}" in capsys.readouterr().err


def test_help_shows_every_way_and_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "jackstay call [options] URL TOOL [KEY=VALUE ...]\n" in shown
    assert "jackstay call [options] --config FILE TARGET TOOL [KEY=VALUE ...]\n" in shown
    assert "jackstay call [options] TOOL [KEY=VALUE ...] -- COMMAND [ARGUMENT ...]\n" in shown
    assert "jackstay call https://example.org/mcp forecast city=Rome days=3\n" in shown
