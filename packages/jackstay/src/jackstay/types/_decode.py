"""Decodes JSON into bodies: a fast path in C, and a slow path that preserves what the fast path rejects.

The fast path is a strict msgspec decoder: no unknown members, no null, and in an open union only the default class. If
it fails, the slow path walks the decoded JSON by the types of the fields, chooses unions, keeps extra members and
reports errors with their path. Both return equal bodies wherever the fast path succeeds (tests compare them).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import repeat
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

import msgspec

from jackstay.errors import Json, ProtocolError
from jackstay.types._body import Body, Choose
from jackstay.types._json import DECODE_ERRORS, ExtraMembers, Path, encode_json, is_object, spell_path

B = TypeVar("B", bound=Body)

# An annotation: a class, or a special form of `typing`.
Hint: TypeAlias = object

# Converts a decoded JSON value of one type, at a path, to the value of the field; raises ProtocolError.
Converter: TypeAlias = Callable[[Any, Path], object]

# Decodes a whole body on the fast path.
Strict: TypeAlias = Callable[[bytes | msgspec.Raw], Body]

INVALID_PARAMS = -32602
PARSE_ERROR = -32700

_KIND_NAMES: dict[type, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
    dict: "an object",
    list: "an array",
    NoneType: "null",
}
_MAX_QUOTE_CHARS = 40

_STRICT: dict[type[Body], Strict] = {}

_parse = msgspec.json.Decoder().decode
_parse_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def decode(cls: type[B], data: bytes | msgspec.Raw) -> B:
    """Decode the body in `data`, which must be one JSON object. Of duplicate names the last wins.

    Raises:
        ProtocolError: it is not an object, or a member has the wrong type; `path` is the location.
    """
    try:
        read = _STRICT[cls]
    except KeyError:
        read = _STRICT[cls] = strict_reader(cls)
    try:
        return read(data)  # type: ignore[return-value]  # the table maps each class to its own reader
    except DECODE_ERRORS:
        return from_json(cls, parse_members(cls, data))


def from_json(cls: type[B], value: Json) -> B:
    """Convert a decoded object to a body: a member of `_meta`, the `data` of an error, a literal in a test.

    Raises:
        ProtocolError: as `decode`.
    """
    return _expected(cls).convert(value, None)  # type: ignore[return-value]  # an instance of `cls`


def parse_members(cls: type[Body], data: bytes | msgspec.Raw) -> Any:
    """Decode to plain JSON, except for the objects that `cls` leaves undecoded."""
    try:
        unparsed = _plan(cls).unparsed
        if not unparsed:
            return _parse(data)
        # Anything else than an object is decoded, and rejected later by its type.
        return {
            key: part if key in unparsed and is_object(part) else _parse(part)
            for key, part in _parse_members(data).items()
        }
    except DECODE_ERRORS as error:
        code = INVALID_PARAMS if isinstance(error, msgspec.ValidationError) else PARSE_ERROR
        message = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ProtocolError(f"cannot decode the body: {message}", path="$", code=code) from error


# --- the fast path ----------------------------------------------------------------------------------------------------


def strict_reader(cls: type[Body]) -> Strict:
    """Return the fast path of `decode()`. It raises one of `DECODE_ERRORS` where the slow path may succeed."""
    if "choose" in vars(cls):
        return _reject_always
    strict: Strict = msgspec.json.Decoder(cls).decode
    for constant in _constants(cls, set()):
        strict = _with_constant(strict, constant)
    return strict


def _reject_always(data: bytes | msgspec.Raw) -> Body:  # noqa: ARG001  # the signature of Strict
    """For an abstract class, whose subclass the slow path chooses."""
    raise msgspec.ValidationError


def _with_constant(strict: Strict, constant: repeat[str]) -> Strict:
    """Return a reader that rejects a body in which a constant is missing.

    For msgspec a constant has a default, so that Python code may omit it; a block without a `type` would be taken for
    text. But a default comes from the constant's iterator, which then has fewer items left. If another thread creates
    a body meanwhile, the slow path is taken without need.
    """
    count_left = constant.__length_hint__

    def read(data: bytes | msgspec.Raw) -> Body:
        before = count_left()
        body = strict(data)
        if count_left() != before:
            raise msgspec.ValidationError
        return body

    return read


def _constants(hint: Hint, seen: set[Hint]) -> set[repeat[str]]:
    """Return the iterators of all constants in the classes that the strict decoder of a type may create."""
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


# --- the slow path ----------------------------------------------------------------------------------------------------


class Expected(msgspec.Struct, frozen=True):
    """The JSON types of a field, each with its converter (None: unchanged), and their names for errors."""

    kinds: dict[type, Converter | None]
    names: tuple[str, ...]

    def convert(self, value: Json, path: Path) -> object:
        """Return the value of the field for this JSON value. Raises: ProtocolError."""
        try:
            convert = self.kinds[value.__class__]
        except KeyError:
            raise _mismatch(self.names, _kind(value), path) from None
        return value if convert is None else convert(value, path)


class Member(msgspec.Struct, frozen=True):
    """A field on the slow path. `is_optional`: it may be absent, so null counts as absent and is an extra member."""

    name: str
    expected: Expected
    is_optional: bool


class Plan(msgspec.Struct, frozen=True):
    """A class on the slow path, by wire name."""

    members: dict[str, Member]
    required: frozenset[str]
    unparsed: frozenset[str]


def _invalid(message: str, path: Path) -> ProtocolError:
    return ProtocolError(message, path=spell_path(path), code=INVALID_PARAMS)


def _mismatch(wanted: tuple[str, ...], got: str, path: Path) -> ProtocolError:
    return _invalid(f"expected {' or '.join(wanted)}, got {got}", path)


def _kind(value: Json) -> str:
    """Return the type of a value, not the value: errors are logged, and it may be a secret."""
    return _KIND_NAMES.get(value.__class__, f"an object of type {type(value).__name__}")


@cache
def _plan(cls: type[Body]) -> Plan:
    members = {
        field.encode_name: Member(field.name, _expected(field.type), field.default is None)
        for field in msgspec.structs.fields(cls)
        if field.name != "extra"
    }
    unparsed = {name for name, member in members.items() if msgspec.Raw in member.expected.kinds}
    # Including constants such as the `type` of a block: Python fills them in, but a peer must send them.
    required = {name for name, member in members.items() if not member.is_optional}
    return Plan(members, frozenset(required), frozenset(unparsed))


def _convert_body(cls: type[Body]) -> Converter:
    if "choose" in vars(cls):
        return partial(_convert_choice, cls.choose)  # type: ignore[attr-defined]  # checked in the line above
    return partial(_walk, cls)


def _walk(cls: type[Body], value: dict[str, Json], path: Path) -> Body:
    plan = _plan(cls)
    if not plan.required <= value.keys():
        missing = ", ".join(sorted(plan.required - value.keys()))
        raise _invalid(f"{cls.__name__} has no member {missing}", path)
    fields: dict[str, Any] = {}
    extra: dict[str, Json] = {}
    for key, item in value.items():
        member = plan.members.get(key)
        if member is None or (item is None and member.is_optional):
            extra[key] = item
        else:
            fields[member.name] = member.expected.convert(item, (path, key))
    if extra:
        fields["extra"] = ExtraMembers(extra)
    try:
        return cls(**fields)
    except ValueError as error:  # raised by `__post_init__`
        raise _invalid(str(error), path) from error


def _expected(hint: Hint) -> Expected:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return Expected(dict.fromkeys(_KIND_NAMES), ("JSON",))
    if hint is msgspec.Raw:
        return Expected({msgspec.Raw: None, dict: _convert_unparsed}, ("an object",))
    if origin is Annotated:
        return Expected({dict: partial(_convert_choice, arguments[1])}, ("an object",))
    if origin in (Union, UnionType):
        parts = [_expected(part) for part in arguments]
        # `int` alone accepts 1.0 as an integer, as JSON Schema does; in a union it does not.
        kinds = {
            kind: convert for part in parts for kind, convert in part.kinds.items() if convert is not _convert_integer
        }
        return Expected(kinds, tuple(name for part in parts for name in part.names))
    if origin is Literal:
        return Expected({str: partial(_convert_literal, arguments)}, tuple(repr(name) for name in arguments))
    if origin is Sequence:
        return Expected({list: partial(_convert_items, _expected(arguments[0]))}, ("an array",))
    if origin is Mapping:
        return Expected({dict: partial(_convert_members, _expected(arguments[1]))}, ("an object",))
    assert isinstance(hint, type), hint
    if issubclass(hint, Body):
        return Expected({dict: _convert_body(hint)}, ("an object",))
    kinds = {hint: None, float: _convert_integer} if hint is int else {hint: None}
    return Expected(kinds, (_KIND_NAMES[hint],))


def _convert_choice(choose: Choose, value: dict[str, Json], path: Path) -> Body:
    cls = choose(value)
    if cls is None:
        raise _invalid("unknown kind of object", path)
    return _walk(cls, value, path)


def _convert_literal(names: tuple[str, ...], value: str, path: Path) -> str:
    if value not in names:
        quote = value if len(value) <= _MAX_QUOTE_CHARS else value[:_MAX_QUOTE_CHARS] + "…"
        raise _mismatch(tuple(repr(name) for name in names), repr(quote), path)
    return value


def _convert_items(item: Expected, value: list[Json], path: Path) -> list[object]:
    return [item.convert(part, (path, index)) for index, part in enumerate(value)]


def _convert_members(item: Expected, value: dict[str, Json], path: Path) -> dict[str, object]:
    return {key: item.convert(part, (path, key)) for key, part in value.items()}


def _convert_integer(value: float, path: Path) -> int:
    if value.is_integer():
        return int(value)
    raise _mismatch(("an integer",), _kind(value), path)


def _convert_unparsed(value: Json, path: Path) -> msgspec.Raw:  # noqa: ARG001  # the signature of Converter
    return msgspec.Raw(encode_json(value))
