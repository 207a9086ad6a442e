"""What the page is told of tools: rows without schemas for the list, everything of one when it is opened."""

import msgspec
from apcore import Registry

from apcore_mcp.catalogue import Catalogue
from apcore_mcp.inspector.listing import list_tools, row_of, whole_of


def catalogue_of(registry: Registry) -> Catalogue:
    made = Catalogue(registry)
    made.refresh()
    return made


def test_the_list_names_the_server_its_tools_and_what_was_skipped(registry: Registry) -> None:
    catalogue = catalogue_of(registry)
    catalogue.skip("math.later", "broken")
    listing = list_tools("demo", "1.2", catalogue)
    assert (listing.name, listing.version) == ("demo", "1.2")
    assert [row.name for row in listing.tools] == ["math.add", "text.count", "user.remove"]
    assert listing.skipped == {"math.later": "broken"}
    assert b"properties" not in msgspec.json.encode(listing), "schemas are read when somebody looks"


def test_only_hints_that_a_module_declared_are_told(registry: Registry) -> None:
    catalogue = catalogue_of(registry)
    add, later = catalogue.find("math.add"), catalogue.find("math.later")
    assert add is not None
    assert later is not None
    said = {"read-only": True, "destructive": False, "idempotent": True, "open world": False}
    assert row_of(add).hints == said
    assert row_of(later).hints == {} or later.annotations is not None


def test_a_streaming_module_and_one_that_asks_for_approval_are_marked(registry: Registry) -> None:
    rows = {row.id: row for row in list_tools("demo", "1", catalogue_of(registry)).tools}
    assert [id for id, row in rows.items() if row.is_streaming] == ["text.count"]
    assert [id for id, row in rows.items() if row.needs_approval] == ["user.remove"]


def test_the_revision_changes_when_anything_of_a_tool_does(registry: Registry) -> None:
    entry = catalogue_of(registry).tools()[0]
    same = msgspec.structs.replace(entry)
    assert row_of(same).revision == row_of(entry).revision
    for change in (
        {"description": "other"},
        {"documentation": "other"},
        {"input_schema": {"type": "object"}},
        {"output_schema": {}},
        {"annotations": None},
    ):
        assert row_of(msgspec.structs.replace(entry, **change)).revision != row_of(entry).revision, change


def test_all_of_a_tool_has_its_schemas_and_the_places_that_must_not_be_shown(registry: Registry) -> None:
    entry = catalogue_of(registry).find("user.remove")
    assert entry is not None
    whole = whole_of(entry)
    assert whole.input_schema == entry.input_schema
    assert set(whole.sensitive) == {("password",), ("pin",)}
