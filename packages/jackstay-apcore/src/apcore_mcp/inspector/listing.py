"""The tools for the page: rows for the list, and the details of one tool with its schemas."""

import hashlib
import json
from typing import TYPE_CHECKING, Any

import msgspec

from jackstay.protocol.http import LOCAL_HOSTS

if TYPE_CHECKING:
    from apcore_mcp.catalogue import Catalogue, Entry
    from jackstay.server.http import App


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A tool in the list. `revision` changes with the tool, so that the page knows when to read the details again."""

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


class ToolDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The details of one tool."""

    row: Row
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    documentation: str | None
    sensitive: tuple[tuple[str, ...], ...]


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The list: the server, its tools, and the skipped modules."""

    name: str
    version: str
    tools: tuple[Row, ...]
    skipped: dict[str, str]


def list_tools(name: str, version: str, catalogue: "Catalogue") -> Listing:
    """Return the current list."""
    rows = tuple(to_row(entry) for entry in catalogue.tools())
    return Listing(name=name, version=version, tools=rows, skipped=dict(catalogue.skipped()))


def to_row(entry: "Entry") -> Row:
    """Return the row of an entry."""
    hints = entry.annotations
    values = {
        "read-only": None if hints is None else hints.read_only_hint,
        "destructive": None if hints is None else hints.destructive_hint,
        "idempotent": None if hints is None else hints.idempotent_hint,
        "open world": None if hints is None else hints.open_world_hint,
    }
    known = {hint: value for hint, value in values.items() if value is not None}
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


def endpoint_url(app: "App", host: str) -> str:
    """Return the URL of the endpoint, by the name that the page used."""
    scheme = "http" if (host.rpartition(":")[0] or host) in LOCAL_HOSTS else "https"
    return f"{scheme}://{host}{app.options.path}"


def describe_start(app: "App", host: str) -> list[dict[str, str]]:
    """Return the texts of the first screen: how a client reaches the endpoint, by the name that the page used."""
    url = endpoint_url(app, host)
    config = {"mcpServers": {app.server.name: {"url": url}}}
    return [
        {"label": "Endpoint", "text": url},
        {"label": "Configuration of a client", "text": json.dumps(config, indent=2)},
        {"label": "From a shell", "text": f"jackstay tools {url}"},
    ]


def details_of(entry: "Entry") -> ToolDetails:
    """Return the details of an entry."""
    return ToolDetails(
        row=to_row(entry),
        input_schema=entry.input_schema,
        output_schema=entry.output_schema,
        documentation=entry.documentation,
        sensitive=entry.sensitive,
    )


__all__ = ["Listing", "Row", "ToolDetails", "describe_start", "details_of", "endpoint_url", "list_tools", "to_row"]
