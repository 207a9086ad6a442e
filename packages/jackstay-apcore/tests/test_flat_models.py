"""JSON Schemas of flat models: equal to those of Pydantic, in the same order."""

import enum
import json
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator

from apcore_mcp.flat_models import flat_schema

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"


class Flat(BaseModel):
    """Everything that is flat.

    In two paragraphs.
    """

    text: str = Field(description="T", examples=["a"])
    number: Annotated[int, Field(ge=0, lt=9, json_schema_extra={"x-sensitive": True})] = 1
    ratio: float = Field(0.5, gt=0, le=1.5, multiple_of=0.5)
    is_set: bool = False
    names: list[str] = Field(default_factory=list)
    lists: list[list[int]] = []
    table: dict[str, Any] | None = None
    tables: dict[str, dict[str, bool]] = {}
    kind_of: Literal["a", "b"] = "a"
    anything: Any
    other_name: str = Field("x", alias="otherName", title="Other", min_length=2, max_length=9, pattern="^a")
    old: int = Field(0, deprecated=True)


class Empty(BaseModel):
    pass


class Child(Flat):
    more: str = ""


class Inner(BaseModel):
    inner: Flat


class Validated(BaseModel):
    text: str

    @field_validator("text")
    @classmethod
    def check(cls, value: str) -> str:
        return value


class Hooked(BaseModel):
    text: str

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        return {**handler(core_schema), "x": 1}


class Configured(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Other")
    text: str


class Box(BaseModel, Generic[T]):
    content: T


class Extra(BaseModel):
    text: str = Field("a", json_schema_extra={"x": [1]})


class Defaults(BaseModel):
    colour: Colour = Colour.RED
    pair: tuple[int, str] = (1, "a")


class OnlyLiteral(BaseModel):
    only: Literal["a"] = "a"


class NumberLiteral(BaseModel):
    number: Literal[1, 2] = 1


class Defaulted(BaseModel):
    names: list[str] = ["a"]


class LongList(BaseModel):
    names: list[str] = Field([], min_length=1)


class ManyKeys(BaseModel):
    counts: dict[int, str] = {}


class Infinite(BaseModel):
    number: float = Field(1, ge=0, allow_inf_nan=False)


@pytest.mark.parametrize("model", [Flat, Empty, Child])
def test_flat_models(model: type[BaseModel]) -> None:
    assert json.dumps(flat_schema(model)) == json.dumps(model.model_json_schema())


@pytest.mark.parametrize(
    "model",
    [
        Inner,
        Validated,
        Hooked,
        Configured,
        Box,
        Box[int],
        Extra,
        Defaults,
        OnlyLiteral,
        NumberLiteral,
        Defaulted,
        LongList,
        ManyKeys,
        Infinite,
        RootModel[int],
    ],
)
def test_other_models(model: type[BaseModel]) -> None:
    """Either it is left to Pydantic, or it is equal."""
    assert flat_schema(model) in (None, model.model_json_schema())


def test_future_core_schemas_are_left_to_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    core: Any = Empty.__pydantic_core_schema__
    for changed in ({**core, "new": 1}, {**core, "metadata": {"new": 1}}, {"type": "definitions"}, None):
        monkeypatch.setattr(Empty, "__pydantic_core_schema__", changed)
        assert flat_schema(Empty) is None
