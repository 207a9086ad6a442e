"""All problems of invalid arguments are reported, once each, with their paths."""

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Generic, NewType, NotRequired, Optional, TypedDict, TypeVar

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.client import connect
from jackstay.errors import ToolCallError
from jackstay.server import Server, _problems
from jackstay.server._problems import InvalidArguments, Problem, collect, find_problems, format_path


class Color(enum.Enum):
    RED = "red"


class Point(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    at_x: int
    at_y: int = 0


class Tagged(msgspec.Struct, tag="t", forbid_unknown_fields=True):
    n: int


class Row(msgspec.Struct, array_like=True):
    n: int


@dataclasses.dataclass
class Leg:
    city: str
    days: int = 1
    notes: list[str] = dataclasses.field(default_factory=list)


class Trip(TypedDict):
    legs: list[Leg]
    note: NotRequired[str]


class Model(pydantic.BaseModel):
    a: int
    b: str


T = TypeVar("T")


@dataclasses.dataclass
class Box(Generic[T]):
    item: T
    items: list[T] = dataclasses.field(default_factory=list)


class Crate(msgspec.Struct, Generic[T]):
    item: T
    boxes: list[Box[T]] = []


class Limits(TypedDict):
    many: Annotated[int, msgspec.Meta(ge=0)]
    few: NotRequired[Annotated[int, msgspec.Meta(ge=0)]]


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    point: Point
    trip: Trip | None = None
    counts: dict[str, int] = {}
    models: list[Model] = []
    color: Color = Color.RED
    limit: Annotated[int, msgspec.Meta(le=9)] = 1
    tagged: Tagged | None = None
    row: Row | None = None
    pair: tuple[int, str] = (1, "a")
    many: tuple[int, ...] = ()
    views: Mapping[str, Sequence[int]] = {}
    boxed: Box[int] | None = None
    crated: Crate[int] | None = None
    open: Box | None = None  # type: ignore[type-arg]
    limits: Limits | None = None
    either: int | str = 1
    anything: Any = None
    plain: list = []  # type: ignore[type-arg]


ROWS: list[tuple[str, list[str]]] = [
    ('{"point":{"atX":1}}', []),
    ("{}", ["point: missing"]),
    ("[]", ["expected object, got array"]),
    ("garbage", ["JSON is malformed: invalid character (byte 0)"]),
    ('{"point":3}', ["point: expected object, got int"]),
    (
        '{"point":{"atX":"a","atY":null,"z":1},"zz":2}',
        ["point.atX: expected int, got str", "point.atY: expected int, got null", "point.z: unknown member",
         "zz: unknown argument"],
    ),
    (
        '{"point":{"atX":1},"trip":{"legs":[{"city":"a"},{"days":"x"}],"note":3}}',
        ["trip.legs[1].city: missing", "trip.legs[1].days: expected int, got str", "trip.note: expected str, got int"],
    ),
    ('{"point":{"atX":1},"trip":{}}', ["trip.legs: missing"]),
    ('{"point":{"atX":1},"counts":{"a b":"x","c":1}}', ["counts['a b']: expected int, got str"]),
    ('{"point":{"atX":1},"counts":[]}', ["counts: expected object, got array"]),
    (
        '{"point":{"atX":1},"models":[{"a":"x"}]}',
        ["models[0].a: Input should be a valid integer, unable to parse string as an integer",
         "models[0].b: Field required"],
    ),
    ('{"point":{"atX":1},"color":"blue","limit":10}', ["color: invalid enum value 'blue'", "limit: expected int <= 9"]),
    ('{"point":{"atX":1},"tagged":{"type":"t","n":"x","o":1}}',
     ["tagged.n: expected int, got str", "tagged.o: unknown member"]),
    ('{"point":{"atX":1},"row":["x"]}', ["row: expected int, got str (at [0])"]),
    ('{"point":{"atX":1},"pair":["x",3]}', ["pair[0]: expected int, got str", "pair[1]: expected str, got int"]),
    ('{"point":{"atX":1},"pair":[1]}', ["pair: expected array of length 2"]),
    ('{"point":{"atX":1},"many":["x",1,"y"]}', ["many[0]: expected int, got str", "many[2]: expected int, got str"]),
    ('{"point":{"atX":1},"views":{"a":["x"],"b":3}}',
     ["views.a[0]: expected int, got str", "views.b: expected array, got int"]),
    ('{"point":{"atX":1},"boxed":{"item":"x","items":[1,"y"]}}',
     ["boxed.item: expected int, got str", "boxed.items[1]: expected int, got str"]),
    ('{"point":{"atX":1},"crated":{"item":"x","boxes":[{}]}}',
     ["crated.item: expected int, got str", "crated.boxes[0].item: missing"]),
    ('{"point":{"atX":1},"open":{"items":{"a":3}}}', ["open.item: missing", "open.items: expected array, got object"]),
    ('{"point":{"atX":1},"limits":{"many":-1,"few":-1}}',
     ["limits.many: expected int >= 0", "limits.few: expected int >= 0"]),
    ('{"point":{"atX":1},"either":[]}', ["either: expected int | str, got array"]),
    ('{"point":{"atX":1},"plain":3}', ["plain: expected array, got int"]),
]  # fmt: skip


def test_all_problems_are_named(subtests: pytest.Subtests) -> None:
    for text, expected in ROWS:
        with subtests.test(text=text, expected=expected):
            found = collect(find_problems(Arguments, text.encode()))
            assert [str(problem) for problem in found.problems] == expected


def test_format_path() -> None:
    assert format_path(()) == ""
    assert format_path(("legs", 2, "city")) == "legs[2].city"
    assert format_path(("a b", "c")) == "['a b'].c"
    assert format_path(("x" * 100,)) == "['" + "x" * 64 + "…']"


def test_the_text_has_one_line_for_each_problem() -> None:
    first, second = Problem("a", "missing"), Problem("", "odd")
    assert InvalidArguments((first,)).text == "Invalid arguments: a: missing"
    assert InvalidArguments((first, second)).text == "Invalid arguments:\n- a: missing\n- odd"


def test_the_number_and_length_of_problems_are_limited() -> None:
    found = collect(iter([(("a",), "x" * 1000)] * 1000))
    assert len(found.problems) == _problems.MAX_PROBLEMS + 1
    assert found.problems[-1].message == "and more"
    assert len(found.problems[0].message) == _problems.MAX_PROBLEM_LENGTH + 1


def test_only_the_first_problem_of_a_large_argument_is_named() -> None:
    """docs/guarantees.md G20: a search of megabytes, item by item, would block the event loop."""

    class Model(pydantic.BaseModel):
        a: int
        text: str = ""

    class Large(msgspec.Struct):
        numbers: list[int]
        model: Model
        models: list[Model]
        small: list[int]

    long = "x" * _problems.MAX_SEARCHED_BYTES
    wrong = {
        "numbers": [*range(_problems.MAX_SEARCHED_BYTES), "x", "y"],
        "model": {"a": "x", "text": long},
        "models": [{"a": 1, "text": long}, {"a": "secret"}, {}],
        "small": ["x", "y"],
    }
    found = collect(find_problems(Large, msgspec.json.encode(wrong)))
    integer = "Input should be a valid integer, unable to parse string as an integer"
    assert [str(problem) for problem in found.problems] == [
        f"numbers: expected int, got str (at [{_problems.MAX_SEARCHED_BYTES}])",
        f"model.a: {integer}",
        f"models: {integer} (at [1])",
        "small[0]: expected int, got str",
        "small[1]: expected int, got str",
    ]
    assert str(collect(find_problems(str, b"[%b1]" % (b"1," * 40_000), ("a",))).problems[0]) == (
        "a: expected str, got array"
    )


def test_nesting_that_is_too_deep_is_a_problem_and_not_an_exception() -> None:
    found = collect(find_problems(Any, b"[" * 100_000))
    assert [str(problem) for problem in found.problems] == ["nested too deeply"]


def test_a_model_that_raises_a_plain_value_error() -> None:
    class Odd(pydantic.BaseModel):
        @classmethod
        def model_validate_json(cls, *args: Any, **keywords: Any) -> "Odd":
            raise ValueError("odd")

    assert list(find_problems(Odd, b"{}", ("m",))) == [(("m",), "odd")]


NewPoint = NewType("NewPoint", Point)
NewLeg = NewType("NewLeg", Leg)
NewTrip = NewType("NewTrip", Trip)
NewestLeg = NewType("NewestLeg", NewLeg)


@pytest.mark.parametrize(
    ("hint", "value", "problem"),
    [
        (NewPoint, {"atX": "x"}, "value.atX: expected int, got str"),
        (NewLeg, {"city": 5}, "value.city: expected str, got int"),
        (NewTrip, {"legs": [{"city": "Rome", "days": "x"}]}, "value.legs[0].days: expected int, got str"),
        (NewestLeg, {}, "value.city: missing"),
        (list[NewPoint], [{"atX": 1}, {"atX": "x"}], "value[1].atX: expected int, got str"),
        (Optional[NewLeg], {"city": 5}, "value.city: expected str, got int"),  # noqa: UP045
        (NewTrip | None, {}, "value.legs: missing"),
    ],
)
async def test_an_invalid_argument_of_a_new_type_is_described_to_the_model(hint: Any, value: Any, problem: str) -> None:
    async def take(value: Any) -> str:
        raise AssertionError("not called")

    take.__annotations__["value"] = hint
    server = Server("types")
    server.tool(take)
    async with connect(server) as client:
        with pytest.raises(ToolCallError) as raised:
            await client.tools.call("take", {"value": value})
    assert str(raised.value).endswith(f": Invalid arguments: {problem}")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["atX", "legs", "a"]), inner, max_size=3)
    ),
)


@given(st.dictionaries(st.sampled_from(["point", "trip", "counts", "models", "color", "zz"]), JSON))
def test_there_are_problems_exactly_if_the_decoder_rejects_the_value(value: dict[str, Any]) -> None:
    data = msgspec.json.encode(value)
    try:
        msgspec.json.decode(data, type=Arguments, dec_hook=_problems.decode_foreign)
        is_valid = True
    except msgspec.ValidationError:
        is_valid = False
    assert (list(find_problems(Arguments, data)) == []) is is_valid
