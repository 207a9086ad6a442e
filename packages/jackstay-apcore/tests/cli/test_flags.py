"""F-009: what can be said, on the command line and by the environment."""

import os
from typing import Any

import pytest

from apcore_mcp.adapters.id_normalizer import ModuleIDNormalizer
from apcore_mcp.cli._flags import FLAGS, SHAPES, SHELLS, make_parser, read
from apcore_mcp.converters.openai import SHAPES as CONVERTED
from apcore_mcp.options import make_options
from jackstay.shell import SHELLS as KNOWN_SHELLS


def test_the_defaults_are_those_of_serve() -> None:
    """One row makes the keyword and the flag."""
    said, options = read([], {}), make_options()
    for name in ("transport", "host", "name", "approval", "inspector_prefix"):
        assert getattr(said, name) == getattr(options, name)
    assert said.port == str(options.port)
    assert said.log_level == "INFO"
    assert (said.extensions_dir, said.tags, said.dynamic, said.check) == ([], [], False, False)
    assert SHAPES == CONVERTED
    assert SHELLS == KNOWN_SHELLS
    assert ModuleIDNormalizer  # the shapes are named here without loading apcore


def test_everything_can_be_said_by_the_environment() -> None:
    """Environment variables for containers."""
    said = read(
        [],
        {
            "APCORE_MCP_EXTENSIONS_DIR": f"/a{os.pathsep}/b",
            "APCORE_MCP_PORT": "9000",
            "APCORE_MCP_TRANSPORT": "SSE",
            "APCORE_MCP_TAGS": "x, y",
            "APCORE_MCP_DYNAMIC": "1",
            "APCORE_MCP_METRICS": "off",
            "APCORE_MCP_PREFIX": "",
            "APCORE_MCP_ALLOW_HOST": "",
        },
    )
    assert said.extensions_dir == ["/a", "/b"]
    assert (said.port, said.transport, said.tags) == ("9000", "sse", ["x", "y"])
    assert (said.dynamic, said.metrics, said.prefix, said.allow_host) == (True, False, None, [])
    assert all(flag.variable.startswith("APCORE_MCP_") for flag in FLAGS)


def test_a_flag_wins_over_the_environment() -> None:
    said = read(
        ["--port", "1", "--extensions-dir", "/c", "--tags", "a,b", "--tags", "c"],
        {"APCORE_MCP_PORT": "2", "APCORE_MCP_EXTENSIONS_DIR": "/d"},
    )
    assert (said.port, said.extensions_dir, said.tags) == ("1", ["/c"], ["a", "b", "c"])


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--transport", "pigeon"], {}),
        ([], {"APCORE_MCP_TRANSPORT": "pigeon"}),
        (["--log-level", "LOUD"], {}),
        (["--colour", "red"], {}),
        (["--exp", "openai"], {}),
        ([], {"APCORE_MCP_DYNAMIC": "perhaps"}),
    ],
)
def test_a_flag_or_choice_that_is_none_ends_with_2(
    arguments: list[str], environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """F-009: 2 for a bad transport."""
    with pytest.raises(SystemExit) as ended:
        read(arguments, environment)
    assert ended.value.code == 2
    assert capsys.readouterr().err


def test_choices_may_be_in_any_case() -> None:
    said: Any = read(["--transport", "Streamable-HTTP", "--log-level", "debug"], {})
    assert (said.transport, said.log_level) == ("streamable-http", "DEBUG")


def test_help_fits_a_screen_and_shows_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 lines of 80 columns for all of it: every flag has a line, with its default and its choices."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = make_parser().format_help()
    lines = shown.splitlines()
    assert len(lines) <= 40
    assert [line for line in lines if len(line) > 80] == []
    assert "\nexamples:\n  apcore-mcp --extensions-dir modules --check\n" in shown
    for flag in FLAGS:
        (place,) = (place for place, line in enumerate(lines) if line.startswith(f"  {flag.flag} "))
        said = " ".join(lines[place : place + 2])
        assert flag.default is None or flag.default in said
        assert [choice for choice in flag.choices if choice not in said] == []
        assert flag.is_many == lines[place].endswith(" *")


def test_help_is_readable_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert "  --extensions-dir DIR" in make_parser().format_help()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--version"], "expected one argument: what clients are told; this is apcore-mcp of jackstay"),
        (["--extension-dir", "x"], "did you mean --extensions-dir? See apcore-mcp --help"),
        ([os.getcwd()], f"did you mean --extensions-dir {os.getcwd()}? See apcore-mcp --help"),
        (["nowhere"], "'nowhere' is one word too many"),
    ],
)
def test_a_complaint_says_what_was_perhaps_meant(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        read(arguments, {})
    assert said in capsys.readouterr().err.splitlines()[-1]
