"""Validation of tool arguments. An invalid argument is `INVALID_INPUT`, with its name.

msgspec checks the same bounds as the schemas. Unknown arguments are ignored, as JSON Schema does by default. An integer
may be written `2.0`; nothing else is converted.
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
Version: TypeAlias = Annotated[str, Meta(min_length=1, max_length=100)]
# The upper bound is larger than any page, and exact in every JSON decoder.
Count: TypeAlias = Annotated[int, Meta(ge=1, le=2**53 - 1)]


class ResolveArguments(msgspec.Struct, frozen=True):
    """Arguments of resolve_library."""

    query: Query


class IndexArguments(msgspec.Struct, frozen=True):
    """Arguments of get_library_docs."""

    library_id: LibraryId
    offset: Count = 1
    limit: Count | None = None
    filter: Query | None = None
    version: Version | None = None


class PageArguments(msgspec.Struct, frozen=True):
    """Arguments of read_page."""

    url: Annotated[str, Meta(min_length=1, max_length=2048)]
    offset: Count = 1
    limit: Count = 2000
    heading: Query | None = None


class SearchArguments(msgspec.Struct, frozen=True):
    """Arguments of search_docs."""

    library_id: LibraryId
    query: Query
    limit: Annotated[int, Meta(ge=1, le=50)] = 5
    version: Version | None = None


A = TypeVar("A", bound=msgspec.Struct)


def read_arguments(kind: type[A], given: Mapping[str, Json]) -> A:
    """Convert the arguments of a call.

    Raises: ProContextError (INVALID_INPUT) with the name of the argument.
    """
    # JSON Schema accepts 2.0 as an integer; msgspec does not.
    whole = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value for name, value in given.items()
    }
    try:
        return msgspec.convert(whole, kind)
    except msgspec.ValidationError as error:
        raise invalid(str(error)) from error


def invalid(message: str) -> ProContextError:
    """Convert the message of a msgspec.ValidationError."""
    problem, _, path = message.partition(" - at `$")
    name = path.strip("`.")
    problem = problem.replace("`", "")
    missing = "Object missing required field "
    if problem.startswith(missing):
        return failure("INVALID_INPUT", f"{problem.removeprefix(missing)} is missing")
    if name == "library_id" and "matching regex" in problem:
        return failure(
            "INVALID_INPUT",
            "library_id: expected an identifier such as 'fastapi'",
            suggestion="Call resolve_library with the name, and pass the library_id of a match.",
        )
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
