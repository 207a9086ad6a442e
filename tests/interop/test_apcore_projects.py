"""Published projects that build on apcore-mcp, with our bridge in its place: they start and serve."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interop.listening import listening
from interop.peers import BY_NAME
from jackstay.client import connect
from jackstay.transport.http import http
from scripted.places import PYTHONPATH

PEER = BY_NAME["apcore_projects"]
PROGRAMS = Path(__file__).parent / "servers" / "apcore_projects"


def flask_command(port: int) -> list[str | Path]:
    program = (
        "import sys; from flask.cli import main; from flask_app import app;"
        " app.test_cli_runner().invoke(args=['apcore', 'scan']);"
        f" app.test_cli_runner().invoke(args=['apcore', 'serve', '--http', '-p', '{port}', '--explorer'],"
        " catch_exceptions=False)"
    )
    return [PEER.python, "-c", program]


def apflow_command(port: int) -> list[str | Path]:
    options = (
        "--db",
        "sqlite://",
        "--transport",
        "streamable-http",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--explorer",
        "--metrics",
    )
    return [PEER.home / "bin" / "apflow", "mcp", *options, "--approval"]


COMMANDS: dict[str, tuple[Callable[[int], list[str | Path]], int]] = {
    "flask-apcore": (flask_command, 1),
    "fastapi-apcore": (lambda port: [PEER.python, PROGRAMS / "fastapi_app.py", str(port)], 1),
    "django-apcore": (lambda port: [PEER.python, PROGRAMS / "django_app.py", str(port)], 1),
    "apflow": (apflow_command, 10),
}


@pytest.mark.guard(240)
@pytest.mark.parametrize("project", COMMANDS)
async def test_project_serves(project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((PYTHONPATH, str(PROGRAMS))))
    command, least = COMMANDS[project]
    with listening(command, tmp_path / "server.log") as url:
        async with connect(http(f"{url}/mcp"), open_timeout=120, init_timeout=120, max_timeout=120) as client:
            tools = [tool.name for tool in await client.tools.list()]
            assert len(tools) >= least
            name = "__apcore_approval_check" if project == "apflow" else tools[0]
            arguments: dict[str, Any] = {"approval_id": "x"} if project == "apflow" else {}
            result = await client.tools.call(name, arguments)
            assert ("rejected" if project == "apflow" else "hello") in result.text
