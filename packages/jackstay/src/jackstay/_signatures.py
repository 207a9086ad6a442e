"""Signatures that name every option, for `help()`, notebooks and editors that read them at run time.

A function that passes `**options` on names the classes that declare them. `inspect.signature()` follows `__wrapped__`,
so nothing is computed before it is read.
"""

import sys

# As in `jackstay._lazy`.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from inspect import Parameter, Signature
    from types import FunctionType
    from typing import Any, TypeVar

    F = TypeVar("F", bound="Callable[..., Any]")


def shows(*declarations: str, without: str = "") -> "Callable[[F], F]":
    """Show the fields of these classes (`module:Class`) instead of the `**options` of a function.

    `without` are the names of fields that are not options of this function, separated by spaces.
    """

    def decorate(function: "F") -> "F":
        function.__wrapped__ = Shown(function, declarations, without.split())  # type: ignore[attr-defined]
        return function

    return decorate


class Shown:
    """What `inspect` sees in place of a function: its signature with all options."""

    __slots__ = ("_declarations", "_function", "_plain", "_without")

    def __init__(self, function: "Any", declarations: tuple[str, ...], without: list[str]) -> None:
        self._function = function
        self._declarations = declarations
        self._without = without
        self._plain: FunctionType | None = None

    def __repr__(self) -> str:
        return f"<the options of {self._function.__qualname__}>"

    @property
    def __signature__(self) -> "Signature":
        import inspect  # noqa: PLC0415  # few programs use it

        signature = inspect.signature(self.__wrapped__)
        shown = [
            parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD
        ]
        known = {parameter.name for parameter in shown}.union(self._without)
        for declaration in self._declarations:
            shown += [option for option in _options_of(declaration) if option.name not in known]
        returns = signature.return_annotation
        return signature.replace(
            parameters=[parameter.replace(annotation=_as_text(parameter.annotation)) for parameter in shown],
            return_annotation=_as_text(returns),
        )

    @property
    def __wrapped__(self) -> "FunctionType":
        """A copy of the function, for `inspect.getsource()` and `typing.get_type_hints()`, which unwrap to the end."""
        if self._plain is None:
            import functools  # noqa: PLC0415  # few programs use it
            from types import FunctionType  # noqa: PLC0415

            function = self._function
            self._plain = FunctionType(
                function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
            )
            functools.update_wrapper(self._plain, function)
            self._plain.__kwdefaults__ = function.__kwdefaults__
            del self._plain.__wrapped__  # type: ignore[attr-defined]
        return self._plain


# What makes an annotation long: the definition of the alias `Json`, which is recursive, and the names of modules.
_REPLACED = (
    (r"ForwardRef\('([^']*)'\)", r"'\1'"),
    (r"'dict\[str, Json\] \| [^']*'", "Json"),
    (r"dict\[str, Json\] \| list\[Json\] \| str \| int \| float \| bool \| None", "Json"),
    (r"(?<![\w'\"])(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])", ""),
)


class _Text(str):
    """An annotation that is written without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class _Unset:
    """The default of an option that is not passed on unless it is given."""

    def __repr__(self) -> str:
        return "..."


_UNSET = _Unset()


def _as_text(annotation: "Any") -> "Any":
    """Return an annotation as it is written in the source, without the names of modules."""
    import inspect  # noqa: PLC0415  # few programs use it
    import re  # noqa: PLC0415

    if annotation is inspect.Signature.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    for pattern, replacement in _REPLACED:
        text = re.sub(pattern, replacement, text)
    return _Text(text)


def _options_of(declaration: str) -> "Iterator[Parameter]":
    import inspect  # noqa: PLC0415  # few programs use it
    from typing import get_type_hints  # noqa: PLC0415

    import msgspec  # noqa: PLC0415

    module, _, name = declaration.partition(":")
    __import__(module)
    found: Any = getattr(sys.modules[module], name)
    defaults: dict[str, Any] = {}
    if issubclass(found, msgspec.Struct):
        for field in msgspec.structs.fields(found):
            is_made = field.default_factory is not msgspec.NODEFAULT
            made = field.default_factory() if is_made else field.default
            defaults[field.name] = _UNSET if made is msgspec.NODEFAULT else made
    for option, hint in get_type_hints(found).items():
        default = defaults.get(option, _UNSET)
        yield inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
