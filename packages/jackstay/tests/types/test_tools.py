"""Tools: listing and mode."""

import json

from jackstay.types import ListToolsResult, Tool, decode

# Members in addition to name and schema, and the mode.
MODES = [
    ({}, "stateful"),
    ({"mode": "stateless"}, "stateless"),
    ({"mode": "stateful"}, "stateful"),
    ({"mode": "stateful", "_meta": {"mode": "stateless"}}, "stateful"),
    ({"mode": "stateless", "_meta": {"mode": "stateful"}}, "stateless"),
    ({"_meta": {"mode": "stateless"}}, "stateless"),
    ({"_meta": {"mode": "stateful"}}, "stateful"),
    ({"_meta": {"other": 1}}, "stateful"),
    ({"_meta": {"mode": 5}}, "stateful"),
    ({"mode": "STATELESS"}, "stateful"),
    ({"mode": "odd", "_meta": {"mode": "stateless"}}, "stateful"),
    ({"mode": None, "_meta": {"mode": "stateless"}}, "stateless"),
    ({"mode": ["stateless"]}, "stateful"),
    ({"x-vendor": 1, "_meta": {"mode": "stateless"}}, "stateless"),
    ({"_meta": None}, "stateful"),
]


def test_mode_is_the_member_else_the_meta_else_stateful() -> None:
    for members, mode in MODES:
        tool = decode(Tool, json.dumps({"name": "t", "inputSchema": {}, **members}).encode())
        assert tool.mode == mode


def test_invalid_hints_do_not_fail_a_list() -> None:
    members = {
        "tools": [
            {"name": "a", "inputSchema": {}, "execution": {"taskSupport": "sometimes"}},
            {"name": "b", "inputSchema": {"type": 5}, "icons": [{"src": "x", "theme": "sepia"}]},
        ],
        "cacheScope": "galactic",
        "ttlMs": -1,
    }
    result = decode(ListToolsResult, json.dumps(members).encode())
    assert result.tools[0].execution.task_support == "sometimes"
    assert result.tools[1].icons[0].theme == "sepia"
    assert result.raw == members
