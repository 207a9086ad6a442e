"""Descriptors with cached schemas: equal to those of apcore."""

from datetime import date
from enum import Enum
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from apcore import Registry
from pydantic import BaseModel, ConfigDict, Field

from apcore_mcp.definitions import define, json_schema_of


class Colour(Enum):
    RED = "red"


class Level(int):
    pass


class Inner(BaseModel):
    at: date = date(2026, 1, 2)
    colour: Colour = Colour.RED
    again: "Inner | None" = None


class Everything(BaseModel):
    """A model with many kinds of fields."""

    model_config = ConfigDict(populate_by_name=True, json_schema_extra={"x-more": 1})

    text: str = "a"
    number: int = 0
    is_set: bool = True
    ratio: float = 0.5
    names: list[str] = []
    table: dict[str, Inner] = {}
    inner: Inner = Inner()
    maybe: Annotated[int | None, Field(alias="Maybe", ge=0, description="x")] = None
    pair: tuple[int, str] = (1, "b")


class Own(BaseModel):
    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
        return {"type": "object", "title": "own"}


@pytest.mark.parametrize("model", [Everything, Inner, Own, {"type": "object"}, {}])
def test_definitions_equal_those_of_apcore(kinds: SimpleNamespace, model: Any) -> None:
    registry = Registry()
    module = kinds.Plain(lambda inputs, context: {}, input_schema=model, output_schema=Inner, tags=["a"], name="N")
    registry.register("x.y", module, metadata={"x-when-to-use": "now"})
    for _ in range(2):
        assert define(registry, "x.y") == registry.get_definition("x.y")
    assert define(registry, "x.none") is None


def test_schemas_are_copies() -> None:
    first = json_schema_of(Everything)
    first["properties"].clear()
    assert json_schema_of(Everything) == Everything.model_json_schema()
    assert json_schema_of(None) is None
    assert json_schema_of(Own) is Own
