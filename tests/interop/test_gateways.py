"""The official SDKs with our server behind a gateway: every feature is forwarded, in both eras, over stdio and HTTP."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from interop.known_clients import EVERYTHING, ROWS, Row, seen_by
from interop.listening import listening

PROGRAM_SECONDS = 250.0
SDK_ROWS = [row for row in ROWS if row.peer in ("sdk1", "sdk2")]
PREFIX = 'name = "everything"\n[servers.one]\nprefix = ""\n'


def everything(port: int) -> list[str | Path]:
    return [sys.executable, EVERYTHING, "--port", str(port)]


def check(row: Row, *server: str) -> None:
    done = subprocess.run(
        [*map(str, row.command()), *server],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    del seen["closing"]
    # The gateway has a name of its own, no version and no instructions.
    assert seen == {**seen_by(row), "server": ["everything", "0", None]}


@pytest.mark.parametrize("row", SDK_ROWS, ids=lambda row: row.id)
def test_a_gateway_over_http_forwards_everything_to_a_stdio_server(row: Row, tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    command = f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(EVERYTHING))}]\n"
    config.write_text(PREFIX + command)

    def gateway(port: int) -> list[str | Path]:
        return [sys.executable, "-m", "jackstay", "gateway", config, "--http", str(port)]

    with listening(gateway, tmp_path / "gateway.log") as url:
        check(row, f"{url}/mcp")


@pytest.mark.parametrize("row", SDK_ROWS, ids=lambda row: row.id)
def test_a_gateway_over_stdio_forwards_everything_to_an_http_server(row: Row, tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    with listening(everything, tmp_path / "server.log") as url:
        config.write_text(f'{PREFIX}url = "{url}/mcp"\n')
        check(row, sys.executable, "-m", "jackstay", "gateway", str(config))
