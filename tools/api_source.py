"""Read the public names of the packages from their source: definitions, signatures and documentation.

Public names are those in `__all__` of modules without an underscore in their path. Signatures are read from the source,
so that aliases such as `Target` keep their names and `**options: Unpack[ClientKeywords]` becomes a list of keywords.
"""

import ast
import enum
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

# The order of the packages; others follow by name.
ORDER = ("jackstay", "apcore_mcp", "procontext")
# Special methods that syntax calls. They are documented if they have a docstring.
SPECIAL = (
    "__call__",
    "__await__",
    "__enter__",
    "__aenter__",
    "__iter__",
    "__aiter__",
    "__getitem__",
    "__len__",
)
MAX_VALUE = 400  # longer definitions of constants are not shown

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


# --- the source -------------------------------------------------------------------------------------------------------


class Source(NamedTuple):
    """A parsed module: its lines, the nodes that define its names, and the modules that it imports names from."""

    lines: list[str]
    defined: dict[str, ast.stmt]
    imported: dict[str, tuple[str, str]]


class Name(NamedTuple):
    """A name in a module, public or private."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@functools.cache
def source(module: str) -> Source | None:
    """Return the parsed source of a module of our packages, or its stub; None for any other module."""
    if module.partition(".")[0] not in packages():
        return None
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return None
    stub = Path(spec.origin).with_suffix(".pyi")
    text = (stub if stub.exists() else Path(spec.origin)).read_text(encoding="utf-8")
    found = Source(text.splitlines(), {}, {})
    _index(ast.parse(text).body, found)
    return found


def _index(body: Sequence[ast.stmt], found: Source) -> None:
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name not in found.defined or not is_overload(found.defined[node.name]):
                found.defined.setdefault(node.name, node)
            if is_overload(found.defined[node.name]) and not is_overload(node):
                found.defined[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    found.defined.setdefault(target.id, node)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found.imported.setdefault(alias.asname or alias.name, (node.module, alias.name))
        elif isinstance(node, ast.If | ast.Try):
            _index([*node.body, *node.orelse], found)


def is_overload(node: ast.stmt) -> bool:
    """Return whether a function is an `@overload`."""
    decorators = node.decorator_list if isinstance(node, FUNCTIONS) else []
    return any(ast.unparse(each).endswith("overload") for each in decorators)


@functools.cache
def origin(module: str, name: str) -> Name:
    """Return where a name is defined; imports inside our packages are followed."""
    seen = set()
    while (module, name) not in seen:
        seen.add((module, name))
        code = source(module)
        if code is None or name in code.defined or name not in code.imported:
            break
        if code.imported[name][0].partition(".")[0] not in packages():
            return Name(*code.imported[name])
        module, name = code.imported[name]
    return Name(module, name)


def class_node(cls: type) -> ast.ClassDef | None:
    """Return the definition of a class in our packages, including nested classes."""
    code = source(cls.__module__)
    if code is None:
        return None
    first, *rest = cls.__qualname__.split(".")
    node = code.defined.get(first)
    for part in rest:
        body = node.body if isinstance(node, ast.ClassDef) else []
        node = next((each for each in body if isinstance(each, ast.ClassDef) and each.name == part), None)
    return node if isinstance(node, ast.ClassDef) else None


def method_node(cls: type, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the definition of a method in this class, not in its bases; overloads are skipped."""
    node = class_node(cls)
    found = [each for each in (node.body if node else []) if isinstance(each, FUNCTIONS) and each.name == name]
    return next((each for each in found if not is_overload(each)), found[0] if found else None)


def comment_on(code: Source, node: ast.stmt, following: ast.stmt | None = None) -> str:
    """Return the documentation of an assignment: the string below, or the comments above and on its line."""
    if (
        isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
        and isinstance(following.value.value, str)
    ):
        return inspect.cleandoc(following.value.value)
    above: list[str] = []
    line = node.lineno - 2
    while line >= 0 and code.lines[line].lstrip().startswith("#"):
        above.insert(0, code.lines[line].strip().lstrip("#:").strip())
        line -= 1
    beside = re.search(r"\s{2,}#:?\s*(\S.*)$", code.lines[(node.end_lineno or node.lineno) - 1])
    text = [" ".join(above)] if above and not above[-1].startswith("---") else []
    if beside and not re.match(r"noqa|type:|pragma|fmt:", beside[1]):
        text.append(re.sub(r"\s*#\s*(?:noqa|type:|fmt:).*$", "", beside[1]))
    return " ".join(text)


# --- public names -----------------------------------------------------------------------------------------------------

_folders: list[Path] = []


def use(root: Path) -> None:
    """Document the packages in `packages/*/src` of this repository."""
    _folders[:] = sorted(folder for folder in (root / "packages").glob("*/src") if folder.is_dir())
    sys.path[:0] = [str(folder) for folder in _folders if str(folder) not in sys.path]
    for cached in (source, origin, packages, modules, homes, resolve_text, entry):
        cached.cache_clear()


@functools.cache
def packages() -> tuple[str, ...]:
    """Return the import packages, in the order of the reference."""
    found = {file.parent.name for folder in _folders for file in folder.glob("*/__init__.py")}
    return (*(name for name in ORDER if name in found), *sorted(found.difference(ORDER)))


@functools.cache
def modules() -> tuple[str, ...]:
    """Return every public module: those without an underscore in their path."""
    found = []
    for package in packages():
        inner = pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
        names = [each.name for each in inner]
        found += [package, *sorted(name for name in names if not re.search(r"\._", name))]
    return tuple(found)


def names_of(module: str) -> list[str]:
    """Return the public names of a module, in the order of `__all__`."""
    return list(importlib.import_module(module).__all__)


@functools.cache
def homes() -> dict[Name, Name]:
    """Map each definition to the public name with its full documentation: the one nearest to its source."""
    found: dict[Name, Name] = {}
    for module in modules():
        for name in names_of(module):
            place, here = origin(module, name), Name(module, name)
            if place not in found or _distance(here, place) < _distance(found[place], place):
                found[place] = here
    return found


def _distance(public: Name, place: Name) -> tuple[int, int]:
    public_parts, source_parts = public.module.split("."), place.module.split(".")
    shared = sum(1 for _ in _common(public_parts, source_parts))
    return len(source_parts) - shared + len(public_parts) - shared, len(public_parts)


def _common(left: list[str], right: list[str]) -> Iterator[str]:
    for part, other in zip(left, right, strict=False):
        if part != other:
            return
        yield part


def home(module: str, name: str) -> Name:
    """Return the public name that has the full documentation of a public name."""
    return homes()[origin(module, name)]


def resolve(text: str, module: str) -> Name | None:
    """Return the documented name that a name in the source of this module refers to."""
    if not text.isidentifier():
        prefix, _, last = text.rpartition(".")
        return homes().get(origin(prefix, last)) if prefix in modules() else None
    code = source(module)
    if code and (text in code.defined or text in code.imported):
        return homes().get(origin(module, text))
    if text in names_of(module) if module in modules() else False:
        return homes().get(origin(module, text))
    return resolve_text(text)


@functools.cache
def resolve_text(text: str) -> Name | None:
    """Return the documented name of this identifier, if it is unambiguous."""
    found = {each for each in homes().values() if each.name == text}
    return found.pop() if len(found) == 1 and not text.islower() else None


# --- signatures -------------------------------------------------------------------------------------------------------


def annotation_text(node: ast.expr | None) -> str:
    """Return an annotation as written, without quotes of forward references and without metadata of `Annotated`."""

    class Unquote(ast.NodeTransformer):
        def visit_Subscript(self, found: ast.Subscript) -> ast.AST:
            if ast.unparse(found.value).endswith("Literal"):
                return found
            if ast.unparse(found.value).endswith("Annotated") and isinstance(found.slice, ast.Tuple):
                return typing.cast("ast.AST", self.visit(found.slice.elts[0]))
            return self.generic_visit(found)

        def visit_Constant(self, found: ast.Constant) -> ast.AST:
            return ast.parse(found.value, mode="eval").body if isinstance(found.value, str) else found

    return ast.unparse(Unquote().visit(node)) if node is not None else ""


def default_text(node: ast.expr, module: str) -> str:
    """Return a default as written; the value of a constant, and `...` for a factory."""
    if isinstance(node, ast.Call):
        return "..."
    if isinstance(node, ast.Name | ast.Attribute):
        try:
            value: object = importlib.import_module(module)
            for name in ast.unparse(node).split("."):
                value = getattr(value, name)
        except AttributeError:
            return ast.unparse(node)
        if isinstance(value, int | float | str | None) and not isinstance(value, enum.Enum):
            return repr(value)
    return ast.unparse(node)


def keywords_of(module: str, name: str) -> list[str]:
    """Return the keys of a `TypedDict` as keyword parameters, those of its bases first."""
    place = origin(module, name)
    code = source(place.module)
    node = code.defined.get(place.name) if code else None
    if not isinstance(node, ast.ClassDef):
        return []
    found = [key for base in node.bases for key in keywords_of(place.module, ast.unparse(base))]
    found += [
        f"{ast.unparse(each.target)}: {annotation_text(each.annotation)} = ..."
        for each in node.body
        if isinstance(each, ast.AnnAssign)
    ]
    return list(dict.fromkeys(found))


def parameters_of(node: ast.FunctionDef | ast.AsyncFunctionDef, module: str, *, is_bound: bool) -> list[str]:
    """Return the parameters of a function as strings; `is_bound` omits the first one."""

    def parameter(each: ast.arg, default: ast.expr | None, stars: str = "") -> str:
        text = stars + each.arg + (f": {annotation_text(each.annotation)}" if each.annotation else "")
        if default is None:
            return text
        return text + (" = " if each.annotation else "=") + default_text(default, module)

    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(plain) - len(arguments.defaults)), *arguments.defaults]
    found = [parameter(each, default) for each, default in zip(plain, defaults, strict=True)]
    if len(arguments.posonlyargs) > is_bound:
        found.insert(len(arguments.posonlyargs), "/")
    found = found[1:] if is_bound else found
    keywords = [parameter(*each) for each in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.kwarg:
        unpacked = re.fullmatch(r"(?:typing\.)?Unpack\[(\w+)\]", annotation_text(arguments.kwarg.annotation))
        expanded = keywords_of(module, unpacked[1]) if unpacked else []
        keywords += expanded or [parameter(arguments.kwarg, None, "**")]
    if arguments.vararg:
        found.append(parameter(arguments.vararg, None, "*"))
    elif keywords and not keywords[0].startswith("**"):
        found.append("*")
    return found + keywords


def class_parameters(cls: type) -> list[str] | None:
    """Return the parameters of a class; None if it is not called, such as an enumeration or a protocol."""
    if issubclass(cls, enum.Enum) or typing.is_typeddict(cls) or getattr(cls, "_is_protocol", False):
        return None
    for base in cls.__mro__:
        node = method_node(base, "__init__") or method_node(base, "__new__")
        if node is not None:
            return parameters_of(node, base.__module__, is_bound=True)
        if "__init__" in vars(base) or hasattr(base, "__struct_fields__") or hasattr(base, "_fields"):
            break
    fields = {each.name: each for each in fields_of(cls)}
    found, is_keyword_only = [], False
    for name, takes_keyword, has_default in made_of(cls):
        if takes_keyword and not is_keyword_only:
            is_keyword_only = True
            found.append("*")
        field = fields.get(name)
        text = f"{name}: {field.annotation}" if field else name
        default = (field.default if field else "") or "..."
        found.append(text + (f" = {default}" if has_default else ""))
    return found or None


def made_of(cls: type) -> list[tuple[str, bool, bool]]:
    """Return the generated parameters of a struct, a dataclass or a named tuple.

    Each is (name, whether it is keyword-only, whether it has a default).
    """
    # inspect.signature would evaluate annotations that exist only for type checkers.
    if hasattr(cls, "__struct_fields__"):
        names = typing.cast("tuple[str, ...]", cls.__struct_fields__)
        defaults = typing.cast("tuple[object, ...]", cls.__struct_defaults__)  # type: ignore[attr-defined]
        with_default = set(names[len(names) - len(defaults) :])
        required = {
            name for name, each in zip(names[-len(defaults) :], defaults, strict=False) if repr(each) == "NODEFAULT"
        }
        positional = cls.__match_args__  # type: ignore[attr-defined]
        order = [*positional, *(name for name in names if name not in positional)]
        return [(name, name not in positional, name in with_default - required) for name in order]
    try:
        signature = inspect.signature(cls)
    except (TypeError, ValueError):
        return []
    found = list(signature.parameters.values())
    if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in found):
        return []  # a builtin signature, such as an exception with any arguments
    return [(each.name, each.kind is each.KEYWORD_ONLY, each.default is not each.empty) for each in found]


class Field(NamedTuple):
    """An annotated name in a class, as in the source."""

    name: str
    annotation: str
    default: str
    doc: str


def fields_of(cls: type) -> list[Field]:
    """Return the annotated public names of a class, those of its bases first; the members of an enumeration."""
    found: dict[str, Field] = {}
    for base in reversed(cls.__mro__):
        node, code = class_node(base), source(base.__module__)
        body = node.body if node and code else []
        for each, following in zip(body, [*body[1:], None], strict=False):
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                name, annotation = each.target.id, annotation_text(each.annotation)
            elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) and issubclass(cls, enum.Enum):
                name, annotation = each.targets[0].id, ""
            else:
                continue
            if not name.startswith("_") and code and not annotation.startswith("ClassVar"):
                default = default_text(each.value, base.__module__) if each.value else ""
                found[name] = Field(name, annotation, default, comment_on(code, each, following))
    return list(found.values())


# --- entries ----------------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """A public name, or a member of a public class, as the reference documents it."""

    full_name: str
    kind: str  # a directive of Sphinx's Python domain: function, class, exception, data, method, property
    source_module: str  # the module in which its annotations are resolved
    parameters: list[str] | None
    returns: str
    doc: str
    fields: tuple[Field, ...] = ()
    value: str = ""
    members: tuple["Entry", ...] = ()
    prefix: str = ""

    @property
    def signature(self) -> str:
        """The parameters in parentheses; empty if the entry is not callable."""
        return "" if self.parameters is None else f"({', '.join(self.parameters)})"

    @property
    def name(self) -> str:
        """The last part of the full name."""
        return self.full_name.rpartition(".")[2]


@functools.cache
def entry(module: str, name: str) -> Entry:
    """Return the entry of a public name."""
    place, value = origin(module, name), getattr(importlib.import_module(module), name)
    code = source(place.module)
    node = code.defined.get(place.name) if code else None
    full_name = f"{module}.{name}"
    if isinstance(value, type) and isinstance(node, ast.ClassDef):
        kind = "exception" if issubclass(value, BaseException) else "class"
        # Fields that are parameters are listed only if they have documentation.
        parameters = class_parameters(value)
        named = {re.split(r"[:=]", each)[0].strip() for each in parameters or ()}
        fields = tuple(field for field in fields_of(value) if field.doc or field.name not in named)
        doc = inspect.cleandoc(vars(value).get("__doc__") or "")
        if not ast.get_docstring(node):
            doc = ""  # generated from the signature of a dataclass or struct
        members = tuple(members_of(value, full_name))
        return Entry(full_name, kind, place.module, parameters, "", doc, fields, "", members)
    if isinstance(node, FUNCTIONS):
        prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
        parameters, returns = parameters_of(node, place.module, is_bound=False), annotation_text(node.returns)
        doc = inspect.cleandoc(ast.get_docstring(node) or "")
        return Entry(full_name, "function", place.module, parameters, returns, doc, prefix=prefix)
    doc, shown = "", ""
    if code and isinstance(node, ast.Assign | ast.AnnAssign):
        body = list(code.defined.values())
        doc = comment_on(code, node, _below(code, node))
        if not doc:  # a comment above consecutive assignments applies to all of them
            index = body.index(node)
            while index and body[index - 1].end_lineno == body[index].lineno - 1 and not doc:
                index -= 1
                doc = comment_on(code, body[index])
        shown = ast.unparse(node.value) if node.value else ""
        if len(shown) > MAX_VALUE:
            shown = ""
    return Entry(full_name, "data", place.module, None, "", doc, value=shown)


def _below(code: Source, node: ast.stmt) -> ast.stmt | None:
    line = code.lines[node.end_lineno] if node.end_lineno and node.end_lineno < len(code.lines) else ""
    if not line.startswith(('"""', "'", '"')):
        return None
    rest = ast.parse("\n".join(code.lines[node.end_lineno :])).body
    return rest[0] if rest else None


def members_of(cls: type, full_name: str) -> Iterator[Entry]:
    """Yield the public methods and properties of a class, in the order of the source.

    Members of public bases are documented there.
    """
    public = homes().values()
    seen: set[str] = set()
    for base in cls.__mro__:
        if source(base.__module__) is None:
            continue
        if base is not cls and homes().get(Name(base.__module__, base.__qualname__)) in public:
            continue
        for name, value in vars(base).items():
            node = method_node(base, name)
            if node is None or name in seen or (name.startswith("_") and name not in SPECIAL):
                continue
            doc = inspect.cleandoc(ast.get_docstring(node) or inspect.getdoc(getattr(cls, name, None)) or "")
            if name.startswith("_") and not ast.get_docstring(node):
                continue
            seen.add(name)
            is_property = isinstance(value, property | functools.cached_property)
            is_bound = not isinstance(value, staticmethod)
            prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
            prefix += {classmethod: "classmethod ", staticmethod: "staticmethod "}.get(type(value), "")
            yield Entry(
                f"{full_name}.{name}",
                "property" if is_property else "method",
                base.__module__,
                None if is_property else parameters_of(node, base.__module__, is_bound=is_bound),
                annotation_text(node.returns),
                doc,
                prefix=prefix,
            )
