"""Command-line flags and environment variables."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from apcore_mcp.adapters.id_normalizer import ModuleIDNormalizer
from apcore_mcp.cli._flags import FLAGS, SHAPES, SHELLS, UNLISTED, make_parser, read
from apcore_mcp.converters.openai import SHAPES as CONVERTED
from apcore_mcp.options import make_options
from jackstay.shell import SHELLS as KNOWN_SHELLS


def test_defaults_are_those_of_serve() -> None:
    args, options = read([], {}), make_options()
    for name in ("transport", "host", "name", "approval", "inspector_prefix"):
        assert getattr(args, name) == getattr(options, name)
    assert args.port == str(options.port)
    assert args.log_level == "INFO"
    assert (args.extensions_dir, args.tags, args.dynamic, args.check) == ([], [], False, False)
    assert SHAPES == CONVERTED
    assert SHELLS == KNOWN_SHELLS
    assert ModuleIDNormalizer  # imported without apcore


def test_environment_variables() -> None:
    args = read(
        [],
        {
            "APCORE_MCP_EXTENSIONS_DIR": f"/a{os.pathsep}/b",
            "APCORE_MCP_PORT": "9000",
            "APCORE_MCP_TRANSPORT": "SSE",
            "APCORE_MCP_TAGS": "x, y",
            "APCORE_MCP_DYNAMIC": "1",
            "APCORE_MCP_METRICS": "off",
            "APCORE_MCP_HOST": "",
            "APCORE_MCP_ALLOW_HOST": "",
        },
    )
    assert args.extensions_dir == ["/a", "/b"]
    assert (args.port, args.transport, args.tags) == ("9000", "sse", ["x", "y"])
    assert (args.dynamic, args.metrics, args.host, args.allow_host) == (True, False, "127.0.0.1", [])
    assert all(flag.variable.startswith("APCORE_MCP_") for flag in FLAGS)


def test_flag_takes_precedence_over_environment() -> None:
    args = read(
        ["--port", "1", "--extensions-dir", "/c", "--tags", "a,b", "--tags", "c"],
        {"APCORE_MCP_PORT": "2", "APCORE_MCP_EXTENSIONS_DIR": "/d"},
    )
    assert (args.port, args.extensions_dir, args.tags) == ("1", ["/c"], ["a", "b", "c"])


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
def test_unknown_flag_or_choice_exits_with_2(
    arguments: list[str], environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read(arguments, environment)
    assert ended.value.code == 2
    assert capsys.readouterr().err


def test_choices_are_case_insensitive() -> None:
    args: Any = read(["--transport", "Streamable-HTTP", "--log-level", "debug"], {})
    assert (args.transport, args.log_level) == ("streamable-http", "DEBUG")


def test_help_fits_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 lines of 80 columns. Every flag has a line with its default and its choices."""
    monkeypatch.setenv("COLUMNS", "80")
    text = make_parser().format_help()
    lines = text.splitlines()
    assert len(lines) <= 40
    assert [line for line in lines if len(line) > 80] == []
    assert "\nexamples:\n  apcore-mcp --extensions-dir modules --check\n" in text
    for flag in FLAGS:
        (index,) = (index for index, line in enumerate(lines) if line.startswith(f"  {flag.flag} "))
        # The clients are listed once.
        entry = " ".join(lines if flag.metavar == "CLIENT" else lines[index : index + 2])
        assert flag.default is None or flag.default in entry
        assert [choice for choice in flag.choices if choice not in entry] == []
        assert flag.is_many == lines[index].endswith(" *")


def test_help_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert "  --extensions-dir DIR" in make_parser().format_help()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--version"], "expected one argument: the version of the server; the version of jackstay-apcore is"),
        (["--extension-dir", "x"], "did you mean '--extensions-dir'?"),
        ([os.getcwd()], f"did you mean --extensions-dir {os.getcwd()}?"),
        (["nowhere"], "'nowhere'"),
    ],
)
def test_errors_suggest_a_correction(arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read(arguments, {})
    assert problem in capsys.readouterr().err.splitlines()[-1]


def test_every_flag_is_documented() -> None:
    page = (Path(__file__).parents[4] / "docs" / "apcore.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(--[a-z][a-z-]+)", page))
    assert {flag.flag for flag in (*FLAGS, *UNLISTED)} - documented == set()
