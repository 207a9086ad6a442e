"""Tools from functions, and from handlers with a JSON Schema.

The arguments of a function are decoded into its parameters, which validates them. A handler with a JSON Schema gets a
dict, which is validated against the schema unless `validate=False`.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec

from jackstay.errors import Json, ProtocolError, UsageError, did_you_mean
from jackstay.server._docstrings import read_docstring
from jackstay.server._entries import Entry, EntryOptions, body_fields, check_name, check_scopes, entry_fields
from jackstay.server._functions import Bind, Call, Function, RawArguments
from jackstay.server._output import EncodeResult, Output, encode_content_result, read_output
from jackstay.server._schema import Schema
from jackstay.types import DECODE_ERRORS, Tool, ToolAnnotations, encode_json

if TYPE_CHECKING:
    from jackstay.apps import App
    from jackstay.protocol.http import ParamHeader
    from jackstay.server._json_schema import Validate
    from jackstay.server._problems import InvalidArguments
else:
    App = object  # loaded only by programs that have one

# When a call of a tool is run as a task, if its client declared the extension: always; always, and otherwise it is
# refused; or from `await ctx.background()` on.
TaskSupport: TypeAlias = Literal["optional", "required", "deferred"]

# The options that are annotations of MCP, as in `readOnlyHint`.
_HINTS = ("read_only", "destructive", "idempotent", "open_world")

_read_object = msgspec.json.Decoder(dict[str, Any]).decode


class ToolOptions(EntryOptions, frozen=True, kw_only=True):
    """The options of a tool.

    `read_only`, `destructive`, `idempotent` and `open_world` are the annotations of MCP. `structured`: see `_output`.
    `annotations` has them too, as an object. `scopes` are required of callers over HTTP; other transports have no
    scopes. `timeout` is in seconds, from the arrival of the call. `output_schema` replaces the one of the return
    annotation. `task`: see `_tasks`. `app` is the page that shows the results; a tool that is `app_only` is for that
    page, not for models.
    """

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    structured: bool | None = None
    scopes: Iterable[str] = ()
    timeout: float | None = None
    annotations: ToolAnnotations | Mapping[str, Json] | None = None
    output_schema: Mapping[str, Json] | None = None
    task: bool | TaskSupport | None = None
    app: App | None = None
    app_only: bool = False


class ToolEntry(Entry, frozen=True, kw_only=True):
    """A registered tool.

    `encode_result(value, version)` encodes what it returned. `param_headers` are the arguments that HTTP clients repeat
    in headers. `timeout` is None if a call may take any time. `task`: whether a call may be run as a task; None if not.
    """

    body: Tool
    encode_result: EncodeResult
    param_headers: "tuple[ParamHeader, ...]"
    scopes: frozenset[str] = frozenset()
    timeout: float | None = None
    task: TaskSupport | None = None
    app: Any = None

    @property
    def is_repeatable(self) -> bool:
        """True if a call may be run again: the tool is annotated as read-only or idempotent."""
        hints = self.body.annotations
        return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)


def tool_from_function(call: Callable[..., object], options: ToolOptions | None = None) -> ToolEntry:
    """Create a tool from a function. The schema is derived from its signature.

    Raises:
        UsageError: for an unsupported signature. Names the function, the parameter and the reason.
    """
    options = options or ToolOptions()
    function = Function(call)
    if options.output_schema is None:
        output = read_output(function.returns, function.name, options.structured)
    elif options.structured is False:
        message = f"{function.name}: structured=False contradicts output_schema: remove one of them"
        raise UsageError(message, path="structured")
    else:
        output = _read_output_schema(options.output_schema, options.name or function.name, validate=True)
    return _make(function, function.input_schema, output, function.bind, options)


def tool_from_schema(
    call: Callable[..., object], options: ToolOptions, input_schema: Mapping[str, Json], *, validate: bool = True
) -> ToolEntry:
    """Create a tool with JSON Schemas. `call` gets the arguments as a dict, and the context as a second parameter.

    With `validate=False` neither arguments nor output are validated.

    Raises:
        UsageError: for an invalid schema, and for `validate=True` without the extra `schema`.
    """
    from jackstay.server._json_schema import check_schema, compile_validator  # noqa: PLC0415  # few servers need it

    handler = Handler(call)
    name = options.name or handler.name
    schema = check_schema(dict(input_schema), f"{name}(input_schema)")
    validator = compile_validator(schema, f"{name}(input_schema)") if validate else None
    output = Output(None, encode_content_result)
    if options.output_schema is not None:
        output = _read_output_schema(options.output_schema, name, validate=validate)
    return _make(handler, schema, output, handler.binder(validator), options)


def _read_output_schema(schema: object, name: str, *, validate: bool) -> Output:
    from jackstay.server._json_schema import check_schema, compile_validator  # noqa: PLC0415  # few servers need it
    from jackstay.server._structured import structured_encoder  # noqa: PLC0415  # as above

    where = f"{name}(output_schema)"
    plain: Any = dict(schema) if isinstance(schema, Mapping) else schema
    checked = check_schema(plain, where)
    find_problems = compile_validator(checked, where) if validate else None

    def check(data: bytes) -> None:
        invalid = None if find_problems is None else find_problems(msgspec.json.decode(data))
        if invalid is not None:
            raise ValueError("; ".join(map(str, invalid.problems)))

    return Output(checked, structured_encoder(name, check))


class Handler:
    """A function of `(arguments)` or `(arguments, context)`, with the attributes that `_make` needs."""

    injected = None

    def __init__(self, call: Callable[..., object]) -> None:
        self.call = call
        self.name: str = getattr(call, "__name__", type(call).__name__)
        self.description = read_docstring(call.__doc__).description if inspect.isroutine(call) else ""
        self.is_async = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)
        self.takes_context = _accepts(call, 2)
        if not (self.takes_context or _accepts(call, 1)):
            raise UsageError(f"{self.name} must accept (arguments) or (arguments, context)", path=self.name)

    def binder(self, validate: "Validate | None") -> Bind:
        takes_context = self.takes_context

        def bind(arguments: RawArguments, context: object) -> "Call | InvalidArguments":
            try:
                given = _read_object(arguments or b"{}")
            except DECODE_ERRORS:
                from jackstay.server._problems import collect, find_problems  # noqa: PLC0415  # few calls need it

                return collect(find_problems(dict[str, Any], bytes(arguments or b"")))
            invalid = None if validate is None else validate(given)
            if invalid is not None:
                return invalid
            return (given, context) if takes_context else (given,), {}

        return bind


def _accepts(call: Callable[..., object], count: int) -> bool:
    """Return whether a function can be called with so many arguments. False, if it has no signature."""
    try:
        inspect.signature(call).bind(*range(count))
    except (TypeError, ValueError):
        return False
    return True


def _make(function: Function | Handler, schema: Schema, output: Output, bind: Bind, options: ToolOptions) -> ToolEntry:
    name = check_name(options.name or function.name)
    headers = _read_headers(name, schema)
    members = body_fields(name, function, options)
    if options.app is not None or options.app_only:
        from jackstay.server._apps import tool_meta  # noqa: PLC0415  # few servers need it

        members["meta"] = {**(options.meta or {}), **tool_meta(options.app, app_only=options.app_only, name=name)}
    body = Tool(input_schema=schema, output_schema=output.schema, annotations=_hints(options, name), **members)
    fields = entry_fields(name, body, function, bind, options)
    if output.schema is not None:
        fields["listed_plain"] = encode_json(msgspec.structs.replace(body, output_schema=None))
    return ToolEntry(
        encode_result=output.encode_result,
        param_headers=headers,
        scopes=check_scopes(options.scopes),
        timeout=_check_timeout(options.timeout, name, can_wait=function.is_async or fields["is_blocking"]),
        task=_check_task(options.task, name, takes_context=function.takes_context),
        app=options.app,
        **fields,
    )


def _check_task(task: object, name: str, *, takes_context: bool) -> TaskSupport | None:
    if task is None or task is False:
        return None
    if task is True:
        return "optional"
    if task not in get_args(TaskSupport):
        values = ", ".join(map(repr, get_args(TaskSupport)))
        raise UsageError(f"{name}: task must be True, {values}, not {task!r}", path="task")
    if task == "deferred" and not takes_context:
        raise UsageError(f"{name}: task='deferred' needs a Context parameter, for ctx.background()", path="task")
    return task  # type: ignore[return-value]  # checked above


def _check_timeout(timeout: object, name: str, *, can_wait: bool) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise UsageError(f"{name}: timeout must be a number of seconds above 0, not {timeout!r}", path="timeout")
    if not can_wait:
        reason = "a plain function with blocking=False cannot be interrupted"
        raise UsageError(f"{name}: timeout is not possible: {reason}", path="timeout")
    return timeout


def _read_headers(name: str, schema: Schema) -> "tuple[ParamHeader, ...]":
    """Return the arguments that HTTP clients repeat in headers: those with `x-mcp-header` in the schema."""
    if b"x-mcp-header" not in msgspec.json.encode(schema):
        return ()
    from jackstay.protocol.http import read_param_headers  # noqa: PLC0415  # few tools need it

    headers = read_param_headers(schema)
    if headers.problems:
        raise UsageError(f"{name}: {headers.problems[0]}", path=name)
    return tuple(headers.rows)


def _hints(options: ToolOptions, name: str) -> ToolAnnotations | None:
    """Return the tool annotations. Those that are not set have defaults at the client."""
    keywords = {f"{name}_hint": getattr(options, name) for name in _HINTS}
    given = {field: value for field, value in keywords.items() if value is not None}
    annotations: object = options.annotations
    if annotations is None:
        return msgspec.structs.replace(ToolAnnotations(), **given) if given else None
    if isinstance(annotations, Mapping):
        annotations = _decode_annotations(annotations, name)
    elif not isinstance(annotations, ToolAnnotations):
        message = f"{name}: annotations must be a ToolAnnotations or a mapping, not {annotations!r}"
        raise UsageError(message, path="annotations")
    for field, value in given.items():
        if getattr(annotations, field) not in (None, value):
            keyword = field.removesuffix("_hint")
            raise UsageError(f"{name}: {keyword}={value} contradicts annotations={options.annotations!r}", path=keyword)
    return msgspec.structs.replace(annotations, **given)


def _decode_annotations(annotations: Mapping[str, Json], name: str) -> ToolAnnotations:
    from jackstay.types import decode  # noqa: PLC0415  # few servers need it

    known = ToolAnnotations.__struct_encode_fields__
    for key in annotations:
        if key not in known:
            hint = did_you_mean(str(key), [field for field in known if field.isalpha()])
            raise UsageError(f"{name}: unknown annotation {key!r}{hint}", path="annotations")
    try:
        return decode(ToolAnnotations, encode_json(dict(annotations)))
    except ProtocolError as error:
        where = f" at {error.path}" if error.path else ""
        raise UsageError(f"{name}: invalid annotations: {error.message}{where}", path="annotations") from error
