"""The catalogue of served modules."""

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import ModuleAnnotations, Registry

from apcore_mcp.catalogue import Catalogue, Change
from jackstay.types import ToolAnnotations


def catalogue_of(registry: Registry, **filters: Any) -> Catalogue:
    made = Catalogue(registry, **filters)
    made.refresh()
    return made


def test_entries_are_ordered(registry: Registry) -> None:
    catalogue = catalogue_of(registry)
    assert [entry.id for entry in catalogue.tools()] == [
        "math.add",
        "math.later",
        "text.count",
        "user.remove",
    ]
    add, later, count, remove = catalogue.tools()
    assert add.name == "math.add"
    assert add.description == "Add two numbers"
    assert add.documentation == "# Add\n\nAdds `a` and `b`."
    assert add.tags == ("math", "public")
    assert add.input_schema["required"] == ["a"]
    assert add.output_schema["properties"]["total"]["type"] == "integer"
    assert add.annotations == ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    assert later.annotations is None  # undeclared annotations are not listed
    assert [entry.is_streaming for entry in (add, count)] == [False, True]
    assert [entry.needs_approval for entry in (add, remove)] == [False, True]
    assert remove.sensitive == (("password",), ("pin",))
    assert len(catalogue) == 4
    assert "4 modules, 0 skipped" in repr(catalogue)


def test_find_by_id_and_openai_name(registry: Registry) -> None:
    catalogue = catalogue_of(registry)
    assert catalogue.find("math.add") is catalogue.find("math-add") is catalogue.tools()[0]
    assert catalogue.find("math") is None


def test_filters_apply_to_calls(registry: Registry) -> None:
    catalogue = catalogue_of(registry, tags=["math"])
    assert [entry.id for entry in catalogue.tools()] == ["math.add"]
    assert catalogue.find("text.count") is None
    assert catalogue_of(registry, prefix="text.").find("math-add") is None


@pytest.mark.parametrize("filters", [{"tags": [""]}, {"tags": "math"}, {"tags": [1]}, {"prefix": ""}, {"prefix": 1}])
def test_empty_filters_are_rejected(registry: Registry, filters: Any) -> None:
    with pytest.raises(ValueError, match=r"tags|prefix"):
        Catalogue(registry, **filters)


def test_hidden_module_is_not_served(registry: Registry, kinds: SimpleNamespace) -> None:
    """`discoverable=False`."""
    hidden = kinds.Plain(lambda inputs, context: {}, annotations=ModuleAnnotations(discoverable=False))
    registry.register("math.hidden", hidden)
    assert catalogue_of(registry).find("math.hidden") is None


def with_alias(kinds: SimpleNamespace, alias: Any, **display: Any) -> Any:
    metadata = {"display": {"mcp": {"alias": alias}, **display}}
    return kinds.Plain(lambda inputs, context: {}, metadata=metadata)


def test_alias_and_id_are_found(registry: Registry, kinds: SimpleNamespace) -> None:
    registry.register("disk.free", with_alias(kinds, "free", description="Shown instead"))
    catalogue = catalogue_of(registry)
    entry = catalogue.find("free")
    assert entry is not None
    assert (entry.id, entry.name, entry.description) == ("disk.free", "free", "Shown instead")
    assert catalogue.find("disk.free") is catalogue.find("disk-free") is entry


@pytest.mark.parametrize("alias", ["math.add", "", 7, "two words", "x" * 129])
def test_taken_or_invalid_alias_is_not_used(registry: Registry, kinds: SimpleNamespace, alias: Any) -> None:
    registry.register("disk.free", with_alias(kinds, alias))
    catalogue = catalogue_of(registry)
    found = catalogue.find("disk.free")
    assert found is not None
    assert found.name == "disk.free"
    taken = catalogue.find("math.add")
    assert taken is not None
    assert taken.id == "math.add"


def test_first_id_gets_an_equal_alias(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    registry.register("a.one", with_alias(kinds, "same"))
    registry.register("b.two", with_alias(kinds, "same"))
    catalogue = catalogue_of(registry)
    assert [entry.name for entry in catalogue.tools()][:2] == ["same", "b.two"]
    assert "alias same of b.two is already used by a.one" in caplog.text


def test_metadata_of_a_wrong_type_is_ignored(registry: Registry, kinds: SimpleNamespace) -> None:
    registry.register("disk.free", kinds.Plain(lambda inputs, context: {}, metadata={"display": "loud"}))
    assert catalogue_of(registry).find("disk.free") is not None


def test_long_name_is_shortened(registry: Registry, kinds: SimpleNamespace) -> None:
    """The name has 128 characters and contains a hash."""
    long = ".".join(["segment"] * 20)
    registry.register(long, kinds.Plain(lambda inputs, context: {}))
    catalogue = catalogue_of(registry)
    entry = catalogue.find(long)
    assert entry is not None
    assert len(entry.name) == 128
    assert catalogue.find(entry.name) is entry


class Broken:
    """A model whose schema fails."""

    @classmethod
    def model_json_schema(cls) -> Any:
        raise RuntimeError("no schema")


def test_undescribable_module_is_skipped(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    registry.register("bad.broken", kinds.Plain(lambda i, c: {}, input_schema=Broken))
    registry.register("bad.text", kinds.Plain(lambda i, c: {}, input_schema={"type": "string"}))
    registry.register("good.nullable", kinds.Plain(lambda i, c: {}, input_schema={"type": ["object", "null"]}))
    catalogue = catalogue_of(registry)
    assert len(catalogue) == 5
    nullable = catalogue.find("good.nullable")
    assert nullable is not None
    assert nullable.input_schema == {"type": "object"}
    skipped = catalogue.skipped()
    assert sorted(skipped) == ["bad.broken", "bad.text"]
    assert skipped["bad.broken"] == "RuntimeError: no schema"
    assert "must have type 'object', not 'string'" in skipped["bad.text"]
    assert "skipped module bad.broken" in caplog.text


def test_undefined_module_is_skipped(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """`get_definition()` returns None."""
    monkeypatch.setattr(registry, "get_definition", lambda module_id: None)
    assert catalogue_of(registry).skipped().keys() == {"math.add", "math.later", "text.count", "user.remove"}


def test_non_object_output_schema_is_dropped(registry: Registry, kinds: SimpleNamespace) -> None:
    """Structured content must be an object."""
    registry.register("odd.out", kinds.Plain(lambda i, c: {}, output_schema={"type": "array"}))
    entry = catalogue_of(registry).find("odd.out")
    assert entry is not None
    assert entry.output_schema == {}


@pytest.mark.parametrize("declared", [ModuleAnnotations(requires_approval=True), {"requires_approval": True}])
def test_approval_in_file_or_code(
    registry: Registry, kinds: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, declared: Any
) -> None:
    """A requirement in one of them applies, whatever the other declares."""
    module = kinds.Plain(lambda i, c: {})
    registry.register("disk.wipe", module)
    module.annotations = declared
    entry = catalogue_of(registry).find("disk.wipe")
    assert entry is not None
    assert entry.needs_approval


# --- changes ----------------------------------------------------------------------------------------------------------


def test_changes_have_added_and_removed_entries(registry: Registry, kinds: SimpleNamespace) -> None:
    catalogue = catalogue_of(registry)
    changes: list[Change] = []
    end = catalogue.subscribe(changes.append)
    registry.register("new.one", kinds.Plain(lambda i, c: {}))
    catalogue.update("new.one")
    assert [entry.id for entry in changes[-1].added] == ["new.one"]
    registry.unregister("new.one")
    catalogue.update("new.one")
    assert [entry.id for entry in changes[-1].removed] == ["new.one"]
    assert catalogue.find("new.one") is None
    catalogue.update("never.there")
    assert len(changes) == 2
    end()
    end()
    registry.unregister("math.add")
    catalogue.refresh()
    assert len(changes) == 2
    assert catalogue.find("math.add") is None


def test_corrected_module_is_served(registry: Registry, kinds: SimpleNamespace) -> None:
    registry.register("bad.one", kinds.Plain(lambda i, c: {}, input_schema=Broken))
    catalogue = catalogue_of(registry)
    registry.unregister("bad.one")
    registry.register("bad.one", kinds.Plain(lambda i, c: {}))
    catalogue.update("bad.one")
    assert catalogue.skipped() == {}
    assert catalogue.find("bad.one") is not None
    catalogue.skip("bad.one", "the server cannot list it")
    assert catalogue.skipped() == {"bad.one": "the server cannot list it"}
    assert catalogue.find("bad.one") is None


def test_undiscovered_modules_are_skipped(registry: Registry) -> None:
    """The reason is dropped when the module is registered."""
    catalogue = catalogue_of(registry)
    notified: list[Change] = []
    catalogue.subscribe(notified.append)
    for _ in range(2):
        catalogue.set_undiscovered({"disk.free": "SyntaxError", "math.add": "stale"})
    # One change without entries: the reasons changed, the tools did not.
    assert notified == [Change()]
    assert catalogue.skipped() == {"disk.free": "SyntaxError"}


def test_concurrent_changes(registry: Registry, kinds: SimpleNamespace) -> None:
    """apcore calls callbacks on any thread."""
    catalogue = catalogue_of(registry)

    def work(number: int) -> None:
        for at in range(10):
            registry.register(f"t{number}.m{at}", kinds.Plain(lambda i, c: {}))
            catalogue.update(f"t{number}.m{at}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [entry.id for entry in catalogue.tools()]
    assert len(ids) == 44
    assert ids == sorted(ids)


def test_redaction_of_arguments_and_outputs(registry: Registry) -> None:
    remove = catalogue_of(registry).find("user.remove")
    assert remove is not None
    shown = remove.redact({"user": "ann", "password": "hunter2", "pin": 1234})
    assert shown["user"] == "ann"
    assert "hunter2" not in str(shown)
    assert "1234" not in str(shown)
    assert remove.redact_output({"a": 1}) == {"a": 1}


def test_model_with_string_annotations_is_rebuilt(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    """`from __future__ import annotations` with nested models in a discovered file."""
    (tmp_path / "late.py").write_text(
        "from __future__ import annotations\n"
        "from pydantic import BaseModel\n"
        "class Inner(BaseModel):\n    x: int\n"
        "class In(BaseModel):\n    inner: Inner\n"
        "class Out(BaseModel):\n    inner: Inner\n"
        "class Late:\n    input_schema = In\n    output_schema = Out\n    description = 'late'\n"
        "    def execute(self, inputs, context):\n        return inputs\n"
    )
    registry = Registry(extensions_dir=str(tmp_path))
    with caplog.at_level(logging.ERROR):
        registry.discover()
    catalogue = catalogue_of(registry)
    assert catalogue.skipped() == {}
    (entry,) = catalogue.tools()
    assert entry.input_schema["properties"]["inner"]["properties"]["x"]["type"] == "integer"


class Native:
    """A module whose `execute` is not a Python function, as in a C extension."""

    input_schema = Broken
    output_schema: Any = None
    description = "native"
    execute = staticmethod(len)


def test_non_python_module_is_skipped(registry: Registry) -> None:
    registry.register("native.one", Native())
    assert catalogue_of(registry).skipped() == {"native.one": "RuntimeError: no schema"}


@pytest.mark.parametrize("reference", ["#other", "https://example.test/schema#/count", "#/$defs/none"])
def test_references_that_cannot_be_resolved_keep_the_tool(kinds: SimpleNamespace, reference: str) -> None:
    """Missing anchors and definitions, and other documents: the input is listed as it is, the output not at all."""
    schema = {
        "properties": {"n": {"$ref": reference}, "token": {"type": "string", "x-sensitive": True}},
        "$defs": {"count": {"$anchor": "count", "type": "integer"}},
    }
    registry = Registry()
    registry.register("x.odd", kinds.Plain(lambda inputs, context: {}, input_schema=schema, output_schema=schema))
    catalogue = Catalogue(registry)
    catalogue.refresh()
    (entry,) = catalogue.tools()
    assert entry.input_schema == {"type": "object", **schema}
    assert entry.output_schema == {}
    assert entry.redact_output({"n": 1, "token": "secret"}) == {"n": 1, "token": "***REDACTED***"}
    assert set(entry.sensitive) == {("n",), ("token",)}
