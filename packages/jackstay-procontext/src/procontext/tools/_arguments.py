"""What each tool takes, read from the arguments of a call; what is wrong is `INVALID_INPUT`, and names the argument.

The same bounds as in the schemas, checked by msgspec on the way in. Members that are not known are skipped, as JSON Schema
has it where nothing forbids them; a whole number may be written `2.0`, and nothing else is converted.

Must never know a library or a page. Above: `_tools`. Below: msgspec, `errors`.
"""

from collections.abc import Mapping
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from jackstay.errors import Json
from procontext.errors import ProContextError, failure
from procontext.models import LIBRARY_ID_PATTERN

LibraryId: TypeAlias = Annotated[str, Meta(pattern=LIBRARY_ID_PATTERN[:-1] + r"\Z", max_length=200)]
Query: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500)]
# Beyond every page there can be, and small enough for every decoder.
Count: TypeAlias = Annotated[int, Meta(ge=1, le=2**53 - 1)]


class ResolveArguments(msgspec.Struct, frozen=True):
    """Reference, 2.1."""

    query: Query


class IndexArguments(msgspec.Struct, frozen=True):
    """Reference, 3.1."""

    library_id: LibraryId
    offset: Count = 1
    limit: Count | None = None


class PageArguments(msgspec.Struct, frozen=True):
    """Reference, 4.1."""

    url: Annotated[str, Meta(min_length=1, max_length=2048)]
    offset: Count = 1
    limit: Count = 2000
    heading: Query | None = None


class SearchArguments(msgspec.Struct, frozen=True):
    """Words to look for in a library."""

    library_id: LibraryId
    query: Query
    limit: Annotated[int, Meta(ge=1, le=50)] = 10


A = TypeVar("A", bound=msgspec.Struct)


def read_arguments(kind: type[A], given: Mapping[str, Json]) -> A:
    """The arguments as what the tool takes.

    Raises: ProContextError (INVALID_INPUT), naming the argument.
    """
    # JSON has one kind of number, and JSON Schema takes 2.0 for an integer; msgspec does not.
    whole = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in given.items()
    }
    try:
        return msgspec.convert(whole, kind)
    except msgspec.ValidationError as error:
        raise invalid(str(error)) from error


def invalid(said: str) -> ProContextError:
    """msgspec's words about an argument, in ours."""
    problem, _, place = said.partition(" - at `$")
    name = place.strip("`.")
    problem = problem.replace("`", "")
    missing = "Object missing required field "
    if problem.startswith(missing):
        return failure("INVALID_INPUT", f"{problem.removeprefix(missing)} is missing")
    problem = problem[:1].lower() + problem[1:]
    return failure("INVALID_INPUT", f"{name}: {problem}" if name else problem)


__all__ = [
    "IndexArguments",
    "PageArguments",
    "ResolveArguments",
    "SearchArguments",
    "invalid",
    "read_arguments",
]
