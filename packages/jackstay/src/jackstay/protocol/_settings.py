"""Declarations of settings: a field of a Struct or TypedDict as `name: Annotated[type, Setting(...)] = default`.

The field is the only declaration. The check, the documentation (docs/settings.md) and the keywords for type checkers
(`tools/make_stubs.py`) are derived from it.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, Self, TypedDict, Union, get_args, get_origin, get_type_hints

import msgspec

from jackstay.errors import UnexpectedOptionError, UsageError
from jackstay.protocol._versions import VERSIONS

MIN_SECONDS: Final = 0.001  # event loops have no finer resolution

# Rounds of input requests in one request (2026-07-28 basic/patterns/mrtr): a peer that requires input again and again
# must not keep a request open forever.
MAX_ROUNDS: Final = 8

# Protocol violations of a peer that are all logged as warnings. Further ones are logged only at powers of two.
MAX_VIOLATION_WARNINGS: Final = 8


class Setting(msgspec.Struct, frozen=True):
    """One setting: its meaning and its valid values. `low` and `high` are inclusive.

    `is_valid` replaces the check by type and range; `expected` then describes the valid values. Errors do not contain
    the value of a secret. `name` and the fields after it are derived from the declaration.
    """

    meaning: str
    low: float | None = None
    high: float | None = None
    is_valid: Callable[[Any], bool] | None = None
    expected: str = ""
    is_secret: bool = False
    name: str = ""
    choices: tuple[str, ...] = ()
    is_optional: bool = False
    is_integer: bool = False
    is_flag: bool = False

    @property
    def range(self) -> str:
        """A description of the valid values."""
        if self.expected:
            text = self.expected
        elif self.choices:
            text = " or ".join(f'"{choice}"' for choice in self.choices)
        elif self.is_flag:
            text = "True or False"
        elif self.low is not None:
            text = f"{'an int' if self.is_integer else 'a number'} from {_plain(self.low)}"
            text += "" if self.high is None else f" to {_plain(self.high)}"
        else:
            text = "a str"
        return f"{text}, or None" if self.is_optional else text

    def check(self, value: object) -> None:
        """Check a value. Raises: UsageError if it is not valid."""
        if not self._allows(value):
            given = type(value).__name__ if self.is_secret else repr(value)
            raise UsageError(f"{self.name} must be {self.range}, not {given}", path=self.name)

    def _allows(self, value: object) -> bool:
        if value is None:
            return self.is_optional
        if self.is_valid is not None:
            return self.is_valid(value)
        if self.choices:
            return value in self.choices
        if self.is_flag:
            return isinstance(value, bool)
        if self.low is None:
            return isinstance(value, str)
        # NaN compares false with everything, so it is refused below. A bool is an int in Python, but not meant here.
        if isinstance(value, bool) or not isinstance(value, int if self.is_integer else (int, float)):
            return False
        return self.low <= value <= (1e15 if self.high is None else self.high)


class SettingsBase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of settings, validated on construction.

    Raises: UsageError, with the setting and its valid values.
    """

    def __post_init__(self) -> None:
        for name, row in settings_of(type(self)).items():
            row.check(getattr(self, name))

    @classmethod
    def from_keywords(cls, where: str, given: Mapping[str, Any]) -> Self:
        """Return the settings of a call of `where`.

        Raises: UnexpectedOptionError for an unknown name, UsageError for a bad value.
        """
        refuse_unknown(given, cls.__struct_fields__, where)
        return cls(**with_tuples(given))


def with_tuples(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with tuples in place of lists, which users may pass as well."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}


@cache
def settings_of(declaration: type) -> dict[str, Setting]:
    """Return the settings that a class declares, by name, in the order of the declaration."""
    hints = get_type_hints(declaration, include_extras=True)
    return {name: _completed(name, hint) for name, hint in hints.items() if hasattr(hint, "__metadata__")}


def _completed(name: str, hint: Any) -> Setting:
    """Return the setting of a field, completed by its type."""
    kind = hint.__origin__
    row: Setting = hint.__metadata__[0]
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    literals = [get_args(each) for each in kinds if get_origin(each) is Literal]
    return msgspec.structs.replace(
        row,
        name=name,
        choices=literals[0] if literals else (),
        is_optional=NoneType in kinds,
        is_integer=int in kinds,
        is_flag=bool in kinds,
    )


def keywords(name: str, *declarations: type, without: Iterable[str] = ()) -> Any:
    """Return the settings of these classes as a TypedDict, for `Unpack`. Type checkers use the generated stub."""
    hints = {key: hint for each in declarations for key, hint in get_type_hints(each).items() if key not in without}
    found: Any = TypedDict(name, hints, total=False)  # type: ignore[misc]  # type checkers see the stub
    found.__doc__ = "Keywords, described in `docs/settings.md`."
    found.__module__ = declarations[0].__module__  # where `get_type_hints` finds the names in the types
    return found


# What other clients call `request_timeout`, without underscores.
_REQUEST_TIMEOUT = frozenset({"timeout", "timeouts", "readtimeout", "readtimeoutseconds", "calltimeout"})


def refuse_unknown(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raises: UnexpectedOptionError, naming `where` and the first option that is not known."""
    known = tuple(known)
    for name in given:
        if name not in known:
            # The nearest name would be that of another timeout.
            is_timeout = name.replace("_", "") in _REQUEST_TIMEOUT and "request_timeout" in known
            hint = "did you mean 'request_timeout'?" if is_timeout else ""
            raise UnexpectedOptionError(where, name, known, hint=hint)


def versions_setting(meaning: str) -> Setting:
    """Return a setting whose value is a tuple of protocol revisions."""
    return Setting(meaning, is_valid=_are_versions, expected="a non-empty tuple of " + ", ".join(VERSIONS))


def _are_versions(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and all(name in VERSIONS for name in value)


def _plain(number: float) -> str:
    return f"{number:.0f}" if number == int(number) else f"{number:g}"
