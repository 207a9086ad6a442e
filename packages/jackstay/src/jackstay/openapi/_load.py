"""Reads a document: from a file, from JSON or YAML text, or from a mapping."""

import os
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.extras import install_command
from jackstay.openapi._document import MAX_DEPTH, MAX_DOCUMENT_BYTES, Document
from jackstay.openapi._problems import OpenApiError
from jackstay.types import DECODE_ERRORS

# What `Server.from_openapi()` accepts: the path of a file, JSON or YAML text, or the parsed document.
Source: TypeAlias = "str | bytes | os.PathLike[str] | Mapping[str, Any]"


def load_document(source: Source) -> Document:
    """Return the document of a path, of JSON or YAML text, or of a mapping. Nothing is fetched from the network.

    A string with a line break or that begins with `{` is text, every other one is a path.

    Raises: OpenApiError for a document that cannot be used; UsageError for a missing file or a missing extra.
    """
    if isinstance(source, Mapping):
        return Document(_plain(source))
    if isinstance(source, str) and source.startswith(("http://", "https://")):
        raise UsageError(
            f"from_openapi() does not fetch {source[:200]!r}: pass the text of the document", path="document"
        )
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{")):
        data = source.encode()
    elif isinstance(source, bytes):
        data = source
    else:
        try:
            data = _read(Path(source))
        except TypeError as error:
            message = f"from_openapi() expected a path, JSON or YAML text, or a mapping, got {type(source).__name__}"
            raise UsageError(message, path="document") from error
    if len(data) > MAX_DOCUMENT_BYTES:
        raise OpenApiError(f"the document is too large: {len(data)} bytes, the limit is {MAX_DOCUMENT_BYTES}")
    return Document(_parse(data))


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read the document {str(path)[:200]!r}: {error.strerror}", path="document") from error


def _plain(source: Mapping[str, Any]) -> dict[str, Json]:
    """Return a mapping as JSON, so that later changes of it have no effect."""
    try:
        encoded = msgspec.json.encode(source)
    except (TypeError, ValueError, RecursionError) as error:
        raise OpenApiError(f"the document has no JSON form: {error}") from error
    if len(encoded) > MAX_DOCUMENT_BYTES:
        raise OpenApiError(f"the document is too large: {len(encoded)} bytes, the limit is {MAX_DOCUMENT_BYTES}")
    copy: dict[str, Json] = msgspec.json.decode(encoded)
    return copy


def _parse(data: bytes) -> dict[str, Json]:
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        parsed: Any = msgspec.json.decode(data) if data.lstrip()[:1] == b"{" else _parse_yaml(data)
    except DECODE_ERRORS as error:
        raise OpenApiError(f"the document is not valid JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise OpenApiError(f"the document must be an object, not {type(parsed).__name__}")
    return parsed


def _parse_yaml(data: bytes) -> Any:
    try:
        import yaml  # noqa: PLC0415  # optional
    except ImportError as missing:
        advice = install_command("openapi")
        raise UsageError(f"a YAML document needs the extra 'openapi': {advice}", path="document") from missing

    class Loader(yaml.SafeLoader):
        """Keeps dates as strings, turns keys into strings, and limits aliases, which can repeat a value endlessly."""

        def __init__(self, stream: bytes) -> None:
            super().__init__(stream)
            self.depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise OpenApiError(f"the document is nested too deeply: the limit is {MAX_DEPTH} levels")
            try:
                return super().compose_node(parent, index)
            finally:
                self.depth -= 1

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
            found = super().construct_mapping(node, deep)
            return {key if isinstance(key, str) else _key(key): value for key, value in found.items()}

    Loader.yaml_implicit_resolvers = {
        first: [row for row in rows if row[0] != "tag:yaml.org,2002:timestamp"]
        for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        return msgspec.json.decode(_encode_bounded(yaml.load(data, Loader)))  # noqa: S506  # a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f" in line {mark.line + 1}"
        problem = getattr(error, "problem", None) or type(error).__name__
        raise OpenApiError(f"the document is not valid YAML{place}: {problem}") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise OpenApiError(f"the document has no JSON form: {error}") from error


def _key(key: object) -> str:
    # `200:` is an integer in YAML, and `on:` a boolean in YAML 1.1.
    return msgspec.json.encode(key).decode() if key is None or isinstance(key, bool) else str(key)


def _encode_bounded(value: object) -> bytes:
    """Encode as JSON. Raises: OpenApiError, if aliases make the document too large."""
    sizes: dict[int, int] = {}

    def size(part: object) -> int:
        if not isinstance(part, dict | list):
            return len(part) if isinstance(part, str) else 8
        known = sizes.get(id(part))
        if known is None:
            sizes[id(part)] = MAX_DOCUMENT_BYTES  # if it contains itself
            children = part.values() if isinstance(part, dict) else part
            known = sizes[id(part)] = 2 + sum(map(size, children))
        return known

    if size(value) > MAX_DOCUMENT_BYTES:
        raise OpenApiError(f"the aliases of the document expand to more than {MAX_DOCUMENT_BYTES} bytes")
    return msgspec.json.encode(value)
