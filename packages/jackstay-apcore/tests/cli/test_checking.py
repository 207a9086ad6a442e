"""Validation of the command line: errors name the flag or the variable."""

import os
from pathlib import Path

import pytest

from apcore_mcp.cli import main
from apcore_mcp.cli._checking import BadValueError, check, openapi_of, options_of, with_flag_name
from apcore_mcp.cli._flags import read

# flags -> error
INCOMPATIBLE = {
    "--check --export openai": "--check and --export cannot be used together",
    "--export openai --print-config cursor": "--export and --print-config cannot be used together",
    "--strict": "--strict requires --export, for example --export openai",
    "--embed-annotations --check": "--embed-annotations requires --export, for example --export openai",
}


def test_incompatible_flags(tmp_path: Path) -> None:
    for flags, problem in INCOMPATIBLE.items():
        with pytest.raises(BadValueError) as raised:
            check(read(["--extensions-dir", str(tmp_path), *flags.split()], {}))
        assert str(raised.value) == problem


def test_error_names_the_environment_variable(tmp_path: Path) -> None:
    directory = {"APCORE_MCP_EXTENSIONS_DIR": str(tmp_path)}
    for environment, problem in (
        ({**directory, "APCORE_MCP_PORT": "abc"}, "APCORE_MCP_PORT must be an int from 1 to 65535, not 'abc'"),
        ({**directory, "APCORE_MCP_PORT": "0"}, "APCORE_MCP_PORT must be an int from 1 to 65535, not 0"),
        ({"APCORE_MCP_BINDINGS": "/nope"}, "APCORE_MCP_BINDINGS: '/nope' does not exist"),
    ):
        with pytest.raises(BadValueError) as raised:
            check(read([], environment))
        assert str(raised.value) == problem


def test_relative_directory_is_shown_with_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadValueError, match=f"--extensions-dir: 'nope' does not exist .{tmp_path}/nope."):
        check(read(["--extensions-dir", "nope"], {}))


def test_directories_with_the_same_name(tmp_path: Path) -> None:
    """apcore uses the name as the prefix of ids."""
    for folder in ("a/modules", "b/modules"):
        (tmp_path / folder).mkdir(parents=True)
    argv = ["--extensions-dir", str(tmp_path / "a/modules"), "--extensions-dir", str(tmp_path / "b/modules")]
    with pytest.raises(BadValueError, match="two directories of --extensions-dir are named 'modules'"):
        check(read(argv, {}))


def test_error_names_the_flag(tmp_path: Path) -> None:
    args = read(["--extensions-dir", str(tmp_path), "--prefix", "", "--allow-host", "x"], {})
    check(args)
    with pytest.raises(BadValueError, match=r"^--prefix must not be empty$"):
        options_of(args)
    assert with_flag_name("hosts must be names", args) == "--allow-host must be names"
    assert with_flag_name("unknown_option must be", args) == "unknown_option must be"
    assert with_flag_name("'x' is not", args) == "'x' is not"


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--cors", "x y"], "apcore-mcp: --cors must be origins such as"),
        (["--allow-host", "http://x"], "apcore-mcp: --allow-host must be names such as"),
    ],
)
def test_errors_of_the_server_are_bad_values(
    flags: list[str], problem: str, modules: Path, port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1."""
    address = ["--transport", "streamable-http", "--port", str(port)]
    assert main(["--extensions-dir", str(modules), *address, *flags]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(problem)


def test_flags_of_apcore_mcp_are_options(tmp_path: Path) -> None:
    flags = (
        "--explorer-prefix /explorer --allow-execute --observability --strategy standard --output-format csv"
        " --exempt-paths /health,/metrics --no-jwt-require-auth --approval always-deny --max-frame-bytes 9000"
        " --page-size 1000"
    )
    options = options_of(read(["--extensions-dir", str(tmp_path), *flags.split()], {}))
    assert (options.inspector_prefix, options.strategy, options.output_format) == ("/explorer", "standard", "csv")
    assert (list(options.exempt_paths), options.require_auth, options.approval) == (
        ["/health", "/metrics"],
        False,
        "deny",
    )
    assert (options.max_frame_bytes, options.page_size, options.allow_execute) == (9000, 1000, True)
    assert options.usage_collector is not None
    for text in ("0", "many"):
        with pytest.raises(BadValueError, match="--page-size must be an int above 0"):
            options_of(read(["--extensions-dir", str(tmp_path), "--page-size", text], {}))


def test_flags_for_an_openapi_document() -> None:
    flags = "--from-openapi a.json --openapi-prefix web --openapi-no-deprecated --openapi-include pet"
    args = read([*flags.split(), "--openapi-header", "X-Key: k"], {})
    assert check(args) == ([], [])
    assert openapi_of(args) == {
        "spec": "a.json",
        "include_deprecated": False,
        "prefix": "web",
        "include": "pet",
        "headers": {"X-Key": "k"},
    }
    assert openapi_of(read([], {})) is None
    with pytest.raises(BadValueError, match="NAME:VALUE"):
        openapi_of(read(["--from-openapi", "a.json", "--openapi-header", "x"], {}))


def test_document_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    operation = '{"operationId": "ping", "responses": {"200": {"description": "ok"}}}'
    (tmp_path / "api.json").write_text(
        '{"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "servers": [{"url": "http://x.test"}],'
        f' "paths": {{"/ping": {{"get": {operation}}}}}}}'
    )
    assert main(["--from-openapi", str(tmp_path / "api.json"), "--check"]) == 0
    assert "ping  ok\n" in capsys.readouterr().out
    assert main(["--from-openapi", str(tmp_path / "api.json"), "--extensions-dir", str(tmp_path), "--check"]) == 1
    assert "--openapi-prefix" in capsys.readouterr().err


def test_unknown_variables_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("APCORE_MCP_REQUIRE_AUHT", "true")
    monkeypatch.setenv("APCORE_MCP_LOG_LEVEL", "INFO")
    options_of(read(["--extensions-dir", str(tmp_path)], os.environ))
    (record,) = [record for record in caplog.records if "has no effect" in record.message]
    assert record.message == "APCORE_MCP_REQUIRE_AUHT has no effect; did you mean 'APCORE_MCP_REQUIRE_AUTH'?"


# Variables of flags that protect modules. Empty ones would expose what they protect.
PROTECTING = (
    "AUTH_KEY_ENV", "JWT_SECRET", "JWT_KEY_FILE", "JWT_AUDIENCE", "JWT_ISSUER", "TAGS", "PREFIX", "OPENAPI_INCLUDE",
    "OPENAPI_EXCLUDE",
)  # fmt: skip


@pytest.mark.parametrize("name", PROTECTING)
def test_empty_variable_that_protects_is_refused(name: str, tmp_path: Path) -> None:
    variable = f"APCORE_MCP_{name}"
    flags = ["--extensions-dir", str(tmp_path)]
    with pytest.raises(BadValueError, match=f"^{variable} is empty and protects nothing; set it, or remove it$"):
        check(read(flags, {variable: ""}))
    check(read([*flags, f"--{name.lower().replace('_', '-')}", "x"], {variable: ""}))  # the flag takes precedence


def test_list_of_no_keys_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadValueError, match=r"^APCORE_MCP_AUTH_KEY_ENV is empty"):
        check(read(["--extensions-dir", str(tmp_path)], {"APCORE_MCP_AUTH_KEY_ENV": ","}))


SECRET = ["--jwt-secret", "s" * 40]


@pytest.mark.parametrize(
    ("flags", "environment", "is_required"),
    [
        (["--jwt-require-auth"], {}, True),
        (["--no-jwt-require-auth"], {}, False),
        ([], {"JWT_REQUIRE_AUTH": "1"}, True),
        ([], {"JWT_REQUIRE_AUTH": "0"}, False),
        ([], {"NO_JWT_REQUIRE_AUTH": "0"}, True),
    ],
)
def test_require_auth_takes_precedence_over_the_file(
    flags: list[str], environment: dict[str, str], is_required: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    variables = {f"APCORE_MCP_{name}": value for name, value in environment.items()}
    for setting in ("true", "false"):
        (tmp_path / "apcore.yaml").write_text(f"mcp: {{transport: streamable-http, require_auth: {setting}}}\n")
        assert options_of(read([*SECRET, *flags], variables)).require_auth is is_required


@pytest.mark.parametrize("name", ["JWT_REQUIRE_AUTH", "NO_JWT_REQUIRE_AUTH"])
def test_empty_variable_of_a_switch_is_unset(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not admit requests without a token."""
    monkeypatch.chdir(tmp_path)
    args = read([*SECRET, "--transport", "streamable-http"], {f"APCORE_MCP_{name}": ""})
    assert options_of(args).require_auth is True
    for setting in (True, False):
        (tmp_path / "apcore.yaml").write_text(f"mcp: {{require_auth: {str(setting).lower()}}}\n")
        assert options_of(args).require_auth is setting


def test_require_auth_needs_a_key_whatever_names_the_transport(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "apcore.yaml").write_text("mcp: {transport: streamable-http}\n")
    for flags, environment in ((["--jwt-require-auth"], {}), ([], {"APCORE_MCP_NO_JWT_REQUIRE_AUTH": "0"})):
        with pytest.raises(BadValueError, match=r"^(--jwt-require-auth|APCORE_MCP_NO_JWT_REQUIRE_AUTH) needs --jwt-se"):
            options_of(read(flags, environment))


def test_require_auth_and_its_opposite(tmp_path: Path) -> None:
    flags = ["--extensions-dir", str(tmp_path), *SECRET, "--jwt-require-auth"]
    problem = "--jwt-require-auth and APCORE_MCP_NO_JWT_REQUIRE_AUTH cannot be used together"
    with pytest.raises(BadValueError, match=f"^{problem}$"):
        check(read(flags, {"APCORE_MCP_NO_JWT_REQUIRE_AUTH": "1"}))
    with pytest.raises(BadValueError, match=r"^--jwt-require-auth and --no-jwt-require-auth cannot be used together$"):
        check(read([*flags, "--no-jwt-require-auth"], {}))
