"""`jackstay info`: the description of a server."""

from collections.abc import Callable


def test_text_and_json(jackstay: Callable) -> None:
    done = jackstay("info")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[:2] == ["peer 1.0", "protocol: 2025-11-25"]
    assert lines[2] == "capabilities: logging, prompts, resources (subscribe), tools (listChanged)"
    found = jackstay("info", "--json").json
    assert found["serverInfo"]["name"] == "peer"
    assert found["capabilities"]["tools"] == {"listChanged": True}


def test_instructions_are_printed(jackstay: Callable) -> None:
    assert jackstay("info", "more").code == 2
    assert (
        jackstay("info", "--protocol", "2026-07-28", more=("--stateless",)).out.splitlines()[1]
        == "protocol: 2026-07-28"
    )
