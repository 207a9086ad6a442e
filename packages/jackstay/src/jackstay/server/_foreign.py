"""What authors write in type hints that msgspec does not know: pydantic models, paths, other libraries' constraints.

Nothing foreign is imported here. Whoever has a pydantic model has imported pydantic already, so its class is looked up
among the loaded modules; constraints in the manner of `annotated-types` are recognised by what they are called. A hint
is adapted once, at registration; what comes out is a hint that msgspec decodes in C, except for the foreign classes
themselves, which go through the hooks below.

Constraints are translated where a hint names them; inside a dataclass or TypedDict of somebody else msgspec reads only
`msgspec.Meta`.

Must never know a tool or a message. Above: `_schema`, `_problems`, `_output`. Below: msgspec.
"""

import sys
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias, TypeGuard, Union, get_args, get_origin

import msgspec

from jackstay.errors import Json

if TYPE_CHECKING:
    from pathlib import PurePath

# A type as `typing` spells it: a class, or one of the forms that are not classes.
Hint: TypeAlias = object

# The words that annotated-types, pydantic and msgspec share, as they are spelled there and here.
_BOUNDS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
_WORDS = ("title", "description", "examples")


class PydanticModel(Protocol):
    """The part of a pydantic model class that is used here."""

    @classmethod
    def model_json_schema(cls, *, ref_template: str, mode: str) -> dict[str, Json]: ...
    @classmethod
    def model_validate_json(cls, data: bytes) -> "PydanticModel": ...
    def model_dump_json(self, *, by_alias: bool) -> str: ...


def is_pydantic(hint: Hint) -> TypeGuard[type[PydanticModel]]:
    """True for a pydantic model class; False without a look at it where pydantic was never imported."""
    base = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    return isinstance(base, type) and isinstance(hint, type) and issubclass(hint, base)


def is_path(hint: Hint) -> "TypeGuard[type[PurePath]]":
    """True for the classes of pathlib, which is slow to load and therefore looked up, too."""
    base = getattr(sys.modules.get("pathlib"), "PurePath", None)
    return isinstance(base, type) and isinstance(hint, type) and issubclass(hint, base)


class PydanticField(Protocol):
    """The part of pydantic's `Field(...)` that is used here, where one stands in the place of a default."""

    default: object
    default_factory: Callable[[], object] | None

    def is_required(self) -> bool: ...


def is_field(default: object) -> TypeGuard[PydanticField]:
    """True for what pydantic's `Field(...)` gives: written for a default, it says more than that."""
    kind = getattr(sys.modules.get("pydantic.fields"), "FieldInfo", None)
    return isinstance(kind, type) and isinstance(default, kind)


# --- hints ------------------------------------------------------------------------------------------------------------


def adapt(hint: Hint) -> Any:
    """The same hint in words that msgspec knows: constraints as `msgspec.Meta`, `object` as anything.

    Raises:
        TypeError: for constraints that contradict each other or make no sense, in msgspec's words.
    """
    if hint is object:
        return Any
    origin = get_origin(hint)
    if origin is None:
        return hint
    if origin is Annotated:
        base, *notes = get_args(hint)
        return _annotated(adapt(base), [meta for note in notes for meta in _metas(note)])
    if origin in (Union, types.UnionType):
        return Union[tuple(adapt(part) for part in get_args(hint))]  # noqa: UP007 (made at run time)
    parts = get_args(hint)
    if not any(isinstance(part, type) or get_origin(part) is not None for part in parts):
        return hint  # Literal, and what has no types inside
    adapted = tuple(part if part is Ellipsis else adapt(part) for part in parts)
    copy: Callable[[tuple[object, ...]], object] | None = getattr(hint, "copy_with", None)
    if adapted == parts:
        return hint
    return copy(adapted) if copy is not None else origin[adapted]


def _annotated(base: Any, metas: list[msgspec.Meta]) -> Any:
    for meta in metas:
        base = Annotated[base, meta]
    return base


def _metas(note: object) -> Iterable[msgspec.Meta]:
    """A note of an `Annotated`, as constraints and words: none where it says nothing that a schema could say."""
    if isinstance(note, msgspec.Meta):
        yield note
        return
    if isinstance(note, str):
        yield msgspec.Meta(description=note)
        return
    said: dict[str, Any] = {name: getattr(note, name, None) for name in (*_BOUNDS, *_WORDS)}
    said["description"] = said["description"] or getattr(note, "documentation", None)  # PEP 727
    if isinstance(said["examples"], tuple):
        said["examples"] = list(said["examples"])
    said = {name: value for name, value in said.items() if _is_plain(value)}
    if said.get("min_length") == 0:
        del said["min_length"]  # annotated-types' way of saying nothing
    if said:
        yield msgspec.Meta(**said)
    inner = getattr(note, "metadata", None)  # pydantic's Field keeps its constraints in a list
    if isinstance(inner, list | tuple):
        for part in inner:
            yield from _metas(part)


def _is_plain(value: object) -> bool:
    """False for what is not there, and for the methods of an object that happens to use one of the words."""
    return isinstance(value, int | float | str | list)


# --- hooks ------------------------------------------------------------------------------------------------------------


def decode_foreign(cls: type, value: object) -> object:
    """The hook of every decoder: a foreign object from plain JSON. ValueError: refused, in the library's own words."""
    if is_pydantic(cls):
        return cls.model_validate_json(msgspec.json.encode(value))
    if is_path(cls) and isinstance(value, str):
        return cls(value)
    raise ValueError(f"Expected `{'str' if is_path(cls) else cls.__name__}`, got `{type(value).__name__}`")


def accept_foreign(cls: type, value: object) -> object:
    """The hook of a decoder that only looks at the frame around: what a library wrote itself is believed."""
    if is_pydantic(cls):
        return object.__new__(cls)  # for a look at its class: nobody reads it
    return decode_foreign(cls, value)


def encode_foreign(value: object) -> object:
    """The hook of every encoder. TypeError: JSON has no form for it."""
    if is_pydantic(type(value)):
        dump: Callable[..., str] = value.model_dump_json  # type: ignore[attr-defined]  # asked in the line above
        return msgspec.Raw(dump(by_alias=True).encode())
    if is_path(type(value)):
        return str(value)
    raise TypeError(f"an object of type {type(value).__name__} has no form in JSON")
