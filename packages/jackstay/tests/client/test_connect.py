"""`connect()`: targets, defaults of a target, options, and errors."""

from typing import Any

import pytest

from jackstay.client import connect
from jackstay.errors import UsageError
from jackstay.transport import memory_pair, stdio
from jackstay.transport.http import HttpTarget


def test_the_target_provides_defaults_for_the_options() -> None:
    client = connect(stdio("uvx", "mcp-server-git"))
    assert (client.settings.name, client.settings.init_timeout) == ("mcp-server-git", 30.0)
    client = connect(stdio("uvx", "mcp-server-git"), name="git", init_timeout=5.0)
    assert (client.settings.name, client.settings.init_timeout) == ("git", 5.0)
    assert connect(stdio("server")).settings.init_timeout == 10.0


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="unexpected option 'timeout'"):
        connect(memory_pair().client, timeout=5)


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
            "connect() expected a URL or a transport, got 'uvx mcp-server-git'; "
            "to start a command use stdio(command, *args)",
        ),
        (None, "connect() expected a URL or a transport, got NoneType"),
        (5, "connect() expected a URL or a transport, got int"),
    ]
    for target, message in targets:
        with pytest.raises(UsageError) as refused:
            connect(target)
        assert (refused.value.message, refused.value.path) == (message, "target")


def test_stderr_of_a_child_follows_the_option() -> None:
    target = stdio("server")
    assert connect(target, stderr="inherit")._target._stderr == "inherit"  # type: ignore[attr-defined]
    assert target._stderr == "log"
    assert connect(target)._target is target


def test_a_target_without_a_child_has_no_stderr_to_send() -> None:
    target = memory_pair().client
    assert connect(target, stderr="inherit")._target is target
