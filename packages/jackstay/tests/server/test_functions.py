"""Inspection of functions: schemas, binding of arguments, and unsupported signatures."""

import dataclasses
import enum
import functools
import inspect
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import annotated_types
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from jackstay.errors import UsageError
from jackstay.server import Context
from jackstay.server._functions import Call, Function
from jackstay.server._problems import InvalidArguments


class Color(enum.Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int


@dataclasses.dataclass
class Leg:
    city: str


class Trip(TypedDict):
    legs: list[Leg]


class Model(pydantic.BaseModel):
    a: int


SHARED = [1, 2]
SENTINEL = object()


def everything(  # noqa: PLR0917  # every kind of parameter
    text: str,
    /,
    number: int,
    color: Color = Color.RED,
    choice: Literal["a", "b"] = "a",
    point: Point | None = None,
    trip: Trip | None = None,
    leg: Leg = Leg("Rome"),  # noqa: B008
    model: Model = Model(a=1),  # noqa: B008
    path: Path = Path("x"),
    shared: list[int] = SHARED,
    pair: tuple[int, str] = (1, "a"),
    limit: Annotated[int, annotated_types.Le(9)] = 3,
    implicit: int = None,  # type: ignore[assignment]  # noqa: RUF013
    anything=SENTINEL,  # type: ignore[no-untyped-def]
    *,
    keyword: bool = False,
) -> dict[str, int]:
    """Do everything.

    Args:
        text: what to print
        limit: how many
    """
    return {}


def call_of(function: Function, text: str, context: object = None) -> Call:
    bound = function.bind(text.encode(), context)
    assert not isinstance(bound, InvalidArguments), bound.text
    return bound


def problems_of(function: Function, text: str | None) -> list[str]:
    bound = function.bind(None if text is None else text.encode(), None)
    assert isinstance(bound, InvalidArguments)
    return [str(problem) for problem in bound.problems]


def test_schema_of_every_kind_of_parameter() -> None:
    function = Function(everything)
    schema = function.input_schema
    properties: Any = schema["properties"]
    Draft202012Validator.check_schema(schema)
    assert (function.name, function.description, function.is_async) == ("everything", "Do everything.", False)
    assert schema["required"] == ["text", "number"]
    assert schema["additionalProperties"] is False
    assert properties["text"] == {"type": "string", "description": "what to print"}
    assert properties["limit"] == {"type": "integer", "maximum": 9, "default": 3, "description": "how many"}
    assert properties["shared"]["default"] == [1, 2]
    assert properties["color"]["default"] == "red"
    assert properties["leg"]["default"] == {"city": "Rome"}
    assert properties["implicit"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    # The default has no JSON form, so the schema has none.
    assert properties["anything"] == {}
    assert function.returns == dict[str, int]


def test_binding_of_every_kind_of_parameter() -> None:
    function = Function(everything)
    positional, keywords = call_of(function, '{"text":"a","number":1}')
    assert positional[:9] == ("a", 1, Color.RED, "a", None, None, Leg("Rome"), Model(a=1), Path("x"))
    assert positional[9] is SHARED
    assert positional[10:] == ((1, "a"), 3, None, SENTINEL)
    assert keywords == {"keyword": False}
    full = (
        '{"text":"a","number":1,"color":"red","choice":"b","point":{"x":1},"trip":{"legs":[{"city":"b"}]},"leg":{"city":"c"},'
        '"model":{"a":2},"path":"p","shared":[],"pair":[2,"b"],"limit":9,"implicit":null,"anything":{"z":1},"keyword":true}'
    )
    positional, keywords = call_of(function, full)
    assert positional[3:6] == ("b", Point(1), {"legs": [Leg("b")]})
    assert positional[7:9] == (Model(a=2), Path("p"))
    assert positional[13] == {"z": 1}
    assert keywords == {"keyword": True}
    assert everything(*positional, **keywords) == {}  # type: ignore[arg-type]


def test_all_wrong_arguments_are_named() -> None:
    function = Function(everything)
    problems = problems_of(function, '{"number":"x","model":{},"limit":10,"shared":[1,"a"],"zz":1}')
    assert problems == [
        "text: missing",
        "number: expected int, got str",
        "model.a: Field required",
        "shared[1]: expected int, got str",
        "limit: expected int <= 9",
        "zz: unknown argument",
    ]


def test_missing_arguments_are_an_empty_object() -> None:
    function = Function(lambda: 1)
    assert function.bind(None, None) == ((), {})
    assert function.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert problems_of(Function(everything), None) == ["text: missing", "number: missing"]


def test_a_float_without_a_fraction_is_an_integer_as_in_json_schema() -> None:
    def count(n: int, names: list[dict[str, int]]) -> None: ...

    function = Function(count)
    assert call_of(function, '{"n":3.0,"names":[{"a":1e2}]}') == ((3, [{"a": 100}]), {})
    assert problems_of(function, '{"n":3.5,"names":[]}') == ["n: expected int, got float"]
    # Beyond the precision of a float.
    assert problems_of(function, '{"n":1e308,"names":[]}') == ["n: expected int, got float"]


def test_large_arguments_are_decoded_only_once() -> None:
    """docs/guarantees.md G20: decoding blocks the event loop, so there is no second attempt."""

    def count(n: int, text: str) -> None: ...

    function = Function(count)
    long = "x" * 1_048_576
    assert call_of(function, f'{{"n":3,"text":"{long}"}}') == ((3, long), {})
    assert problems_of(function, f'{{"n":3.0,"text":"{long}"}}') == ["n: expected int, got float"]


# --- the context ------------------------------------------------------------------------------------------------------


def first(context: Context, a: int) -> None: ...
def middle(a: int, context: Context, b: int = 2) -> None: ...
def optional(a: int, context: Context | None = None) -> None: ...
def keyword(a: int, *, context: Context, b: int = 2) -> None: ...


def test_the_context_is_passed_and_not_part_of_the_schema(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, Call]] = [
        (first, (("C", 1), {})),
        (middle, ((1, "C", 2), {})),
        (optional, ((1, "C"), {})),
        (keyword, ((1,), {"context": "C", "b": 2})),
    ]
    for call, expected in cases:
        with subtests.test(call=call, expected=expected):
            function = Function(call)
            assert call_of(function, '{"a":1}', "C") == expected
            assert "context" not in function.input_schema["properties"]  # type: ignore[operator]
            assert problems_of(function, '{"a":1,"context":{}}') == ["context: unknown argument"]


def test_a_parameter_may_have_a_subclass_of_the_context() -> None:
    class Richer(Context):
        pass

    def richer(context: Richer) -> None: ...

    assert Function(richer).bind(None, "C") == (("C",), {})


# --- kinds of functions -----------------------------------------------------------------------------------------------


class Shop:
    def buy(self, item: str, count: int = 1) -> str:
        """Buy it."""
        return item * count

    @classmethod
    def named(cls, item: str) -> str:
        return item

    @staticmethod
    def plain(item: str) -> str:
        return item

    async def __call__(self, item: str) -> str:
        """Call it."""
        return item


async def later(item: str, count: int, *, fast: bool = False) -> str:
    """Do it later."""
    return item


def returns_awaitable(item: str) -> Awaitable[int]: ...


@functools.wraps(later)
def wrapped(*args: Any, **keywords: Any) -> Any:
    return later(*args, **keywords)


FUNCTIONS: list[tuple[Callable[..., object], str, list[str], bool]] = [
    (Shop().buy, "buy", ["item", "count"], False),
    (Shop.named, "named", ["item"], False),
    (Shop.plain, "plain", ["item"], False),
    (Shop(), "__call__", ["item"], True),
    (later, "later", ["item", "count", "fast"], True),
    (functools.partial(later, "x"), "later", ["count", "fast"], True),
    (functools.partial(later, fast=True), "later", ["item", "count"], True),
    (functools.partial(functools.partial(later, "x"), count=3), "later", ["fast"], True),
    (functools.partial(Shop()), "__call__", ["item"], True),
    (wrapped, "later", ["item", "count", "fast"], False),
    (lambda item: item, "<lambda>", ["item"], False),
]


def test_kinds_of_functions(subtests: pytest.Subtests) -> None:
    for call, name, parameters, is_async in FUNCTIONS:
        with subtests.test(call=call, name=name, parameters=parameters, is_async=is_async):
            function = Function(call)
            assert function.name == name
            assert [parameter.name for parameter in function.parameters] == parameters
            assert function.is_async is is_async


def test_arguments_of_a_partial_cannot_be_overridden() -> None:
    function = Function(functools.partial(later, fast=True))
    assert problems_of(function, '{"item":"a","count":1,"fast":false}') == ["fast: unknown argument"]
    positional, keywords = call_of(function, '{"item":"a","count":1}')
    bound = inspect.signature(later).bind(*positional, **{"fast": True, **keywords})
    assert bound.arguments == {"item": "a", "count": 1, "fast": True}


def test_the_result_type_of_an_awaitable() -> None:
    assert Function(returns_awaitable).returns is int


def test_parameters_may_have_names_that_a_struct_field_cannot_have() -> None:
    def odd(__x: int, self: int, __doc__: int, p0: int) -> None: ...

    assert call_of(Function(odd), '{"__x":1,"self":2,"__doc__":3,"p0":4}') == ((1, 2, 3, 4), {})


def test_annotations_may_be_strings() -> None:
    def quoted(point: "Point", maybe: "Color | None" = None) -> "Trip": ...

    function = Function(quoted)
    assert call_of(function, '{"point":{"x":1}}') == ((Point(1), None), {})
    assert function.returns is Trip


def test_postponed_annotations() -> None:
    source = "from __future__ import annotations\ndef f(point: Point, n: int = 1) -> Point: ...\n"
    module = types.ModuleType("postponed")
    module.__dict__["Point"] = Point
    exec(source, module.__dict__)
    assert call_of(Function(module.__dict__["f"]), '{"point":{"x":1}}') == ((Point(1), 1), {})


# --- unsupported functions --------------------------------------------------------------------------------------------


def starred(*args: int) -> None: ...
def double_starred(**keywords: int) -> None: ...
def impossible(a: int, b: complex) -> None: ...
def unresolvable(a: int, b: "NoSuchName") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def unresolvable_result(a: int) -> "NoSuchName": ...  # type: ignore[name-defined]  # noqa: F821
def senseless(a: Annotated[int, annotated_types.MinLen(1)]) -> None: ...
def contradictory(a: Annotated[str, type("Bad", (), {"pattern": 3})()]) -> None: ...
def two_contexts(a: Context, b: Context) -> None: ...
def generates() -> Iterator[int]:
    yield 1


async def generates_later() -> AsyncIterator[int]:
    yield 1


def test_unsupported_functions_are_rejected(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str, str]] = [
        (starred, "starred(args)", r"\*args is not supported"),
        (double_starred, "double_starred(keywords)", r"\*\*keywords is not supported"),
        (impossible, "impossible(b)", r"impossible\(b\): unsupported annotation: complex has no JSON form$"),
        (unresolvable, "unresolvable(b)", "cannot resolve the annotation: name 'NoSuchName'"),
        (unresolvable_result, "unresolvable_result(return)", "cannot resolve the annotation"),
        (senseless, "senseless(a)", "unsupported annotation"),
        (contradictory, "contradictory(a)", "unsupported annotation"),
        (two_contexts, "two_contexts(b)", "only one parameter can be of type Context"),
        (generates, "generates", "a request has one result"),
        (generates_later, "generates_later", "a request has one result"),
        (Shop, "Shop", "is not a function"),
        (Shop.__call__, "__call__(self)", "cannot register an unbound method"),
        (3, "int", "is not a function"),
        (max, "max", "no signature"),
    ]
    for call, path, message in cases:
        with subtests.test(call=call, path=path):
            with pytest.raises(UsageError, match=message) as caught:
                Function(call)
            assert caught.value.path == path


def test_an_annotation_that_fails_only_together_with_others_is_rejected() -> None:
    def fickle(a: int) -> None: ...

    class Odd(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            return {}.items()

    fickle.__annotations__ = Odd(a="NoSuchName")
    with pytest.raises(UsageError, match="cannot resolve the annotation"):
        Function(fickle)


# --- strings ----------------------------------------------------------------------------------------------------------


def strings(a: int, when: bool = False, color: Color = Color.RED, *, context: Context | None = None) -> None: ...


def test_strings_are_converted_to_the_types_of_the_parameters() -> None:
    function = Function(strings)
    assert function.bind_strings({"a": "3", "when": "true"}, "C") == ((3, True, Color.RED), {"context": "C"})


def test_all_wrong_strings_are_named() -> None:
    bound = Function(strings).bind_strings({"when": "x", "color": "blue", "zz": "1"}, None)
    assert isinstance(bound, InvalidArguments)
    assert [str(problem) for problem in bound.problems] == [
        "a: missing",
        "when: expected bool, got str",
        "color: invalid enum value 'blue'",
        "zz: unknown argument",
    ]


@given(st.binary(max_size=60))
def test_any_bytes_are_a_call_or_a_list_of_problems(data: bytes) -> None:
    bound = Function(everything).bind(data, None)
    assert isinstance(bound, tuple) or bound.problems


# --- pydantic's Field as a default ------------------------------------------------------------------------------------


def fields(
    needed: int = pydantic.Field(description="how many"),
    number: int = pydantic.Field(3, ge=0),
    nothing: int | None = pydantic.Field(None),
    made: list[int] = pydantic.Field(default_factory=list),  # noqa: B008  # a common style
) -> None: ...


def test_a_pydantic_field_as_a_default() -> None:
    function = Function(fields)
    assert function.input_schema["required"] == ["needed"]
    assert function.input_schema["properties"] == {
        "needed": {"type": "integer", "description": "how many"},
        "number": {"type": "integer", "minimum": 0, "default": 3},
        "nothing": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "made": {"type": "array", "items": {"type": "integer"}},
    }
    assert call_of(function, '{"needed":1}') == ((1, 3, None, []), {})
    assert call_of(function, '{"needed":1}')[0][3] is not call_of(function, '{"needed":1}')[0][3]
    assert problems_of(function, '{"number":-1}') == ["needed: missing", "number: expected int >= 0"]
