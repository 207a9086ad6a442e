"""Extensions of MCP: methods, result types and rules that a client and a server agree on by an identifier.

`Server(extensions=[...])` and `connect(extensions=[...])` declare them in their capabilities, with their settings. A
side uses an extension only if the other declared it too (2026-07-28 basic/index, "Extension negotiation").
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from jackstay.errors import Json, UsageError
from jackstay.protocol import VERSIONS
from jackstay.types import encode_json

_F = TypeVar("_F", bound=Callable[..., Any])

# Serves a method: `async def handler(ctx, params)`; what it returns is encoded as a JSON object.
MethodHandler: TypeAlias = Callable[[Any, Any], Any]
# Runs around a method of MCP: `async def interceptor(ctx, call_next): return await call_next()`.
Interceptor: TypeAlias = Callable[[Any, Callable[[], Awaitable[bytes]]], Awaitable[object]]
# Returns the complete result for another one: `async def handler(client, result): ...`; both are JSON objects.
ResultHandler: TypeAlias = Callable[[Any, dict[str, Json]], Awaitable[Mapping[str, Json]]]

# A prefix as in a name of `_meta`, then the name of the extension.
_IDENTIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9._-]*")


class Extension:
    """The declaration of an extension, for a client, a server or both.

    `identifier` has a prefix that you own, such as `com.example/counts`. `settings` are declared with it. `since` is
    the first revision of MCP in which a server offers it.

    Raises: UsageError for an invalid identifier or settings.
    """

    # Whether a server refuses its methods to clients that did not declare it.
    must_be_declared: ClassVar[bool] = True

    def __init__(
        self, identifier: str, *, settings: Mapping[str, Json] | None = None, since: str = VERSIONS[0]
    ) -> None:
        if not _is_str(identifier) or _IDENTIFIER.fullmatch(identifier) is None:
            message = f"identifier must be a prefix and a name such as 'com.example/counts', not {identifier!r}"
            raise UsageError(message, path="identifier")
        if since not in VERSIONS:
            raise UsageError(f"since must be one of {', '.join(VERSIONS)}, not {since!r}", path="since")
        self.identifier = identifier
        self.settings: dict[str, Json] = dict(settings or {})
        encode_json(self.settings)
        self.since = since
        self.methods: dict[str, MethodHandler] = {}
        self.interceptors: dict[str, Interceptor] = {}
        self.result_types: dict[str, ResultHandler] = {}

    def __repr__(self) -> str:
        return f"<Extension {self.identifier}>"

    def method(self, name: str) -> Callable[[_F], _F]:
        """Serve a method with this function: `async def handler(ctx, params)`. For servers; a decorator.

        `params` is an instance of the annotated msgspec Struct, or a dict without one. A client that did not declare
        the extension gets the error -32021.
        """
        return self._register(self.methods, name)

    def intercept(self, method: str) -> Callable[[_F], _F]:
        """Call this function around a method of MCP, such as `tools/call`, as middleware is. For servers; a decorator.

        It is called only for clients that declared the extension: `async def interceptor(ctx, call_next)`. The encoded
        result is what `call_next()` returns; the interceptor returns it, or another one as bytes or as a JSON object.
        """
        return self._register(self.interceptors, method)

    def result(self, result_type: str) -> Callable[[_F], _F]:
        """Complete results of `tools/call` that have this `resultType` with this function. For clients; a decorator.

        It is called with the client and the result, `async def handler(client, result)`, and returns the complete
        result; both are JSON objects.
        """
        return self._register(self.result_types, result_type)

    def _register(self, table: dict[str, Any], name: str) -> Callable[[_F], _F]:
        if not _is_str(name) or not name:
            raise UsageError(f"{self.identifier}: expected a name as str, got {name!r}", path=self.identifier)

        def register(function: _F) -> _F:
            if name in table:
                raise UsageError(f"{self.identifier}: {name!r} is registered twice", path=name)
            table[name] = function
            return function

        return register


def _is_str(value: object) -> bool:
    return isinstance(value, str)


def check_extensions(extensions: object) -> tuple[Extension, ...]:
    """Return the extensions as a tuple.

    Raises: UsageError for something else, and for two with the same identifier.
    """
    rows = tuple(extensions) if isinstance(extensions, list | tuple) else (extensions,)
    for index, row in enumerate(rows):
        if not isinstance(row, Extension):
            raise UsageError(f"extensions must be Extension objects, not {row!r}", path="extensions")
        if any(row.identifier == other.identifier for other in rows[:index]):
            raise UsageError(f"the extension {row.identifier} was passed twice", path="extensions")
    return rows


__all__ = ["Extension", "Interceptor", "MethodHandler", "ResultHandler", "check_extensions"]
