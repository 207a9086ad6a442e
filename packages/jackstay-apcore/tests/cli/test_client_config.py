"""`--print-config`: what clients are told."""

import json
import sys
from typing import Any

import pytest

from apcore_mcp.cli._client_config import PLACES, client_config
from apcore_mcp.cli._flags import CLIENTS, read


def config(client: str, *arguments: str) -> Any:
    return json.loads(client_config(client, read(arguments, {}), ["/m"], ["/b"]))


def test_every_client_has_a_place() -> None:
    assert tuple(PLACES) == CLIENTS


def test_over_stdio_the_command_is_spelled_out_whole() -> None:
    """Desktop programs have another PATH; defaults are left out."""
    made = config("cursor", "--name", "mine", "--validate-inputs", "--tags", "a,b", "--port", "9", "--check")
    assert made == {
        "mcpServers": {
            "mine": {
                "command": sys.executable,
                "args": [
                    "-m", "apcore_mcp", "--extensions-dir", "/m", "--bindings", "/b",
                    "--tags", "a", "--tags", "b", "--name", "mine", "--validate-inputs",
                ],
            }
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    ("client", "server"),
    [
        ("claude-desktop", {"command": "npx", "args": ["-y", "mcp-remote", "http://127.0.0.1:8000/mcp"]}),
        ("claude-code", {"type": "http", "url": "http://127.0.0.1:8000/mcp"}),
        ("cursor", {"url": "http://127.0.0.1:8000/mcp"}),
        ("windsurf", {"serverUrl": "http://127.0.0.1:8000/mcp"}),
    ],
)
def test_over_http_it_is_the_address(client: str, server: Any) -> None:
    made = config(client, "--transport", "streamable-http", "--host", "0.0.0.0")
    assert made == {"mcpServers": {"apcore-mcp": server}}


def test_vscode_has_a_shape_of_its_own() -> None:
    made = config("vscode", "--transport", "sse", "--host", "::1")
    assert made == {"servers": {"apcore-mcp": {"type": "sse", "url": "http://[::1]:8000/sse"}}}
    assert config("vscode")["servers"]["apcore-mcp"]["type"] == "stdio"
