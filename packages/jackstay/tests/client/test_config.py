"""Configuration files: what is accepted, what is refused by file and key, and what is never displayed."""

import json
import logging
import os
import traceback
from pathlib import Path

import pytest

from jackstay.client import read_config
from jackstay.errors import Json, UsageError
from jackstay.transport.http import HttpTarget

ENVIRONMENT = {"TOKEN": "s3cret", "EMPTY": "", "HERE": "/somewhere"}


def write_config(folder: Path, document: Json) -> Path:
    path = folder / "mcp.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


def error_of(folder: Path, entry: Json, name: str = "git") -> UsageError:
    config = read_config(write_config(folder, {"mcpServers": {"git": entry}}), environment=ENVIRONMENT)
    with pytest.raises(UsageError) as raised:
        config.target(name)
    return raised.value


def test_a_server_is_a_command_with_arguments_environment_and_folder(tmp_path: Path) -> None:
    entry = {"command": "uvx", "args": ["mcp-server-git", "-v"], "env": {"A": "1"}, "cwd": str(tmp_path)}
    config = read_config(write_config(tmp_path, {"mcpServers": {"git": entry, "plain": {"command": "x"}}}))
    assert config.names == ("git", "plain")
    target = config.target("git")
    assert (target.command, target.arguments, target.name) == ("uvx", ("mcp-server-git", "-v"), "git")
    assert (target.env, target.cwd, target.stderr) == ({"A": "1"}, str(tmp_path), "log")
    assert target.init_timeout == 30.0
    plain = config.target("plain", stderr="inherit")
    assert (plain.arguments, plain.env, plain.cwd, plain.stderr) == ((), {}, None, "inherit")


# the value in the file -> the value for the program
EXPANSIONS = [
    ("plain", "plain"),
    ("${TOKEN}", "s3cret"),
    ("a${TOKEN}b${HERE}", "as3cretb/somewhere"),
    ("${TOKEN:-other}", "s3cret"),
    ("${UNSET:-other}", "other"),
    ("${UNSET:-}", ""),
    ("${EMPTY:-other}", "other"),  # as in a shell
    ("${EMPTY}", ""),
    ("${UNSET:-a:-b c}", "a:-b c"),
    ("$TOKEN", "$TOKEN"),
    ("$$ {TOKEN}", "$$ {TOKEN}"),
    ("${UNSET:-two\nlines}", "two\nlines"),
]


def test_variables_are_expanded_in_every_string(tmp_path: Path) -> None:
    for value, expanded in EXPANSIONS:
        entry = {"command": f"x{value}", "args": [value], "env": {"A": value}, "cwd": f"/{value}"}
        config = read_config(write_config(tmp_path, {"mcpServers": {"git": entry}}), environment=ENVIRONMENT)
        target = config.target("git")
        found = (target.command, target.arguments, target.env, target.cwd)
        assert found == (f"x{expanded}", (expanded,), {"A": expanded}, f"/{expanded}"), value


def test_expanded_values_are_not_expanded_again(tmp_path: Path) -> None:
    path = write_config(tmp_path, {"mcpServers": {"git": {"command": "${A}"}}})
    assert read_config(path, environment={"A": "${B}"}).target("git").command == "${B}"


def test_os_environ_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JACKSTAY_TEST_COMMAND", "found")
    path = write_config(tmp_path, {"mcpServers": {"git": {"command": "${JACKSTAY_TEST_COMMAND}"}}})
    assert read_config(path).target("git").command == "found"


# the entry of a server -> the key and a part of the error message
INVALID_ENTRIES: list[tuple[Json, str, str]] = [
    (
        {"command": "x", "args": ["a", "${UNSET}"]},
        "mcpServers.git.args[1]",
        "environment variable UNSET, which is not set",
    ),
    ({"command": "x", "env": {"KEY": "${UNSET}"}}, "mcpServers.git.env.KEY", "write ${UNSET:-default}"),
    ({"command": "${UNSET}"}, "mcpServers.git.command", "is not set"),
    ({"command": "x", "cwd": "${UNSET}"}, "mcpServers.git.cwd", "is not set"),
    ({"command": "${TOKEN"}, "mcpServers.git.command", "invalid reference; write ${VAR} or ${VAR:-default}"),
    ({"command": "${}"}, "mcpServers.git.command", "invalid reference"),
    ({"command": "${input:token}"}, "mcpServers.git.command", "invalid reference"),
    ({"command": "${1}"}, "mcpServers.git.command", "invalid reference"),
    ({"command": 1}, "mcpServers.git.command", "must be a string"),
    ({"command": None}, "mcpServers.git.command", "must be a string"),
    ({"command": ""}, "mcpServers.git.command", "cannot be passed to a program"),
    ({"command": "x", "args": "a"}, "mcpServers.git.args", "must be an array of strings"),
    ({"command": "x", "args": [1]}, "mcpServers.git.args[0]", "must be a string"),
    ({"command": "x", "args": ["\0"]}, "mcpServers.git.command", "cannot be passed to a program"),
    ({"command": "x", "env": ["a"]}, "mcpServers.git.env", "must be an object of strings"),
    ({"command": "x", "env": {"A": 1}}, "mcpServers.git.env.A", "must be a string"),
    ({"command": "x", "env": {"A=B": "1"}}, "mcpServers.git.env", "cannot be passed to a program"),
    ({"command": "x", "cwd": 1}, "mcpServers.git.cwd", "must be a string"),
    ({}, "mcpServers.git", "has no command"),
    ({"type": "stdio"}, "mcpServers.git", "has no command"),
    ({"type": "carrier-pigeon", "command": "x"}, "mcpServers.git.type", "'stdio', 'http' or 'sse'"),
    ({"type": "http", "command": "x"}, "mcpServers.git", "has no url"),
    ({"type": "sse"}, "mcpServers.git", "has no url"),
    ({"type": "stdio", "url": "https://x/mcp"}, "mcpServers.git.type", "must not be 'stdio' beside a url"),
    ({"url": "ftp://x"}, "mcpServers.git.url", "url must begin with http:// or https://"),
    ({"url": 7}, "mcpServers.git.url", "must be a string"),
    ({"url": "${UNSET}"}, "mcpServers.git.url", "is not set"),
    ({"url": "x${TOKEN}"}, "mcpServers.git.url", "is not a valid URL"),
    ({"url": "https://x", "headers": {"A B": "1"}}, "mcpServers.git.headers", "invalid header name 'A B'"),
    ({"url": "https://x", "headers": {"A": "${TOKEN}\n"}}, "mcpServers.git.headers", "the header 'A'"),
    ({"url": "https://x", "headers": {"A": 1}}, "mcpServers.git.headers.A", "must be a string"),
    ({"url": "https://x", "headers": ["A"]}, "mcpServers.git.headers", "must be an object of strings"),
    ({"url": "http://x", "headers": {"Authorization": "a"}}, "mcpServers.git.url", "url must begin with https://"),
    ({"url": "https://x/mcp", "command": "x"}, "mcpServers.git", "has both command and url"),
    ([], "mcpServers.git", "must be an object"),
]


def test_invalid_entries_are_refused_by_file_and_key(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for entry, key, message in INVALID_ENTRIES:
        with subtests.test(entry=entry):
            error = error_of(tmp_path, entry)
            assert str(error).startswith(f"{tmp_path / 'mcp.json'}: {key} ")
            assert message in str(error)
            assert error.path == key
            assert error.details["file"] == str(tmp_path / "mcp.json")


def test_a_mistake_in_one_server_does_not_keep_another_from_being_used(tmp_path: Path) -> None:
    servers = {
        "bad": {"command": "${UNSET_EVERYWHERE}"},
        "remote": {"url": "https://x"},
        "good": {"command": "x"},
    }
    config = read_config(write_config(tmp_path, {"mcpServers": servers}))
    assert config.target("good").command == "x"


def test_a_server_may_be_a_url_with_headers_whose_values_are_never_shown(tmp_path: Path) -> None:
    kinds: list[dict[str, str]] = [{}, {"type": "http"}, {"type": "streamable-http"}, {"type": "sse"}]
    for kind in kinds:
        entry = {"url": "https://x/${TOKEN:-a}?key=s3cret", "headers": {"Authorization": "Bearer ${TOKEN}"}, **kind}
        config = read_config(write_config(tmp_path, {"mcpServers": {"web": entry}}), environment=ENVIRONMENT)
        target = config.target("web")
        assert isinstance(target, HttpTarget)
        assert (target.name, target.url) == ("web", "https://x/s3cret?key=s3cret")
        assert target._headers == (("Authorization", "Bearer s3cret"),)
        assert config.display("web") == ("https://x/${TOKEN:-a}",)
        assert config.env_names("web") == ("Authorization",)


def test_an_unknown_server_is_refused_with_the_names_there_are(tmp_path: Path) -> None:
    assert "unknown server 'gti'; servers: 'git'" in str(error_of(tmp_path, {"command": "x"}, "gti"))
    config = read_config(write_config(tmp_path, {"mcpServers": {}}))
    with pytest.raises(UsageError, match="servers: none"):
        config.is_disabled("git")


def test_unknown_members_are_ignored_and_logged_at_debug_level(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = {"command": "x", "autoApprove": ["s3cret"], "timeout": 60}
    config = read_config(write_config(tmp_path, {"mcpServers": {"git": entry}, "theme": "dark"}))
    with caplog.at_level(logging.DEBUG, "jackstay"):
        assert config.target("git").command == "x"
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert "autoApprove, timeout" in record.getMessage()
    assert "s3cret" not in record.getMessage()


def test_a_server_can_be_disabled_for_hosts(tmp_path: Path) -> None:
    servers = {"on": {"command": "x"}, "off": {"command": "x", "disabled": True}}
    config = read_config(write_config(tmp_path, {"mcpServers": servers}))
    assert (config.is_disabled("on"), config.is_disabled("off")) == (False, True)
    assert config.target("off").command == "x"  # it can still be used by name
    config = read_config(write_config(tmp_path, {"mcpServers": {"odd": {"command": "x", "disabled": "no"}}}))
    with pytest.raises(UsageError, match=r"mcpServers\.odd\.disabled must be true or false"):
        config.is_disabled("odd")


def test_no_value_is_ever_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    entry = {
        "command": "x",
        "args": ["--token=${TOKEN}"],
        "env": {"KEY": "${TOKEN}", "B": "s3cret"},
        "headers": {"A": "s3cret"},
    }
    config = read_config(write_config(tmp_path, {"mcpServers": {"git": entry}}), environment=ENVIRONMENT)
    with caplog.at_level(logging.DEBUG):
        target = config.target("git")
    assert target.env == {"KEY": "s3cret", "B": "s3cret"}
    displayed = [repr(config), repr(target), str(config.display("git")), str(config.env_names("git")), caplog.text]
    assert not any("s3cret" in text for text in displayed)
    assert config.display("git") == ("x", "--token=${TOKEN}")
    assert config.env_names("git") == ("KEY", "B")
    for value in ("s3cret\0", "${TOKEN}${UNSET}", "${TOKEN}\0"):
        for bad in ({"command": "x", "args": [value]}, {"command": "x", "env": {"A": value}}):
            error = error_of(tmp_path, bad)
            assert "s3cret" not in "".join(traceback.format_exception(error)).split("UsageError", 1)[1]


def test_the_repr_names_the_file_and_its_servers(tmp_path: Path) -> None:
    path = write_config(tmp_path, {"mcpServers": {"a": {}, "b": {}}})
    assert repr(read_config(path)) == f"<Config {path}: a, b>"
    assert repr(read_config(write_config(tmp_path, {"mcpServers": {}}))) == f"<Config {path}: no servers>"


# the content of a file -> a part of the error message
INVALID_FILES = [
    ('{"mcpServers": {\n  "git": {,}\n}}', "line 2, column 11"),
    ("", "line 1, column 1"),
    ('{"mcpServers": {}} // hosts', "line 1, column 20"),
    ("[]", 'has no object "mcpServers"'),
    ("{}", 'has no object "mcpServers"'),
    ('{"mcpServers": []}', 'has no object "mcpServers"'),
    ('{"servers": {"git": {}}}', 'the layout of VS Code: rename the member to "mcpServers" in a copy'),
    ('{"git": {"command": "x"}}', 'wrap its content in {"mcpServers": {...}}'),
    ('{"git": {"url": "x"}, "n": 1}', "wrap its content"),
    ("[" * 100_000, "nested too deeply"),
]


def test_an_invalid_file_is_refused_with_its_position(tmp_path: Path) -> None:
    for text, message in INVALID_FILES:
        path = write_config(tmp_path, text)
        with pytest.raises(UsageError) as raised:
            read_config(path)
        assert str(path) in str(raised.value)
        assert message in str(raised.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*absent\.json: No such file or directory"):
        read_config(tmp_path / "absent.json")
    with pytest.raises(UsageError, match="Is a directory"):
        read_config(os.fspath(tmp_path))
    (tmp_path / "latin").write_bytes(b'{"mcpServers": {"\xe9": {}}}')
    with pytest.raises(UsageError, match="not UTF-8"):
        read_config(tmp_path / "latin")


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_bytes(b'\xef\xbb\xbf{"mcpServers": {"git": {"command": "x"}}}')
    assert read_config(tmp_path / "mcp.json").names == ("git",)
