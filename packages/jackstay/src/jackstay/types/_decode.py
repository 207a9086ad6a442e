"""JSON in to bodies: the short way, strict and in C, and the long way, which keeps what the short way refuses.

The short way is a msgspec decoder that accepts only what has a field, never a null in place of an absent member, and in
an open union only the class that is usual there. When it refuses, for whatever reason, the long way decodes to plain
JSON and walks it with the types of the fields: unions are chosen, what has no field is kept, what is wrong is named
with its path. Both give equal bodies wherever the short way gives one at all (tests hold them together), so the short
way is only a matter of speed.

Plans and decoders are made when a class is first decoded, not on import. Must never know a body by name: all it reads
is annotations. Above: `_results` and every room that decodes. Below: `_body`, `_json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

import msgspec

from jackstay.errors import Json, ProtocolError
from jackstay.types._body import Body, OneOf, Unparsed
from jackstay.types._json import Kept, Path, encode_json, spell_path

B = TypeVar("B", bound=Body)

# A type as `typing` spells it: a class, or one of the forms that are not classes.
Hint: TypeAlias = object

# Takes one decoded JSON value at a place, gives what stands in the field; refuses with a ProtocolError.
Take: TypeAlias = Callable[[Json, Path], object]

# A whole body, the short way.
Strict: TypeAlias = Callable[[bytes | msgspec.Raw], Body]

INVALID_PARAMS = -32602
PARSE_ERROR = -32700

_KIND_WORDS: dict[type, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
    dict: "an object",
    list: "an array",
    NoneType: "null",
}
_LONGEST_QUOTE = 40

# What msgspec raises for bytes that are not the body asked for. RecursionError: nesting beyond Python's stack.
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_STRICT: dict[type[Body], Strict] = {}
_PLANS: dict[type[Body], Plan] = {}

_parse = msgspec.json.Decoder().decode
_parse_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def decode(cls: type[B], data: bytes | msgspec.Raw) -> B:
    """The body in `data`, which must be one JSON object. Of duplicate names the last wins.

    Raises:
        ProtocolError: for anything else, and for a member of the wrong type; `path` names the place.
    """
    try:
        read = _STRICT[cls]
    except KeyError:
        read = _prepare(cls)
    try:
        return read(data)  # type: ignore[return-value]  # the table pairs each class with its own reader
    except _REFUSED:
        return from_json(cls, parse_members(cls, data))


def from_json(cls: type[B], value: Json) -> B:
    """The body in an object that is already decoded: a member of `_meta`, the `data` of an error, a test's literal.

    Raises:
        ProtocolError: as `decode`.
    """
    return _take_body(cls)(value, None)  # type: ignore[return-value]  # `_take_body` makes instances of its argument


def parse_members(cls: type[Body], data: bytes | msgspec.Raw) -> Json:
    """Plain JSON, except that the members which `cls` wants unparsed stay in their bytes."""
    try:
        unparsed = _plan(cls).unparsed
        if not unparsed:
            value: Json = _parse(data)
            return value
        # An object is left as it is; anything else is looked at, and refused by its kind.
        members: dict[str, Any] = {
            key: part if key in unparsed and _is_object(part) else _parse(part)
            for key, part in _parse_members(data).items()
        }
        return members
    except _REFUSED as error:
        code = INVALID_PARAMS if isinstance(error, msgspec.ValidationError) else PARSE_ERROR
        message = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ProtocolError(f"the body cannot be decoded ({message})", path="$", code=code) from error


# --- the short way ----------------------------------------------------------------------------------------------------


def _prepare(cls: type[Body]) -> Strict:
    if "choose" in vars(cls):
        _STRICT[cls] = _refuse_always
    else:
        strict: Strict = msgspec.json.Decoder(cls).decode
        for name in _unparsed_fields(cls):
            strict = _with_object(strict, name)
        for constant in _constants(cls, set()):
            strict = _with_constant(strict, constant)
        _STRICT[cls] = strict
    return _STRICT[cls]


def _refuse_always(data: bytes | msgspec.Raw) -> Body:  # noqa: ARG001 (a Strict has it)
    """For a class that only stands for others: which of them it is, the long way finds out."""
    raise msgspec.ValidationError


def _with_constant(strict: Strict, constant: repeat[str]) -> Strict:
    """A reader that refuses a body in which a constant was not there.

    To msgspec a constant has a default, so that Python may leave it out, and a block without a `type` would pass for
    text. But a default is taken from the constant's iterator, which then has fewer left. A thread that makes a body
    meanwhile causes a refusal too many, and the long way at worst.
    """
    count_left = constant.__length_hint__

    def read(data: bytes | msgspec.Raw) -> Body:
        before = count_left()
        body = strict(data)
        if count_left() != before:
            raise msgspec.ValidationError
        return body

    return read


def _with_object(strict: Strict, name: str) -> Strict:
    """A reader that refuses an unparsed member which is no object; msgspec does not look at it."""

    def read(data: bytes | msgspec.Raw) -> Body:
        body = strict(data)
        unparsed = getattr(body, name)
        if unparsed is not None and not _is_object(unparsed):
            raise msgspec.ValidationError
        return body

    return read


def _is_object(unparsed: msgspec.Raw) -> bool:
    return memoryview(unparsed)[0] == 0x7B  # "{"


def _unparsed_fields(cls: type[Body]) -> list[str]:
    return [
        field.name
        for field in msgspec.structs.fields(cls)
        if get_origin(field.type) is Annotated and isinstance(get_args(field.type)[1], Unparsed)
    ]


def _constants(hint: Hint, seen: set[Hint]) -> set[repeat[str]]:
    """The iterators of all constants in what the strict decoder of a type may make."""
    if hint in seen:
        return set()
    seen.add(hint)
    if not (isinstance(hint, type) and issubclass(hint, Body)):
        parts = [part for part in get_args(hint) if get_origin(hint) is not Literal]
        return {constant for part in parts for constant in _constants(part, seen)}
    found = set()
    for field in msgspec.structs.fields(hint):
        found |= _constants(field.type, seen)
        if field.default_factory is not msgspec.NODEFAULT:
            found.add(field.default_factory.__self__)
    return found


# --- the long way -----------------------------------------------------------------------------------------------------


class Expected(msgspec.Struct, frozen=True):
    """What may stand in a place: a way to take it for each kind of JSON value (None: as it is), and words for all."""

    kinds: dict[type, Take | None]
    words: tuple[str, ...]

    def take(self, value: Json, path: Path) -> object:
        """What stands in the field for this value, or a ProtocolError."""
        try:
            take = self.kinds[value.__class__]
        except KeyError:
            raise _refusal(self.words, _kind(value), path) from None
        return value if take is None else take(value, path)


class Member(msgspec.Struct, frozen=True):
    """A field, as the long way sees it. `is_optional`: it may be absent, so a null is an absent one that is kept."""

    name: str
    expected: Expected
    is_optional: bool


class Plan(msgspec.Struct, frozen=True):
    """A class, as the long way sees it, by wire name."""

    members: dict[str, Member]
    required: frozenset[str]
    unparsed: frozenset[str]


def _refusal(wanted: tuple[str, ...], got: str, path: Path) -> ProtocolError:
    message = f"expected {' or '.join(wanted)}, got {got}"
    return ProtocolError(message, path=spell_path(path), code=INVALID_PARAMS)


def _kind(value: Json) -> str:
    """What it is, not what it says: errors are logged, and a member may be a secret."""
    return _KIND_WORDS.get(value.__class__, f"an object of type {type(value).__name__}")


def _plan(cls: type[Body]) -> Plan:
    if cls in _PLANS:
        return _PLANS[cls]
    members = {
        field.encode_name: Member(field.name, _expected(field.type), field.default is None)
        for field in msgspec.structs.fields(cls)
        if field.name != "kept"
    }
    unparsed = {name for name, member in members.items() if member.name in _unparsed_fields(cls)}
    # Also a constant, such as the `type` of a block: Python fills it in, a peer must send it.
    required = {name for name, member in members.items() if not member.is_optional}
    _PLANS[cls] = Plan(members, frozenset(required), frozenset(unparsed))
    return _PLANS[cls]


def _take_body(cls: type[Body]) -> Take:
    if "choose" in vars(cls):
        return _take_choice(OneOf(cls.choose))  # type: ignore[attr-defined]  # looked up in the line above

    def take(value: Json, path: Path) -> Body:
        return _walk(cls, value, path)

    return take


def _walk(cls: type[Body], value: Json, path: Path) -> Body:
    if not isinstance(value, dict):
        raise _refusal(("an object",), _kind(value), path)
    plan = _plan(cls)
    if not plan.required <= value.keys():
        missing = ", ".join(sorted(plan.required - value.keys()))
        message = f"{cls.__name__} needs the member {missing}"
        raise ProtocolError(message, path=spell_path(path), code=INVALID_PARAMS)
    fields: dict[str, Any] = {}
    kept: dict[str, Json] = {}
    for key, item in value.items():
        member = plan.members.get(key)
        if member is None or (item is None and member.is_optional):
            kept[key] = item
        else:
            fields[member.name] = member.expected.take(item, (path, key))
    if kept:
        fields["kept"] = Kept(kept)
    try:
        return cls(**fields)
    except ValueError as error:  # from a class that demands one member or another, in its `__post_init__`
        raise ProtocolError(str(error), path=spell_path(path), code=INVALID_PARAMS) from error


def _expected(hint: Hint) -> Expected:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return Expected(dict.fromkeys(_KIND_WORDS), ("JSON",))
    if origin is Annotated:
        return _expected_marked(arguments[1])
    if origin in (Union, UnionType):
        parts = [_expected(part) for part in arguments]
        # `int` alone takes 1.0 for an integer, as JSON Schema does; beside another kind it does not.
        kinds = {
            kind: take for part in parts for kind, take in part.kinds.items() if take is not _take_integer
        }
        return Expected(kinds, tuple(word for part in parts for word in part.words))
    if origin is Literal:
        return Expected({str: _take_word(arguments)}, tuple(repr(word) for word in arguments))
    if origin is Sequence:
        return Expected({list: _take_items(_expected(arguments[0]))}, ("an array",))
    if origin is Mapping:
        return Expected({dict: _take_members(_expected(arguments[1]))}, ("an object",))
    assert isinstance(hint, type), hint
    if issubclass(hint, Body):
        return Expected({dict: _take_body(hint)}, ("an object",))
    kinds = {hint: None, float: _take_integer} if hint is int else {hint: None}
    return Expected(kinds, (_KIND_WORDS[hint],))


def _expected_marked(marker: OneOf | Unparsed) -> Expected:
    if isinstance(marker, OneOf):
        return Expected({dict: _take_choice(marker)}, ("an object",))
    return Expected({msgspec.Raw: None, dict: _take_unparsed}, ("an object",))


def _take_choice(one_of: OneOf) -> Take:
    def take(value: Json, path: Path) -> Body:
        if not isinstance(value, dict):
            raise _refusal(("an object",), _kind(value), path)
        cls = one_of.choose(value)
        if cls is None:
            message = "an object of no kind that is known here"
            raise ProtocolError(message, path=spell_path(path), code=INVALID_PARAMS)
        return _walk(cls, value, path)

    return take


def _take_word(words: tuple[str, ...]) -> Take:
    def take(value: Json, path: Path) -> Json:
        assert isinstance(value, str)
        if value not in words:
            quote = value if len(value) <= _LONGEST_QUOTE else value[:_LONGEST_QUOTE] + "…"
            raise _refusal(tuple(repr(word) for word in words), repr(quote), path)
        return value

    return take


def _take_items(item: Expected) -> Take:
    def take(value: Json, path: Path) -> list[object]:
        assert isinstance(value, list)
        return [item.take(part, (path, index)) for index, part in enumerate(value)]

    return take


def _take_members(item: Expected) -> Take:
    def take(value: Json, path: Path) -> dict[str, object]:
        assert isinstance(value, dict)
        return {key: item.take(part, (path, key)) for key, part in value.items()}

    return take


def _take_integer(value: Json, path: Path) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise _refusal(("an integer",), _kind(value), path)


def _take_unparsed(value: Json, path: Path) -> msgspec.Raw:  # noqa: ARG001 (a Take has both)
    return msgspec.Raw(encode_json(value))
