"""`Entry`, the base class of registered tools, resources and prompts, and checks of their options.

An entry is immutable and has its own list item already encoded, in two forms: revisions before 2025-06-18 have no
`outputSchema`. Other members that an old revision does not know are sent nevertheless, because its objects are open.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.protocol import refuse_unknown
from jackstay.types import Body, Icon, encode_json

if TYPE_CHECKING:
    from jackstay.server._functions import Function
    from jackstay.server._tools import Handler


# An icon, or only its URI.
IconLike: TypeAlias = Icon | str

# 2025-11-25 server/tools, "Tool Names". A SHOULD there, but required here, because clients derive names from it.
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")

# The scope-token of RFC 6749, section 3.3.
_SCOPE = r"[\x21\x23-\x5b\x5d-\x7e]+"


class EntryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of every entry. The name and the description default to those of the function.

    `blocking=False` declares that a plain function never blocks, so that it is called on the event loop. `tags` are for
    the server itself: clients do not see them. An entry that is not `enabled` is neither listed nor found.
    """

    name: str | None = None
    title: str | None = None
    description: str | None = None
    icons: Sequence[IconLike] | None = None
    meta: Mapping[str, Json] | None = None
    blocking: bool | None = None
    tags: Iterable[str] = ()
    enabled: bool = True

    def __post_init__(self) -> None:
        # Not a `Setting`: reading the declarations of all options would delay the start of every server.
        if type(self.enabled) is not bool:
            raise UsageError(f"enabled must be a bool, not {self.enabled!r}", path="enabled")

    @classmethod
    def from_keywords(cls, where: str, given: Mapping[str, Any]) -> Self:
        """Return the options of a call of `where`. Raises: UnexpectedOptionError for an unknown one; UsageError."""
        refuse_unknown(given, cls.__struct_fields__, where)
        return cls(**given)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A registered tool, resource or prompt. `call` is its function, called with the arguments that `bind` returned.

    `bind(arguments, context)` returns the arguments of the call, or what is wrong with them. If `is_async`, the
    function is awaited in a task; if `is_blocking`, it is called in the thread pool; otherwise it is called directly.
    `takes_context`: the function has a parameter for the `Context`.
    """

    key: str
    listed: bytes
    listed_plain: bytes
    call: Callable[..., object]
    bind: Callable[..., Any]
    is_async: bool
    is_blocking: bool
    takes_context: bool = True
    tags: frozenset[str] = frozenset()
    enabled: bool = True

    @property
    def name(self) -> str:
        """The name of a tool or a prompt; the URI of a resource."""
        return self.key


def check_name(name: str) -> str:
    """Return the name.

    Raises:
        UsageError: unless it has 1 to 128 letters, digits, `_`, `.` and `-`.
    """
    if not 1 <= len(name) <= 128 or not _NAME_CHARACTERS.issuperset(name):
        raise UsageError(f"name must be 1 to 128 characters of A-Z a-z 0-9 _ . -, not {name[:140]!r}", path="name")
    return name


def read_icons(icons: Sequence[IconLike] | None) -> list[Icon] | None:
    """Return the icons as `Icon` objects; None if there are none."""
    return [Icon(src=icon) if isinstance(icon, str) else icon for icon in icons] if icons else None


def runs_blocking(function: "Function | Handler", blocking: bool | None) -> bool:
    """Return whether to call a function in the thread pool. Plain functions are, unless `blocking=False`.

    Raises:
        UsageError: for `blocking=True` on an async function.
    """
    if function.injected is not None:
        function.injected.uses_thread = function.injected.uses_thread and blocking is not False
        return False
    if function.is_async and blocking:
        raise UsageError(f"blocking=True is not possible for {function.name}: it is async", path="blocking")
    return not function.is_async and blocking is not False


def body_fields(name: str, function: "Function | Handler", options: EntryOptions) -> dict[str, Any]:
    """Return the members of a list item that do not depend on its kind."""
    return {
        "name": name,
        "title": options.title,
        "description": options.description or function.description or None,
        "icons": read_icons(options.icons),
        "meta": dict(options.meta) if options.meta else None,
    }


def entry_fields(
    key: str, body: Body, function: "Function | Handler", bind: Callable[..., Any], options: EntryOptions
) -> dict[str, Any]:
    """Return the fields of an `Entry` with this list item that do not depend on its kind.

    Raises:
        UsageError: for a bad option, and for a member without a JSON form.
    """
    try:
        listed = encode_json(body)
    except UsageError as error:
        raise UsageError(f"{key} cannot be encoded: {error.message}", path=error.path) from error
    return {
        "key": key,
        "body": body,
        "listed": listed,
        "listed_plain": listed,
        "call": function.call,
        "bind": bind,
        "is_async": function.is_async,
        "is_blocking": runs_blocking(function, options.blocking),
        "takes_context": function.takes_context,
        "tags": check_tags(options.tags),
        "enabled": options.enabled,
    }


def check_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """Return the scopes as a set. A string may contain several, separated by spaces, as in OAuth.

    Raises:
        UsageError: for an invalid scope.
    """
    rows = (scopes,) if isinstance(scopes, str) else _strings(scopes, "scopes")
    found = frozenset(word for row in rows for word in row.split())
    for scope in found:
        if re.fullmatch(_SCOPE, scope) is None:
            raise UsageError(f"invalid scope: {scope!r}; see RFC 6749, section 3.3", path="scopes")
    return found


def check_tags(tags: Iterable[str]) -> frozenset[str]:
    """Return the tags as a set. Raises: UsageError for something else than strings."""
    found = frozenset(_strings(tags, "tags"))
    if "" in found:
        raise UsageError("tags must not contain an empty string", path="tags")
    return found


def _strings(given: object, name: str) -> tuple[str, ...]:
    rows = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping) else (None,)
    if any(not isinstance(row, str) for row in rows):
        raise UsageError(f"{name} must be a set of strings such as {{'orders'}}, not {given!r}", path=name)
    return rows


def check_function(given: object, name: str) -> None:
    """Raise UsageError unless the object is callable."""
    if not callable(given):
        raise UsageError(f"{name} must be callable, not {given!r}", path=name)


def refuse_name(given: object, decorator: str) -> None:
    """Raise UsageError if a decorator got a name instead of a function, which other libraries allow."""
    if isinstance(given, str):
        raise UsageError(f"pass the name as a keyword: @server.{decorator}(name={given!r})", path="name")
