"""Encodes Python values as JSON, and reports values that JSON cannot represent with their path.

msgspec writes NaN and Infinity as `null`, reports a lone surrogate without its location, and does not know about extra
members of a body. So the value is walked in Python if msgspec fails, or if its output contains a `null` that may be
wrong.
"""

import re
from math import isfinite
from typing import Any, Final, TypeAlias

import msgspec

from jackstay.errors import Json, UsageError

# What msgspec raises for text that is not the expected JSON: also for invalid UTF-8, and for nesting that is too deep.
DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# The wire name of `Body.extra`. It is never written; a peer's member of this name is preserved like any other.
EXTRA = "*"

# A location inside a value, innermost step first; formatted only for errors.
Path: TypeAlias = "tuple[Path, str | int] | None"

# As in `jackstay.protocol`, which formats paths in JSON that is not decoded yet.
MAX_STEP_LENGTH = 40
MAX_PATH_LENGTH = 200


class ExtraMembers:
    """Members of an object that its Struct has no field for, as decoded JSON.

    Deliberately not a dict: msgspec fails to encode an unknown class, and by that failure `encode_json` detects extra
    members, at no cost for bodies without them.
    """

    __slots__ = ("members",)

    def __init__(self, members: dict[str, Json]) -> None:
        self.members = members

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExtraMembers) and self.members == other.members

    def __hash__(self) -> int:
        return hash(frozenset(self.members))

    def __repr__(self) -> str:
        return f"Kept({self.members!r})"


def is_object(undecoded: msgspec.Raw) -> bool:
    """Return whether a valid JSON value is an object."""
    return memoryview(undecoded)[0] == 0x7B  # "{"


_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode

# A MessagePack float whose exponent is all ones. Other data may match by chance. Compiled on first use.
_NOT_FINITE = rb"\xcb[\x7f\xff][\xf0-\xff]"


def encode_json(value: object) -> bytes:
    """Encode a value of JSON types or Structs, including the extra members of bodies.

    Raises:
        UsageError: NaN, Infinity, a lone surrogate, or an object that JSON cannot represent; `path` is its location.
    """
    try:
        data = _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _encode_carefully(value)
    # msgspec writes NaN and Infinity as null. `find` takes half the time of `in`, which first tries to convert its left
    # operand to an integer.
    if data.find(b"null") >= 0 and not _is_surely_finite(value):
        return _encode_carefully(value)
    return data


def _is_surely_finite(value: object) -> bool:
    """Return True if the value certainly has no NaN or Infinity. False: only a walk, ten times slower, can decide."""
    try:
        return re.search(_NOT_FINITE, _pack(value)) is None
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False  # MessagePack cannot represent it, but JSON may


class _Unsupported:
    """An object that JSON cannot represent. Not a Struct, which would be converted."""

    def __init__(self, value: object) -> None:
        self.value = value


def _to_builtins(value: object) -> Any:
    """Convert Structs, dates, sets and so on, except for what `_walk` needs to see."""
    kept = (ExtraMembers, msgspec.Raw, _Unsupported)
    return msgspec.to_builtins(value, builtin_types=kept, enc_hook=_Unsupported)


def _encode_carefully(value: object) -> bytes:
    try:
        return _encode(_walk(_to_builtins(value), None))
    except (TypeError, RecursionError) as error:  # TypeError: an enum of objects that JSON cannot represent
        reason = error if isinstance(error, TypeError) else "the value is nested too deeply"
        raise UsageError(f"cannot encode as JSON: {reason}", path="$") from error


def _walk(value: Any, path: Path) -> object:
    """Check a value, and return it with extra members in their objects."""
    match value:
        case str():
            _check_string(value, path)
        case dict():
            extra = value.get(EXTRA)
            if isinstance(extra, ExtraMembers):
                del value[EXTRA]
                # A field takes precedence over an extra member of its name.
                value = {**value, **_to_builtins(extra.members), **value}
            return {_checked_key(key, path): _walk(item, (path, str(key))) for key, item in value.items()}
        case list() | tuple():
            return [_walk(item, (path, index)) for index, item in enumerate(value)]
        case float() if not isfinite(value):
            raise UsageError(f"cannot encode {value} as JSON", path=spell_path(path))
        case int() if value.bit_length() > 64:
            try:
                _encode(value)  # Python converts no integer of more than 4,300 digits
            except ValueError as error:
                raise UsageError("cannot encode as JSON: the int has too many digits", path=spell_path(path)) from error
        case _Unsupported():
            raise UsageError(f"cannot encode {type(value.value).__name__} as JSON", path=spell_path(path))
    return value


def _check_string(value: str, path: Path) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        surrogate = f"U+{ord(value[error.start]):04X}"
        message = f"cannot encode as JSON: the str has a lone surrogate ({surrogate})"
        raise UsageError(message, path=spell_path(path)) from error


def _checked_key(key: object, path: Path) -> object:
    if isinstance(key, str):
        _check_string(key, path)
        return key
    try:
        _encode({key: 0})
    except (TypeError, ValueError, OverflowError) as error:
        kind = type(key.value if isinstance(key, _Unsupported) else key).__name__
        raise UsageError(f"cannot encode {kind} as a JSON member name", path=spell_path(path)) from error
    return key


def spell_path(path: Path) -> str:
    """Format a path like msgspec: `$.content[0].text`; a name that is not an identifier is quoted: `$['a b']`.

    Names and the whole path are truncated, because they contain data of the peer and go into logs.
    """
    steps: list[str] = []
    while path is not None:
        path, step = path
        if isinstance(step, int):
            steps.append(f"[{step}]")
        else:
            name = step if len(step) <= MAX_STEP_LENGTH else step[:MAX_STEP_LENGTH] + "…"
            steps.append(f".{name}" if name.isidentifier() else f"[{name!a}]")
    spelled = "$" + "".join(reversed(steps))
    return spelled if len(spelled) <= MAX_PATH_LENGTH else spelled[:MAX_PATH_LENGTH] + "…"
