"""The table of hosts: files, entries, links, and safe writing."""

import base64
import json
import os
import re
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from jackstay.errors import UsageError
from jackstay.shell import (
    HOSTS,
    Host,
    HostedServer,
    changed_text,
    config_text,
    deep_link,
    find_host,
    from_entry,
    install_server,
    servers_in,
    to_entry,
    uninstall_server,
    write_config,
)

PROGRAM = HostedServer(("/bin/x", "-y", "a b"), {"KEY": "v"})
SITE = HostedServer(url="https://x.example/mcp", headers={"X-Key": "k"})


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("APPDATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_a_server_is_written_to_the_file_of_each_host_and_read_back(host, home: Path) -> None:  # type: ignore[no-untyped-def]
    path = host.path()
    assert path.is_relative_to(home)
    for name, server in (("one", PROGRAM), ("two", SITE)):
        before, after = changed_text(host, path, name, to_entry(host, name, server))
        write_config(path, before, after)
    entries = servers_in(host, path)
    assert from_entry(entries["one"]) == PROGRAM
    if host.url_key:
        assert from_entry(entries["two"]).url == SITE.url
    else:
        words = [sys.executable, "-m", "jackstay", "proxy", "--header", "X-Key: k", SITE.url]
        assert from_entry(entries["two"]) == HostedServer(tuple(words))
    before, after = changed_text(host, path, "one", None)
    assert write_config(path, before, after) == path.with_name(path.name + ".jackstay-backup")
    assert list(servers_in(host, path)) == ["two"]


def test_the_files_of_other_platforms(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert str(find_host("claude-desktop").path()).endswith(
        "Library/Application Support/Claude/claude_desktop_config.json"
    )
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("APPDATA", "/data")
    assert find_host("vscode").path() == Path("/data/Code/User/mcp.json")
    assert find_host("cursor").path() == home / ".cursor/mcp.json"
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/config")
    assert find_host("zed").path() == Path("/config/zed/settings.json")
    assert find_host("vscode").path(in_project=True) == home / ".vscode/mcp.json"
    with pytest.raises(UsageError, match="Codex CLI has no file for a project"):
        find_host("codex").path(in_project=True)
    with pytest.raises(UsageError, match="did you mean 'cursor'"):
        find_host("curser")


def test_entries_that_are_off_or_not_servers_are_left_out() -> None:
    zed = {"source": "custom", "command": {"path": "x", "args": ["y"]}}
    assert from_entry(zed) == HostedServer(("x", "y"))
    for entry in (None, 1, {}, {"command": 1}, {"command": "x", "disabled": True}, {"cmd": "x", "enabled": False}):
        assert from_entry(entry) is None


def test_entries_of_unusual_types_are_left_out_and_codex_headers_are_read() -> None:
    for entry in ({"command": "x", "env": "K=v"}, {"url": "https://x.example", "headers": ["K: v"]}, {"url": 5}):
        assert from_entry(entry) is None
    assert from_entry({"url": SITE.url, "http_headers": {"X-Key": "k"}}) == SITE


def test_links_contain_the_entry() -> None:
    link = deep_link(find_host("cursor"), "a b", PROGRAM)
    query = parse_qs(urlsplit(link).query)
    assert query["name"] == ["a b"]
    assert json.loads(base64.b64decode(query["config"][0])) == to_entry(find_host("cursor"), "a b", PROGRAM)
    link = deep_link(find_host("vscode"), "a", SITE)
    assert json.loads(unquote(link.partition("?")[2]))["url"] == SITE.url
    assert deep_link(find_host("zed"), "a", SITE) == ""


def test_writing_keeps_the_mode_and_the_link_and_refuses_a_file_that_changed(home: Path) -> None:
    real = home / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o640)
    path = home / "config.json"
    path.symlink_to(real)
    assert write_config(path, "{}", '{"a": 1}') == real.with_name("dotfiles.json.jackstay-backup")
    assert (path.is_symlink(), real.read_text(), stat.S_IMODE(real.stat().st_mode)) == (True, '{"a": 1}', 0o640)
    assert sorted(file.name for file in home.iterdir()) == [
        "config.json",
        "dotfiles.json",
        "dotfiles.json.jackstay-backup",
    ]
    with pytest.raises(UsageError, match="was changed by another program meanwhile"):
        write_config(path, "{}", '{"b": 1}')
    fresh = home / "new" / "file.json"
    assert write_config(fresh, "", "{}") is None
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o600


def test_programs_that_install_at_the_same_time_lose_nothing(home: Path) -> None:
    host = find_host("cursor")
    host.path().parent.mkdir()
    names = [f"server{number}" for number in range(8)]
    with ThreadPoolExecutor(len(names)) as pool:
        for change in pool.map(lambda name: install_server(host, name, PROGRAM), names):
            assert change.report
    assert sorted(servers_in(host, host.path())) == names


def test_a_change_of_another_program_during_a_write_is_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "config.json"
    path.write_text("{}")
    sync = os.fsync

    def change(descriptor: int) -> None:
        sync(descriptor)
        path.write_text('{"theirs": 1}')

    monkeypatch.setattr(os, "fsync", change)
    with pytest.raises(UsageError, match="was changed by another program meanwhile"):
        write_config(path, "{}", '{"ours": 1}')
    assert path.read_text() == '{"theirs": 1}'
    assert sorted(file.name for file in home.iterdir()) == ["config.json", "config.json.jackstay-backup"]


def test_a_file_that_cannot_be_read_or_written_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "config.json"
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"^cannot read [^ ]*config\.json: not UTF-8"):
        servers_in(find_host("cursor"), path)
    path.write_text('{"mcpServers": ')
    with pytest.raises(UsageError, match=r"cannot read .*config\.json"):
        servers_in(find_host("cursor"), path)
    with pytest.raises(UsageError, match=r"cannot change .*config\.json.*add it by hand: .*/bin/x"):
        changed_text(find_host("cursor"), path, "n", to_entry(find_host("cursor"), "n", PROGRAM))
    with pytest.raises(UsageError, match="Is a directory"):
        servers_in(find_host("cursor"), home)

    def full(*arguments: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    text = path.read_text()
    with pytest.raises(UsageError, match="No space left"):
        write_config(path, text, "{}")
    assert path.read_text() == text
    assert [file.name for file in home.iterdir()] == ["config.json"]


SECRET = 'pw"ß-and-more'


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_a_difference_has_no_values_of_variables_and_headers(host: Host) -> None:
    """Neither of the entry itself nor of other lines that are shown."""
    install_server(host, "one", HostedServer(("/bin/x",), {"KEY": SECRET, "DEBUG": "1", "EMPTY": ""}))
    site = HostedServer(url="https://x.example/1", headers={"Authorization": f"Bearer {SECRET}"})
    changes = [
        install_server(host, "two", site, dry_run=True),
        install_server(host, "two", site),
        install_server(host, "three", HostedServer(("/bin/x",), {"KEY": SECRET}), dry_run=True),
        uninstall_server(host, "two"),
        uninstall_server(host, "one"),
    ]
    for change in changes:
        text = "\n".join([*change.difference, *change.report])
        assert "ß" not in text
        assert "and-more" not in text
    shown = "\n".join(changes[-1].difference)
    assert all(name in shown for name in ("KEY", "DEBUG", "EMPTY", "***"))
    assert not re.search(r"""DEBUG"?\s*[:=]\s*"?1""", shown)
    assert "https://x.example/1" in "\n".join(changes[0].difference)


def test_other_secrets_of_a_file_are_not_shown(home: Path) -> None:
    path = home / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_text('{\n  "apiKey": "k1",\n  "mcpServers": {"a": {"command": "x", "env": {"T": "t1"}}}\n}\n')
    change = install_server(find_host("gemini"), "b", HostedServer(("y",)), dry_run=True)
    shown = "\n".join(change.difference)
    assert '"apiKey": "***"' in shown
    assert '"T": "***"' in shown
    codex = home / ".codex/config.toml"
    codex.parent.mkdir()
    codex.write_text("mcp_servers = {a = {command = 'x'}}\n")  # a layout that cannot be edited
    with pytest.raises(UsageError, match="add it by hand") as raised:
        install_server(find_host("codex"), "b", PROGRAM._replace(environment={"KEY": SECRET}))
    assert '"KEY": "***"' in str(raised.value)


def test_a_file_with_one_entry() -> None:
    host = find_host("codex")
    assert config_text(host, "one", to_entry(host, "one", HostedServer(("x",)))) == (
        '[mcp_servers.one]\ncommand = "x"\nargs = []'
    )
