"""What is the same for everything that a server offers: a key, how it is listed, and a function to run.

An entry is made once, at registration, and never changes; it carries its own line of the list already encoded, so that
a list is a join of bytes. Two forms of it are kept, because revisions before 2025-06-18 have no `outputSchema`; other
members that an old revision does not know are sent all the same (all its objects are open).

Must never know the catalogue, a connection or a revision. Above: `_tools`, `_resources`, `_prompts`. Below: `jackstay.types`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.types import Body, Icon, encode_json

# An icon, or its URI alone.
IconLike: TypeAlias = Icon | str

# 2025-11-25 server/tools, "Tool Names"; a SHOULD there, held to here: clients build names of their own from it.
_NAME = r"[A-Za-z0-9_.-]{1,128}"

# scope-token of RFC 6749, 3.3: what can be named in a challenge as it is.
_SCOPE = r"[\x21\x23-\x5b\x5d-\x7e]+"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is offered. `call` is run as `is_async` and `is_blocking` say, with what its `bind` gave.

    `is_async`: call it and await the result, in a task. Else `is_blocking`: call it in the pool of threads. Else call
    it in place. `takes_context`: what its `bind` is given as context is used.
    """

    key: str
    listed: bytes
    listed_plain: bytes
    call: Callable[..., object]
    is_async: bool
    is_blocking: bool
    takes_context: bool = True


def check_name(name: str, what: str) -> str:
    """The name, if it is one.

    Raises:
        UsageError: for any other than 1 to 128 of letters, digits, `_`, `.` and `-`.
    """
    if re.fullmatch(_NAME, name) is None:
        raise UsageError(f"{what} must be 1 to 128 of A-Z, a-z, 0-9, _ . -, not {name[:140]!r}", path=what)
    return name


def read_icons(icons: Sequence[IconLike] | None) -> list[Icon] | None:
    """The icons as bodies; None for none."""
    return [Icon(src=icon) if isinstance(icon, str) else icon for icon in icons] if icons else None


def encode_listed(body: Body, what: str) -> bytes:
    """The line of the list, encoded.

    Raises:
        UsageError: for a member that is not JSON.
    """
    try:
        return encode_json(body)
    except UsageError as error:
        raise UsageError(f"{what} cannot be listed: {error.message}", path=error.path) from error


class Runnable(Protocol):
    """The part of a function that says where to run it."""

    name: str
    is_async: bool


def runs_blocking(function: Runnable, blocking: bool | None) -> bool:
    """Whether it goes to the pool: a plain function does unless its author says that it never waits.

    Raises:
        UsageError: for `blocking=True` on an async function, which runs in the loop whatever it says.
    """
    if function.is_async and blocking:
        raise UsageError(f"{function.name} is async: it cannot be run in a thread", path="blocking")
    return not function.is_async and blocking is not False


def check_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """Scopes as a set. A text may hold several, with spaces between them, as `scope` does in OAuth.

    Raises:
        UsageError: for what cannot be a scope.
    """
    rows = (scopes,) if isinstance(scopes, str) else scopes
    found = frozenset(word for row in rows for word in row.split())
    for scope in found:
        if re.fullmatch(_SCOPE, scope) is None:
            raise UsageError(f"not a scope: {scope!r}", path="scopes")
    return found


def check_function(given: object, name: str) -> None:
    """Nothing, if it can be called. Raises: UsageError."""
    if not callable(given):
        raise UsageError(f"{name} must be a function, not {given!r}", path=name)


def refuse_name(given: object, decorator: str) -> None:
    """Nothing, unless a decorator got a name in the place of its function, as other libraries have it. Raises: UsageError."""
    if isinstance(given, str):
        raise UsageError(f"a name is given by its keyword: @server.{decorator}(name={given!r})", path="name")


def check_meta(meta: Mapping[str, Json] | None) -> Mapping[str, Json] | None:
    """`_meta`, copied; None for none."""
    return dict(meta) if meta else None


def check_cache_hints(ttl_ms: int, cache_scope: str) -> None:
    """Nothing, if they are hints (2026-07-28 server/utilities/caching).

    Raises:
        UsageError: naming the one that is not.
    """
    if type(ttl_ms) is not int or ttl_ms < 0:
        raise UsageError(f"ttl_ms must be a whole number from 0, not {ttl_ms!r}", path="ttl_ms")
    if cache_scope not in ("private", "public"):
        raise UsageError(
            f'cache_scope must be "private" or "public", not {cache_scope!r}', path="cache_scope"
        )
