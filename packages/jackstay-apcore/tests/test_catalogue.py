"""The live catalogue: described once, one gate, faults stay where they are."""

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


def test_every_module_is_an_entry_in_order(registry: Registry) -> None:
    """F-001, F-002, F-013."""
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
    assert later.annotations is None  # settled: what nobody declared is not told
    assert [entry.is_streaming for entry in (add, count)] == [False, True]
    assert [entry.needs_approval for entry in (add, remove)] == [False, True]
    assert remove.sensitive == (("password",), ("pin",))
    assert len(catalogue) == 4
    assert "4 modules, 0 skipped" in repr(catalogue)


def test_an_entry_is_found_by_its_id_and_by_the_dash_form(registry: Registry) -> None:
    """Settled: a call accepts the id, the alias and the dash form."""
    catalogue = catalogue_of(registry)
    assert catalogue.find("math.add") is catalogue.find("math-add") is catalogue.tools()[0]
    assert catalogue.find("math") is None


def test_tags_and_prefix_are_the_gate_for_calls_as_well(registry: Registry) -> None:
    """F-018; section 4: filters are not enforced on calls."""
    catalogue = catalogue_of(registry, tags=["math"])
    assert [entry.id for entry in catalogue.tools()] == ["math.add"]
    assert catalogue.find("text.count") is None
    assert catalogue_of(registry, prefix="text.").find("math-add") is None


@pytest.mark.parametrize(
    "filters", [{"tags": [""]}, {"tags": "math"}, {"tags": [1]}, {"prefix": ""}, {"prefix": 1}]
)
def test_a_filter_that_is_none_is_refused(registry: Registry, filters: Any) -> None:
    with pytest.raises(ValueError, match=r"tags|prefix"):
        Catalogue(registry, **filters)


def test_a_hidden_module_is_neither_listed_nor_found(registry: Registry, kinds: SimpleNamespace) -> None:
    """One gate: `discoverable=False`."""
    hidden = kinds.Plain(lambda inputs, context: {}, annotations=ModuleAnnotations(discoverable=False))
    registry.register("math.hidden", hidden)
    assert catalogue_of(registry).find("math.hidden") is None


def with_alias(kinds: SimpleNamespace, alias: Any, **display: Any) -> Any:
    metadata = {"display": {"mcp": {"alias": alias}, **display}}
    return kinds.Plain(lambda inputs, context: {}, metadata=metadata)


def test_an_alias_is_listed_and_found_and_so_is_the_id(registry: Registry, kinds: SimpleNamespace) -> None:
    """Section 4: an alias is listed but not callable."""
    registry.register("disk.free", with_alias(kinds, "free", description="Shown instead"))
    catalogue = catalogue_of(registry)
    entry = catalogue.find("free")
    assert entry is not None
    assert (entry.id, entry.name, entry.description) == ("disk.free", "free", "Shown instead")
    assert catalogue.find("disk.free") is catalogue.find("disk-free") is entry


@pytest.mark.parametrize("alias", ["math.add", "", 7, "two words", "x" * 129])
def test_an_alias_that_is_taken_or_none_is_not_used(
    registry: Registry, kinds: SimpleNamespace, alias: Any
) -> None:
    registry.register("disk.free", with_alias(kinds, alias))
    catalogue = catalogue_of(registry)
    found = catalogue.find("disk.free")
    assert found is not None
    assert found.name == "disk.free"
    taken = catalogue.find("math.add")
    assert taken is not None
    assert taken.id == "math.add"


def test_of_two_equal_aliases_the_first_id_has_it(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    registry.register("a.one", with_alias(kinds, "same"))
    registry.register("b.two", with_alias(kinds, "same"))
    catalogue = catalogue_of(registry)
    assert [entry.name for entry in catalogue.tools()][:2] == ["same", "b.two"]
    assert "alias same of b.two is taken by a.one" in caplog.text


def test_metadata_of_a_wrong_kind_says_nothing(registry: Registry, kinds: SimpleNamespace) -> None:
    registry.register("disk.free", kinds.Plain(lambda inputs, context: {}, metadata={"display": "loud"}))
    assert catalogue_of(registry).find("disk.free") is not None


def test_a_name_over_128_characters_is_shortened(registry: Registry, kinds: SimpleNamespace) -> None:
    """Settled: MCP 128, with a hash, in the table."""
    long = ".".join(["segment"] * 20)
    registry.register(long, kinds.Plain(lambda inputs, context: {}))
    catalogue = catalogue_of(registry)
    entry = catalogue.find(long)
    assert entry is not None
    assert len(entry.name) == 128
    assert catalogue.find(entry.name) is entry


class Broken:
    """A model that cannot write its schema."""

    @classmethod
    def model_json_schema(cls) -> Any:
        raise RuntimeError("no schema today")


def test_a_module_that_cannot_be_described_is_skipped_with_its_reason(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """Section 4: one bad module kills the start."""
    registry.register("bad.broken", kinds.Plain(lambda i, c: {}, input_schema=Broken))
    registry.register("bad.text", kinds.Plain(lambda i, c: {}, input_schema={"type": "string"}))
    dangling = {"type": "object", "properties": {"a": {"$ref": "#/$defs/Gone"}}}
    registry.register("bad.dangling", kinds.Plain(lambda i, c: {}, input_schema=dangling))
    catalogue = catalogue_of(registry)
    assert len(catalogue) == 4
    skipped = catalogue.skipped()
    assert sorted(skipped) == ["bad.broken", "bad.dangling", "bad.text"]
    assert skipped["bad.broken"] == "RuntimeError: no schema today"
    assert "'string', not an object" in skipped["bad.text"]
    assert "Gone" in skipped["bad.dangling"]
    assert "module bad.broken is skipped" in caplog.text


def test_a_module_that_the_registry_does_not_define_is_skipped(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 9.3: get_definition() returns None."""
    monkeypatch.setattr(registry, "get_definition", lambda module_id: None)
    assert catalogue_of(registry).skipped().keys() == {"math.add", "math.later", "text.count", "user.remove"}


def test_an_output_that_is_no_object_promises_nothing(registry: Registry, kinds: SimpleNamespace) -> None:
    """F-013: MCP has structured results for objects."""
    registry.register("odd.out", kinds.Plain(lambda i, c: {}, output_schema={"type": "array"}))
    entry = catalogue_of(registry).find("odd.out")
    assert entry is not None
    assert entry.output_schema == {}


@pytest.mark.parametrize("said", [ModuleAnnotations(requires_approval=True), {"requires_approval": True}])
def test_approval_asked_for_anywhere_is_asked_for(
    registry: Registry, kinds: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    """A file must not cancel what the code asks for."""
    module = kinds.Plain(lambda i, c: {})
    registry.register("disk.wipe", module)
    module.annotations = said
    entry = catalogue_of(registry).find("disk.wipe")
    assert entry is not None
    assert entry.needs_approval


# --- changes ----------------------------------------------------------------------------------------------------------


def test_changes_are_told_with_what_came_and_what_went(registry: Registry, kinds: SimpleNamespace) -> None:
    """F-015."""
    catalogue = catalogue_of(registry)
    heard: list[Change] = []
    end = catalogue.subscribe(heard.append)
    registry.register("new.one", kinds.Plain(lambda i, c: {}))
    catalogue.update("new.one")
    assert [entry.id for entry in heard[-1].added] == ["new.one"]
    registry.unregister("new.one")
    catalogue.update("new.one")
    assert [entry.id for entry in heard[-1].removed] == ["new.one"]
    assert catalogue.find("new.one") is None
    catalogue.update("never.there")
    assert len(heard) == 2
    end()
    end()
    registry.unregister("math.add")
    catalogue.refresh()
    assert len(heard) == 2
    assert catalogue.find("math.add") is None


def test_a_module_that_is_mended_is_no_longer_skipped(registry: Registry, kinds: SimpleNamespace) -> None:
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


def test_what_never_reached_the_registry_is_among_the_skipped_until_it_does(registry: Registry) -> None:
    """Shown by --check, /health, the log and the inspector."""
    catalogue = catalogue_of(registry)
    told: list[Change] = []
    catalogue.subscribe(told.append)
    for _ in range(2):
        catalogue.note_undiscovered({"disk.free": "SyntaxError", "math.add": "stale"})
    # Who shows the reasons reads them again, once; tools did not change.
    assert told == [Change()]
    assert catalogue.skipped() == {"disk.free": "SyntaxError"}


def test_many_threads_may_change_it_at_once(registry: Registry, kinds: SimpleNamespace) -> None:
    """F-015: callbacks come from any thread."""
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


def test_arguments_and_outputs_are_shown_without_secrets(registry: Registry) -> None:
    """Section 4: sensitive arguments appear in the approval prompt."""
    remove = catalogue_of(registry).find("user.remove")
    assert remove is not None
    shown = remove.redact({"user": "ann", "password": "hunter2", "pin": 1234})
    assert shown["user"] == "ann"
    assert "hunter2" not in str(shown)
    assert "1234" not in str(shown)
    assert remove.redact_output({"a": 1}) == {"a": 1}


def test_a_discovered_model_with_texts_for_hints_is_finished(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Section 3: `from __future__ import annotations` with nested models in a discovered file."""
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
    """A module whose `execute` is not a Python function, as of an extension in C."""

    input_schema = Broken
    output_schema: Any = None
    description = "native"
    execute = staticmethod(len)


def test_a_module_that_is_not_python_is_skipped_with_the_first_reason(registry: Registry) -> None:
    registry.register("native.one", Native())
    assert catalogue_of(registry).skipped() == {"native.one": "RuntimeError: no schema today"}
