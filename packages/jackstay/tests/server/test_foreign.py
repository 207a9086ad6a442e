"""Type hints that msgspec does not know, and hooks for pydantic models and paths."""

import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, List, Literal, Optional, Union  # noqa: UP035

import annotated_types
import msgspec
import pydantic
import pytest

from jackstay.server._foreign import (
    accept_foreign,
    adapt,
    decode_foreign,
    encode_foreign,
    is_path,
    is_pydantic,
)


class Model(pydantic.BaseModel):
    count: int = pydantic.Field(alias="Count")


class Documented:
    documentation = "documented by PEP 727"


META = msgspec.Meta

ROWS: list[tuple[Any, Any]] = [
    (int, int),
    (object, Any),
    (list[object], list[Any]),
    (Literal["a", 1], Literal["a", 1]),
    (tuple[()], tuple[()]),
    (tuple[int, ...], tuple[int, ...]),
    (list["int"], list["int"]),
    (Annotated[int, META(gt=1)], Annotated[int, META(gt=1)]),
    (Annotated[str, "the city"], Annotated[str, META(description="the city")]),
    (Annotated[str, Documented()], Annotated[str, META(description="documented by PEP 727")]),
    (Annotated[int, annotated_types.Gt(1)], Annotated[int, META(gt=1)]),
    (Annotated[int, annotated_types.MultipleOf(3)], Annotated[int, META(multiple_of=3)]),
    (Annotated[int, annotated_types.Interval(ge=1, lt=9)], Annotated[int, META(ge=1, lt=9)]),
    (Annotated[str, annotated_types.Len(1, 4)], Annotated[str, META(min_length=1, max_length=4)]),
    (Annotated[str, annotated_types.Len(0, 4)], Annotated[str, META(max_length=4)]),
    (list[Annotated[int, annotated_types.Ge(0)]], list[Annotated[int, META(ge=0)]]),
    (List[Annotated[int, annotated_types.Ge(0)]], List[Annotated[int, META(ge=0)]]),  # noqa: UP006
    (dict[str, Annotated[int, annotated_types.Le(5)]], dict[str, Annotated[int, META(le=5)]]),
    (Annotated[int, annotated_types.Ge(0)] | None, Optional[Annotated[int, META(ge=0)]]),  # noqa: UP045
    (Union[int, str], Union[int, str]),  # noqa: UP007
    (Annotated[int, object(), str.upper], int),
    (
        Annotated[int, pydantic.Field(gt=2, description="how many", examples=[3])],
        Annotated[int, META(description="how many", examples=[3]), META(gt=2)],
    ),
]


def test_adapt(subtests: pytest.Subtests) -> None:
    for hint, expected in ROWS:
        with subtests.test(hint=hint, expected=expected):
            assert adapt(hint) == expected


def test_examples_in_a_tuple_become_a_list() -> None:
    class Note:
        examples = (1, 2)

    assert adapt(Annotated[int, Note()]) == Annotated[int, META(examples=[1, 2])]


def test_constraints_that_msgspec_rejects() -> None:
    with pytest.raises(TypeError):
        adapt(Annotated[str, type("Bad", (), {"pattern": 3})()])


def test_pydantic_models_and_paths_are_recognized() -> None:
    assert is_pydantic(Model)
    assert not is_pydantic(int)
    assert not is_pydantic(Model(Count=1))
    assert is_path(Path)
    assert not is_path("path")


def test_without_pydantic_nothing_is_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pydantic")
    assert not is_pydantic(Model)


def test_the_import_does_not_load_pydantic() -> None:
    code = "import sys, jackstay.server._foreign; assert 'pydantic' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_decode_foreign() -> None:
    assert decode_foreign(Model, {"Count": 3}) == Model(Count=3)
    assert decode_foreign(PurePosixPath, "a/b") == PurePosixPath("a/b")


def test_decode_foreign_raises_value_error(subtests: pytest.Subtests) -> None:
    cases: list[tuple[type, object, str]] = [
        (Model, {"Count": "x"}, "valid integer"),
        (Path, 3, "Expected `str`, got `int`"),
        (complex, 1, "`complex`"),
    ]
    for cls, value, message in cases:
        with subtests.test(cls=cls, value=value), pytest.raises(ValueError, match=message):
            decode_foreign(cls, value)


def test_accept_foreign_does_not_validate_models() -> None:
    assert isinstance(accept_foreign(Model, {"whatever": 1}), Model)
    assert isinstance(accept_foreign(pydantic.RootModel[list[int]], [1]), pydantic.RootModel)
    assert accept_foreign(Path, "a") == Path("a")


def test_encode_foreign() -> None:
    encode = msgspec.json.Encoder(enc_hook=encode_foreign).encode
    assert encode([Model(Count=3), Path("a/b")]) == b'[{"Count":3},"a/b"]'
    with pytest.raises(TypeError, match="complex"):
        encode(1j)
