"""Collects all problems of invalid arguments, so that a model can fix them in one attempt.

The decoder stops at the first problem. After it has rejected the arguments, they are decoded again here member by
member. Messages are limited in length and number, and quote no values except unknown members of an enumeration.
"""

import types
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from typing import (
    Annotated,
    Any,
    NewType,
    NotRequired,
    Required,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Raw
from msgspec.inspect import DataclassType, StructType, TypedDictType

from jackstay.errors import Json
from jackstay.server._foreign import Hint, decode_foreign, is_pydantic
from jackstay.types import DECODE_ERRORS

MAX_PROBLEMS = 32
MAX_PROBLEM_LENGTH = 200
MAX_STEP_LENGTH = 64

# Larger arguments are not searched member by member; only the first problem is reported. 64 KiB take a few hundredths
# of a second, during which the event loop is blocked.
MAX_SEARCHED_BYTES = 65_536

# A path inside the arguments, outermost step first.
JsonPath: TypeAlias = tuple[str | int, ...]

_MAPPINGS = (dict, Mapping, MutableMapping)
_ARRAYS = (list, set, frozenset, Sequence, MutableSequence, Collection)

_read_members = msgspec.json.Decoder(dict[str, Raw]).decode
_read_items = msgspec.json.Decoder(list[Raw]).decode


class Problem(msgspec.Struct, frozen=True):
    """One problem. `path` is where, such as `days` or `legs[2].city`; empty for the arguments as a whole."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class InvalidArguments(msgspec.Struct, frozen=True):
    """Invalid arguments of a call, with all problems."""

    problems: tuple[Problem, ...]

    @property
    def text(self) -> str:
        """The message for the caller: one line, or one line for each problem."""
        if len(self.problems) == 1:
            return f"Invalid arguments: {self.problems[0]}"
        return "\n".join(["Invalid arguments:", *(f"- {problem}" for problem in self.problems)])


def format_path(path: JsonPath) -> str:
    """Format a path as `legs[2].city`. Steps that are not identifiers are quoted, long ones truncated."""
    formatted = ""
    for step in path:
        if isinstance(step, int):
            formatted += f"[{step}]"
        elif step.isidentifier() and len(step) <= MAX_STEP_LENGTH:
            formatted += f".{step}" if formatted else step
        else:
            formatted += f"[{step if len(step) <= MAX_STEP_LENGTH else step[:MAX_STEP_LENGTH] + '…'!r}]"
    return formatted


def collect(found: Iterator[tuple[JsonPath, str]]) -> InvalidArguments:
    """Collect at most `MAX_PROBLEMS` problems."""
    problems: list[Problem] = []
    for path, message in found:
        if len(problems) == MAX_PROBLEMS:
            problems.append(Problem("", "and more"))
            break
        shortened = message if len(message) <= MAX_PROBLEM_LENGTH else message[:MAX_PROBLEM_LENGTH] + "…"
        problems.append(Problem(format_path(path), shortened))
    return InvalidArguments(tuple(problems))


def find_problems(
    hint: Hint, data: bytes | Raw, path: JsonPath = (), *, strict: bool = True
) -> Iterator[tuple[JsonPath, str]]:
    """Yield the problems of `data` as a value of type `hint`; none if it is valid.

    Unless `strict`, a string such as "3" is a valid int.
    """
    try:
        msgspec.json.decode(data, type=hint, strict=strict, dec_hook=decode_foreign)
    except DECODE_ERRORS as error:
        found = False
        if not path or len(data) <= MAX_SEARCHED_BYTES or is_pydantic(_bare(hint)):
            for problem in _descend(hint, data, path, strict):
                found = True
                yield problem
        if not found:
            yield path, _error_text(error)


def _error_text(error: Exception) -> str:
    """Return the message of a decode error, with msgspec's path if it is deeper."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    text, _, where = str(error).partition(" - at `$")
    text = text.replace("`", "")
    text = text if text[:2].isupper() else text[:1].lower() + text[1:]
    _, text = next(_pydantic_errors(error.__cause__), ((), text))
    where = where.rstrip("`").removeprefix(".")
    return f"{text} (at {where})" if where else text


def _descend(hint: Hint, data: bytes | Raw, path: JsonPath, strict: bool) -> Iterator[tuple[JsonPath, str]]:
    """Yield the problems inside an object or an array, if the hint has types for its members."""
    hint = _bare(hint)
    if is_pydantic(hint):
        try:
            hint.model_validate_json(bytes(data))
        except ValueError as error:
            yield from (((*path, *inside), message) for inside, message in _pydantic_errors(error))
        return
    members, origin, inner = _members_of(hint), get_origin(hint), get_args(hint)
    parts: list[tuple[str | int, Hint, Raw]] = []
    try:
        if members is not None:
            yield from _members(members, _read_members(data), path, strict)
        elif origin in _MAPPINGS and len(inner) == 2:
            parts = [(key, inner[1], part) for key, part in _read_members(data).items()]
        elif origin in _ARRAYS or inner[1:] == (Ellipsis,):
            parts = [(index, inner[0], part) for index, part in enumerate(_read_items(data))]
        elif origin is tuple:
            parts = [(index, *row) for index, row in enumerate(zip(inner, _read_items(data), strict=False))]
    except DECODE_ERRORS:
        return  # not an object or array: the decoder's message is used
    for step, member, part in parts:
        yield from find_problems(member, part, (*path, step))


def _bare(hint: Hint) -> Hint:
    """Remove `Annotated`, type aliases (`type X = ...`) and `Optional`."""
    while True:
        if isinstance(hint, NewType):
            hint = hint.__supertype__
            continue
        hint = getattr(hint, "__value__", hint)
        origin = get_origin(hint)
        parts = [part for part in get_args(hint) if part is not types.NoneType]
        if origin is Annotated or (origin in (Union, types.UnionType) and len(parts) == 1):
            hint = parts[0]
        else:
            return hint


class _Members(msgspec.Struct, frozen=True):
    """The members of an object by wire name: their hints, the required ones, and whether others are forbidden."""

    hints: dict[str, Any]
    required: frozenset[str]
    is_closed: bool = False
    tag: str | None = None


def _members_of(hint: Hint) -> _Members | None:
    info = msgspec.inspect.type_info(hint)
    if not isinstance(info, StructType | DataclassType | TypedDictType):
        return None
    required = frozenset(field.encode_name for field in info.fields if field.required)
    if not isinstance(info, StructType):
        return _Members(_hints_of(hint), required)
    if info.array_like:
        return None
    hints = {field.encode_name: field.type for field in msgspec.structs.fields(hint)}  # type: ignore[arg-type]  # accepts generics, too
    return _Members(hints, required, info.forbid_unknown_fields, info.tag_field)


def _hints_of(hint: Hint) -> dict[str, Any]:
    """Return the hints of the members, with the type variables of a generic class replaced."""
    cls: Any = get_origin(hint) or hint
    given = dict(zip(getattr(cls, "__parameters__", ()), get_args(hint), strict=False))
    hints = get_type_hints(cls, include_extras=True)
    return {name: _substitute(member, given) for name, member in hints.items()}


def _substitute(hint: Any, given: dict[Any, Any]) -> Any:
    if get_origin(hint) in (Required, NotRequired):
        hint = get_args(hint)[0]
    inside = () if isinstance(hint, type) else getattr(hint, "__parameters__", ())
    if inside:
        return hint[tuple(given.get(variable, Any) for variable in inside)]
    return given.get(hint, Any) if isinstance(hint, TypeVar) else hint


def _members(members: _Members, parts: dict[str, Raw], path: JsonPath, strict: bool) -> Iterator[tuple[JsonPath, str]]:
    for name, hint in members.hints.items():
        if name in parts:
            yield from find_problems(hint, parts[name], (*path, name), strict=strict)
        elif name in members.required:
            yield (*path, name), "missing"
    if members.is_closed:
        for name in parts:
            if name not in members.hints and name != members.tag:
                yield (*path, name), "unknown argument" if not path else "unknown member"


def _pydantic_errors(error: BaseException | None) -> Iterator[tuple[JsonPath, str]]:
    """Yield the errors of a pydantic ValidationError, without input values; none for other exceptions."""
    errors: Callable[..., list[dict[str, Any]]] | None = getattr(error, "errors", None)
    if errors is None:
        return
    for found in errors(include_url=False, include_input=False, include_context=False):
        message: Json = found["msg"]
        yield found["loc"], str(message)
