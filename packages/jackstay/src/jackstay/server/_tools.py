"""Tools: from a function, or from a schema that is already there, to something that can be listed and called.

The two differ only in how arguments are read. A function's are decoded into its parameters and validated by that; a
ready schema's stay a dict, and are validated against the schema if the author does not do it.

Must never know a connection. Above: `_catalogue`, the dispatch. Below: `_functions`, `_output`, `_ready`.
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
from jackstay.server._output import Answer, Check, Output, read_output, ready_output
from jackstay.server._problems import REFUSALS, InvalidArguments, collect, find_problems
from jackstay.server._schema import Schema
from jackstay.types import Tool, ToolAnnotations

if TYPE_CHECKING:
    from jackstay.protocol.http import ParamHeader

if TYPE_CHECKING:
    from jackstay.server._ready import Validate

Bind: TypeAlias = Callable[[RawArguments, object], Call | InvalidArguments]

_read_object = msgspec.json.Decoder(dict[str, Any]).decode


class ToolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an author may say of a tool besides its function. None: from the function, or nothing.

    `read_only`, `destructive`, `idempotent` and `open_world` are the protocol's hints. `structured`: see `_output`.
    `blocking=False` promises that a plain function never waits, and runs it in the loop. `scopes` are what a caller over
    HTTP must be allowed to do; other transports have no scopes, and do not ask for them.
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


class ReadySchema(msgspec.Struct, frozen=True, kw_only=True):
    """Schemas that are already there. `validate=False`: arguments and output are the handler's business."""

    input_schema: Mapping[str, Json]
    output_schema: Mapping[str, Json] | None = None
    validate: bool = True


class ToolEntry(Entry, frozen=True, kw_only=True):
    """A tool. `bind(arguments, context)` gives what to call it with, or what is wrong; `answer(value, version)` the
    encoded result. `param_headers` are the arguments that travel in HTTP headers, too."""

    body: Tool
    bind: Bind
    answer: Answer
    param_headers: "tuple[ParamHeader, ...]"
    scopes: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """What it is called by."""
        return self.key


def tool_from_function(
    call: Callable[..., object], context_type: type | None = None, options: ToolOptions | None = None
) -> ToolEntry:
    """A tool whose schema is its signature.

    Raises:
        UsageError: naming the function, the parameter and the reason, for what has no schema.
    """
    options = options or ToolOptions()
    function = Function(call, context_type)
    output = read_output(function.returns, function.name, options.structured)
    return _make(function, function.input_schema, output, function.bind, options)


def tool_from_schema(
    call: Callable[..., object], ready: ReadySchema, options: ToolOptions | None = None
) -> ToolEntry:
    """A tool with a ready schema. `call` takes the arguments as a dict, and the context if it has a second parameter.

    Raises:
        UsageError: for a schema that cannot be used, and where `validate=True` needs an extra that is not there.
    """
    from jackstay.server._ready import check_ready, compile_ready  # noqa: PLC0415  # most servers have no ready schema

    options = options or ToolOptions()
    handler = _Handler(call)
    name = options.name or handler.name
    schema = check_ready(dict(ready.input_schema), f"{name}(input_schema)", must_be_object=True)
    output_schema = None
    if ready.output_schema is not None:
        output_schema = check_ready(dict(ready.output_schema), f"{name}(output_schema)", must_be_object=True)
    validate, check = None, None
    if ready.validate:
        validate = compile_ready(schema, f"{name}(input_schema)")
        if output_schema is not None:
            check = _check_of(compile_ready(output_schema, f"{name}(output_schema)"))
    output = ready_output(output_schema, name, check)
    return _make(handler, schema, output, handler.binder(validate), options)


class _Handler:
    """A function of `(arguments)` or `(arguments, context)`: what `_make` needs to know of it."""

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
            said = f"{self.name} must take (arguments, context) or (arguments)"
            raise UsageError(said, path=self.name)

    def binder(self, validate: "Validate | None") -> Bind:
        takes_context = self.takes_context

        def bind(arguments: RawArguments, context: object) -> Call | InvalidArguments:
            try:
                given = _read_object(b"{}" if arguments is None else arguments)
            except REFUSALS:
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


def _make(
    function: Function | _Handler, schema: Schema, output: Output, bind: Bind, options: ToolOptions
) -> ToolEntry:
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
        answer=output.answer,
        param_headers=headers,
        scopes=check_scopes(options.scopes),
    )


def _read_headers(name: str, schema: Schema) -> "tuple[ParamHeader, ...]":
    """The arguments that travel in HTTP headers, too. The rules of HTTP are loaded for a schema that marks one."""
    if b"x-mcp-header" not in msgspec.json.encode(schema):
        return ()
    from jackstay.protocol.http import read_param_headers  # noqa: PLC0415  # a stdio server has no use for them

    headers = read_param_headers(schema)
    if headers.problems:
        raise UsageError(f"{name}: {headers.problems[0]}", path=name)
    return tuple(headers.rows)


def _without_output(body: Tool) -> Tool:
    plain: Tool = msgspec.structs.replace(body, output_schema=None)
    return plain


def _hints(options: ToolOptions) -> ToolAnnotations | None:
    """The protocol's hints, only those that were given: absent ones have defaults of their own at the client."""
    given = (options.read_only, options.destructive, options.idempotent, options.open_world)
    if all(hint is None for hint in given):
        return None
    return ToolAnnotations(
        read_only_hint=options.read_only,
        destructive_hint=options.destructive,
        idempotent_hint=options.idempotent,
        open_world_hint=options.open_world,
    )
