"""Every wrong field of a call's arguments, by name.

A decoder stops at the first thing that is wrong; a model that is told of one mistake at a time needs as many rounds as
it made mistakes. So when, and only when, the decoder has refused, the arguments are gone through again here: member by
member, each with the decoder of its own type, down into objects and arrays as long as that names more. Slow, and off the
path of every call that is right.

Texts are of bounded length and number, because they go back to the peer and into logs. They quote no value, except the
word that is in no enumeration.

Must never know a tool or a message. Above: `_functions`, `_ready`. Below: `_foreign`.
"""

import types
from collections.abc import (
    Callable,
    Collection,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    Sequence,
)
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec
from msgspec import Raw

from jackstay.errors import Json
from jackstay.server._foreign import Hint, decode_foreign, is_pydantic

MOST_PROBLEMS = 32
LONGEST_PROBLEM = 200
LONGEST_STEP = 64

# Bytes of an argument that are gone through member by member: 64 KiB take a few hundredths of a second, in which no ping is
# answered. Of what is larger the first mistake alone is told.
LARGEST_SEARCHED = 65_536

# A place inside the arguments, outermost step first.
Place: TypeAlias = tuple[str | int, ...]

# What msgspec raises for bytes that are not what was asked for.
REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_MAPPINGS = (dict, Mapping, MutableMapping)
_ARRAYS = (list, set, frozenset, Sequence, MutableSequence, Collection)

_read_members = msgspec.json.Decoder(dict[str, Raw]).decode
_read_items = msgspec.json.Decoder(list[Raw]).decode


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong: `path` is the argument, as `days` or `legs[2].city`, and empty for the whole."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class InvalidArguments(msgspec.Struct, frozen=True):
    """Arguments that cannot be used, and all that is wrong with them."""

    problems: tuple[Problem, ...]

    @property
    def text(self) -> str:
        """What the caller is told: a line, or one for each problem."""
        if len(self.problems) == 1:
            return f"Invalid arguments: {self.problems[0]}"
        return "\n".join(["Invalid arguments:", *(f"- {problem}" for problem in self.problems)])


def spell_place(place: Place) -> str:
    """`legs[2].city`; a step that is no identifier is quoted, a long one cut."""
    spelled = ""
    for step in place:
        if isinstance(step, int):
            spelled += f"[{step}]"
        elif step.isidentifier() and len(step) <= LONGEST_STEP:
            spelled += f".{step}" if spelled else step
        else:
            spelled += f"[{step if len(step) <= LONGEST_STEP else step[:LONGEST_STEP] + '…'!r}]"
    return spelled


def collect(found: Iterator[tuple[Place, str]]) -> InvalidArguments:
    """As many problems as are worth telling; the last line says when there are more."""
    problems: list[Problem] = []
    for place, message in found:
        if len(problems) == MOST_PROBLEMS:
            problems.append(Problem("", "and more"))
            break
        said = message if len(message) <= LONGEST_PROBLEM else message[:LONGEST_PROBLEM] + "…"
        problems.append(Problem(spell_place(place), said))
    return InvalidArguments(tuple(problems))


def find_problems(hint: Hint, data: bytes | Raw, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """All that keeps `data` from being what `hint` says. Nothing: it is."""
    try:
        msgspec.json.decode(data, type=hint, dec_hook=decode_foreign)
    except REFUSALS as error:
        found = False
        if not place or len(data) <= LARGEST_SEARCHED or is_pydantic(_bare(hint)):
            for problem in _descend(hint, data, place):
                found = True
                yield problem
        if not found:
            yield place, _said(error)


def _said(error: Exception) -> str:
    """msgspec's words, and its path where it went further in than we did; none of a decoder's insides."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    text, _, where = str(error).partition(" - at `$")
    for _, message in _told_by_pydantic(error.__cause__):
        text = message
        break
    else:
        text = text.replace("`", "")
        text = text if text[:2].isupper() else text[:1].lower() + text[1:]
    where = where.rstrip("`").removeprefix(".")
    return f"{text} (at {where})" if where else text


def _descend(hint: Hint, data: bytes | Raw, place: Place) -> Iterator[tuple[Place, str]]:
    """The problems inside an object or an array, where the hint says what is inside; else none."""
    hint = _bare(hint)
    if is_pydantic(hint):
        yield from _ask_pydantic(hint.model_validate_json, data, place)
        return
    members = _members_of(hint)
    try:
        if members is not None:
            yield from _members(members, _read_members(data), place)
        elif get_origin(hint) in _MAPPINGS and len(get_args(hint)) == 2:
            for key, part in _read_members(data).items():
                yield from find_problems(get_args(hint)[1], part, (*place, key))
        elif get_origin(hint) in _ARRAYS or get_args(hint)[1:] == (Ellipsis,):
            for index, part in enumerate(_read_items(data)):
                yield from find_problems(get_args(hint)[0], part, (*place, index))
        elif get_origin(hint) is tuple:
            for index, (inner, part) in enumerate(zip(get_args(hint), _read_items(data), strict=False)):
                yield from find_problems(inner, part, (*place, index))
    except REFUSALS:
        return  # not an object, or not an array: the decoder's own words say so


def _bare(hint: Hint) -> Hint:
    """Without annotations, without a name of its own (`type X = ...`), and without "or null"."""
    while True:
        hint = getattr(hint, "__value__", hint)
        origin = get_origin(hint)
        parts = [part for part in get_args(hint) if part is not types.NoneType]
        if origin is Annotated or (origin in (Union, types.UnionType) and len(parts) == 1):
            hint = parts[0]
        else:
            return hint


class _Members(msgspec.Struct, frozen=True):
    """An object's members by wire name: the hint of each, which must be there, and whether others may be."""

    hints: dict[str, Any]
    required: frozenset[str]
    is_closed: bool = False
    tag: str | None = None


def _members_of(hint: Hint) -> _Members | None:
    cls = get_origin(hint) or hint  # a generic class, and what is put in the place of its variables
    if not isinstance(cls, type):
        return None
    if issubclass(cls, msgspec.Struct):
        config = cls.__struct_config__
        if config.array_like:
            return None
        fields = msgspec.structs.fields(hint)  # type: ignore[arg-type]  # takes them, too
        required = frozenset(field.encode_name for field in fields if field.required)
        hints = {field.encode_name: field.type for field in fields}
        return _Members(hints, required, config.forbid_unknown_fields, config.tag_field)
    if is_typeddict(cls):
        return _Members(_hints_of(cls, hint), frozenset(getattr(cls, "__required_keys__", ())))
    if hasattr(cls, "__dataclass_fields__"):
        import dataclasses  # noqa: PLC0415  # whoever made one has loaded it

        assert dataclasses.is_dataclass(cls)
        absent = dataclasses.MISSING
        needed = (
            f.name for f in dataclasses.fields(cls) if f.default is absent and f.default_factory is absent
        )
        return _Members(_hints_of(cls, hint), frozenset(needed))
    return None


def _hints_of(cls: type, hint: Hint) -> dict[str, Any]:
    """The hint of each member, with what `hint` puts in the place of the class's variables."""
    given = dict(zip(getattr(cls, "__parameters__", ()), get_args(hint), strict=False))
    hints = get_type_hints(cls, include_extras=True)
    return {name: _settled(member, given) for name, member in hints.items()}


def _settled(hint: Any, given: dict[Any, Any]) -> Any:
    if get_origin(hint) in (Required, NotRequired):
        hint = get_args(hint)[0]
    inside = () if isinstance(hint, type) else getattr(hint, "__parameters__", ())
    if inside:
        return hint[tuple(given.get(variable, Any) for variable in inside)]
    return given.get(hint, Any) if isinstance(hint, TypeVar) else hint


def _members(members: _Members, parts: dict[str, Raw], place: Place) -> Iterator[tuple[Place, str]]:
    for name, hint in members.hints.items():
        if name in parts:
            yield from find_problems(hint, parts[name], (*place, name))
        elif name in members.required:
            yield (*place, name), "missing"
    if members.is_closed:
        for name in parts:
            if name not in members.hints and name != members.tag:
                yield (*place, name), "unknown argument" if not place else "unknown member"


def _ask_pydantic(
    validate: Callable[[bytes], object], data: bytes | Raw, place: Place
) -> Iterator[tuple[Place, str]]:
    try:
        validate(bytes(data))
    except ValueError as error:
        yield from (((*place, *inside), message) for inside, message in _told_by_pydantic(error))


def _told_by_pydantic(error: BaseException | None) -> Iterator[tuple[Place, str]]:
    """What an error of pydantic's says, without the values that its text quotes; nothing, if it is another's."""
    errors: Callable[..., list[dict[str, Any]]] | None = getattr(error, "errors", None)
    if errors is None:
        return
    for found in errors(include_url=False, include_input=False, include_context=False):
        message: Json = found["msg"]
        yield found["loc"], str(message)
