"""`jackstay ping`: the sign of life that keepalive would ask for, by era."""

import re
from collections.abc import Callable

import pytest

ERAS = [((), "ping", "2025-11-25"), (("--stateless",), "server/discover", "2026-07-28")]


@pytest.mark.parametrize(("more", "method", "version"), ERAS)
def test_it_says_what_was_sent_and_how_long_it_took(
    more: tuple[str, ...], method: str, version: str, jackstay: Callable
) -> None:
    shown = jackstay("ping", more=more)
    assert (shown.code, shown.err) == (0, "")
    assert re.fullmatch(rf"{method} answered in \d+\.\d ms \(peer 1\.0, protocol {version}\)\n", shown.out)


@pytest.mark.parametrize(("more", "method", "version"), ERAS)
def test_json_has_the_same(more: tuple[str, ...], method: str, version: str, jackstay: Callable) -> None:
    shown = jackstay("ping", "--json", more=more).json
    assert shown["method"] == method
    assert shown["protocolVersion"] == version
    assert shown["server"] == {"name": "peer", "version": "1.0"}
    assert 0 < shown["milliseconds"] < 30_000


def test_a_server_without_a_name_is_null(jackstay: Callable) -> None:
    assert jackstay("ping", "--json", more=("--stateless", "--nameless")).json["server"] is None
    assert "(a server without a name, protocol" in jackstay("ping", more=("--stateless", "--nameless")).out


def test_a_word_too_many_is_a_misuse(jackstay: Callable) -> None:
    assert jackstay("ping", "more").code == 2
