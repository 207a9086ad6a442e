"""`connect()`: what it takes from the target, what from its options, and what it refuses."""

import pytest

from mooring.client import connect
from mooring.errors import UsageError
from mooring.transport import memory_pair, stdio


def test_the_target_gives_what_the_options_do_not() -> None:
    client = connect(stdio("uvx", "mcp-server-git"))
    assert (client.settings.name, client.settings.init_timeout) == ("mcp-server-git", 30.0)
    client = connect(stdio("uvx", "mcp-server-git"), name="git", init_timeout=5.0)
    assert (client.settings.name, client.settings.init_timeout) == ("git", 5.0)
    assert connect(stdio("server")).settings.init_timeout == 10.0


def test_an_option_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="there is no setting 'timeout'"):
        connect(memory_pair().client, timeout=5)


def test_a_childs_stderr_goes_where_the_option_says() -> None:
    target = stdio("server")
    assert connect(target, stderr="inherit")._target._stderr == "inherit"  # type: ignore[attr-defined]
    assert target._stderr == "log"
    assert connect(target)._target is target


def test_a_target_without_a_child_has_no_stderr_to_send() -> None:
    target = memory_pair().client
    assert connect(target, stderr="inherit")._target is target
