"""`jackstay install`: the entry, absolute paths, and what it refuses."""

import json
import sys
from pathlib import Path

import pytest

from jackstay.cli import main

CONFIG = ".config/Claude/claude_desktop_config.json"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_command_is_added_with_absolute_paths_and_its_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "server.py").touch()
    monkeypatch.setenv("KEY", "secret")
    python = Path(sys.executable).name
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    words = ["install", "claude-desktop", "--env", "KEY", "--env", "A=b=c", "--", python, "server.py", "--x", "1.5"]
    assert main([*words[:6], "--dry-run", *words[6:]]) == 0
    assert not (home / CONFIG).exists()
    assert "nothing was written" in capsys.readouterr().out
    assert main(words) == 0
    assert json.loads((home / CONFIG).read_text()) == {
        "mcpServers": {
            "server": {
                "command": str(Path(sys.executable).parent / python),
                "args": [str(home / "server.py"), "--x", "1.5"],
                "env": {"KEY": "secret", "A": "b=c"},
            }
        }
    }
    out = capsys.readouterr().out
    assert "added 'server' to Claude Desktop" in out
    assert "restart Claude Desktop" in out
    assert main(words) == 2
    assert "already has a server 'server'; use --replace or --name" in capsys.readouterr().err
    assert main([*words[:6], "--replace", *words[6:]]) == 0
    assert "the previous file: " in capsys.readouterr().out


def test_a_url_is_added_to_the_file_of_a_project(home: Path) -> None:
    assert main(["install", "cursor", "--project", "--header", "X-A: b", "https://www.x.example/mcp"]) == 0
    entry = {"url": "https://www.x.example/mcp", "headers": {"X-A": "b"}}
    assert json.loads((home / ".cursor/mcp.json").read_text()) == {"mcpServers": {"x-example": entry}}


def test_names_come_from_what_is_started(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = {
        "cat -y server": "cat",
        f"{sys.executable} -m weather": "weather",
        "env --x": "env",
        f"{sys.executable} --version": "server",
    }
    for command, name in commands.items():
        assert main(["install", "cursor", "--dry-run", "--", *command.split()]) == 0
        assert f'"{name}": {{' in capsys.readouterr().out


def test_a_link_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "cursor", "--link", "https://x.example/mcp"]) == 0
    assert capsys.readouterr().out.startswith("cursor://anysphere.cursor-deeplink/mcp/install?name=x-example&config=")
    assert main(["install", "zed", "--link", "https://x.example/mcp"]) == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("install", "HOST is missing"),
        ("install claude", "unknown host 'claude'"),
        ("install cursor", "the server is missing; use a URL or a command after --"),
        ("install cursor server.py", "expected a URL or a command after --, got 'server.py'"),
        ("install cursor https://x.example more", "unexpected argument 'more'"),
        ("install cursor --env A=1 https://x.example", "--env requires a command"),
        ("install cursor --header A:1 -- cat", "--header requires a URL"),
        ("install cursor -- no-such-program", "there is no program 'no-such-program' in PATH"),
        ("install cursor --env NOT_SET_HERE -- cat", "'NOT_SET_HERE' is not set"),
        ("install cursor --env =1 -- cat", "--env expects NAME"),
        ("install goose --project -- cat", "Goose has no file for a project"),
        ("install codex --name a.b -- cat", "Codex CLI does not accept the name 'a.b'"),
    ],
)
def test_wrong_words_are_refused(words: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert reason in capsys.readouterr().err
