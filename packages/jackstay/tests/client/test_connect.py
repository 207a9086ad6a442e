"""`connect()`: targets, defaults of a target, options, and errors."""

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from jackstay import Client, Server
from jackstay.client import connect
from jackstay.errors import TransportError, UsageError
from jackstay.protocol.client import Settings
from jackstay.transport import memory_pair, stdio
from jackstay.transport.http import HttpTarget


def test_the_target_provides_defaults_for_the_options() -> None:
    client = connect(stdio("uvx", "mcp-server-git"))
    assert (client.settings.name, client.settings.init_timeout) == ("mcp-server-git", 30.0)
    client = connect(stdio("uvx", "mcp-server-git"), name="git", init_timeout=5.0)
    assert (client.settings.name, client.settings.init_timeout) == ("git", 5.0)
    assert connect(stdio("server")).settings.init_timeout == 10.0


def test_an_unknown_option_is_refused_by_name() -> None:
    for name in ("timeout", "time_out", "read_timeout_seconds"):
        with pytest.raises(UsageError, match=f"unexpected option '{name}'; did you mean 'request_timeout'?"):
            connect(memory_pair().client, **{name: 5})


def test_a_url_is_accepted_as_a_target() -> None:
    client = connect("https://example.org/mcp", name="docs")
    assert isinstance(client._target, HttpTarget)
    assert (client._target.url, client.settings.name) == ("https://example.org/mcp", "docs")
    with pytest.raises(UsageError):
        connect("https://")


def test_an_invalid_target_is_refused() -> None:
    targets: list[tuple[Any, str]] = [
        (
            "uvx mcp-server-git",
            "connect() expected a URL, a transport, a Server or the path of a .py or .json file, "
            "got 'uvx mcp-server-git'; to start a command use stdio(command, *args)",
        ),
        (None, "connect() expected a URL, a transport, a Server or a path, got NoneType"),
        (5, "connect() expected a URL, a transport, a Server or a path, got int"),
        ("missing.py", "connect() found no file 'missing.py'"),
    ]
    for target, message in targets:
        with pytest.raises(UsageError) as refused:
            connect(target)
        assert str(refused.value) == message


def test_stderr_of_a_child_follows_the_option() -> None:
    target = stdio("server")
    assert connect(target, stderr="inherit")._target.stderr == "inherit"  # type: ignore[attr-defined]
    assert target.stderr == "log"
    assert connect(target)._target is target


def test_a_target_without_a_child_has_no_stderr_to_send() -> None:
    target = memory_pair().client
    assert connect(target, stderr="inherit")._target is target


def greeter() -> Server:
    server = Server("greeter")

    @server.tool
    def greet(name: str) -> str:
        return f"Hello, {name}!"

    return server


async def test_a_server_is_served_in_memory_while_its_clients_are_open() -> None:
    server, hooks = greeter(), []
    server.on_startup(lambda: hooks.append("startup"))
    server.on_shutdown(lambda: hooks.append("shutdown"))
    async with connect(server) as first, connect(server) as second:
        assert first.settings.name == "greeter"
        assert (await first.tools.call("greet", {"name": "Ada"})).text == "Hello, Ada!"
        assert (await second.tools.call("greet", {"name": "Bob"})).text == "Hello, Bob!"
    assert hooks == ["startup", "shutdown"]
    async with connect(server) as third:
        await third.tools.list()
    assert hooks == ["startup", "shutdown"] * 2


async def test_a_server_that_cannot_start_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    server = greeter()

    @server.on_startup
    def fail() -> None:
        raise ValueError("no database")

    with caplog.at_level(logging.CRITICAL), pytest.raises(TransportError, match="ValueError: no database"):
        await connect(server, max_attempts=1).open()


async def test_closing_cancels_a_startup_hook_that_waits() -> None:
    server, waits, is_cancelled = greeter(), asyncio.Event(), asyncio.Event()

    @server.on_startup
    async def wait() -> None:
        waits.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            is_cancelled.set()
            raise

    client = connect(server)
    await client.open(wait=False)
    await waits.wait()
    await client.stop()
    assert is_cancelled.is_set()


PROGRAM = """\
from jackstay import Client, Server

server = Server("program")

@server.tool
def double(number: int) -> int:
    return 2 * number

server.run()
"""


async def test_a_program_and_a_configuration_file_are_accepted_by_path(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    row = {"command": sys.executable, "args": [str(program)]}
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text(json.dumps({"mcpServers": {"only": row, "off": {**row, "disabled": True}}}))
    two.write_text(json.dumps({"mcpServers": {"a": row, "b": row}}))
    for target, name in ((program, "program"), (str(program), "program"), (one, "only")):
        async with connect(target) as client:
            assert client.settings.name == name
            assert (await client.tools.call("double", {"number": 21})).text == "42"
    with pytest.raises(UsageError, match=r"expected one server in .*two\.json, found a, b; use Fleet"):
        connect(two)


async def test_a_client_accepts_what_connect_accepts(tmp_path: Path) -> None:
    server = Server("x")

    @server.tool
    async def hello() -> str:
        return "hello"

    async with Client(server, request_timeout=5) as client:
        assert client.settings.request_timeout == 5
        assert (await client.tools.call("hello")).text == "hello"
    program = tmp_path / "served.py"
    program.write_text("from jackstay import Server\nserver = Server('x')\nserver.run()\n")
    async with Client(program) as client:
        assert client.settings.name == "served"
    async with Client(server, Settings(name="named")) as client:
        assert client.settings.name == "named"
    with pytest.raises(UsageError, match="pass either settings or options, not both: request_timeout"):
        Client(server, Settings(), request_timeout=5)
    with pytest.raises(UsageError, match=r"connect\(\) expected a URL"):
        Client(5)  # type: ignore[arg-type]
