"""Tools from functions, and from handlers with a JSON Schema.

The arguments of a function are decoded into its parameters, which validates them. A handler with a JSON Schema gets a
dict, which is validated against the schema unless `validate=False`.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.server._docstrings import read_docstring
from jackstay.server._entries import (
    Entry,
    IconLike,
    check_meta,
    check_name,
    check_scopes,
    encode_listed,
    read_icons,
    runs_blocking,
)
from jackstay.server._functions import Call, Function, RawArguments
from jackstay.server._output import Check, EncodeResult, Output, output_from_schema, read_output
from jackstay.server._problems import InvalidArguments, collect, find_problems
from jackstay.server._schema import Schema
from jackstay.types import DECODE_ERRORS, Tool, ToolAnnotations

if TYPE_CHECKING:
    from jackstay.protocol.http import ParamHeader
    from jackstay.server._json_schema import Validate

Bind: TypeAlias = Callable[[RawArguments, object], Call | InvalidArguments]

_read_object = msgspec.json.Decoder(dict[str, Any]).decode


class ToolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a tool. The name and the description default to those of the function.

    `read_only`, `destructive`, `idempotent` and `open_world` are the annotations of MCP. `structured`: see `_output`.
    `blocking=False` declares that a plain function never blocks, so that it is called on the event loop. `scopes` are
    required of callers over HTTP; other transports have no scopes.
    """

    name: str | None = None
    title: str | None = None
    description: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    icons: Sequence[IconLike] | None = None
    meta: Mapping[str, Json] | None = None
    structured: bool | None = None
    blocking: bool | None = None
    scopes: Sequence[str] = ()


class ToolSchemas(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON Schemas of a tool. With `validate=False` neither arguments nor output are validated."""

    input_schema: Mapping[str, Json]
    output_schema: Mapping[str, Json] | None = None
    validate: bool = True


class ToolEntry(Entry, frozen=True, kw_only=True):
    """A registered tool.

    `bind(arguments, context)` returns the arguments of the call, or what is wrong with them. `encode_result(value,
    version)` encodes what it returned. `param_headers` are the arguments that HTTP clients repeat in headers.
    """

    body: Tool
    bind: Bind
    encode_result: EncodeResult
    param_headers: "tuple[ParamHeader, ...]"
    scopes: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.key


def tool_from_function(
    call: Callable[..., object], context_type: type | None = None, options: ToolOptions | None = None
) -> ToolEntry:
    """Create a tool from a function. The schema is derived from its signature.

    Raises:
        UsageError: for an unsupported signature. Names the function, the parameter and the reason.
    """
    options = options or ToolOptions()
    function = Function(call, context_type)
    output = read_output(function.returns, function.name, options.structured)
    return _make(function, function.input_schema, output, function.bind, options)


def tool_from_schema(
    call: Callable[..., object], schemas: ToolSchemas, options: ToolOptions | None = None
) -> ToolEntry:
    """Create a tool with a JSON Schema. `call` gets the arguments as a dict, and the context as a second parameter.

    Raises:
        UsageError: for an invalid schema, and for `validate=True` without the extra `schema`.
    """
    from jackstay.server._json_schema import check_schema, compile_validator  # noqa: PLC0415  # few servers need it

    options = options or ToolOptions()
    handler = _Handler(call)
    name = options.name or handler.name
    schema = check_schema(dict(schemas.input_schema), f"{name}(input_schema)", must_be_object=True)
    output_schema = None
    if schemas.output_schema is not None:
        output_schema = check_schema(dict(schemas.output_schema), f"{name}(output_schema)", must_be_object=True)
    validate, check = None, None
    if schemas.validate:
        validate = compile_validator(schema, f"{name}(input_schema)")
        if output_schema is not None:
            check = _check_of(compile_validator(output_schema, f"{name}(output_schema)"))
    output = output_from_schema(output_schema, name, check)
    return _make(handler, schema, output, handler.binder(validate), options)


class _Handler:
    """A function of `(arguments)` or `(arguments, context)`, with the attributes that `_make` needs."""

    injected = None

    def __init__(self, call: Callable[..., object]) -> None:
        self.call = call
        self.name: str = getattr(call, "__name__", type(call).__name__)
        self.description = read_docstring(call.__doc__).description if inspect.isroutine(call) else ""
        target = call if inspect.isroutine(call) else getattr(call, "func", type(call).__call__)
        self.is_async = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(target)
        try:
            signature = inspect.signature(call)
            self.takes_context = _can_bind(signature, 2)
            is_usable = self.takes_context or _can_bind(signature, 1)
        except (TypeError, ValueError):
            is_usable = False
        if not is_usable:
            raise UsageError(f"{self.name} must accept (arguments) or (arguments, context)", path=self.name)

    def binder(self, validate: "Validate | None") -> Bind:
        takes_context = self.takes_context

        def bind(arguments: RawArguments, context: object) -> Call | InvalidArguments:
            try:
                given = _read_object(b"{}" if arguments is None else arguments)
            except DECODE_ERRORS:
                return collect(find_problems(dict[str, Any], b"" if arguments is None else bytes(arguments)))
            if validate is not None:
                invalid = validate(given)
                if invalid is not None:
                    return invalid
            return (given, context) if takes_context else (given,), {}

        return bind


def _can_bind(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _check_of(validate: "Validate") -> Check:
    def check(data: bytes) -> str | None:
        invalid = validate(msgspec.json.decode(data))
        return None if invalid is None else "; ".join(map(str, invalid.problems))

    return check


def _make(function: Function | _Handler, schema: Schema, output: Output, bind: Bind, options: ToolOptions) -> ToolEntry:
    name = check_name(options.name or function.name, "name")
    headers = _read_headers(name, schema)
    body = Tool(
        name=name,
        input_schema=schema,
        title=options.title,
        description=options.description or function.description or None,
        output_schema=output.schema,
        annotations=_hints(options),
        icons=read_icons(options.icons),
        meta=check_meta(options.meta),
    )
    listed = encode_listed(body, name)
    plain = listed if output.schema is None else encode_listed(_without_output(body), name)
    return ToolEntry(
        key=name,
        listed=listed,
        listed_plain=plain,
        call=function.call,
        is_async=function.is_async,
        is_blocking=runs_blocking(function, options.blocking),
        takes_context=function.takes_context,
        body=body,
        bind=bind,
        encode_result=output.encode_result,
        param_headers=headers,
        scopes=check_scopes(options.scopes),
    )


def _read_headers(name: str, schema: Schema) -> "tuple[ParamHeader, ...]":
    """Return the arguments that HTTP clients repeat in headers: those with `x-mcp-header` in the schema."""
    if b"x-mcp-header" not in msgspec.json.encode(schema):
        return ()
    from jackstay.protocol.http import read_param_headers  # noqa: PLC0415  # few tools need it

    headers = read_param_headers(schema)
    if headers.problems:
        raise UsageError(f"{name}: {headers.problems[0]}", path=name)
    return tuple(headers.rows)


def _without_output(body: Tool) -> Tool:
    plain: Tool = msgspec.structs.replace(body, output_schema=None)
    return plain


def _hints(options: ToolOptions) -> ToolAnnotations | None:
    """Return the tool annotations. Those that are not set have defaults at the client."""
    given = (options.read_only, options.destructive, options.idempotent, options.open_world)
    if all(hint is None for hint in given):
        return None
    return ToolAnnotations(
        read_only_hint=options.read_only,
        destructive_hint=options.destructive,
        idempotent_hint=options.idempotent,
        open_world_hint=options.open_world,
    )
