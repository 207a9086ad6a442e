"""Request bodies: which media type is chosen, which argument it becomes, and how a value is encoded. No I/O."""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias
from urllib.parse import quote_plus, unquote

import msgspec

from jackstay.errors import Json
from jackstay.openapi import _styles as styles
from jackstay.openapi._document import Document, Node, Object, flag, text
from jackstay.openapi._parameters import BadArgumentError, is_json
from jackstay.openapi._problems import OpenApiError, join, names_of
from jackstay.openapi._schemas import Place

Kind: TypeAlias = Literal["json", "form", "multipart", "text", "binary"]

_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
_OCTETS = "application/octet-stream"
# Media types that are sent as the text that the caller wrote.
_TEXTS = ("application/xml", "application/yaml", "application/x-yaml", "application/x-ndjson", "application/graphql")
_ORDER: tuple[Kind, ...] = ("json", "form", "multipart", "text", "binary")

# The argument for a file: its content as text or as base64.
FILE_SCHEMA: Object = {
    "type": "object",
    "description": "A file: set either text or base64.",
    "properties": {
        "text": {"type": "string", "description": "The content, if it is text."},
        "base64": {"type": "string", "contentEncoding": "base64", "description": "The content in base64."},
        "filename": {"type": "string"},
        "contentType": {"type": "string", "description": "The media type of the content."},
    },
    "additionalProperties": False,
}


class Encoding(msgspec.Struct, frozen=True, kw_only=True):
    """How one property of a form is encoded. `style` is None if the media type of the property decides."""

    style: str | None = None
    explode: bool = True
    allow_reserved: bool = False
    content_type: str = ""


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an operation. `files` are the properties of a multipart body that are files."""

    media_type: str
    kind: Kind
    is_required: bool
    schema: Place
    # The properties of a form and their schemas; empty if the schema has no plain list of properties.
    properties: Mapping[str, Place] = {}
    required: tuple[str, ...] = ()
    files: frozenset[str] = frozenset()
    file_lists: frozenset[str] = frozenset()
    encodings: Mapping[str, Encoding] = {}
    description: str = ""
    argument: str = "body"


# --- reading ----------------------------------------------------------------------------------------------------------


def read_body(document: Document, operation: Node) -> Body | None:
    """Return the body of an operation, in the first media type that is supported; None if it has none.

    Raises: OpenApiError.
    """
    node = document.member(operation, "requestBody")
    content = document.member(node, "content")
    if not node.value:
        return None
    kinds = {media_type: kind for media_type in content.value if (kind := _kind_of(media_type)) is not None}
    if not kinds:
        found = names_of(content.value) or "no media type"
        raise OpenApiError(f"the body has no supported media type: {found}", pointer=content.pointer)
    media_type = min(kinds, key=lambda name: (_ORDER.index(kinds[name]), "/json" not in name))
    kind = kinds[media_type]
    media = document.member(content, media_type)
    body = Body(
        media_type=media_type,
        kind=kind,
        is_required=flag(node, "required"),
        schema=(media.value.get("schema", {}), join(media.pointer, "schema")),
        description=text(node, "description"),
    )
    return _read_form(document, media, body) if kind in ("form", "multipart") else body


def _kind_of(media_type: str) -> Kind | None:
    plain = media_type.partition(";")[0].strip().lower()
    if is_json(media_type) or plain == "*/*":
        return "json"
    if plain == _FORM:
        return "form"
    if plain == _MULTIPART:
        return "multipart"
    if plain.startswith("text/") or plain.endswith("+xml") or plain in _TEXTS:
        return "text"
    return None if plain.startswith("multipart/") or "/" not in plain else "binary"


def _read_form(document: Document, media: Node, body: Body) -> Body:
    properties: dict[str, Place] = {}
    required: dict[str, None] = {}
    schema = document.member(media, "schema")
    if not _collect(document, schema, properties, required, 0):
        properties.clear()
    encodings = {name: _read_encoding(node) for name, node in document.members(document.member(media, "encoding"))}
    if body.kind == "multipart" and document.is_30:  # only 3.1 has styles for the parts ("Encoding Object")
        encodings = {name: Encoding(content_type=row.content_type) for name, row in encodings.items()}
    files = {name for name, place in properties.items() if _is_file(document, place)}
    lists = {name for name, place in properties.items() if _is_file(document, _items_of(document, place))}
    if body.kind == "form":
        files = lists = set()
    return msgspec.structs.replace(
        body,
        properties=properties,
        required=tuple(required),
        files=frozenset(files),
        file_lists=frozenset(lists),
        encodings=encodings,
    )


def _collect(
    document: Document, schema: Node, properties: dict[str, Place], required: dict[str, None], depth: int
) -> bool:
    """Collect the properties of a schema and of its `allOf`. Returns False if there are alternatives."""
    if depth > 16 or schema.value.keys() & {"anyOf", "oneOf", "not", "if"}:
        return False
    for part in document.items(schema, "allOf"):
        if not _collect(document, part, properties, required, depth + 1):
            return False
    found = schema.value.get("properties", {})
    if not isinstance(found, dict):
        raise OpenApiError("properties must be an object with schemas", pointer=join(schema.pointer, "properties"))
    properties |= {name: (value, join(schema.pointer, "properties", name)) for name, value in found.items()}
    names = schema.value.get("required", [])
    required |= dict.fromkeys(str(name) for name in (names if isinstance(names, list) else ()))
    return True


def _read_encoding(node: Node) -> Encoding:
    style = node.value.get("style")
    if style is not None and style not in styles.STYLES["query"]:
        allowed = names_of(styles.STYLES["query"])
        raise OpenApiError(f"style must be one of {allowed}, not {style!r}", pointer=join(node.pointer, "style"))
    content_type = text(node, "contentType")
    if re.search(r"[^\x20-\x7e]", content_type):
        place = join(node.pointer, "contentType")
        raise OpenApiError(f"{content_type[:100]!r} is not a media type", pointer=place)
    chosen = style if isinstance(style, str) else None
    if chosen is None and ("explode" in node.value or "allowReserved" in node.value):
        chosen = "form"
    return Encoding(
        style=chosen,
        explode=flag(node, "explode", chosen in (None, "form")) or chosen == "deepObject",
        allow_reserved=flag(node, "allowReserved"),
        content_type=content_type,
    )


def _resolved(document: Document, place: Place) -> Object:
    value, pointer = place
    return document.resolve(Node(value, pointer)).value if isinstance(value, dict) else {}


def _items_of(document: Document, place: Place) -> Place:
    return _resolved(document, place).get("items"), join(place[1], "items")


def _is_file(document: Document, place: Place) -> bool:
    """Return whether a schema is that of a file: `format: binary` in 3.0, `contentMediaType` in 3.1."""
    schema = _resolved(document, place)
    options = [option for name in ("anyOf", "oneOf") for option in _options(schema, name)]
    if options:  # an optional file is often `anyOf` with null
        return any(_is_file(document, (option, place[1])) for option in options)
    if schema.get("format") == "binary":
        return True
    media_type = schema.get("contentMediaType")
    return isinstance(media_type, str) and "contentEncoding" not in schema and not is_json(media_type)


def _options(schema: Object, name: str) -> list[Json]:
    options = schema.get(name)
    return options if isinstance(options, list) else []


# --- the argument -----------------------------------------------------------------------------------------------------


def body_places(body: Body) -> dict[str, Place]:
    """Return the schemas that must be translated for the argument of a body."""
    if body.kind == "binary":
        return {}
    if not body.properties:
        return {"": body.schema}
    files = body.files | body.file_lists
    return {name: place for name, place in body.properties.items() if name not in files}


def body_schema(body: Body, schemas: Mapping[str, Json]) -> Json:
    """Return the schema of the argument. `schemas` are those of `body_places()`, translated."""
    if body.kind == "binary":
        return dict(FILE_SCHEMA)
    if not body.properties:
        schema = schemas[""]
        return {"type": "string"} if body.kind == "text" and not schema else schema
    properties: Object = {}
    for name in body.properties:
        if name in body.files:
            properties[name] = dict(FILE_SCHEMA)
        elif name in body.file_lists:
            properties[name] = {"type": "array", "items": dict(FILE_SCHEMA)}
        else:
            properties[name] = schemas[name]
    required: list[Json] = [name for name in body.required if name in properties]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


# --- encoding ---------------------------------------------------------------------------------------------------------


def encode_body(body: Body, value: Json) -> tuple[str, bytes]:
    """Return the `Content-Type` and the encoded body. Raises: BadArgumentError."""
    try:
        if body.kind == "json":
            media_type = "application/json" if "*" in body.media_type else body.media_type
            return media_type, msgspec.json.encode(value)
        if body.kind == "text":
            text_value = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            plain = body.media_type if "*" not in body.media_type else "text/plain"
            return (plain if "charset" in plain else f"{plain}; charset=utf-8"), text_value.encode()
        if body.kind == "binary":
            file = _read_file(body.argument, value)
            return (file.content_type or _OCTETS if "*" in body.media_type else body.media_type), file.content
        if not isinstance(value, dict):
            raise BadArgumentError(body.argument, "an object is required")
        if body.kind == "form":
            return body.media_type, "&".join(f"{name}={item}" for name, item in _form(body, value)).encode()
        return _multipart(list(_parts(body, value)))
    except styles.UnsuitableValueError as error:
        raise BadArgumentError(body.argument, str(error)) from error


def _form(body: Body, value: Object) -> Iterator[tuple[str, str]]:
    for name, item in value.items():
        encoding = body.encodings.get(name, Encoding())
        if encoding.style is not None:
            encode = styles.encode_reserved if encoding.allow_reserved else styles.encode_component
            yield from styles.query(name, item, encoding.style, encoding.explode, encode)
            continue
        for part in item if isinstance(item, list) else [item]:
            if part is not None:
                yield quote_plus(name), quote_plus(_text_of(part, encoding.content_type))


def _text_of(value: Json, content_type: str = "") -> str:
    """Return a property of a form: objects are JSON ("Encoding Object", `contentType`)."""
    if isinstance(value, dict | list) or is_json(content_type):
        return msgspec.json.encode(value).decode()
    return styles.primitive(value)


class _File(msgspec.Struct, frozen=True):
    content: bytes
    filename: str
    content_type: str


class _Part(msgspec.Struct, frozen=True):
    name: str
    content: bytes
    filename: str | None
    content_type: str


def _read_file(argument: str, value: Json) -> _File:
    if not isinstance(value, dict) or ("text" in value) == ("base64" in value):
        raise BadArgumentError(argument, "a file must be an object with either 'text' or 'base64'")
    content = value.get("text", value.get("base64"))
    filename, content_type = value.get("filename", ""), value.get("contentType", "")
    if not isinstance(content, str) or not isinstance(filename, str) or not isinstance(content_type, str):
        raise BadArgumentError(argument, "the members of a file must be strings")
    if re.search(r"[^\x20-\x7e]", content_type):
        raise BadArgumentError(argument, f"contentType {content_type[:100]!r} is not a media type")
    if "text" in value:
        return _File(content.encode(), filename, content_type or "text/plain; charset=utf-8")
    try:
        return _File(base64.b64decode(content, validate=True), filename, content_type)
    except (binascii.Error, ValueError) as error:
        raise BadArgumentError(argument, f"'base64' is invalid: {error}") from error


def _parts(body: Body, value: Object) -> Iterator[_Part]:
    for name, item in value.items():
        encoding = body.encodings.get(name, Encoding())
        # Several media types or a wildcard are a choice for the sender; the part then has the default.
        fixed = "" if "," in encoding.content_type or "*" in encoding.content_type else encoding.content_type
        if encoding.style is not None:
            for pair in styles.query(name, item, encoding.style, encoding.explode, styles.encode_component):
                key, content = map(unquote, pair)  # a part is not percent-encoded
                yield _Part(key, content.encode(), None, "")
            continue
        for part in item if isinstance(item, list) else [item]:
            if part is None:
                continue
            if name in body.files or name in body.file_lists:
                file = _read_file(f"{body.argument}.{name}", part)
                yield _Part(name, file.content, file.filename or name, fixed or file.content_type or _OCTETS)
            else:
                default = "application/json" if isinstance(part, dict | list) else ""
                yield _Part(name, _text_of(part, fixed).encode(), None, fixed or default)


def _multipart(parts: list[_Part]) -> tuple[str, bytes]:
    """Return a body of RFC 7578. The boundary is a hash of the content, so that equal requests have equal bytes."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d:%d:" % (len(part.name), len(part.content)) + part.content)
    boundary = f"jackstay-{digest.hexdigest()[:48]}"
    while any(boundary.encode() in part.content for part in parts):
        digest.update(b"again")
        boundary = f"jackstay-{digest.hexdigest()[:48]}"
    lines: list[bytes] = []
    for part in parts:
        disposition = f'form-data; name="{_quoted(part.name)}"'
        if part.filename is not None:
            disposition += f'; filename="{_quoted(part.filename)}"'
        head = f"--{boundary}\r\nContent-Disposition: {disposition}\r\n"
        if part.content_type:
            head += f"Content-Type: {part.content_type}\r\n"
        lines.append(head.encode() + b"\r\n" + part.content + b"\r\n")
    return f"{_MULTIPART}; boundary={boundary}", b"".join(lines) + f"--{boundary}--\r\n".encode()


def _quoted(value: str) -> str:
    """Escape a name for a `Content-Disposition` as browsers do (HTML, "multipart/form-data")."""
    return value.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22")
