"""A plain function, made ready to be called with JSON.

Everything that can be known of a function is worked out when it is registered: its parameters, their schema, a Struct
generated from them and its decoder. A call then costs one pass in C, from the bytes of the arguments to a tuple of
values of the right types; that pass is also the validation, and there is no second one. What a parameter may be is
what msgspec can decode, plus what `_foreign` adds.

Arguments that are wrong are a value, `InvalidArguments`, and not an exception: they are the caller's fault, and an
application may want to shape the answer. A function that cannot be registered is a UsageError that names the function,
the parameter and the reason.

Must never know what the function is registered as, nor run it. Above: `_tools`, `_prompts`, `_resources`. Below:
`_schema`, `_problems`, `_docstrings`.
"""

import functools
import inspect
import types
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Annotated, Any, Optional, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Raw

from jackstay.errors import Json, UsageError
from jackstay.server._docstrings import read_docstring
from jackstay.server._foreign import Hint, adapt, decode_foreign, is_field
from jackstay.server._problems import REFUSALS, InvalidArguments, Place, collect, find_problems
from jackstay.server._schema import Schema, UnusableHintError, object_schema, schemas_of
from jackstay.types import encode_json

# What to call a function with: `function.call(*arguments, **keywords)`.
Call: TypeAlias = tuple[tuple[object, ...], dict[str, object]]

# The bytes of `params.arguments`; None where the member is absent.
RawArguments: TypeAlias = bytes | Raw | None

_KINDS_REFUSED = {
    inspect.Parameter.VAR_POSITIONAL: "*{} takes any number of arguments, and JSON arguments have names",
    inspect.Parameter.VAR_KEYWORD: "**{} takes arguments of any name, so there is nothing to describe",
}
# Values that a Struct may hold as a default itself; others, lists above all, come from a factory that gives the same
# object every time, as Python does.
_PLAIN_DEFAULTS = (str, int, float, bool, types.NoneType, bytes, tuple)
_NO_KEYWORDS: dict[str, object] = {}
_LARGEST_WHOLE = 2.0**53
# Bytes of arguments that get a second reading, while which nothing else is served.
_LARGEST_READ_AGAIN = 1_048_576
_astuple = msgspec.structs.astuple


class Parameter(msgspec.Struct, frozen=True):
    """A parameter that the caller fills. `default` is `msgspec.NODEFAULT` where one must be given."""

    name: str
    hint: Any
    default: object
    description: str
    is_keyword_only: bool = False
    # Makes the default anew for every call; then `default` says nothing.
    factory: Callable[[], object] | None = None

    @property
    def is_required(self) -> bool:
        """True if a call without it is wrong."""
        return self.default is NODEFAULT


class Function:
    """A function, its parameters and their schema. `bind` turns arguments into what it is called with.

    `context_type` is the class whose parameter is filled by the server: it is in no schema. Calling, awaiting where
    `is_async` and choosing a thread where not is the caller's work.

    Raises:
        UsageError: for what cannot be called with JSON.
    """

    __slots__ = (
        "_context",
        "_decode",
        "_positional",
        "_struct",
        "bind",
        "call",
        "description",
        "input_schema",
        "is_async",
        "name",
        "parameters",
        "returns",
    )

    def __init__(self, call: Callable[..., object], context_type: type | None = None) -> None:
        self.call = call
        plain = _plain(call)
        self.name: str = getattr(plain, "__name__", type(call).__name__)
        if isinstance(call, type) or not callable(call):
            raise UsageError(f"{self.name} is not a function", path=self.name)
        self.is_async = _is_async(call)
        _refuse_generators(plain, self.name)
        signature, hints = _read_signature(call, plain, self.name)
        _refuse_methods(signature, hints, self.name)
        said = read_docstring(getattr(plain, "__doc__", None))
        self.description = said.description
        self.returns: Hint = _awaited(hints.get("return", inspect.Signature.empty))
        self.parameters: tuple[Parameter, ...] = ()
        self._context: str | None = None
        # In the order of the call: names of ours, and the place of the context.
        self._positional: list[str] = []
        for parameter in signature.parameters.values():
            self._take(parameter, hints, said.parameters, context_type, _bound_keywords(call))
        self.input_schema = _describe(self.parameters, self.name)
        self._struct = _make_struct(self.parameters, self.name)
        self._decode = msgspec.json.Decoder[Any](self._struct, dec_hook=decode_foreign).decode
        self.bind: Callable[[RawArguments, object], Call | InvalidArguments] = self._choose_bind()

    def __repr__(self) -> str:
        names = ", ".join(parameter.name for parameter in self.parameters)
        return f"<Function {self.name}({names}){' async' if self.is_async else ''}>"

    @property
    def takes_context(self) -> bool:
        """True if a parameter is filled by the server."""
        return self._context is not None

    def _take(
        self,
        parameter: inspect.Parameter,
        hints: dict[str, Any],
        said: dict[str, str],
        context_type: type | None,
        bound: frozenset[str],
    ) -> None:
        name, where = parameter.name, f"{self.name}({parameter.name})"
        if parameter.kind in _KINDS_REFUSED:
            raise UsageError(f"{where}: {_KINDS_REFUSED[parameter.kind].format(name)}", path=where)
        if name in bound:
            return  # settled by functools.partial: a caller who could name it could undo what the author settled
        is_keyword_only = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if not is_keyword_only:
            self._positional.append(name)
        hint = hints.get(name, Any)
        if _is_context(hint, context_type):
            if self._context is not None:
                raise UsageError(f"{where}: only one parameter can be the context", path=where)
            self._context = name
            return
        default = NODEFAULT if parameter.default is inspect.Parameter.empty else parameter.default
        factory: Callable[[], object] | None = None
        if is_field(default):  # `x: int = Field(3, ge=0)`, as people write who come from pydantic
            field, hint = default, Annotated[hint, default]
            default = NODEFAULT if field.is_required() else field.default
            factory = field.default_factory
        try:
            hint = adapt(hint)
            # `x: int = None` is written by people and filled with null by models, who read the default.
            hint = Optional[hint] if default is None else hint  # noqa: UP045 (made at run time)
        except TypeError as error:
            raise UsageError(f"{where}: the annotation cannot be used: {error}", path=where) from error
        taken = Parameter(name, hint, default, said.get(name, ""), is_keyword_only, factory)
        self.parameters = (*self.parameters, taken)

    # --- binding ------------------------------------------------------------------------------------------------------

    def _choose_bind(self) -> Callable[[RawArguments, object], Call | InvalidArguments]:
        """The short ways: every parameter is the caller's and stands in its place, or the context is among them."""
        decode, refuse, place = self._decode, self._refuse, self.place
        names = [parameter.name for parameter in self.parameters]
        if self._positional == names:

            def bind(arguments: RawArguments, context: object) -> Call | InvalidArguments:
                try:
                    return _astuple(decode(b"{}" if arguments is None else arguments)), _NO_KEYWORDS
                except REFUSALS:
                    return refuse(arguments, context)

            return bind
        if self._context in self._positional and len(self._positional) == len(names) + 1:
            before = self._positional.index(self._context)

            def bind_with_context(arguments: RawArguments, context: object) -> Call | InvalidArguments:
                try:
                    values = _astuple(decode(b"{}" if arguments is None else arguments))
                except REFUSALS:
                    return refuse(arguments, context)
                return (*values[:before], context, *values[before:]), _NO_KEYWORDS

            return bind_with_context

        def bind_placing(arguments: RawArguments, context: object) -> Call | InvalidArguments:
            try:
                return place(_astuple(decode(b"{}" if arguments is None else arguments)), context)
            except REFUSALS:
                return refuse(arguments, context)

        return bind_placing

    def bind_texts(self, texts: Mapping[str, str], context: object) -> Call | InvalidArguments:
        """As `bind`, from strings: the arguments of a prompt, the variables of a URI. "3" is an integer here."""
        try:
            values = msgspec.convert(dict(texts), self._struct, strict=False, dec_hook=decode_foreign)
            return self.place(_astuple(values), context)
        except REFUSALS:
            return collect(self._text_problems(texts))

    def place(self, values: tuple[object, ...], context: object) -> Call:
        """A call with these values for the parameters, in their order, unchecked."""
        named: dict[str, object] = {
            parameter.name: value for parameter, value in zip(self.parameters, values, strict=True)
        }
        if self._context is not None:
            named[self._context] = context
        return tuple(named.pop(name) for name in self._positional), named

    def _refuse(self, arguments: RawArguments, context: object) -> Call | InvalidArguments:
        data = b"{}" if arguments is None else bytes(arguments)
        if len(data) > _LARGEST_READ_AGAIN:
            return collect(find_problems(self._struct, data))
        try:
            # To JSON Schema 1.0 is an integer, to msgspec it is not; whoever sent one gets a second reading.
            value = msgspec.json.decode(data)
            whole = msgspec.json.encode(_whole_numbers(value))
            return self.place(_astuple(self._decode(whole)), context)
        except REFUSALS:
            return collect(find_problems(self._struct, data))

    def _text_problems(self, texts: Mapping[str, str]) -> Iterator[tuple[Place, str]]:
        for parameter in self.parameters:
            if parameter.name not in texts:
                if parameter.is_required:
                    yield (parameter.name,), "missing"
                continue
            try:
                msgspec.convert(texts[parameter.name], parameter.hint, strict=False, dec_hook=decode_foreign)
            except msgspec.ValidationError as error:
                yield (parameter.name,), str(error).replace("`", "")
        known = {parameter.name for parameter in self.parameters}
        yield from (((name,), "unknown argument") for name in texts if name not in known)


def _whole_numbers(value: Any) -> Any:
    # As far as a double can count: 1e308 is three hundred digits, and a message may have a million of those.
    if isinstance(value, float) and abs(value) <= _LARGEST_WHOLE and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    return value


# --- reading a signature ----------------------------------------------------------------------------------------------


def _plain(call: object) -> Any:
    """The function itself, behind partials and callable objects: where the name, the words and the hints are."""
    while isinstance(call, functools.partial):
        call = call.func
    if inspect.isroutine(call) or isinstance(call, type):
        return call
    return type(call).__call__ if callable(call) else call


def _bound_keywords(call: object) -> frozenset[str]:
    found: set[str] = set()
    while isinstance(call, functools.partial):
        found |= call.keywords.keys()
        call = call.func
    return frozenset(found)


def _is_async(call: object) -> bool:
    while isinstance(call, functools.partial):
        call = call.func
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(_plain(call))


def _refuse_generators(plain: object, name: str) -> None:
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise UsageError(f"{name} is a generator, and a request has one answer: return a list", path=name)


def _refuse_methods(signature: inspect.Signature, hints: dict[str, Any], name: str) -> None:
    """A function decorated inside its class has no object yet, and a client has none to give."""
    first = next(iter(signature.parameters), "")
    if first in ("self", "cls") and first not in hints:
        where = f"{name}({first})"
        raise UsageError(
            f"{where}: a method needs its object: register it from outside, as thing.{name}", path=where
        )


def _read_signature(call: Any, plain: Any, name: str) -> tuple[inspect.Signature, dict[str, Any]]:
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} has no signature to read: wrap it in a function", path=name) from error
    except NameError as error:  # Python 3.14 looks annotations up only now
        raise UsageError(f"{name}: an annotation cannot be resolved: {error}", path=name) from error
    try:
        return signature, get_type_hints(plain, include_extras=True)
    except Exception as error:  # an annotation is code of its author, and may raise anything
        where = f"{name}({_unresolved(plain)})"
        advice = "names in annotations must exist at the top of the module"
        raise UsageError(
            f"{where}: the annotation cannot be resolved: {error}; {advice}", path=where
        ) from error


def _unresolved(plain: Any) -> str:
    """The parameter whose annotation failed; the whole list says only that one did."""
    for name, hint in getattr(plain, "__annotations__", {}).items():
        alone = types.SimpleNamespace(__annotations__={name: hint})
        try:
            get_type_hints(alone, globalns=getattr(inspect.unwrap(plain), "__globals__", {}))
        except Exception:  # noqa: BLE001 (as above)
            return str(name)
    return "..."


def _awaited(hint: Hint) -> Hint:
    """What is there after awaiting."""
    if get_origin(hint) in (Awaitable, Coroutine):
        return get_args(hint)[-1]
    return hint


def _is_context(hint: Hint, context_type: type | None) -> bool:
    if context_type is None:
        return False
    if get_origin(hint) in (Union, types.UnionType):
        return any(_is_context(part, context_type) for part in get_args(hint))
    return isinstance(hint, type) and issubclass(hint, context_type)


# --- making the schema and the decoder --------------------------------------------------------------------------------


def _describe(parameters: tuple[Parameter, ...], function: str) -> Schema:
    try:
        found = schemas_of([parameter.hint for parameter in parameters], "validation")
    except UnusableHintError as error:
        raise _blame(parameters, function, error) from error
    properties: dict[str, Json] = {}
    for parameter, schema in zip(parameters, found.schemas, strict=True):
        described = {**schema}
        if parameter.description:
            described.setdefault("description", parameter.description)
        if parameter.default is not NODEFAULT and parameter.factory is None:
            _show_default(described, parameter.default)
        properties[parameter.name] = described
    required: list[Json] = [parameter.name for parameter in parameters if parameter.is_required]
    return object_schema(properties, required, found.definitions)


def _show_default(schema: Schema, default: object) -> None:
    try:
        schema["default"] = msgspec.json.decode(encode_json(default))
    except UsageError:
        pass  # a default that JSON cannot say works all the same; the schema is silent about it


def _blame(parameters: tuple[Parameter, ...], function: str, whole: UnusableHintError) -> UsageError:
    """The error of the first parameter that is wrong alone, or else of all of them together."""
    for parameter in parameters:
        try:
            schemas_of([parameter.hint], "validation")
        except UnusableHintError as error:
            where = f"{function}({parameter.name})"
            return UsageError(f"{where}: the annotation cannot be used: {error}", path=where)
    return UsageError(f"{function}: the annotations cannot be used together: {whole}", path=function)


def _make_struct(parameters: tuple[Parameter, ...], function: str) -> type[msgspec.Struct]:
    # Members have names of ours and wire names of the author: a parameter may be called what a Struct could not be.
    fields: list[tuple[str, Any, Any]] = []
    for index, parameter in enumerate(parameters):
        field: Any = msgspec.field(name=parameter.name)
        if parameter.factory is not None:
            field = msgspec.field(default_factory=parameter.factory, name=parameter.name)
        elif isinstance(parameter.default, _PLAIN_DEFAULTS):
            field = msgspec.field(default=parameter.default, name=parameter.name)
        elif parameter.default is not NODEFAULT:
            field = msgspec.field(
                default_factory=functools.partial(_same, parameter.default), name=parameter.name
            )
        fields.append((f"p{index}", parameter.hint, field))
    # Without the garbage collector: an instance lives for one line, and nothing can point back at it.
    return msgspec.defstruct(
        f"{function} arguments", fields, kw_only=True, forbid_unknown_fields=True, gc=False
    )


def _same(value: object) -> object:
    return value
