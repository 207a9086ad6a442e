"""Python values out to JSON bytes, refusing with a path what JSON cannot say.

Responsible for one thing: what leaves as JSON is what was meant. msgspec writes NaN and Infinity as `null`, and stops
at a lone surrogate without saying where; and it cannot know that a body keeps members of a newer revision beside its
fields (`Kept`). The short way is msgspec alone. Only when msgspec refused, or when `null` stands in what it wrote and may
not have been meant, is the value walked in Python, to name the place or to put kept members back.

Must never know a method, a revision or a body by name. Above: `_body`, and every room that encodes. Below: msgspec.
"""

import re
from collections.abc import Callable
from math import isfinite
from types import NoneType
from typing import Any, TypeAlias

import msgspec

from jackstay.errors import Json, UsageError

# A place inside a value, innermost step first; spelled out only when something is wrong there.
Path: TypeAlias = "tuple[Path, str | int] | None"

# Enough to find the place by; as in `jackstay.protocol`, which spells paths in bytes that are not yet decoded.
LONGEST_STEP = 40
LONGEST_PATH = 200


class Kept:
    """Members of an object that its Struct has no field for, as decoded JSON.

    Not a dict on purpose: msgspec refuses to encode an unknown class, and that refusal is how `encode_json` learns, at
    no cost to a body without them, that members have to be put back.
    """

    __slots__ = ("members",)

    def __init__(self, members: dict[str, Json]) -> None:
        self.members = members

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and self.members == other.members

    def __hash__(self) -> int:
        return hash(frozenset(self.members))

    def __repr__(self) -> str:
        return f"Kept({self.members!r})"


_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode

# A number in MessagePack whose exponent is all ones. Other bytes may look like one, by chance.
_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")


def encode_json(value: object) -> bytes:
    """JSON bytes of any value that is JSON, or is made of Structs; kept members included.

    Raises:
        UsageError: for NaN, Infinity, a lone surrogate or an object JSON has no form for; `path` names the place.
    """
    try:
        data = _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _encode_carefully(value)
    # msgspec writes NaN and Infinity as null. Not `in`, which takes twice the time: it first tries to make an integer of its
    # left side.
    if data.find(b"null") >= 0 and not _is_surely_finite(value):
        return _encode_carefully(value)
    return data


def _is_surely_finite(value: object) -> bool:
    """True: there is neither NaN nor Infinity in it. False: it takes a walk to know, which takes ten times as long."""
    try:
        return _NOT_FINITE.search(_pack(value)) is None
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False  # MessagePack has no form for it; JSON may


def _encode_carefully(value: object) -> bytes:
    try:
        return _encode(_walk(value, None))
    except RecursionError as error:
        raise UsageError("the value is nested too deeply for JSON", path="$") from error


def _walk(value: object, path: Path) -> object:
    """The same value with every kept member written out as a plain one, once it is sure that all of it is JSON."""
    walk = _WALKS.get(value.__class__)
    if walk is not None:
        return walk(value, path)
    if isinstance(value, msgspec.Struct):
        return _walk_struct(value, path)
    try:
        builtins = msgspec.to_builtins(value)  # dates, UUIDs, sets, dataclasses: msgspec has a form for them
    except (TypeError, ValueError, OverflowError) as error:
        kind = type(value).__name__
        raise UsageError(f"an object of type {kind} has no form in JSON", path=spell_path(path)) from error
    return _walk(builtins, path)


def _walk_as_is(value: object, path: Path) -> object:  # noqa: ARG001 (all walks take both)
    return value


def _walk_integer(value: Any, path: Path) -> object:
    if value.bit_length() > 64:
        try:
            _encode(value)  # Python writes no integer of more than 4,300 digits
        except ValueError as error:
            raise UsageError("an integer is too long to be written", path=spell_path(path)) from error
    return value


def _walk_float(value: Any, path: Path) -> object:
    if not isfinite(value):
        raise UsageError(f"{value} is not a JSON number", path=spell_path(path))
    return value


def _walk_string(value: Any, path: Path) -> object:
    return _checked_string(value, path)


def _walk_dict(value: Any, path: Path) -> object:
    return {_checked_key(key, path): _walk(item, (path, str(key))) for key, item in value.items()}


def _walk_sequence(value: Any, path: Path) -> object:
    return [_walk(item, (path, index)) for index, item in enumerate(value)]


_WALKS: dict[type, Callable[[Any, Path], object]] = {
    NoneType: _walk_as_is,
    bool: _walk_as_is,
    msgspec.Raw: _walk_as_is,
    int: _walk_integer,
    float: _walk_float,
    str: _walk_string,
    dict: _walk_dict,
    list: _walk_sequence,
    tuple: _walk_sequence,
}


def _walk_struct(body: msgspec.Struct, path: Path) -> object:
    kept: Kept | None = None
    changes: dict[str, object] = {}
    for name, wire_name in zip(body.__struct_fields__, body.__struct_encode_fields__, strict=True):
        item = getattr(body, name)
        if isinstance(item, Kept):
            kept = item
            changes[name] = None
        elif item is not None and item is not msgspec.UNSET:
            walked = _walk(item, (path, wire_name))
            if walked is not item:
                changes[name] = walked
    plain = msgspec.structs.replace(body, **changes) if changes else body
    if kept is None:
        return plain
    # msgspec decides which fields are written at all; a field that is written wins over a kept member of its name.
    members: dict[str, object] = dict(msgspec.json.decode(_encode(plain), type=dict[str, msgspec.Raw]))
    for key, item in kept.members.items():
        if key not in members:
            members[_checked_string(key, path)] = _walk(item, (path, key))
    return members


def _checked_string(value: str, path: Path) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            surrogate = f"U+{ord(value[error.start]):04X}"
            raise UsageError(f"a lone surrogate ({surrogate}) is not text", path=spell_path(path)) from error
    return value


def _checked_key(key: object, path: Path) -> object:
    if isinstance(key, str):
        return _checked_string(key, path)
    try:
        _encode({key: 0})
    except (TypeError, ValueError, OverflowError) as error:
        kind = type(key).__name__
        raise UsageError(f"an object of type {kind} cannot name a member", path=spell_path(path)) from error
    return key


def spell_path(path: Path) -> str:
    """`$.content[0].text`, as msgspec spells paths; a name that is not an identifier is quoted: `$['a b']`.

    Names are cut, and so is the path: it goes into logs, and may not grow with what a peer sent.
    """
    steps: list[str] = []
    while path is not None:
        path, step = path
        if isinstance(step, int):
            steps.append(f"[{step}]")
        else:
            name = step if len(step) <= LONGEST_STEP else step[:LONGEST_STEP] + "…"
            steps.append(f".{name}" if name.isidentifier() else f"[{name!a}]")
    spelled = "$" + "".join(reversed(steps))
    return spelled if len(spelled) <= LONGEST_PATH else spelled[:LONGEST_PATH] + "…"
