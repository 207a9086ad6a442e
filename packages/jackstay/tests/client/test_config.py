"""Files that name servers: what is understood, what is refused by file and key, and what is never shown."""

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


def written(folder: Path, document: Json) -> Path:
    path = folder / "mcp.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


def refusal(folder: Path, entry: Json, name: str = "git") -> UsageError:
    config = read_config(written(folder, {"mcpServers": {"git": entry}}), environment=ENVIRONMENT)
    with pytest.raises(UsageError) as raised:
        config.target(name)
    return raised.value


def test_a_server_is_a_command_with_arguments_environment_and_folder(tmp_path: Path) -> None:
    entry = {"command": "uvx", "args": ["mcp-server-git", "-v"], "env": {"A": "1"}, "cwd": str(tmp_path)}
    config = read_config(written(tmp_path, {"mcpServers": {"git": entry, "plain": {"command": "x"}}}))
    assert config.names == ("git", "plain")
    target = config.target("git")
    assert (target.command, target.arguments, target.name) == ("uvx", ("mcp-server-git", "-v"), "git")
    assert (target._env, target._cwd, target._stderr) == ({"A": "1"}, str(tmp_path), "log")
    assert target.init_timeout == 30.0
    plain = config.target("plain", stderr="inherit")
    assert (plain.arguments, plain._env, plain._cwd, plain._stderr) == ((), {}, None, "inherit")


# what the file says -> what the program gets
EXPANSIONS = [
    ("plain", "plain"),
    ("${TOKEN}", "s3cret"),
    ("a${TOKEN}b${HERE}", "as3cretb/somewhere"),
    ("${TOKEN:-other}", "s3cret"),
    ("${UNSET:-other}", "other"),
    ("${UNSET:-}", ""),
    ("${EMPTY:-other}", "other"),  # as a shell has it
    ("${EMPTY}", ""),
    ("${UNSET:-a:-b c}", "a:-b c"),
    ("$TOKEN", "$TOKEN"),
    ("$$ {TOKEN}", "$$ {TOKEN}"),
    ("${UNSET:-two\nlines}", "two\nlines"),
]


@pytest.mark.parametrize(("said", "given"), EXPANSIONS)
def test_variables_are_expanded_in_every_text(said: str, given: str, tmp_path: Path) -> None:
    entry = {"command": f"x{said}", "args": [said], "env": {"A": said}, "cwd": f"/{said}"}
    config = read_config(written(tmp_path, {"mcpServers": {"git": entry}}), environment=ENVIRONMENT)
    target = config.target("git")
    assert (target.command, target.arguments, target._env, target._cwd) == (
        f"x{given}",
        (given,),
        {"A": given},
        f"/{given}",
    )


def test_a_value_that_was_put_in_is_not_expanded_again(tmp_path: Path) -> None:
    path = written(tmp_path, {"mcpServers": {"git": {"command": "${A}"}}})
    assert read_config(path, environment={"A": "${B}"}).target("git").command == "${B}"


def test_our_own_environment_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JACKSTAY_TEST_COMMAND", "found")
    path = written(tmp_path, {"mcpServers": {"git": {"command": "${JACKSTAY_TEST_COMMAND}"}}})
    assert read_config(path).target("git").command == "found"


# the entry of a server -> the key that is named, and what is said of it
REFUSALS: list[tuple[Json, str, str]] = [
    ({"command": "x", "args": ["a", "${UNSET}"]}, "mcpServers.git.args[1]", "needs the variable UNSET"),
    ({"command": "x", "env": {"KEY": "${UNSET}"}}, "mcpServers.git.env.KEY", "write ${UNSET:-default}"),
    ({"command": "${UNSET}"}, "mcpServers.git.command", "is not set"),
    ({"command": "x", "cwd": "${UNSET}"}, "mcpServers.git.cwd", "is not set"),
    ({"command": "${TOKEN"}, "mcpServers.git.command", "neither ${VAR} nor ${VAR:-default}"),
    ({"command": "${}"}, "mcpServers.git.command", "neither"),
    ({"command": "${input:token}"}, "mcpServers.git.command", "neither"),
    ({"command": "${1}"}, "mcpServers.git.command", "neither"),
    ({"command": 1}, "mcpServers.git.command", "must be text"),
    ({"command": None}, "mcpServers.git.command", "must be text"),
    ({"command": ""}, "mcpServers.git.command", "no program"),
    ({"command": "x", "args": "a"}, "mcpServers.git.args", "must be a list of text"),
    ({"command": "x", "args": [1]}, "mcpServers.git.args[0]", "must be text"),
    ({"command": "x", "args": ["\0"]}, "mcpServers.git.command", "no program"),
    ({"command": "x", "env": ["a"]}, "mcpServers.git.env", "must be an object of text"),
    ({"command": "x", "env": {"A": 1}}, "mcpServers.git.env.A", "must be text"),
    ({"command": "x", "env": {"A=B": "1"}}, "mcpServers.git.env", "no program"),
    ({"command": "x", "cwd": 1}, "mcpServers.git.cwd", "must be text"),
    ({}, "mcpServers.git", "has no command"),
    ({"type": "stdio"}, "mcpServers.git", "has no command"),
    ({"type": "carrier-pigeon", "command": "x"}, "mcpServers.git.type", "stdio, http or sse"),
    ({"type": "http", "command": "x"}, "mcpServers.git", "has no url"),
    ({"type": "sse"}, "mcpServers.git", "has no url"),
    ({"type": "stdio", "url": "https://x/mcp"}, "mcpServers.git.type", "is stdio, but there is a url"),
    ({"url": "ftp://x"}, "mcpServers.git.url", "only http and https"),
    ({"url": 7}, "mcpServers.git.url", "must be text"),
    ({"url": "${UNSET}"}, "mcpServers.git.url", "is not set"),
    ({"url": "x${TOKEN}"}, "mcpServers.git.url", "is no URL to be used"),
    ({"url": "https://x", "headers": {"A B": "1"}}, "mcpServers.git.headers", "'A B' is no name"),
    ({"url": "https://x", "headers": {"A": "${TOKEN}\n"}}, "mcpServers.git.headers", "the header A"),
    ({"url": "https://x", "headers": {"A": 1}}, "mcpServers.git.headers.A", "must be text"),
    ({"url": "https://x", "headers": ["A"]}, "mcpServers.git.headers", "must be an object of text"),
    ({"url": "http://x", "headers": {"Authorization": "a"}}, "mcpServers.git.url", "use https"),
    ({"url": "https://x/mcp", "command": "x"}, "mcpServers.git", "both a command and a url"),
    ([], "mcpServers.git", "must be an object"),
]


@pytest.mark.parametrize(("entry", "key", "said"), REFUSALS)
def test_what_cannot_be_understood_is_refused_by_file_and_key(
    entry: Json, key: str, said: str, tmp_path: Path
) -> None:
    error = refusal(tmp_path, entry)
    assert str(error).startswith(f"{tmp_path / 'mcp.json'}: {key} ")
    assert said in str(error)
    assert error.path == key
    assert error.details["file"] == str(tmp_path / "mcp.json")


def test_a_mistake_in_one_server_does_not_keep_another_from_being_used(tmp_path: Path) -> None:
    servers = {
        "bad": {"command": "${UNSET_EVERYWHERE}"},
        "remote": {"url": "https://x"},
        "good": {"command": "x"},
    }
    config = read_config(written(tmp_path, {"mcpServers": servers}))
    assert config.target("good").command == "x"


@pytest.mark.parametrize("kind", [{}, {"type": "http"}, {"type": "streamable-http"}, {"type": "sse"}])
def test_a_server_may_be_a_url_with_headers_whose_values_are_never_shown(
    kind: dict[str, str], tmp_path: Path
) -> None:
    entry = {
        "url": "https://x/${TOKEN:-a}?key=s3cret",
        "headers": {"Authorization": "Bearer ${TOKEN}"},
        **kind,
    }
    config = read_config(written(tmp_path, {"mcpServers": {"web": entry}}), environment=ENVIRONMENT)
    target = config.target("web")
    assert isinstance(target, HttpTarget)
    assert (target.name, target.url) == ("web", "https://x/s3cret?key=s3cret")
    assert target._headers == (("Authorization", "Bearer s3cret"),)
    assert config.shown("web") == ("https://x/${TOKEN:-a}",)
    assert config.env_names("web") == ("Authorization",)


def test_an_unknown_server_is_refused_with_the_names_there_are(tmp_path: Path) -> None:
    assert "names no server 'gti'; it names git" in str(refusal(tmp_path, {"command": "x"}, "gti"))
    config = read_config(written(tmp_path, {"mcpServers": {}}))
    with pytest.raises(UsageError, match="none at all"):
        config.is_disabled("git")


def test_members_that_hosts_add_are_ignored_and_logged_for_who_looks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = {"command": "x", "autoApprove": ["s3cret"], "timeout": 60}
    config = read_config(written(tmp_path, {"mcpServers": {"git": entry}, "theme": "dark"}))
    with caplog.at_level(logging.DEBUG, "jackstay"):
        assert config.target("git").command == "x"
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert "autoApprove, timeout" in record.getMessage()
    assert "s3cret" not in record.getMessage()


def test_a_server_can_be_disabled_for_hosts(tmp_path: Path) -> None:
    servers = {"on": {"command": "x"}, "off": {"command": "x", "disabled": True}}
    config = read_config(written(tmp_path, {"mcpServers": servers}))
    assert (config.is_disabled("on"), config.is_disabled("off")) == (False, True)
    assert config.target("off").command == "x"  # asked for by name, it is used
    config = read_config(written(tmp_path, {"mcpServers": {"odd": {"command": "x", "disabled": "no"}}}))
    with pytest.raises(UsageError, match=r"mcpServers\.odd\.disabled must be true or false"):
        config.is_disabled("odd")


def test_no_value_is_ever_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    entry = {
        "command": "x",
        "args": ["--token=${TOKEN}"],
        "env": {"KEY": "${TOKEN}", "B": "s3cret"},
        "headers": {"A": "s3cret"},
    }
    config = read_config(written(tmp_path, {"mcpServers": {"git": entry}}), environment=ENVIRONMENT)
    with caplog.at_level(logging.DEBUG):
        target = config.target("git")
    assert target._env == {"KEY": "s3cret", "B": "s3cret"}
    shown = [repr(config), repr(target), str(config.shown("git")), str(config.env_names("git")), caplog.text]
    assert not any("s3cret" in text for text in shown)
    assert config.shown("git") == ("x", "--token=${TOKEN}")
    assert config.env_names("git") == ("KEY", "B")
    for value in ("s3cret\0", "${TOKEN}${UNSET}", "${TOKEN}\0"):
        for bad in ({"command": "x", "args": [value]}, {"command": "x", "env": {"A": value}}):
            error = refusal(tmp_path, bad)
            assert "s3cret" not in "".join(traceback.format_exception(error)).split("UsageError", 1)[1]


def test_the_repr_names_the_file_and_its_servers(tmp_path: Path) -> None:
    path = written(tmp_path, {"mcpServers": {"a": {}, "b": {}}})
    assert repr(read_config(path)) == f"<Config {path}: a, b>"
    assert repr(read_config(written(tmp_path, {"mcpServers": {}}))) == f"<Config {path}: no servers>"


# the text of a file -> what is said
BROKEN = [
    ('{"mcpServers": {\n  "git": {,}\n}}', "line 2, column 11"),
    ("", "line 1, column 1"),
    ('{"mcpServers": {}} // hosts', "line 1, column 20"),
    ("[]", 'has no object "mcpServers"'),
    ("{}", 'has no object "mcpServers"'),
    ('{"mcpServers": []}', 'has no object "mcpServers"'),
    (
        '{"servers": {"git": {}}}',
        'it has "servers", as VS Code writes it: in a copy for us, call that "mcpServers"',
    ),
    ('{"git": {"command": "x"}}', 'write {"mcpServers": {...}} around what it has'),
    ('{"git": {"url": "x"}, "n": 1}', "around what it has"),
    ("[" * 100_000, "nested too deeply"),
]


@pytest.mark.parametrize(("text", "said"), BROKEN, ids=[said for _, said in BROKEN])
def test_a_file_that_is_none_is_refused_with_its_place(text: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as raised:
        read_config(path)
    assert str(path) in str(raised.value)
    assert said in str(raised.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*absent\.json: No such file or directory"):
        read_config(tmp_path / "absent.json")
    with pytest.raises(UsageError, match="Is a directory"):
        read_config(os.fspath(tmp_path))
    (tmp_path / "latin").write_bytes(b'{"mcpServers": {"\xe9": {}}}')
    with pytest.raises(UsageError, match="not UTF-8"):
        read_config(tmp_path / "latin")


def test_a_byte_order_mark_harms_nobody(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_bytes(b'\xef\xbb\xbf{"mcpServers": {"git": {"command": "x"}}}')
    assert read_config(tmp_path / "mcp.json").names == ("git",)
