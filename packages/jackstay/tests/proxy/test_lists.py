"""Whether the lists of a server that came back are the same as before."""

import asyncio
import json
from typing import Any

import pytest

from jackstay.errors import JsonRpcError
from jackstay.proxy import _lists
from jackstay.proxy._lists import Lists

TOOLS, PROMPTS = "notifications/tools/list_changed", "notifications/prompts/list_changed"
RESOURCES = "notifications/resources/list_changed"


def page(name: str, *items: Any, **more: Any) -> bytes:
    return json.dumps({name: items, **more}).encode()


def changed(lists: Lists, is_there: bool = True, **answers: bytes | Exception) -> list[str]:
    """What is due, when pages are fetched as this says (by the last word of their method)."""
    fetched: list[str] = []

    async def fetch(method: str, params: bytes) -> bytes:
        fetched.append(method)
        answer = answers[method.split("/", maxsplit=1)[0]]
        if isinstance(answer, Exception):
            raise answer
        return answer

    due = asyncio.run(lists.changed(fetch, lambda: is_there))
    assert len(fetched) <= 2
    return due


def test_what_nobody_has_seen_is_not_fetched() -> None:
    assert changed(Lists()) == []


@pytest.mark.parametrize(
    ("now", "due"),
    [
        (page("tools", {"name": "a"}), []),
        (page("tools", {"name": "a"}, ttlMs=5, _meta={"a": 1}), []),
        (page("tools", {"name": "b"}), [TOOLS]),
        (page("tools", {"name": "a"}, nextCursor="more"), [TOOLS]),
        (page("nothing"), [TOOLS]),
        (b"[]", [TOOLS]),
        (JsonRpcError(-32602, "no such cursor"), [TOOLS]),
    ],
)
def test_a_page_is_compared_by_what_is_in_it(now: Any, due: list[str]) -> None:
    lists = Lists()
    lists.saw("tools/list", b"{}", page("tools", {"name": "a"}))
    assert changed(lists, tools=now) == due
    if due:
        assert changed(lists) == [], "told once; until somebody has looked again"


def test_resources_and_templates_are_one_notification() -> None:
    lists = Lists()
    lists.saw("resources/list", b"{}", page("resources"))
    lists.saw("resources/templates/list", b"{}", page("resourceTemplates"))
    assert changed(lists, resources=page("resources", 1)) == [RESOURCES]


def test_only_so_many_pages_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lists, "MOST_PAGES", 1)
    lists = Lists()
    lists.saw("prompts/list", b"{}", page("prompts"))
    lists.saw("prompts/list", b'{"cursor":"2"}', page("prompts"))
    lists.saw("prompts/list", b"{}", page("prompts", 1))
    assert "prompts/list: 1" in repr(lists)
    assert changed(lists, prompts=page("prompts", 1)) == []


def test_a_server_that_is_lost_again_meanwhile_says_nothing_about_its_lists() -> None:
    """The next one is asked: a client must not fetch everything each time a flaky server falls over."""
    lists = Lists()
    lists.saw("tools/list", b"{}", page("tools"))
    assert changed(lists, is_there=False, tools=JsonRpcError(-32603, "lost")) == []
    assert changed(lists, tools=page("tools", 1)) == [TOOLS]


def test_params_that_no_server_gave_are_not_kept() -> None:
    lists = Lists()
    lists.saw("tools/list", b'{"cursor":"%b"}' % (b"x" * _lists.MOST_PARAMS_BYTES), page("tools"))
    assert "tools/list: 0" in repr(lists)


def test_arguments_that_travel_in_headers_are_read_from_the_list_that_passes() -> None:
    """2026-07-28 streamable HTTP, "Custom Headers from Tool Parameters"."""
    marked = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    lists = Lists()
    lists.saw("tools/list", b"{}", page("tools", {"name": "a", "inputSchema": marked}, {"name": "b"}))
    assert list(lists.param_headers) == ["a"]
    lists.saw("tools/list", b"{}", b'{"tools":"x-mcp-header"}')
    assert list(lists.param_headers) == ["a"]
    lists.saw("tools/list", b"{}", page("tools", {"name": "a", "inputSchema": {}}))
    assert lists.param_headers == {}
