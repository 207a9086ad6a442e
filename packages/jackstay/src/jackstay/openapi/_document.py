"""The document as a tree: references, cycles, and limits of depth and size. No I/O.

References point into the document. A reference to a file or a URL is refused and never fetched.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias, TypeVar
from urllib.parse import unquote

import msgspec

from jackstay.errors import Json
from jackstay.openapi._problems import OpenApiError, join

# An object of the document.
Object: TypeAlias = dict[str, Json]

T = TypeVar("T")

# The largest document, in bytes of JSON, and how deep its values may be nested.
MAX_DOCUMENT_BYTES = 64 * 1_048_576
MAX_DEPTH = 128
# How many references may lead to one another until the referenced object is reached.
MAX_REFERENCES = 32
_SUPPORTED = ("3.0", "3.1")


class Node(msgspec.Struct, frozen=True):
    """An object of the document, and its place."""

    value: Object
    pointer: str


class Document:
    """An OpenAPI document, 3.0 or 3.1.

    Raises: OpenApiError for another version, a document that is not an object, or one that is too deep.
    """

    def __init__(self, root: Mapping[str, Json]) -> None:
        self.root: Object = dict(root)
        _check_depth(self.root)
        version = self.root.get("openapi")
        if "swagger" in self.root and version is None:
            version = self.root["swagger"]
            raise OpenApiError(f"Swagger {version} is not supported: convert the document to OpenAPI 3.0 or 3.1")
        if not isinstance(version, str) or not version.startswith(_SUPPORTED):
            raise OpenApiError(f"'openapi' must be 3.0.x or 3.1.x, not {version!r}", pointer="#/openapi")
        # In 3.0 a schema is a dialect of its own, and the siblings of a `$ref` are ignored.
        self.is_30 = version.startswith("3.0")
        self._cyclic: dict[str, bool] = {}
        self._referenced: dict[str, set[str]] = {}

    def resolve(self, node: Node) -> Node:
        """Follow the reference of an object, if it is one.

        Raises: OpenApiError for a reference that is remote, broken or a cycle.
        """
        for _ in range(MAX_REFERENCES):
            reference = node.value.get("$ref")
            if reference is None:
                return node
            node = self.target(reference, join(node.pointer, "$ref"))
        raise OpenApiError("the references form a cycle or a chain that is too long", pointer=node.pointer)

    def target(self, reference: Json, pointer: str) -> Node:
        """Return the object that a reference points to. `pointer` is the place of the reference.

        Raises: OpenApiError.
        """
        if not isinstance(reference, str):
            raise OpenApiError(f"$ref must be a string, not {type(reference).__name__}", pointer=pointer)
        if not reference.startswith("#"):
            advice = "remote references are not fetched; bundle the document first"
            raise OpenApiError(f"$ref {reference[:200]!r}: {advice}", pointer=pointer)
        if reference != "#" and not reference.startswith("#/"):
            raise OpenApiError(f"$ref {reference[:200]!r}: anchors are not supported", pointer=pointer)
        found: Json = self.root
        for step in reference.split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdecimal() and int(key[:9]) < len(found):
                found = found[int(key[:9])]
            else:
                raise OpenApiError(f"$ref {reference[:200]!r} does not exist", pointer=pointer)
        if not isinstance(found, dict):
            raise OpenApiError(f"$ref {reference[:200]!r} is not an object", pointer=pointer)
        return Node(found, reference)

    def member(self, node: Node, *names: str) -> Node:
        """Return the object at this path below `node`, with its references followed; an empty one if it is absent.

        Raises: OpenApiError, if a value on the path is not an object.
        """
        for name in names:
            value = node.value.get(name)
            place = join(node.pointer, name)
            if value is None:
                return Node({}, place)
            if not isinstance(value, dict):
                raise OpenApiError(f"{name} must be an object, not {type(value).__name__}", pointer=place)
            node = self.resolve(Node(value, place))
        return node

    def items(self, node: Node, name: str) -> Iterator[Node]:
        """Yield the objects of a list, with their references followed; nothing if it is absent.

        Raises: OpenApiError.
        """
        value = node.value.get(name)
        if value is None:
            return
        place = join(node.pointer, name)
        if not isinstance(value, list):
            raise OpenApiError(f"{name} must be a list, not {type(value).__name__}", pointer=place)
        for index, item in enumerate(value):
            if not isinstance(item, dict):
                where = join(place, index)
                raise OpenApiError(f"{name}[{index}] must be an object, not {type(item).__name__}", pointer=where)
            yield self.resolve(Node(item, join(place, index)))

    def members(self, node: Node) -> Iterator[tuple[str, Node]]:
        """Yield the members of an object that are objects, with their references followed; extensions are left out.

        Raises: OpenApiError.
        """
        for name in node.value:
            if not name.startswith("x-"):
                yield name, self.member(node, name)

    def is_cyclic(self, reference: str) -> bool:
        """Return whether a schema refers to itself, directly or through others."""
        known = self._cyclic.get(reference)
        if known is None:
            seen: set[str] = set()
            stack = list(self._references(reference))
            while stack:
                found = stack.pop()
                if found not in seen:
                    seen.add(found)
                    stack += self._references(found)
            known = self._cyclic[reference] = reference in seen
        return known

    def _references(self, reference: str) -> set[str]:
        found = self._referenced.get(reference)
        if found is not None:
            return found
        found = self._referenced[reference] = set()
        try:
            stack: list[Json] = [self.target(reference, reference).value]
        except OpenApiError:
            return found  # reported where it is used
        while stack:
            value = stack.pop()
            inner = value.get("$ref") if isinstance(value, dict) else None
            if isinstance(inner, str):
                found.add(inner)
            stack += children(value)
        return found


def text(node: Node, name: str) -> str:
    """Return a string member; an empty one if it is absent or of another type."""
    value = node.value.get(name)
    return value if isinstance(value, str) else ""


def flag(node: Node, name: str, default: bool = False) -> bool:
    """Return a boolean member. Raises: OpenApiError for another type."""
    value = node.value.get(name, default)
    if not isinstance(value, bool):
        raise OpenApiError(f"{name} must be true or false, not {value!r}", pointer=join(node.pointer, name))
    return value


def _check_depth(root: Object) -> None:
    """Raise OpenApiError for a document that is nested too deeply. Iterative, because recursion would fail for it.

    A mapping that contains itself, as a YAML alias can, is too deep as well.
    """
    level: list[Json] = [root]
    for _ in range(MAX_DEPTH):
        level = [child for value in level for child in children(value) if isinstance(child, dict | list)]
        if not level:
            return
        if len(level) > MAX_DOCUMENT_BYTES:
            break
    raise OpenApiError(f"the document is too large or nested too deeply: the limit is {MAX_DEPTH} levels")


def children(value: Json) -> Iterable[Json]:
    """Return the values of an object, or the items of a list."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
