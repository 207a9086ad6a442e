"""`--print-config`: configurations of MCP clients."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from apcore_mcp.cli._client_config import client_config
from apcore_mcp.cli._flags import CLIENTS, read
from jackstay.shell import HOSTS


def config(client: str, *arguments: str) -> Any:
    return json.loads(client_config(client, read(arguments, {}), ["/m"], ["/b"]))


def test_every_host_is_a_client() -> None:
    assert tuple(host.name for host in HOSTS) == CLIENTS


def test_stdio_config() -> None:
    """The configuration has absolute paths and no defaults."""
    printed = config("cursor", "--name", "demo", "--validate-inputs", "--tags", "a,b", "--port", "9", "--check")
    assert printed == {
        "mcpServers": {
            "demo": {
                "command": sys.executable,
                "args": [
                    "-m", "apcore_mcp", "--extensions-dir", "/m", "--bindings", "/b",
                    "--tags", "a", "--tags", "b", "--name", "demo", "--validate-inputs",
                ],
            }
        }
    }  # fmt: skip


def test_a_document_is_part_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags = ["--from-openapi", "api.json", "--openapi-prefix", "x", "--openapi-header", "A: b", "--jwt-secret", "s"]
    args = config("cursor", *flags)["mcpServers"]["apcore-mcp"]["args"]
    assert args[-6:] == [
        *("--from-openapi", str(tmp_path / "api.json"), "--openapi-prefix", "x", "--openapi-header", "A: b"),
    ]
    assert "s" not in args
    remote = config("cursor", "--from-openapi", "https://x.test/api.json")["mcpServers"]["apcore-mcp"]["args"]
    assert remote[-1] == "https://x.test/api.json"


HTTP_CONFIGS: list[tuple[str, Any]] = [
    (
        "claude-desktop",
        {"command": sys.executable, "args": ["-m", "jackstay", "proxy", "http://127.0.0.1:8000/mcp"]},
    ),
    ("claude-code", {"type": "http", "url": "http://127.0.0.1:8000/mcp"}),
    ("cursor", {"url": "http://127.0.0.1:8000/mcp"}),
    ("windsurf", {"serverUrl": "http://127.0.0.1:8000/mcp"}),
]


def test_http_config(subtests: pytest.Subtests) -> None:
    for client, server in HTTP_CONFIGS:
        with subtests.test(client=client):
            printed = config(client, "--transport", "streamable-http", "--host", "0.0.0.0")
            assert printed == {"mcpServers": {"apcore-mcp": server}}


def test_vscode_config() -> None:
    printed = config("vscode", "--transport", "sse", "--host", "::1")
    assert printed == {"servers": {"apcore-mcp": {"type": "sse", "url": "http://[::1]:8000/sse"}}}
    assert config("vscode")["servers"]["apcore-mcp"]["type"] == "stdio"
