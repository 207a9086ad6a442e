"""`connect()`: what it takes from the target, what from its options, and what it refuses."""

from typing import Any

import pytest

from jackstay.client import connect
from jackstay.errors import UsageError
from jackstay.transport import memory_pair, stdio


def test_the_target_gives_what_the_options_do_not() -> None:
    client = connect(stdio("uvx", "mcp-server-git"))
    assert (client.settings.name, client.settings.init_timeout) == ("mcp-server-git", 30.0)
    client = connect(stdio("uvx", "mcp-server-git"), name="git", init_timeout=5.0)
    assert (client.settings.name, client.settings.init_timeout) == ("git", 5.0)
    assert connect(stdio("server")).settings.init_timeout == 10.0


def test_an_option_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="there is no setting 'timeout'"):
        connect(memory_pair().client, timeout=5)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("https://example.org/mcp", r"write connect\(http\(url\)\), not a text"),
        ("uvx mcp-server-git", r"write connect\(stdio\(command, ...\) or http\(url\)\), not a text"),
        (None, "not NoneType"),
    ],
)
def test_what_is_no_target_is_refused_with_how_to_make_one(target: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        connect(target)
    assert refused.value.path == "target"


def test_a_childs_stderr_goes_where_the_option_says() -> None:
    target = stdio("server")
    assert connect(target, stderr="inherit")._target._stderr == "inherit"  # type: ignore[attr-defined]
    assert target._stderr == "log"
    assert connect(target)._target is target


def test_a_target_without_a_child_has_no_stderr_to_send() -> None:
    target = memory_pair().client
    assert connect(target, stderr="inherit")._target is target
