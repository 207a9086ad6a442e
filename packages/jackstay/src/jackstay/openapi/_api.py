"""An API that is served: the endpoints that follow from a document and the settings, and calls to them."""

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.openapi._document import Document, Node, text
from jackstay.openapi._names import tool_names
from jackstay.openapi._operations import Operation, Reader, build_request
from jackstay.openapi._parameters import BadArgumentError, Written, check_header
from jackstay.openapi._problems import OpenApiError
from jackstay.openapi._responses import Response, error_result, tool_result
from jackstay.openapi._routes import Route, find_route
from jackstay.openapi._security import Credential, Scheme, apply_secret, check_credentials, choose_schemes
from jackstay.openapi._sender import SendError, send_request
from jackstay.openapi._servers import check_base_url, check_server
from jackstay.openapi._styles import encode_component

if TYPE_CHECKING:
    from jackstay.openapi._sender import Sender
    from jackstay.types import CallToolResult

# Headers that cannot be forwarded: they describe the message or the connection of the caller.
_NOT_FORWARDED = frozenset(("connection", "content-length", "content-type", "host", "transfer-encoding", "upgrade"))


class OpenApiWarning(UserWarning):
    """An operation of a document is not served. The message has its name, the place and the reason."""


class ApiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of `Server.from_openapi()` and `Server.from_fastapi()`; the guide explains each."""

    routes: Sequence[Route] = ()
    base_url: str | None = None
    server_variables: Mapping[str, str] = {}
    credentials: Mapping[str, Credential] = {}
    forward_headers: Sequence[str] = ()
    timeout: float = 30.0
    max_response_bytes: int = 1_048_576
    strict: bool = False

    def __post_init__(self) -> None:
        for route in self.routes:
            if not isinstance(route, Route):
                raise UsageError(f"routes must be a list of Route(...), not of {type(route).__name__}", path="routes")
        if isinstance(self.forward_headers, str):
            raise UsageError("forward_headers must be a list of names, not a str", path="forward_headers")
        for name in self.forward_headers:
            if name.lower() in _NOT_FORWARDED:
                raise UsageError(f"the header {name!r} cannot be forwarded", path="forward_headers")
        if not self.timeout > 0:
            raise UsageError(f"timeout must be above 0, not {self.timeout!r}", path="timeout")
        if type(self.max_response_bytes) is not int or self.max_response_bytes < 1:
            message = f"max_response_bytes must be an int of at least 1, not {self.max_response_bytes!r}"
            raise UsageError(message, path="max_response_bytes")


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An operation that is served: its name, the row that matched it, its URL and its credentials."""

    name: str
    operation: Operation
    route: Route
    url: str
    schemes: tuple[Scheme, ...]
    timeout: float


class CallFailedError(Exception):
    """A call has no response. The message is for the caller."""


class Api:
    """The endpoints of a document, and calls to them through a sender.

    Raises: OpenApiError, if nothing can be served or, with `strict`, if anything cannot; UsageError for bad settings.
    """

    def __init__(
        self,
        document: Document,
        sender: "Sender",
        settings: ApiSettings,
        slashes: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        self.settings = settings
        # The path parameters that may contain slashes, as (path, name).
        self._slashes = slashes
        self.sender = sender
        info = document.member(Node(document.root, "#"), "info")
        self.title = text(info, "title")
        self.version = text(info, "version")
        self.description = text(info, "description")
        reader = Reader(document, settings.server_variables, frozenset(settings.credentials))
        check_credentials(settings.credentials, reader.schemes)
        self.problems: list[OpenApiError] = []
        self.endpoints = self._plan(reader)
        self._report()

    def _plan(self, reader: Reader) -> tuple[Endpoint, ...]:
        base_url = None if self.settings.base_url is None else check_base_url(self.settings.base_url)
        found: list[tuple[Operation, Route, str]] = []
        used: set[int] = set()
        for operation in reader.operations():
            if isinstance(operation, OpenApiError):
                self.problems.append(operation)
                continue
            route = find_route(
                self.settings.routes, operation.method, operation.path, operation.tags, operation.operation_id
            )
            used.add(id(route))
            if route.serve == "nothing":
                continue
            try:
                url = base_url or check_server(operation.server, operation.pointer)
                if route.serve == "resource":
                    _check_resource(operation)
            except OpenApiError as error:
                self.problems.append(error.about(str(operation)))
                continue
            found.append((self._with_slashes(operation, route), route, url))
        for route in self.settings.routes:
            if id(route) not in used:
                self.problems.append(OpenApiError(f"no operation matches {_shown(route)}", pointer="routes"))
        return self._name(found)

    def _with_slashes(self, operation: Operation, route: Route) -> Operation:
        parameters = tuple(
            msgspec.structs.replace(
                row, allow_slashes=route.allow_slashes or (operation.path, row.name) in self._slashes
            )
            for row in operation.parameters
        )
        changed: Operation = msgspec.structs.replace(operation, parameters=parameters)
        return changed

    def _name(self, found: list[tuple[Operation, Route, str]]) -> tuple[Endpoint, ...]:
        given: dict[str, Operation] = {}
        for operation, route, _ in found:
            if route.name is not None:
                if route.name in given:
                    both = f"{given[route.name]} and {operation}"
                    raise UsageError(f"Route(name={route.name!r}) matches {both}; use one row for each", path="routes")
                given[route.name] = operation
        others = [(row.method, row.path, row.operation_id) for row, route, _ in found if route.name is None]
        names = iter(tool_names(others, frozenset(given)))
        return tuple(
            Endpoint(
                name=next(names) if route.name is None else route.name,
                operation=operation,
                route=route,
                url=url,
                schemes=choose_schemes(operation.security, self.settings.credentials),
                timeout=self.settings.timeout if route.timeout is None else route.timeout,
            )
            for operation, route, url in found
        )

    def _report(self) -> None:
        if self.problems and (self.settings.strict or not self.endpoints):
            more = len(self.problems) - 1
            first = self.problems[0]
            if not more:
                raise first
            raise OpenApiError(f"{first.reason} (and {more} more)", pointer=first.pointer, operation=first.operation)
        for problem in self.problems:
            warnings.warn(f"not served: {problem.message}", OpenApiWarning, stacklevel=_levels_to_caller())
        if not self.endpoints:
            raise OpenApiError("the document has no operation to serve", pointer="#/paths")

    # --- calls --------------------------------------------------------------------------------------------------------

    async def call_tool(
        self, endpoint: Endpoint, arguments: Mapping[str, Json], headers: Mapping[str, str]
    ) -> "CallToolResult":
        """Call an operation, and return the result of the tool. `headers` are those of the caller's request."""
        try:
            response = await self.call(endpoint, arguments, headers)
        except CallFailedError as error:
            return error_result(str(error))
        output = endpoint.operation.output if endpoint.route.output_schema else None
        return tool_result(response, output, endpoint.operation.method)

    async def call(self, endpoint: Endpoint, arguments: Mapping[str, Json], headers: Mapping[str, str]) -> Response:
        """Call an operation, and return the response. Raises: CallFailedError."""
        operation = endpoint.operation
        try:
            more = await self._additions(endpoint, headers)
            request = build_request(operation, arguments, more)
        except BadArgumentError as error:
            raise CallFailedError(f"invalid arguments: {error}") from error
        try:
            return await send_request(
                self.sender, endpoint.url, request, endpoint.timeout, self.settings.max_response_bytes
            )
        except SendError as error:
            is_known = not error.was_sent or operation.method in ("GET", "HEAD", "OPTIONS")
            note = "" if is_known else " (the API may have processed the request)"
            raise CallFailedError(f"{error}{note}") from error

    async def _additions(self, endpoint: Endpoint, headers: Mapping[str, str]) -> Written:
        """Return what the caller does not provide: forwarded headers, and the credentials of the author."""
        written = Written()
        for name in self.settings.forward_headers:
            value = headers.get(name.lower())
            if value is not None:
                written.headers.append((name, check_header(name, value)))
        for scheme in endpoint.schemes:
            credential = self.settings.credentials[scheme.name]
            secret: Any = credential() if callable(credential) else credential
            if inspect.isawaitable(secret):
                secret = await secret
            location, name, value = apply_secret(scheme, secret)
            if location == "header":
                written.headers = [row for row in written.headers if row[0].lower() != name.lower()]
                written.headers.append((name, value))
            elif location == "query":
                written.query.append((encode_component(name), encode_component(value)))
            else:
                written.cookies.append((name, encode_component(value)))
        return written


def _check_resource(operation: Operation) -> None:
    """Raise OpenApiError for an operation that a URI cannot describe."""
    if operation.method != "GET":
        raise OpenApiError("only GET can be served as a resource", pointer=operation.pointer)
    for parameter in operation.parameters:
        if parameter.is_required and parameter.location != "path":
            message = f"a resource cannot have the required {parameter.location} parameter {parameter.name!r}"
            raise OpenApiError(message, pointer=operation.pointer)


def _shown(route: Route) -> str:
    set_fields = (
        f"{name}={getattr(route, name)!r}"
        for name in ("methods", "path", "tag", "operation_id")
        if getattr(route, name) not in ((), "*", None)
    )
    return f"Route({', '.join(set_fields)})"


def _levels_to_caller() -> int:
    """Return the `stacklevel` of a warning that names the line of the program that passed the document."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("jackstay."):
        level, frame = level + 1, frame.f_back
    return level
