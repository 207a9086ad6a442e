"""The operations of a document: for each one the input schema, and the request for the arguments of a call. No I/O."""

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec

from jackstay.errors import Json
from jackstay.openapi._bodies import Body, body_places, body_schema, encode_body, read_body
from jackstay.openapi._document import Document, Node, Object, flag, text
from jackstay.openapi._names import argument_names
from jackstay.openapi._parameters import (
    BadArgumentError,
    Parameter,
    Written,
    read_parameters,
    write_parameters,
)
from jackstay.openapi._problems import OpenApiError, join
from jackstay.openapi._responses import Output, read_output
from jackstay.openapi._schemas import Place, Schemas
from jackstay.openapi._security import Scheme, read_schemes, read_security
from jackstay.openapi._servers import read_server

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
MAX_DESCRIPTION = 4096
_VARIABLE = re.compile(r"\{([^{}]*)\}")


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation. `server` is the URL of its server, which may be relative. `pointer` is its place."""

    method: str
    path: str
    pointer: str
    operation_id: str
    tags: tuple[str, ...]
    title: str
    description: str
    parameters: tuple[Parameter, ...]
    body: Body | None
    input_schema: Object
    output: Output | None
    security: tuple[tuple[Scheme, ...], ...]
    server: str

    def __str__(self) -> str:
        return describe(self.method, self.path, self.operation_id)


class Request(msgspec.Struct, frozen=True):
    """An HTTP request. `target` is the path with the query, and is appended to the URL of the server."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | None


# An operation, or why it cannot be served.
Found: TypeAlias = Operation | OpenApiError


class Reader:
    """Reads the operations of a document. `variables` are those of the server URL.

    `credentials` are the names of the security schemes that the author provides: callers do not see their parameters.

    Raises: OpenApiError for a problem that concerns the whole document.
    """

    def __init__(
        self,
        document: Document,
        variables: Mapping[str, str] | None = None,
        credentials: frozenset[str] = frozenset(),
    ) -> None:
        self.document = document
        self.schemes = read_schemes(document)
        self._variables = variables or {}
        self._credentials = credentials
        self._requests = Schemas(document, "request")
        self._responses = Schemas(document, "response")

    def operations(self) -> Iterator[Found]:
        """Yield every operation, in the order of the document, or the error of one that cannot be served."""
        root = Node(self.document.root, "#")
        paths = self.document.member(root, "paths")
        for path in paths.value:
            if path.startswith("x-"):
                continue
            try:
                item = self.document.member(paths, path)
            except OpenApiError as error:
                yield error.about(path)
                continue
            for method in METHODS:
                if method in item.value:
                    yield self._try(item, method, path)

    def _try(self, item: Node, method: str, path: str) -> Found:
        name = describe(method, path, "")
        try:
            operation = self.document.member(item, method)
            name = describe(method, path, text(operation, "operationId"))
            return self._read(item, operation, method, path)
        except OpenApiError as error:
            return error.about(name)
        except RecursionError:
            return OpenApiError("nested too deeply", pointer=join(item.pointer, method), operation=name)

    def _read(self, item: Node, operation: Node, method: str, path: str) -> Operation:
        security = read_security(self.document, operation, self.schemes)
        parameters = [
            parameter
            for parameter in read_parameters(self.document, item, operation)
            if not self._is_credential(parameter)
        ]
        _check_path(path, parameters, operation)
        body = read_body(self.document, operation) if method not in ("get", "head", "trace") else None
        keys = [(parameter.location, parameter.name) for parameter in parameters]
        names = argument_names([*keys, *([("body", "body")] if body is not None else [])])
        parameters = [
            msgspec.structs.replace(parameter, argument=names[key])
            for key, parameter in zip(keys, parameters, strict=True)
        ]
        if body is not None:
            body = msgspec.structs.replace(body, argument=names["body", "body"])
        tags = operation.value.get("tags")
        return Operation(
            method=method.upper(),
            path=path,
            pointer=operation.pointer,
            operation_id=text(operation, "operationId"),
            tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
            title=text(operation, "summary") or text(item, "summary"),
            description=_describe(operation, item),
            parameters=tuple(parameters),
            body=body,
            input_schema=self._input_schema(parameters, body, operation.pointer),
            output=read_output(self.document, operation, self._responses) if method != "head" else None,
            security=security,
            server=read_server(self.document, (operation, item, Node(self.document.root, "#")), self._variables),
        )

    def _is_credential(self, parameter: Parameter) -> bool:
        """Return whether the author provides a parameter, because it is that of a security scheme."""
        return any(
            scheme.name in self._credentials
            and scheme.location == parameter.location
            and scheme.parameter.lower() == parameter.name.lower()
            for scheme in self.schemes.values()
        )

    def _input_schema(self, parameters: list[Parameter], body: Body | None, pointer: str) -> Object:
        places: dict[str, Place] = {f"p:{parameter.argument}": parameter.schema for parameter in parameters}
        if body is not None:
            places |= {f"b:{name}": place for name, place in body_places(body).items()}

        def combine(schemas: Mapping[str, Json]) -> Object:
            properties: Object = {}
            required: list[Json] = []
            for parameter in parameters:
                properties[parameter.argument] = _described(schemas[f"p:{parameter.argument}"], parameter.description)
                if parameter.is_required:
                    required.append(parameter.argument)
            if body is not None:
                parts = {name[2:]: schema for name, schema in schemas.items() if name.startswith("b:")}
                properties[body.argument] = _described(body_schema(body, parts), body.description)
                if body.is_required:
                    required.append(body.argument)
            found: Object = {"type": "object", "properties": properties, "additionalProperties": False}
            return {**found, "required": required} if required else found

        return self._requests.translate(places, combine, pointer)


def describe(method: str, path: str, operation_id: str) -> str:
    """Return the name of an operation for messages."""
    return f"{method.upper()} {path}" + (f" ({operation_id})" if operation_id else "")


def _described(schema: Json, description: str) -> Json:
    if schema is True:
        schema = {}
    if not description or not isinstance(schema, dict) or "description" in schema:
        return schema
    return {**schema, "description": description}


def _describe(operation: Node, item: Node) -> str:
    parts = [text(operation, "summary") or text(item, "summary"), text(operation, "description")]
    if parts[0].strip(" .") == parts[1].strip(" ."):
        del parts[0]
    if flag(operation, "deprecated"):
        parts.append("Deprecated.")
    return "\n\n".join(part.strip() for part in parts if part.strip())[:MAX_DESCRIPTION]


def _check_path(path: str, parameters: list[Parameter], operation: Node) -> None:
    variables = _VARIABLE.findall(path)
    declared = {parameter.name for parameter in parameters if parameter.location == "path"}
    literal = _VARIABLE.sub("", path)
    if not path.startswith("/") or any(character in literal for character in "{}?#\\") or not literal.isprintable():
        raise OpenApiError(f"{path[:200]!r} is not a valid path", pointer=operation.pointer)
    if len(set(variables)) != len(variables):
        raise OpenApiError("a variable occurs twice in the path", pointer=operation.pointer)
    for name in variables:
        if name not in declared:
            raise OpenApiError(f"the path variable {name!r} has no parameter", pointer=operation.pointer)
    for name in declared:
        if name not in variables:
            raise OpenApiError(f"the path has no variable for the parameter {name!r}", pointer=operation.pointer)


def build_request(operation: Operation, arguments: Mapping[str, Json], more: Written | None = None) -> Request:
    """Return the request for the arguments of a call. `more` are parts that the author adds, such as credentials.

    Raises: BadArgumentError for a value that cannot be sent.
    """
    given = dict(arguments)
    written = write_parameters(operation.parameters, given)
    more = more or Written()
    path = _VARIABLE.sub(lambda found: written.path[found[1]], operation.path)
    query = "&".join(f"{name}={value}" for name, value in (*written.query, *more.query))
    replaced = {name.lower() for name, _ in more.headers}
    headers = [(name, value) for name, value in written.headers if name.lower() not in replaced]
    headers += more.headers
    cookies = "; ".join(f"{name}={value}" for name, value in (*written.cookies, *more.cookies))
    if cookies:
        headers.append(("Cookie", cookies))
    content = None
    body = operation.body
    if body is not None:
        value = given.get(body.argument)
        if body.argument in given and (value is not None or body.kind == "json"):
            content_type, content = encode_body(body, value)
            headers.append(("Content-Type", content_type))
        elif body.is_required:
            raise BadArgumentError(body.argument, "a value is required")
    if operation.output is not None:
        headers.insert(0, ("Accept", "application/json"))
    return Request(operation.method, f"{path}?{query}" if query else path, tuple(headers), content)
