"""Support for type hints that msgspec does not know: pydantic models, paths, and `annotated-types` constraints.

No third-party library is imported here: classes are looked up among the loaded modules, and constraints are recognised
by their attributes. A hint is adapted once, at registration. Constraints inside dataclasses and TypedDicts are not
translated; there msgspec reads only `msgspec.Meta`.
"""

import sys
import types
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeGuard, Union, get_args, get_origin

import msgspec

from jackstay.errors import Json

if TYPE_CHECKING:
    from pathlib import PurePath
    from typing import Protocol

    class PydanticModel(Protocol):
        """The part of a pydantic model class that is used here."""

        @classmethod
        def model_json_schema(cls, *, ref_template: str, mode: str) -> dict[str, Json]: ...
        @classmethod
        def model_validate_json(cls, data: bytes) -> "PydanticModel": ...
        def model_dump_json(self, *, by_alias: bool) -> str: ...

    class PydanticField(Protocol):
        """The part of pydantic's `Field(...)` that is used here, for one that is the default of a parameter."""

        default: object
        default_factory: Callable[[], object] | None

        def is_required(self) -> bool: ...


# A type hint: a class, or one of the special forms of `typing`.
Hint: TypeAlias = object

# The names that annotated-types, pydantic and msgspec share.
_BOUNDS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
_DESCRIPTIONS = ("title", "description", "examples")


def is_pydantic(hint: Hint) -> "TypeGuard[type[PydanticModel]]":
    """Return whether the hint is a pydantic model class."""
    return isinstance(hint, type) and issubclass(hint, getattr(sys.modules.get("pydantic"), "BaseModel", ()))


def is_path(hint: Hint) -> "TypeGuard[type[PurePath]]":
    """Return whether the hint is a class of pathlib. That is slow to import, so it is looked up, too."""
    return isinstance(hint, type) and issubclass(hint, getattr(sys.modules.get("pathlib"), "PurePath", ()))


def is_field(default: object) -> "TypeGuard[PydanticField]":
    """Return whether a default is a pydantic `Field(...)`, which may have constraints as well."""
    return isinstance(default, getattr(sys.modules.get("pydantic.fields"), "FieldInfo", ()))


# --- hints ------------------------------------------------------------------------------------------------------------


def adapt(hint: Hint) -> Any:
    """Translate a hint for msgspec: constraints to `msgspec.Meta`, and `object` to `Any`.

    Raises:
        TypeError: for constraints that msgspec rejects.
    """
    if hint is object:
        return Any
    origin = get_origin(hint)
    if origin is None:
        return hint
    if origin is Annotated:
        base, *notes = get_args(hint)
        base = adapt(base)
        for meta in chain.from_iterable(map(_metas, notes)):
            base = Annotated[base, meta]
        return base
    if origin in (Union, types.UnionType):
        return Union[tuple(adapt(part) for part in get_args(hint))]  # noqa: UP007  # created at run time
    parts = get_args(hint)
    adapted = tuple(map(adapt, parts))
    if adapted == parts:
        return hint  # also Literal, and others without type arguments
    copy: Callable[[tuple[object, ...]], object] | None = getattr(hint, "copy_with", None)
    return copy(adapted) if copy is not None else origin[adapted]


def _metas(note: object) -> Iterable[msgspec.Meta]:
    """Yield the constraints and descriptions of one argument of `Annotated`."""
    if isinstance(note, msgspec.Meta):
        yield note
        return
    if isinstance(note, str):
        yield msgspec.Meta(description=note)
        return
    values: dict[str, Any] = {name: getattr(note, name, None) for name in (*_BOUNDS, *_DESCRIPTIONS)}
    values["description"] = values["description"] or getattr(note, "documentation", None)  # PEP 727
    if isinstance(values["examples"], tuple):
        values["examples"] = list(values["examples"])
    # Without None, and without methods of an unrelated object that has one of the names.
    values = {name: value for name, value in values.items() if isinstance(value, int | float | str | list)}
    if values.get("min_length") == 0:
        del values["min_length"]  # the default of annotated-types
    if values:
        yield msgspec.Meta(**values)
    inner = getattr(note, "metadata", None)  # pydantic's Field keeps its constraints in a list
    if isinstance(inner, list | tuple):
        for part in inner:
            yield from _metas(part)


# --- hooks ------------------------------------------------------------------------------------------------------------


def decode_foreign(cls: type, value: object) -> object:
    """Decoder hook: create a pydantic model or a path from decoded JSON. Raises: ValueError."""
    if is_pydantic(cls):
        return cls.model_validate_json(msgspec.json.encode(value))
    if is_path(cls) and isinstance(value, str):
        return cls(value)
    raise ValueError(f"Expected `{'str' if is_path(cls) else cls.__name__}`, got `{type(value).__name__}`")


def accept_foreign(cls: type, value: object) -> object:
    """Decoder hook that does not validate pydantic models again: pydantic encoded them itself."""
    if is_pydantic(cls):
        return object.__new__(cls)  # msgspec checks only its class
    return decode_foreign(cls, value)


def encode_foreign(value: object) -> object:
    """Encoder hook for pydantic models and paths. Raises: TypeError for a type without a JSON form."""
    if is_pydantic(type(value)):
        dump: Callable[..., str] = value.model_dump_json  # type: ignore[attr-defined]  # checked in the line above
        return msgspec.Raw(dump(by_alias=True).encode())
    if is_path(type(value)):
        return str(value)
    raise TypeError(f"objects of type {type(value).__name__} have no JSON form")
