"""Which server: the words of a command line, as a table."""

import json
import shlex
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

import pytest

from jackstay.cli import main
from jackstay.cli._target import add_arguments, expect_no_more, pop_word, select_server
from jackstay.errors import UsageError
from jackstay.protocol.client import Settings


def parsed(words: list[str], server: list[str] | None) -> tuple[str, list[str]]:
    parser = ArgumentParser(prog="jackstay x", epilog="codes")
    add_arguments(parser, "[WORD]", "words", "an example")
    arguments = parser.parse_intermixed_args(words)
    arguments.server = server
    selected, rest = select_server(arguments)
    return selected.display, rest


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


def test_a_command_after_dashes() -> None:
    assert parsed(["a", "b"], ["uvx", "x y"]) == ("uvx 'x y'", ["a", "b"])
    assert parsed([], ["uvx"]) == ("uvx", [])


def test_a_name_from_a_configuration_file(config: str) -> None:
    expected = "uvx mcp-server-git 'a b' (with TOKEN set)"
    assert parsed(["--config", config, "git", "more"], None) == (expected, ["more"])
    assert parsed(["git", "--json", "more", "--config", config], None) == (expected, ["more"])


def test_values_of_variables_are_not_displayed(config: str) -> None:
    assert parsed(["--config", config, "plain"], None)[0] == "x '${JACKSTAY_TEST_SECRET:-s3cret}'"


def test_the_query_of_a_url_is_not_displayed(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


# arguments, command after -- -> text of the error
USAGE_ERRORS: list[tuple[list[str], list[str] | None, str]] = [
    ([], None, "no server was passed"),
    (["--config", "CONFIG"], None, "TARGET is missing; servers in 'CONFIG': git, plain, web"),
    (
        ["git"],
        None,
        "unknown server 'git'; use --config FILE, a URL (http://... or https://...)",
    ),
    (["example.org/mcp"], None, "a URL (https://example.org/mcp)"),
    (["localhost:8000"], None, "a URL (http://localhost:8000)"),
    (["127.0.0.1"], None, "a URL (http://127.0.0.1)"),
    (["CONFIG"], None, "is a file, did you mean --config CONFIG TARGET?"),
    ([__file__], None, f"is a file, did you mean -- python {shlex.quote(__file__)}?"),
    (["greet", __file__, "name=x"], None, f"unknown server 'greet'; {__file__!r} is a file"),
    (["--ca", "x.pem"], ["uvx"], "--ca requires a URL"),
    (["--ca", "x.pem", "--config", "CONFIG", "web"], None, "for a server in a configuration file set SSL_CERT_FILE"),
    (["--ca", "/no/such.pem", "https://x"], None, "cannot load the certificates in '/no/such.pem'"),
    (["ftp://x/mcp?token=s3cret"], None, "url must begin with http:// or https://"),
    (["https://x", "--config", "CONFIG"], None, "--config cannot be combined with a URL"),
    (["https://x", "--header", "s3cret"], None, "--header expects 'NAME: VALUE'"),
    (["https://x", "--header", ": s3cret"], None, "--header expects 'NAME: VALUE'"),
    (
        ["https://x", "--header", "A: ${UNSET_EVERYWHERE}"],
        None,
        "the environment variable 'UNSET_EVERYWHERE' is not set",
    ),
    (["https://x", "--header", "Host: s3cret"], None, "the header 'Host' is set by the client"),
    (["--header", "A: s3cret"], ["uvx"], "--header requires a URL"),
    (["--config", "CONFIG", "git", "--header", "A: s3cret"], None, "--header requires a URL"),
    (["--config", "CONFIG", "gti"], None, "unknown server 'gti'; servers: 'git', 'plain', 'web'"),
    (["--config", "absent.json", "git"], None, "cannot read absent.json"),
    (["--config", "CONFIG", "git"], ["uvx"], "cannot be combined with a command after --"),
]


def test_usage_errors(config: str) -> None:
    for words, server, message in USAGE_ERRORS:
        with pytest.raises(UsageError) as raised:
            parsed([config if word == "CONFIG" else word for word in words], server)
        assert message.replace("CONFIG", config) in str(raised.value), words
        assert "s3cret" not in str(raised.value), words


def test_words() -> None:
    words = ["a"]
    assert pop_word(words, "TOOL") == "a"
    expect_no_more(words)
    with pytest.raises(UsageError, match="TOOL is missing"):
        pop_word(words, "TOOL")
    with pytest.raises(UsageError, match="unexpected argument 'b'"):
        expect_no_more(["b"])


def test_an_invalid_timeout(capsys: pytest.CaptureFixture[str]) -> None:
    for seconds in ("0", "-1", "nan", "inf", "soon", "1e10"):
        assert main(["ping", f"--timeout={seconds}", "--", "x"]) == 2, seconds
        assert f"expected a number of seconds greater than 0, got {seconds!r}" in capsys.readouterr().err


def test_help_shows_the_usage_and_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "--help"]) == 0
    text = capsys.readouterr().out
    assert "jackstay call [options] URL TOOL [KEY=VALUE ...]\n" in text
    assert "jackstay call [options] --config FILE TARGET TOOL [KEY=VALUE ...]\n" in text
    assert "jackstay call [options] TOOL [KEY=VALUE ...] -- COMMAND [ARGUMENT ...]\n" in text
    assert "jackstay call https://example.org/mcp forecast city=Rome days=3\n" in text


def test_help_shows_the_defaults_of_the_settings() -> None:
    parser, settings = ArgumentParser(), Settings()
    add_arguments(parser, "")
    shown = f"(default: {settings.open_timeout:g}) and to respond ({settings.request_timeout:g})"
    assert shown in " ".join(parser.format_help().split())


def test_a_misplaced_url_is_the_server(jackstay: Callable) -> None:
    for words in (
        ("call", "greet", "who=you", "http://127.0.0.1:9/mcp"),
        ("call", "greet", "--", "http://127.0.0.1:9/mcp"),
    ):
        done = jackstay(*words, peer=False)
        assert (done.code, "127.0.0.1:9" in done.err) == (3, True), done


def test_variables_are_passed_to_the_command(jackstay: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER_GREETING", "hello")
    assert jackstay("call", "greet", "who=you").out == "hi, you\n"
    for words in (("--env", "PEER_GREETING"), ("--env", "PEER_GREETING=hello"), ("--pass-env",)):
        assert jackstay("call", "greet", "who=you", *words).out == "hello, you\n"
    for flag in ("--env=A=1", "--pass-env"):
        done = jackstay("tools", "http://127.0.0.1:9/mcp", flag, peer=False)
        assert (done.code, "requires a command after --" in done.err) == (2, True)


def test_an_option_of_the_tool_is_explained(jackstay: Callable) -> None:
    done = jackstay("call", "greet", "--who", "you")
    assert "an argument of the tool is written who=VALUE" in done.err
    assert "did you mean '--timeout'" in jackstay("call", "greet", "--timeuot", "1").err


def test_revision_keepalive_and_roots_are_set(jackstay: Callable, tmp_path: Path) -> None:
    done = jackstay("ping", "-v", "--protocol", "2025-11-25", "--keepalive", "5", "--roots", str(tmp_path))
    assert done.code == 0, done
    assert jackstay("ping", "--protocol", "1999-01-01").code == 2
