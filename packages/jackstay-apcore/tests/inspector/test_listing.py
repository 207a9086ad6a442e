"""The list of tools, and the details of one tool."""

import msgspec
from apcore import Registry

from apcore_mcp.catalogue import Catalogue
from apcore_mcp.inspector.listing import details_of, list_tools, to_row


def catalogue_of(registry: Registry) -> Catalogue:
    made = Catalogue(registry)
    made.refresh()
    return made


def test_list_tools(registry: Registry) -> None:
    catalogue = catalogue_of(registry)
    catalogue.skip("math.later", "broken")
    listing = list_tools("demo", "1.2", catalogue)
    assert (listing.name, listing.version) == ("demo", "1.2")
    assert [row.name for row in listing.tools] == ["math.add", "text.count", "user.remove"]
    assert listing.skipped == {"math.later": "broken"}
    assert b"properties" not in msgspec.json.encode(listing), "only the details of a tool contain its schemas"


def test_only_declared_hints_are_listed(registry: Registry) -> None:
    catalogue = catalogue_of(registry)
    add, later = catalogue.find("math.add"), catalogue.find("math.later")
    assert add is not None
    assert later is not None
    hints = {"read-only": True, "destructive": False, "idempotent": True, "open world": False}
    assert to_row(add).hints == hints
    assert to_row(later).hints == {} or later.annotations is not None


def test_streaming_and_approval_are_marked(registry: Registry) -> None:
    rows = {row.id: row for row in list_tools("demo", "1", catalogue_of(registry)).tools}
    assert [id for id, row in rows.items() if row.is_streaming] == ["text.count"]
    assert [id for id, row in rows.items() if row.needs_approval] == ["user.remove"]


def test_revision_changes_with_the_tool(registry: Registry) -> None:
    entry = catalogue_of(registry).tools()[0]
    same = msgspec.structs.replace(entry)
    assert to_row(same).revision == to_row(entry).revision
    for change in (
        {"description": "other"},
        {"documentation": "other"},
        {"input_schema": {"type": "object"}},
        {"output_schema": {}},
        {"annotations": None},
    ):
        assert to_row(msgspec.structs.replace(entry, **change)).revision != to_row(entry).revision, change


def test_details_have_schemas_and_sensitive_paths(registry: Registry) -> None:
    entry = catalogue_of(registry).find("user.remove")
    assert entry is not None
    details = details_of(entry)
    assert details.input_schema == entry.input_schema
    assert set(details.sensitive) == {("password",), ("pin",)}
