"""The catalogue: lookups, lists and pages, during changes and with several threads."""

import sys
import threading
from typing import Any

import mcp_types
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import ProtocolError, UsageError
from jackstay.protocol import METHODS, REVISIONS
from jackstay.protocol.server import ListOptions
from jackstay.server import _catalogue
from jackstay.server._catalogue import CHANGES, LISTS, Catalogue, Kind
from jackstay.server._completions import completion_from_function
from jackstay.server._prompts import PromptEntry, PromptOptions, prompt_from_function
from jackstay.server._resources import ResourceEntry, resource_from_function
from jackstay.server._tools import ToolEntry, ToolOptions, tool_from_function
from jackstay.types import (
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PromptReference,
    decode,
)

NOW, OLD, STATELESS = "2025-11-25", "2025-03-26", "2026-07-28"


def tool(name: str, result: type = int) -> ToolEntry:
    def call() -> None: ...

    call.__annotations__["return"] = result
    return tool_from_function(call, options=ToolOptions(name=name))


def prompt(name: str) -> PromptEntry:
    return prompt_from_function(lambda: "", options=PromptOptions(name=name))


def resource(uri: str) -> ResourceEntry:
    if "{" in uri:
        return resource_from_function(uri, lambda key: key)
    return resource_from_function(uri, lambda: "")


TOOLS = [tool(f"t{number}") for number in range(30)]


def names(page: bytes) -> list[str]:
    return [tool.name for tool in decode(ListToolsResult, page).tools]


def read_all(catalogue: Catalogue, version: str = NOW) -> list[list[str]]:
    pages: list[list[str]] = []
    cursor = None
    while True:
        page = catalogue.page(Kind.TOOLS, version, cursor)
        pages.append(names(page))
        cursor = msgspec.json.decode(page).get("nextCursor")
        if cursor is None:
            return pages


def test_the_tables_of_lists_and_changes_are_complete() -> None:
    requests = {
        name for name, row in METHODS.items() if name.endswith("/list") and row.params == "PaginatedRequestParams"
    }
    assert set(LISTS) == requests - {"tasks/list"}
    assert set(LISTS.values()) == set(Kind) == set(CHANGES)
    assert set(CHANGES.values()) <= METHODS.keys()


def test_an_empty_catalogue_has_empty_lists() -> None:
    for kind in Kind:
        assert msgspec.json.decode(Catalogue().page(kind, NOW)) == {kind.value: []}


def test_lists_are_in_the_order_of_registration() -> None:
    catalogue = Catalogue()
    catalogue.add_tools(tool("z"), tool("a"))
    catalogue.add_tools(tool("m"))
    assert list(catalogue.tools) == ["z", "a", "m"]
    assert names(catalogue.page(Kind.TOOLS, NOW)) == ["z", "a", "m"]


def test_every_kind_is_listed() -> None:
    catalogue = Catalogue()
    catalogue.add_prompts(prompt("p"))
    catalogue.add_resources(resource("a://1"), resource("a://{key}"))
    assert decode(ListPromptsResult, catalogue.page(Kind.PROMPTS, NOW)).prompts[0].name == "p"
    assert decode(ListResourcesResult, catalogue.page(Kind.RESOURCES, NOW)).resources[0].uri == "a://1"
    templates = decode(ListResourceTemplatesResult, catalogue.page(Kind.TEMPLATES, NOW)).resource_templates
    assert templates[0].uri_template == "a://{key}"
    assert catalogue.prompts.keys() == {"p"}
    assert catalogue.resources.keys() == {"a://1"}
    assert catalogue.templates.keys() == {"a://{key}"}
    assert repr(catalogue) == "<Catalogue 0 tools, 1 resources, 1 resourceTemplates, 1 prompts>"


def test_static_resources_have_priority_over_templates_which_are_matched_in_order() -> None:
    catalogue = Catalogue()
    catalogue.add_resources(resource("a://{key}"), resource("a://x{key}"), resource("a://1"))
    for uri, key, variables in (
        ("a://1", "a://1", {}),
        ("a://2", "a://{key}", {"key": "2"}),
        ("a://x2", "a://{key}", {"key": "x2"}),
    ):
        found = catalogue.find_resource(uri)
        assert found is not None
        assert (found.entry.key, found.variables) == (key, variables)
    assert catalogue.find_resource("b://1") is None


def test_the_official_models_accept_every_list_in_every_revision() -> None:
    catalogue = Catalogue()
    catalogue.add_tools(*TOOLS[:3], tool("s", str))
    catalogue.add_prompts(prompt("p"))
    catalogue.add_resources(resource("a://1"), resource("a://{key}"))
    models = (mcp_types.ListToolsResult, mcp_types.ListResourcesResult, mcp_types.ListResourceTemplatesResult,
              mcp_types.ListPromptsResult)  # fmt: skip
    for kind, model in zip(Kind, models, strict=True):
        for version in REVISIONS:
            read = model.model_validate_json(catalogue.page(kind, version))
            assert len(read.model_dump(by_alias=True)[kind.value]) == len(
                msgspec.json.decode(catalogue.page(kind, version))[kind.value]
            )


def test_encoded_lists_are_cached_until_a_change() -> None:
    catalogue = Catalogue()
    catalogue.add_tools(tool("a"))
    first = catalogue.page(Kind.TOOLS, NOW)
    assert catalogue.page(Kind.TOOLS, NOW) is first
    assert catalogue.page(Kind.TOOLS, "2025-06-18") is first
    catalogue.add_tools(tool("b"))
    assert catalogue.page(Kind.TOOLS, NOW) != first


def test_the_members_of_a_list_depend_on_the_revision() -> None:
    catalogue = Catalogue(ListOptions(ttl_ms=5, cache_scope="public"))
    catalogue.add_tools(tool("a"))
    for version, row in REVISIONS.items():
        page = msgspec.json.decode(catalogue.page(Kind.TOOLS, version))
        assert ("outputSchema" in page["tools"][0]) is row.has_structured_output
        hints = {"ttlMs": 5, "cacheScope": "public"} if row.has_result_type else {}
        assert page == {"tools": page["tools"], **hints}


def test_all_pages_together_are_the_list(subtests: pytest.Subtests) -> None:
    for size in [1, 7, 29, 30, 31]:
        with subtests.test(size=size):
            catalogue = Catalogue(ListOptions(page_size=size))
            catalogue.add_tools(*TOOLS)
            pages = read_all(catalogue)
            assert [name for page in pages for name in page] == [entry.key for entry in TOOLS]
            assert all(len(page) == size for page in pages[:-1])
            assert len(pages) == -(-30 // size)


def next_cursor(catalogue: Catalogue, cursor: str | None = None) -> str:
    found = decode(ListToolsResult, catalogue.page(Kind.TOOLS, NOW, cursor)).next_cursor
    assert found is not None
    return found


def test_a_cursor_stays_valid_while_the_list_changes() -> None:
    catalogue = Catalogue(ListOptions(page_size=10))
    catalogue.add_tools(*TOOLS)
    cursor = next_cursor(catalogue)
    catalogue.remove_tools("t0", "t3")
    assert names(catalogue.page(Kind.TOOLS, NOW, cursor))[0] == "t10"
    catalogue.remove_tools("t9", "t10")  # t9 is in the cursor
    assert names(catalogue.page(Kind.TOOLS, NOW, cursor))[0] == "t11"
    catalogue.add_tools(tool("new"))
    assert read_all(catalogue)[-1][-1] == "new"
    catalogue.remove_tools(*list(catalogue.tools))
    assert names(catalogue.page(Kind.TOOLS, NOW, cursor)) == []


def test_pages_at_unusual_offsets_are_not_cached() -> None:
    catalogue = Catalogue(ListOptions(page_size=10))
    catalogue.add_tools(*TOOLS)
    cursor = next_cursor(catalogue)
    assert catalogue.page(Kind.TOOLS, NOW, cursor) is catalogue.page(Kind.TOOLS, NOW, cursor)
    catalogue.remove_tools("t0")
    unusual = catalogue.page(Kind.TOOLS, NOW, cursor)
    assert catalogue.page(Kind.TOOLS, NOW, cursor) == unusual
    assert catalogue.page(Kind.TOOLS, NOW, cursor) is not unusual


def test_a_bad_cursor_is_invalid_params(subtests: pytest.Subtests) -> None:
    for cursor in ["", "7", "garbage"]:
        with subtests.test(cursor=cursor):
            with pytest.raises(ProtocolError) as caught:
                Catalogue().page(Kind.TOOLS, NOW, cursor)
            assert caught.value.code == -32602


def test_a_cursor_of_another_list_is_invalid() -> None:
    catalogue = Catalogue(ListOptions(page_size=1))
    catalogue.add_tools(tool("a"), tool("b"))
    with pytest.raises(ProtocolError):
        catalogue.page(Kind.PROMPTS, NOW, next_cursor(catalogue))


def test_a_duplicate_name_is_rejected_and_nothing_is_added() -> None:
    catalogue = Catalogue()
    catalogue.add_tools(tool("a"))
    with pytest.raises(UsageError, match="duplicate entry in tools: 'a'; use another name"):
        catalogue.add_tools(tool("b"), tool("a"))
    with pytest.raises(UsageError):
        catalogue.add_tools(tool("c"), tool("c"))
    assert list(catalogue.tools) == ["a"]
    assert catalogue.version(Kind.TOOLS) == 1


def test_a_replacement_keeps_its_position() -> None:
    catalogue = Catalogue()
    catalogue.add_tools(tool("a"), tool("b"))
    other = tool("a", str)
    catalogue.add_tools(other, replace=True)
    assert list(catalogue.tools) == ["a", "b"]
    assert catalogue.tools["a"] is other


def test_resources_are_added_all_or_none() -> None:
    catalogue = Catalogue()
    catalogue.add_resources(resource("a://{key}"))
    with pytest.raises(UsageError):
        catalogue.add_resources(resource("a://1"), resource("a://{key}"))
    assert catalogue.resources == {}


def test_the_callback_is_called_once_after_each_change() -> None:
    calls: list[tuple[Kind, int]] = []
    catalogue = Catalogue(changed=lambda kind: calls.append((kind, catalogue.version(kind))))
    catalogue.add_tools(tool("a"), tool("b"))
    catalogue.add_resources(resource("a://1"), resource("a://{key}"))
    catalogue.add_resources(resource("a://2"))
    catalogue.add_prompts(prompt("p"))
    catalogue.remove_tools("a")
    catalogue.remove_resources("a://2")
    catalogue.remove_resources("a://{key}")
    catalogue.remove_prompts("p")
    assert calls == [
        (Kind.TOOLS, 1), (Kind.RESOURCES, 1), (Kind.TEMPLATES, 1), (Kind.RESOURCES, 2), (Kind.PROMPTS, 1),
        (Kind.TOOLS, 2), (Kind.RESOURCES, 3), (Kind.TEMPLATES, 2), (Kind.PROMPTS, 2),
    ]  # fmt: skip


def test_the_callback_may_change_the_catalogue() -> None:
    catalogue = Catalogue()

    def changed(kind: Kind) -> None:
        if "b" not in catalogue.tools:
            catalogue.add_tools(tool("b"))

    catalogue.changed = changed
    catalogue.add_tools(tool("a"))
    assert list(catalogue.tools) == ["a", "b"]


def test_removing_an_unknown_entry_is_rejected(subtests: pytest.Subtests) -> None:
    for remove in ["remove_tools", "remove_resources", "remove_prompts"]:
        with subtests.test(remove=remove), pytest.raises(UsageError, match=r"no such entry in .*: 'a'"):
            getattr(Catalogue(), remove)("a")


def test_completions_are_added_and_replaced() -> None:
    catalogue = Catalogue()
    first, second = (completion_from_function(PromptReference(name="p"), "a", lambda value: []) for _ in range(2))
    catalogue.add_completion(first)
    with pytest.raises(UsageError, match="duplicate completion for argument 'a' of 'p'"):
        catalogue.add_completion(second)
    catalogue.add_completion(second, replace=True)
    assert catalogue.completions == {("ref/prompt", "p", "a"): second}


def test_options_are_checked(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        ({"page_size": 0}, "page_size"),
        ({"page_size": 1.5}, "page_size"),
        ({"ttl_ms": -1}, "ttl_ms"),
    ]
    for options, path in cases:
        with subtests.test(options=options, path=path):
            with pytest.raises(UsageError) as caught:
                ListOptions(**options)
            assert caught.value.path == path


def test_entries_are_added_without_a_copy_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class Counted(_catalogue.Listing[Any]):
        def __init__(self, kind: Any, options: Any, rows: Any) -> None:
            made.append(len(rows))
            super().__init__(kind, options, rows)

    monkeypatch.setattr(_catalogue, "Listing", Counted)
    catalogue = Catalogue()
    for number in range(100):
        catalogue.add_tools(tool(f"tool_{number}"))
    assert catalogue.find_tool("tool_99") is not None
    assert catalogue.version(Kind.TOOLS) == 100
    assert made == []
    assert len(catalogue.tools) == len(catalogue.tools) == 100
    assert made == [100]


def test_concurrent_changes_and_consistent_reads() -> None:
    catalogue = Catalogue(ListOptions(page_size=5))
    started = threading.Barrier(5)
    failures: list[BaseException] = []
    pairs = [[(tool(f"{thread}.{n}a"), tool(f"{thread}.{n}b")) for n in range(20)] for thread in range(4)]

    def change(entries: list[tuple[ToolEntry, ToolEntry]]) -> None:
        started.wait(120)
        for first, second in entries:
            catalogue.add_tools(first, second)
        for first, second in entries[::2]:
            catalogue.remove_tools(first.key, second.key)

    def read() -> None:
        started.wait(120)
        try:
            for _ in range(200):
                seen = catalogue.tools
                assert all(name[:-1] + ("b" if name[-1] == "a" else "a") in seen for name in seen)
                catalogue.page(Kind.TOOLS, NOW)
        except BaseException as error:  # noqa: BLE001  # reported by the main thread
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=change, args=(entries,)) for entries in pairs] + [
            threading.Thread(target=read)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    finally:
        sys.setswitchinterval(before)
    assert failures == []
    assert len(catalogue.tools) == 4 * 20
    assert catalogue.version(Kind.TOOLS) == 4 * 30


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=30), st.integers(1, 4))
def test_entries_that_stay_are_listed_exactly_once(changes: list[tuple[bool, int]], size: int) -> None:
    catalogue = Catalogue(ListOptions(page_size=size))
    catalogue.add_tools(*TOOLS[:10])
    seen: list[str] = []
    always = {entry.key for entry in TOOLS[:10]}
    page = catalogue.page(Kind.TOOLS, NOW)
    for is_added, index in [*changes, *[(True, 0)] * 40]:
        key = TOOLS[index].key
        if not is_added and key in catalogue.tools:
            catalogue.remove_tools(key)
            always.discard(key)
        elif is_added and key not in catalogue.tools:
            catalogue.add_tools(TOOLS[index])
        seen += names(page)
        cursor = msgspec.json.decode(page).get("nextCursor")
        if cursor is None:
            break
        page = catalogue.page(Kind.TOOLS, NOW, cursor)
    assert sorted(name for name in seen if name in always) == sorted(always)


def test_a_list_is_served_from_its_first_entry_on() -> None:
    """Also when it is empty again: its client knows it, and more entries may come."""
    catalogue = Catalogue()
    assert catalogue.registered == (False, False, False, False)
    catalogue.add_tools(TOOLS[0])
    assert catalogue.registered == (True, False, False, False)
    catalogue.remove_tools(TOOLS[0].key)
    assert catalogue.registered == (True, False, False, False)
