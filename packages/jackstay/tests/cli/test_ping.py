"""`jackstay ping`: the keepalive request of each era."""

import re
from collections.abc import Callable

import pytest

ERAS = [((), "ping", "2025-11-25"), (("--stateless",), "server/discover", "2026-07-28")]


@pytest.mark.parametrize(("more", "method", "version"), ERAS)
def test_method_and_response_time(more: tuple[str, ...], method: str, version: str, jackstay: Callable) -> None:
    done = jackstay("ping", more=more)
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(rf"{method}: response in \d+\.\d ms \(peer 1\.0, protocol {version}\)\n", done.out)


@pytest.mark.parametrize(("more", "method", "version"), ERAS)
def test_json_output(more: tuple[str, ...], method: str, version: str, jackstay: Callable) -> None:
    done = jackstay("ping", "--json", more=more).json
    assert done["method"] == method
    assert done["protocolVersion"] == version
    assert done["server"] == {"name": "peer", "version": "1.0"}
    assert 0 < done["milliseconds"] < 30_000


def test_an_unnamed_server(jackstay: Callable) -> None:
    assert jackstay("ping", "--json", more=("--stateless", "--nameless")).json["server"] is None
    assert "(unnamed server, protocol" in jackstay("ping", more=("--stateless", "--nameless")).out


def test_an_unexpected_argument_is_a_usage_error(jackstay: Callable) -> None:
    assert jackstay("ping", "more").code == 2
