"""What was said, looked at before anything is loaded: complaints by the name that was typed."""

from pathlib import Path

import pytest

from apcore_mcp.cli import main
from apcore_mcp.cli._checking import BadValueError, as_typed, check, options_of
from apcore_mcp.cli._flags import read

# what is typed beside the directory -> what is said
TOGETHER = {
    "--check --export openai": "--check and --export are two things to do: give one of them",
    "--export openai --print-config cursor": "--export and --print-config are two things to do: give one of them",
    "--strict": "--strict is for --export: say --export openai as well",
    "--embed-annotations --check": "--embed-annotations is for --export: say --export openai as well",
}


@pytest.mark.parametrize(("typed", "said"), TOGETHER.items())
def test_what_does_not_go_together_is_told(typed: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadValueError) as raised:
        check(read(["--extensions-dir", str(tmp_path), *typed.split()], {}))
    assert str(raised.value) == said


def test_a_bad_value_of_the_environment_is_told_by_the_name_of_its_variable(tmp_path: Path) -> None:
    """Containers: the flag was never typed."""
    here = {"APCORE_MCP_EXTENSIONS_DIR": str(tmp_path)}
    for environment, said in (
        ({**here, "APCORE_MCP_PORT": "abc"}, "APCORE_MCP_PORT must be a number from 1 to 65535, not 'abc'"),
        ({**here, "APCORE_MCP_PORT": "0"}, "APCORE_MCP_PORT must be a number from 1 to 65535, not 0"),
        ({"APCORE_MCP_BINDINGS": "/nope"}, "APCORE_MCP_BINDINGS /nope does not exist"),
    ):
        with pytest.raises(BadValueError) as raised:
            check(read([], environment))
        assert str(raised.value) == said


def test_a_relative_directory_is_told_with_where_it_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadValueError, match=f"--extensions-dir nope does not exist .{tmp_path}/nope."):
        check(read(["--extensions-dir", "nope"], {}))


def test_two_directories_of_one_name_are_told(tmp_path: Path) -> None:
    """apcore begins ids with it, and would refuse them later in words of its own."""
    for folder in ("a/modules", "b/modules"):
        (tmp_path / folder).mkdir(parents=True)
    words = ["--extensions-dir", str(tmp_path / "a/modules"), "--extensions-dir", str(tmp_path / "b/modules")]
    with pytest.raises(BadValueError, match="two of --extensions-dir are called modules"):
        check(read(words, {}))


def test_options_are_told_by_their_flags(tmp_path: Path) -> None:
    said = read(["--extensions-dir", str(tmp_path), "--prefix", "", "--allow-host", "x"], {})
    check(said)
    with pytest.raises(BadValueError, match=r"^--prefix must not be empty$"):
        options_of(said)
    assert as_typed("hosts must be names", said) == "--allow-host must be names"
    assert as_typed("unheard_of must be", said) == "unheard_of must be"
    assert as_typed("'x' is not", said) == "'x' is not"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--cors", "x y"], "apcore-mcp: --cors must be origins such as"),
        (["--allow-host", "http://x"], "apcore-mcp: --allow-host must be names such as"),
    ],
)
def test_what_only_the_server_understands_is_a_bad_value_too(
    typed: list[str], said: str, modules: Path, port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """F-009: 1, not 2: nothing failed to start, something was said wrong."""
    where = ["--transport", "streamable-http", "--port", str(port)]
    assert main(["--extensions-dir", str(modules), *where, *typed]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(said)
