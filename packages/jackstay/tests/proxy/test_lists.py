"""Detection of changed lists after a restart."""

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


async def changed(lists: Lists, is_ready: bool = True, **answers: bytes | Exception) -> list[str]:
    """Return the notifications to send; `answers` are the fetched pages, by the first part of the method."""
    fetched: list[str] = []

    async def fetch(method: str, params: bytes) -> bytes:
        fetched.append(method)
        answer = answers[method.split("/", maxsplit=1)[0]]
        if isinstance(answer, Exception):
            raise answer
        return answer

    due = await lists.changed(fetch, lambda: is_ready)
    assert len(fetched) <= 2
    return due


async def test_lists_that_were_not_forwarded_are_not_fetched() -> None:
    assert await changed(Lists()) == []


async def test_pages_are_compared_by_content() -> None:
    rows: list[tuple[Any, list[str]]] = [
        (page("tools", {"name": "a"}), []),
        (page("tools", {"name": "a"}, ttlMs=5, _meta={"a": 1}), []),
        (page("tools", {"name": "b"}), [TOOLS]),
        (page("tools", {"name": "a"}, nextCursor="more"), [TOOLS]),
        (page("nothing"), [TOOLS]),
        (b"[]", [TOOLS]),
        (JsonRpcError(-32602, "no such cursor"), [TOOLS]),
    ]
    for now, due in rows:
        lists = Lists()
        lists.record_page("tools/list", b"{}", page("tools", {"name": "a"}))
        assert await changed(lists, tools=now) == due, now
        if due:
            assert await changed(lists) == [], "notified once, until the list is fetched again"


async def test_resources_and_templates_share_one_notification() -> None:
    lists = Lists()
    lists.record_page("resources/list", b"{}", page("resources"))
    lists.record_page("resources/templates/list", b"{}", page("resourceTemplates"))
    assert await changed(lists, resources=page("resources", 1)) == [RESOURCES]


async def test_the_number_of_remembered_pages_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lists, "MAX_PAGES", 1)
    lists = Lists()
    lists.record_page("prompts/list", b"{}", page("prompts"))
    lists.record_page("prompts/list", b'{"cursor":"2"}', page("prompts"))
    lists.record_page("prompts/list", b"{}", page("prompts", 1))
    assert await changed(lists, prompts=page("prompts", 1)) == []


async def test_a_server_that_is_lost_again_causes_no_notification() -> None:
    """The next server is compared: clients must not fetch all lists whenever a server crashes."""
    lists = Lists()
    lists.record_page("tools/list", b"{}", page("tools"))
    assert await changed(lists, is_ready=False, tools=JsonRpcError(-32603, "lost")) == []
    assert await changed(lists, tools=page("tools", 1)) == [TOOLS]


async def test_long_params_are_not_remembered() -> None:
    lists = Lists()
    lists.record_page("tools/list", b'{"cursor":"%b"}' % (b"x" * _lists.MAX_PARAMS_BYTES), page("tools"))
    assert await changed(lists, tools=page("tools", 1)) == []


def test_param_headers_are_read_from_the_forwarded_list() -> None:
    """2026-07-28 basic/transports, "Custom Headers from Tool Parameters"."""
    marked = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    lists = Lists()
    lists.record_page("tools/list", b"{}", page("tools", {"name": "a", "inputSchema": marked}, {"name": "b"}))
    assert list(lists.param_headers) == ["a"]
    lists.record_page("tools/list", b"{}", b'{"tools":"x-mcp-header"}')
    assert list(lists.param_headers) == ["a"]
    lists.record_page("tools/list", b"{}", page("tools", {"name": "a", "inputSchema": {}}))
    assert lists.param_headers == {}
