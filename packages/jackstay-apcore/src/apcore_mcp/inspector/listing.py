"""What the page is told of tools: rows for the list, and the whole of one when it is opened.

A thousand tools are listed as rows; the schemas, which are most of it, are read when somebody looks.

Pure. Above: `paths`. Below: `catalogue`.
"""

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from apcore_mcp.catalogue import Catalogue, Entry


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A tool in the list. `revision` changes whenever anything of the tool does, so that the page knows to read it again."""

    name: str
    id: str
    title: str | None
    description: str
    tags: tuple[str, ...]
    version: str
    is_streaming: bool
    needs_approval: bool
    hints: dict[str, bool]
    revision: str


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """All of one tool."""

    row: Row
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    documentation: str | None
    sensitive: tuple[tuple[str, ...], ...]


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The list: the server, its tools, and what it could not offer."""

    name: str
    version: str
    tools: tuple[Row, ...]
    skipped: dict[str, str]


def list_tools(name: str, version: str, catalogue: "Catalogue") -> Listing:
    """Everything that the catalogue offers now."""
    rows = tuple(row_of(entry) for entry in catalogue.tools())
    return Listing(name=name, version=version, tools=rows, skipped=dict(catalogue.skipped()))


def row_of(entry: "Entry") -> Row:
    """An entry in the list."""
    hints = entry.annotations
    said = {
        "read-only": None if hints is None else hints.read_only_hint,
        "destructive": None if hints is None else hints.destructive_hint,
        "idempotent": None if hints is None else hints.idempotent_hint,
        "open world": None if hints is None else hints.open_world_hint,
    }
    known = {hint: value for hint, value in said.items() if value is not None}
    text = msgspec.json.encode(
        (entry.title, entry.description, entry.documentation, entry.input_schema, entry.output_schema, known),
        enc_hook=str,
    )
    return Row(
        name=entry.name,
        id=entry.id,
        title=entry.title,
        description=entry.description,
        tags=entry.tags,
        version=entry.version,
        is_streaming=entry.is_streaming,
        needs_approval=entry.needs_approval,
        hints=known,
        revision=hashlib.sha256(text).hexdigest()[:16],
    )


def whole_of(entry: "Entry") -> Whole:
    """All of an entry."""
    return Whole(
        row=row_of(entry),
        input_schema=entry.input_schema,
        output_schema=entry.output_schema,
        documentation=entry.documentation,
        sensitive=entry.sensitive,
    )


__all__ = ["Listing", "Row", "Whole", "list_tools", "row_of", "whole_of"]
