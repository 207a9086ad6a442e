"""`jackstay discover`: the servers of the hosts on this machine, each connected to."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scripted.places import TESTS

PEER = [sys.executable, str(TESTS / "peers" / "stdio_server.py")]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_servers_of_all_hosts_are_checked(home: Path, jackstay: Callable) -> None:
    assert jackstay("discover", peer=False).out.startswith("no servers in the files of Claude Desktop")
    (home / ".cursor").mkdir()
    entries = {
        "good": {"command": PEER[0], "args": PEER[1:]},
        "dead": {"command": sys.executable, "args": ["-c", "raise SystemExit('no key')"]},
        "closed": {"url": "http://127.0.0.1:9/mcp"},
        "off": {"command": "x", "disabled": True},
    }
    (home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": entries}))
    (home / ".mcp.json").write_text("{")
    done = jackstay("discover", "--timeout", "240", "--json", peer=False)
    rows = {row["name"]: row for row in done.json["servers"]}
    assert done.code == 1
    assert rows["good"]["ok"], rows["good"]["status"]
    assert {name: row["ok"] for name, row in rows.items()} == {
        "good": True, "dead": False, "closed": False, "off": True, "": False
    }  # fmt: skip
    assert rows["good"]["status"].endswith(" tools")
    assert rows["good"]["host"] == "cursor"
    assert rows["dead"]["status"].endswith("[stderr: no key]")
    assert done.err == ""
    assert ".mcp.json" in rows[""]["status"]
    text = jackstay("discover", "--no-check", peer=False)
    assert "cursor" in text.out
    assert "ok: not checked" in text.out
    assert "\ncursor       off     off, or not a server" in text.out
