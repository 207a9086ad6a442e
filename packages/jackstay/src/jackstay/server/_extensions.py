"""The extensions of a server: what it declares, the methods it serves for them, and their interceptors."""

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec

from jackstay.errors import GuardRefusedError, Json, JsonRpcError, McpError, UsageError
from jackstay.extensions import Extension, Interceptor, MethodHandler, check_extensions
from jackstay.protocol import METHODS, REVISIONS, Era, Method
from jackstay.protocol.server import events as e
from jackstay.protocol.wire import ErrorCode
from jackstay.server._driver import Caller, Driver, Outcome, Serve
from jackstay.server._failures import report
from jackstay.types import DECODE_ERRORS, encode_json

if TYPE_CHECKING:
    from jackstay.server._backend import Backend
    from jackstay.server._dispatch import Dispatch
    from jackstay.server._server import Server


class _Declared(msgspec.Struct):
    extensions: dict[str, msgspec.Raw] = {}


_read_declared = msgspec.json.Decoder(_Declared).decode


class ServerExtension(Extension):
    """An extension of this package, which registers its own methods."""

    def bind(self, server: "Server") -> None:
        """Prepare for a server, once."""

    def use_backend(self, backend: "Backend") -> None:
        """Use a backend that the server got after `bind()`."""

    def install(self, dispatch: "Dispatch") -> None:
        """Change the functions by which a dispatcher serves methods."""

    @property
    def needs_one_process(self) -> bool:
        """True if it keeps state that another worker of the server does not see."""
        return False


class Extensions:
    """The extensions of one server."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self.rows: tuple[Extension, ...] = ()

    def add(self, extensions: object) -> None:
        """Add extensions. Raises: UsageError for something else, a duplicate, or a method of MCP."""
        added = check_extensions(extensions)
        self.rows = check_extensions((*self.rows, *added))
        for row in added:
            for method in row.interceptors:
                if method not in METHODS:
                    raise UsageError(f"{row.identifier}: cannot intercept the unknown {method!r}", path=method)
            for method in row.methods:
                known = METHODS.get(method)
                if known is not None and known.since <= row.since <= known.until:
                    raise UsageError(f"{row.identifier}: {method!r} is a method of MCP", path=method)
                params_type(row.methods[method])  # raises for a function with other parameters
            if isinstance(row, ServerExtension):
                row.bind(self._server)

    def use_backend(self, backend: "Backend") -> None:
        """Pass on a backend that the server got after it was created."""
        for row in self.rows:
            if isinstance(row, ServerExtension):
                row.use_backend(backend)

    @property
    def needs_one_process(self) -> bool:
        """True if an extension keeps state that another worker of the server does not see."""
        return any(isinstance(row, ServerExtension) and row.needs_one_process for row in self.rows)

    def declared(self, era: Era) -> dict[str, Json]:
        """Return the settings of the extensions that clients of this era see, by identifier."""
        newest = max(version for version, row in REVISIONS.items() if row.era is era)
        return {row.identifier: row.settings for row in self.rows if row.since <= newest}

    def methods(self) -> tuple[Method, ...]:
        """Return the methods of all extensions."""
        return tuple(Method(name, "", "Result", since=row.since) for row in self.rows for name in row.methods)

    def install(self, dispatch: "Dispatch") -> None:
        """Serve the methods of the extensions, and add their interceptors."""
        for row in self.rows:
            table: dict[str, tuple[Serve, str]] = {
                name: (_serve_method(row, handler, dispatch), "") for name, handler in row.methods.items()
            }
            for name, interceptor in row.interceptors.items():
                before, capability = dispatch._methods[name]
                table[name] = _intercept(row, interceptor, before, dispatch), capability
            dispatch._methods.update(table)
            if isinstance(row, ServerExtension):
                row.install(dispatch)


def is_declared(identifier: str, connection: Driver, request: e.Serve) -> bool:
    """Return whether the client of a request declared an extension."""
    client = connection.core.client
    if request.meta is not None:
        capabilities: bytes | msgspec.Raw = request.meta.capabilities
    else:
        capabilities = b"{}" if client is None else client.capabilities
    try:
        return identifier in _read_declared(capabilities).extensions
    except DECODE_ERRORS:
        return False


def undeclared(identifier: str, method: str) -> GuardRefusedError:
    """Return the error (-32021) for a client that did not declare an extension."""
    return GuardRefusedError(
        f"the client did not declare the extension {identifier}",
        event="StatelessRequested",
        state="stateless",
        code=ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY,
        method=method,
        more={"requiredCapabilities": {"extensions": {identifier: {}}}},
    )


def params_type(handler: MethodHandler) -> Any:
    """Return the annotation of the second parameter if it is a Struct, else `dict`."""
    parameters = list(inspect.signature(handler).parameters.values())
    if len(parameters) != 2:
        name = getattr(handler, "__qualname__", repr(handler))
        raise UsageError(f"{name} must have two parameters: the context and the params", path=name)
    try:
        hint = get_type_hints(handler).get(parameters[1].name)
    except NameError:  # a class inside a function, with postponed annotations
        return dict
    return hint if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else dict


def _serve_method(extension: Extension, handler: MethodHandler, dispatch: "Dispatch") -> Serve:
    """Return the function that serves a method of an extension."""
    read = msgspec.json.Decoder(params_type(handler)).decode

    async def serve(connection: Driver, request: e.Serve, caller: Caller) -> bytes:
        method = request.method.name
        if extension.must_be_declared and not is_declared(extension.identifier, connection, request):
            raise undeclared(extension.identifier, method)
        try:
            params = read(request.params or b"{}")
        except DECODE_ERRORS as error:
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, f"invalid params for {method}: {error}") from error
        context = dispatch._make_context(connection, request, caller)
        try:
            result = handler(context, params)
            encoded = encode_json(await result if inspect.isawaitable(result) else result)
        except Exception as error:
            if isinstance(error, McpError) and error.code is not None:
                raise
            raise JsonRpcError(ErrorCode.INTERNAL_ERROR, report(method, error)) from error
        finally:
            context.end()
        if encoded[:1] != b"{":
            raise JsonRpcError(ErrorCode.INTERNAL_ERROR, f"the handler of {method} did not return an object")
        return encoded if request.meta is None else connection.server_config.finalize(encoded)

    return serve


def _intercept(extension: Extension, interceptor: Interceptor, before: Serve, dispatch: "Dispatch") -> Serve:
    """Return a function that calls an interceptor around a method of MCP, if the client declared the extension."""

    def serve(connection: Driver, request: e.Serve, caller: Caller) -> Outcome:
        if not is_declared(extension.identifier, connection, request):
            return before(connection, request, caller)
        return run(connection, request, caller)

    async def run(connection: Driver, request: e.Serve, caller: Caller) -> bytes:
        context = dispatch._make_context(connection, request, caller)
        stays_open = False

        async def call_next() -> bytes:
            nonlocal stays_open
            outcome = before(connection, request, caller)
            if outcome is None:
                stays_open = True
                return b""
            return outcome if isinstance(outcome, bytes) else await outcome

        try:
            result: object = await interceptor(context, call_next)
            encoded = result if isinstance(result, bytes) else encode_json(result)
            # An interceptor without `return` must not leave the client waiting forever.
            if not (encoded.startswith(b"{") or (stays_open and not encoded)):
                raise TypeError(f"an interceptor must return the result, encoded or not, not {type(result).__name__}")
        except (McpError, asyncio.CancelledError):
            raise
        except Exception as error:  # interceptors may raise anything
            raise JsonRpcError(ErrorCode.INTERNAL_ERROR, report(request.method.name, error)) from error
        finally:
            context.end()
        if request.meta is None or encoded is result:
            return encoded
        return connection.server_config.finalize(encoded)

    return serve
