"""Parameters of an operation: how they are read from the document, and how their values are written to a request."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from jackstay.errors import Json
from jackstay.openapi import _styles as styles
from jackstay.openapi._document import Document, Node, flag, text
from jackstay.openapi._problems import OpenApiError, join, names_of
from jackstay.openapi._schemas import Place

Location: TypeAlias = Literal["path", "query", "header", "cookie"]
LOCATIONS: tuple[Location, ...] = ("path", "query", "header", "cookie")

# Header parameters that OpenAPI ignores ("Parameter Object"): other parts of the document describe them.
_IGNORED_HEADERS = frozenset(("accept", "content-type", "authorization"))
# Headers that belong to the connection or the message. No caller may set them.
_REFUSED_HEADERS = frozenset(
    [
        "connection",
        "content-length",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ]
)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_COOKIE_OCTETS = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*")  # RFC 6265, section 4.1.1


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter. `argument` is its name among the arguments of the tool.

    `content` is the media type of a parameter that is serialized by a media type instead of a style. A path parameter
    may contain slashes only if `allow_slashes`.
    """

    name: str
    argument: str
    location: Location
    is_required: bool
    style: str
    explode: bool
    allow_reserved: bool = False
    allow_slashes: bool = False
    content: str | None = None
    schema: Place
    description: str = ""
    pointer: str


class Written(msgspec.Struct):
    """The parts of a request that parameters write."""

    path: dict[str, str] = {}
    query: list[tuple[str, str]] = []
    headers: list[tuple[str, str]] = []
    cookies: list[tuple[str, str]] = []


class BadArgumentError(Exception):
    """A value cannot be sent. `argument` is the name of the argument; the message states why."""

    def __init__(self, argument: str, reason: str) -> None:
        super().__init__(f"{argument}: {reason}")


# --- reading ----------------------------------------------------------------------------------------------------------


def read_parameters(document: Document, item: Node, operation: Node) -> list[Parameter]:
    """Return the parameters of an operation; those of the path item are replaced by those of the operation.

    Raises: OpenApiError.
    """
    found: dict[tuple[str, str], Parameter] = {}
    for owner in (item, operation):
        for node in document.items(owner, "parameters"):
            parameter = _read(document, node)
            if parameter is not None:
                found[
                    parameter.location, parameter.name.lower() if parameter.location == "header" else parameter.name
                ] = parameter
    return list(found.values())


def _read(document: Document, node: Node) -> Parameter | None:
    name, location = node.value.get("name"), node.value.get("in")
    if not isinstance(name, str) or not name:
        raise OpenApiError("a parameter must have a name", pointer=node.pointer)
    if location not in LOCATIONS:
        message = f"parameter {name!r}: 'in' must be one of {names_of(LOCATIONS)}, not {location!r}"
        raise OpenApiError(message, pointer=join(node.pointer, "in"))
    is_required = flag(node, "required") or location == "path"
    if location == "header" and not _is_settable(name, node, is_required=is_required):
        return None
    if location == "cookie" and _TOKEN.fullmatch(name) is None:
        raise OpenApiError(f"{name[:100]!r} is not a valid name of a cookie", pointer=node.pointer)
    content, schema = _schema_of(document, node, name)
    style = node.value.get("style", styles.STYLES[location][0])
    if style not in styles.STYLES[location]:
        allowed = names_of(styles.STYLES[location])
        message = f"parameter {name!r}: the style of a {location} parameter must be one of {allowed}, not {style!r}"
        raise OpenApiError(message, pointer=join(node.pointer, "style"))
    assert isinstance(style, str)
    return Parameter(
        name=name,
        argument=name,
        location=location,
        is_required=is_required,
        style=style,
        # deepObject has no form without `explode`.
        explode=flag(node, "explode", style == "form") or style == "deepObject",
        allow_reserved=flag(node, "allowReserved"),
        content=content,
        schema=schema,
        description=text(node, "description"),
        pointer=node.pointer,
    )


def _is_settable(name: str, node: Node, *, is_required: bool) -> bool:
    if name.lower() in _IGNORED_HEADERS:
        return False
    if _TOKEN.fullmatch(name) is None:
        raise OpenApiError(f"{name[:100]!r} is not a valid name of a header", pointer=node.pointer)
    if name.lower() in _REFUSED_HEADERS:
        if is_required:
            raise OpenApiError(f"the header {name!r} cannot be a parameter: HTTP sets it", pointer=node.pointer)
        return False
    return True


def _schema_of(document: Document, node: Node, name: str) -> tuple[str | None, Place]:
    content = document.member(node, "content")
    if not content.value:
        return None, (node.value.get("schema", {}), join(node.pointer, "schema"))
    if len(content.value) != 1:
        raise OpenApiError(f"parameter {name!r}: content must have one media type", pointer=content.pointer)
    media_type = next(iter(content.value))
    if not is_json(media_type) and not media_type.startswith("text/"):
        raise OpenApiError(f"parameter {name!r}: {media_type[:100]!r} is not supported", pointer=content.pointer)
    media = document.member(content, media_type)
    return media_type, (media.value.get("schema", {}), join(media.pointer, "schema"))


def is_json(media_type: str) -> bool:
    """Return whether a media type is JSON: `application/json`, or one with the suffix `+json`."""
    plain = media_type.partition(";")[0].strip().lower()
    return plain in ("application/json", "text/json") or plain.endswith("+json")


# --- writing ----------------------------------------------------------------------------------------------------------


def write_parameters(parameters: Sequence[Parameter], arguments: dict[str, Json]) -> Written:
    """Serialize the arguments of a call. Raises: BadArgumentError."""
    written = Written()
    for parameter in parameters:
        value = arguments.get(parameter.argument)
        if value is None:
            if parameter.is_required:
                raise BadArgumentError(parameter.argument, "a value is required")
            continue
        try:
            _write(parameter, value, written)
        except styles.UnsuitableValueError as error:
            raise BadArgumentError(parameter.argument, str(error)) from error
    return written


def _write(parameter: Parameter, value: Json, written: Written) -> None:
    if parameter.content is not None:
        is_text = isinstance(value, str) and not is_json(parameter.content)
        value = value if is_text else msgspec.json.encode(value).decode()
    if parameter.location == "path":
        written.path[parameter.name] = _path(parameter, value)
    elif parameter.location == "query":
        encode = styles.encode_reserved if parameter.allow_reserved else styles.encode_component
        written.query += styles.query(parameter.name, value, parameter.style, parameter.explode, encode)
    elif parameter.location == "header":
        line = styles.simple(value, parameter.explode, styles.keep)
        written.headers.append((parameter.name, check_header(parameter.argument, line)))
    else:
        written.cookies += _cookies(parameter, value)


def _path(parameter: Parameter, value: Json) -> str:
    if not parameter.allow_slashes:
        # Many servers decode %2F before they route a request, so a slash could lead to another operation.
        for piece in _strings(value):
            if "/" in piece or "\\" in piece:
                raise BadArgumentError(parameter.argument, "a slash is not allowed in this part of the path")
    encode = _encode_segments if parameter.allow_slashes else styles.encode_component
    if parameter.style == "simple":
        piece = styles.simple(value, parameter.explode, encode)
    elif parameter.style == "label":
        piece = styles.label(value, parameter.explode, encode)
    else:
        piece = styles.matrix(styles.encode_component(parameter.name), value, parameter.explode, encode)
    if not piece or any(segment in (".", "..") for segment in piece.split("/")):
        raise BadArgumentError(parameter.argument, "an empty value, '.' and '..' are not allowed in a path")
    return piece


def _encode_segments(value: str) -> str:
    return "/".join(map(styles.encode_component, value.split("/")))


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield item


def check_header(argument: str, line: str) -> str:
    """Return the value of a header. Raises: BadArgumentError for characters that would end it (RFC 9110, 5.5)."""
    if any(character < " " and character != "\t" for character in line) or "\x7f" in line:
        raise BadArgumentError(argument, "control characters are not allowed in a header")
    try:
        line.encode("latin-1")
    except UnicodeEncodeError as error:
        raise BadArgumentError(argument, "only Latin-1 characters are allowed in a header") from error
    return line.strip(" \t")


def _cookies(parameter: Parameter, value: Json) -> Iterator[tuple[str, str]]:
    for name, item in styles.query(parameter.name, value, "form", parameter.explode, _encode_cookie):
        if _TOKEN.fullmatch(name) is None:
            raise BadArgumentError(parameter.argument, f"{name[:100]!r} is not a valid name of a cookie")
        yield name, item


def _encode_cookie(value: str) -> str:
    return value if _COOKIE_OCTETS.fullmatch(value) and "%" not in value else styles.encode_component(value)
