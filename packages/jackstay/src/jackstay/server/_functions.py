"""Inspection of a Python function, so that it can be called with JSON arguments.

At registration the signature is turned into a JSON Schema and a generated msgspec Struct. A call then decodes and
validates the arguments in one pass. Invalid arguments are returned as `InvalidArguments`, not raised.
"""

import functools
import inspect
import sys
import types
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, Any, Optional, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Raw

from jackstay.errors import Json, UsageError
from jackstay.server._docstrings import read_docstring
from jackstay.server._foreign import Hint, adapt, decode_foreign, is_field
from jackstay.server._portable_schema import make_portable
from jackstay.server._schema import Schema, UnusableHintError, object_schema, schemas_of
from jackstay.types import DECODE_ERRORS, encode_json

# Loaded on first use: by dependencies, and by the first invalid arguments.
if TYPE_CHECKING:
    from jackstay.server._depends import Injected
    from jackstay.server._problems import InvalidArguments

# Positional and keyword arguments: `function.call(*call[0], **call[1])`.
Call: TypeAlias = tuple[tuple[object, ...], dict[str, object]]

# The encoded `params.arguments`; None if the member is absent.
RawArguments: TypeAlias = bytes | Raw | None

# Returns the call for these arguments and this context, or what is wrong with the arguments.
Bind: TypeAlias = "Callable[[RawArguments, object], Call | InvalidArguments]"

_KINDS_REFUSED = {
    inspect.Parameter.VAR_POSITIONAL: "*{} is not supported, because JSON arguments are named",
    inspect.Parameter.VAR_KEYWORD: "**{} is not supported, because its arguments cannot be described in a schema",
}
# Values that a Struct accepts as defaults, and the sign that there is none. Others, such as lists, are returned by a
# factory, which returns the same object every time, as Python does.
_PLAIN_DEFAULTS = (str, int, float, bool, types.NoneType, bytes, tuple, type(NODEFAULT))
_NO_KEYWORDS: dict[str, object] = {}
_MAX_SAFE_INTEGER = 2.0**53
# Larger arguments are not decoded a second time, because that would block the event loop for too long.
_MAX_SECOND_PASS_BYTES = 1_048_576
_astuple = msgspec.structs.astuple


class Parameter(msgspec.Struct, frozen=True):
    """A parameter for the caller's arguments. `default` is `msgspec.NODEFAULT` if the argument is required."""

    name: str
    hint: Any
    default: object
    description: str
    # Creates the default of each call; `default` is then ignored.
    factory: Callable[[], object] | None = None

    @property
    def is_required(self) -> bool:
        """True if every call must have this argument."""
        return self.default is NODEFAULT


class Dependency:
    """The default of a parameter whose argument another function provides: `Depends(provider)`."""

    __slots__ = ("provider", "scope")

    def __init__(self, provider: Callable[..., Any], scope: str) -> None:
        self.provider = provider
        self.scope = scope

    def __repr__(self) -> str:
        name = getattr(self.provider, "__qualname__", type(self.provider).__name__)
        return f"Depends({name}, scope={self.scope!r})"


class Function:
    """A function, its parameters and their schema. `bind(arguments, context)` returns the arguments of the call.

    A parameter of type `Context` receives the context and is not part of the schema. This class never calls the
    function.

    Raises:
        UsageError: for a function that cannot be called with JSON. Names the function, the parameter and the reason.
    """

    def __init__(self, call: Callable[..., object]) -> None:
        self.call = call
        if isinstance(call, type) or not callable(call):
            name = getattr(call, "__name__", type(call).__name__)
            raise UsageError(f"{name} is not a function", path=name)
        inner, bound = _unwrap(call)
        plain = inner if inspect.isroutine(inner) or isinstance(inner, type) else type(inner).__call__
        self.name: str = getattr(plain, "__name__", type(call).__name__)
        self.is_async = inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(plain)
        if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
            advice = "a request has one result; return a list instead"
            raise UsageError(f"{self.name} is a generator, but {advice}", path=self.name)
        signature, hints = _read_signature(call, plain, self.name)
        _refuse_methods(signature, hints, self.name)
        docstring = read_docstring(getattr(plain, "__doc__", None))
        self.description = docstring.description
        self.returns: Hint = hints.get("return", inspect.Signature.empty)
        if get_origin(self.returns) in (Awaitable, Coroutine):
            self.returns = get_args(self.returns)[-1]
        self.parameters: tuple[Parameter, ...] = ()
        self._context: str | None = None
        # The names of the positional parameters in order, including the one for the context.
        self._positional: list[str] = []
        dependencies: dict[str, Dependency] = {}
        for parameter in signature.parameters.values():
            if isinstance(parameter.default, Dependency):
                dependencies[parameter.name] = parameter.default
                continue
            self._add_parameter(parameter, hints, docstring.parameters, bound)
        self.injected: Injected | None = self._inject(dependencies) if dependencies else None
        self.takes_context = self._context is not None
        self.input_schema = _describe(self.parameters, self.name)
        self._struct = _make_struct(self.parameters, self.name)
        self._decode = msgspec.json.Decoder[Any](self._struct, dec_hook=decode_foreign).decode
        self.bind: Bind = self._choose_bind()

    def _inject(self, dependencies: dict[str, Dependency]) -> "Injected":
        """Replace `call` by one that takes the context and resolves the dependencies first."""
        from jackstay.server._depends import Injected  # noqa: PLC0415  # few servers need it

        passes_context = self._context is not None
        self._context = self._context or "_context"
        injected = Injected(
            self.call,
            dependencies,
            self._positional,
            self._context,
            is_async=self.is_async,
            passes_context=passes_context,
        )
        self.call, self.is_async = injected, True
        return injected

    def _add_parameter(
        self, parameter: inspect.Parameter, hints: dict[str, Any], descriptions: dict[str, str], bound: frozenset[str]
    ) -> None:
        name, where = parameter.name, f"{self.name}({parameter.name})"
        if parameter.kind in _KINDS_REFUSED:
            raise UsageError(f"{where}: {_KINDS_REFUSED[parameter.kind].format(name)}", path=where)
        if name in bound:
            return  # set by functools.partial: the caller must not be able to override it
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            self._positional.append(name)
        hint = hints.get(name, Any)
        if _is_context(hint):
            if self._context is not None:
                raise UsageError(f"{where}: only one parameter can be of type Context", path=where)
            self._context = name
            return
        default = NODEFAULT if parameter.default is inspect.Parameter.empty else parameter.default
        factory: Callable[[], object] | None = None
        if is_field(default):  # `x: int = Field(3, ge=0)`, the style of pydantic
            field, hint = default, Annotated[hint, default]
            default = NODEFAULT if field.is_required() else field.default
            factory = field.default_factory
        try:
            hint = adapt(hint)
            # For `x: int = None` models send null, because they see the default.
            hint = Optional[hint] if default is None else hint  # noqa: UP045  # created at run time
        except TypeError as error:
            raise UsageError(f"{where}: unsupported annotation: {error}", path=where) from error
        added = Parameter(name, hint, default, descriptions.get(name, ""), factory)
        self.parameters = (*self.parameters, added)

    # --- binding ------------------------------------------------------------------------------------------------------

    def _choose_bind(self) -> Bind:
        """Choose the fastest `bind`. The common cases are all-positional parameters, with or without a context."""
        decode, refuse, arrange = self._decode, self._refuse, self.arrange
        names = [parameter.name for parameter in self.parameters]
        if self._positional == names and self._context is None:

            def bind(arguments: RawArguments, context: object) -> "Call | InvalidArguments":
                try:
                    return _astuple(decode(arguments or b"{}")), _NO_KEYWORDS
                except DECODE_ERRORS:
                    return refuse(arguments, context)

            return bind
        if self._context in self._positional and len(self._positional) == len(names) + 1:
            before = self._positional.index(self._context)

            def bind_with_context(arguments: RawArguments, context: object) -> "Call | InvalidArguments":
                try:
                    values = _astuple(decode(arguments or b"{}"))
                except DECODE_ERRORS:
                    return refuse(arguments, context)
                return (*values[:before], context, *values[before:]), _NO_KEYWORDS

            return bind_with_context

        def bind_by_name(arguments: RawArguments, context: object) -> "Call | InvalidArguments":
            try:
                return arrange(_astuple(decode(arguments or b"{}")), context)
            except DECODE_ERRORS:
                return refuse(arguments, context)

        return bind_by_name

    def bind_strings(self, texts: Mapping[str, str], context: object) -> "Call | InvalidArguments":
        """As `bind`, for string values: prompt arguments and URI variables. "3" is a valid int here."""
        data = msgspec.json.encode(texts)
        try:
            values = msgspec.json.decode(data, type=self._struct, strict=False, dec_hook=decode_foreign)
            return self.arrange(_astuple(values), context)
        except DECODE_ERRORS:
            from jackstay.server._problems import collect, find_problems  # noqa: PLC0415  # see above

            return collect(find_problems(self._struct, data, strict=False))

    def arrange(self, values: tuple[object, ...], context: object) -> Call:
        """Return the call for these values of the parameters, in order, without validation."""
        named = {parameter.name: value for parameter, value in zip(self.parameters, values, strict=True)}
        if self._context is not None:
            named[self._context] = context
        return tuple(named.pop(name) for name in self._positional), named

    def _refuse(self, arguments: RawArguments, context: object) -> "Call | InvalidArguments":
        from jackstay.server._problems import collect, find_problems  # noqa: PLC0415  # see above

        data = bytes(arguments or b"{}")
        if len(data) <= _MAX_SECOND_PASS_BYTES:
            with suppress(*DECODE_ERRORS):
                # 1.0 is an integer in JSON Schema, but not for msgspec. Convert such numbers and try again.
                whole = msgspec.json.encode(_whole_numbers(msgspec.json.decode(data)))
                return self.arrange(_astuple(self._decode(whole)), context)
        return collect(find_problems(self._struct, data))


def _whole_numbers(value: Any) -> Any:
    # Up to 2**53. Larger ones, such as 1e308, would become very long integers.
    if isinstance(value, float) and abs(value) <= _MAX_SAFE_INTEGER and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    return value


# --- reading a signature ----------------------------------------------------------------------------------------------


def _unwrap(call: Any) -> tuple[Any, frozenset[str]]:
    """Return the function or object inside of partials, and the names of the keywords that they set."""
    bound: set[str] = set()
    while isinstance(call, functools.partial):
        bound |= call.keywords.keys()
        call = call.func
    return call, frozenset(bound)


def _refuse_methods(signature: inspect.Signature, hints: dict[str, Any], name: str) -> None:
    """Reject a function that was decorated inside its class: there is no `self` to pass."""
    first = next(iter(signature.parameters), "")
    if first in ("self", "cls") and first not in hints:
        where = f"{name}({first})"
        advice = f"register the bound method: server.tool(obj.{name})"
        raise UsageError(f"{where}: cannot register an unbound method; {advice}", path=where)


def _read_signature(call: Any, plain: Any, name: str) -> tuple[inspect.Signature, dict[str, Any]]:
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} has no signature; wrap it in a function", path=name) from error
    except NameError as error:  # Python 3.14 evaluates annotations only now
        raise UsageError(f"{name}: cannot resolve an annotation: {error}", path=name) from error
    try:
        return signature, get_type_hints(plain, include_extras=True)
    except Exception as error:  # an annotation may raise anything
        where = f"{name}({_unresolved(plain)})"
        advice = "define the name at the top level of the module"
        raise UsageError(f"{where}: cannot resolve the annotation: {error}; {advice}", path=where) from error


def _unresolved(plain: Any) -> str:
    """Return the name of the parameter whose annotation failed."""
    for name, hint in getattr(plain, "__annotations__", {}).items():
        alone = types.SimpleNamespace(__annotations__={name: hint})
        try:
            get_type_hints(alone, globalns=getattr(inspect.unwrap(plain), "__globals__", {}))
        except Exception:  # noqa: BLE001  # an annotation may raise anything
            return str(name)
    return "..."


def _is_context(hint: Hint) -> bool:
    if get_origin(hint) in (Union, types.UnionType):
        return any(_is_context(part) for part in get_args(hint))
    # An annotation cannot refer to `Context` before its module is loaded, which few servers need.
    module = sys.modules.get("jackstay.server._context")
    return module is not None and isinstance(hint, type) and issubclass(hint, module.Context)


# --- making the schema and the decoder --------------------------------------------------------------------------------


def _describe(parameters: tuple[Parameter, ...], function: str) -> Schema:
    try:
        found = schemas_of([parameter.hint for parameter in parameters], "validation")
    except UnusableHintError as error:
        raise _annotation_error(parameters, function, error) from error
    properties: dict[str, Json] = {}
    for parameter, schema in zip(parameters, found.schemas, strict=True):
        described = {**schema}
        if parameter.description:
            described.setdefault("description", parameter.description)
        if not parameter.is_required:
            with suppress(UsageError):  # a default without a JSON form is left out of the schema
                described["default"] = msgspec.json.decode(encode_json(parameter.default))
        properties[parameter.name] = described
    required: list[Json] = [parameter.name for parameter in parameters if parameter.is_required]
    return make_portable(object_schema(properties, required, found.definitions))


def _annotation_error(parameters: tuple[Parameter, ...], function: str, whole: UnusableHintError) -> UsageError:
    """Return the error for the first unsupported parameter, or for the combination of all."""
    for parameter in parameters:
        try:
            schemas_of([parameter.hint], "validation")
        except UnusableHintError as error:
            where = f"{function}({parameter.name})"
            return UsageError(f"{where}: unsupported annotation: {error}", path=where)
    return UsageError(f"{function}: unsupported combination of annotations: {whole}", path=function)


def _make_struct(parameters: tuple[Parameter, ...], function: str) -> type[msgspec.Struct]:
    # Fields have generated names, and encode as the parameter's name, which may not be valid for a Struct field.
    fields: list[tuple[str, Any, Any]] = []
    for index, parameter in enumerate(parameters):
        if isinstance(parameter.default, _PLAIN_DEFAULTS):
            field: Any = msgspec.field(default=parameter.default, name=parameter.name)
        else:
            factory = parameter.factory or repeat(parameter.default).__next__
            field = msgspec.field(default_factory=factory, name=parameter.name)
        fields.append((f"p{index}", parameter.hint, field))
    # gc=False: instances live only briefly, and nothing refers back to them.
    return msgspec.defstruct(f"{function} arguments", fields, kw_only=True, forbid_unknown_fields=True, gc=False)
