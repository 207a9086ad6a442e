"""From a catalogue to an MCP server: each module a tool, its documentation a resource, kept so while the catalogue changes.

The server is jackstay's, which speaks both eras of MCP; here is only what it is told. Tools are added with the schemas that
the catalogue made, and all calls go to one router. A module that the server cannot list after all is skipped with its reason.

Must never know a transport. Above: `serving`, other projects. Below: `jackstay.server`, `catalogue`, `router`.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from apcore_mcp.adapters.annotations import AnnotationMapper
from apcore_mcp.adapters.id_normalizer import ModuleIDNormalizer
from apcore_mcp.adapters.schema import SchemaConverter
from apcore_mcp.catalogue import Catalogue, Change, Entry
from apcore_mcp.options import check_name
from jackstay.errors import JsonRpcError, UsageError
from jackstay.server import Context, Server
from jackstay.types import CallToolResult, Tool

if TYPE_CHECKING:
    from apcore import ModuleDescriptor, Registry  # type: ignore[import-untyped]  # apcore ships no types

    from apcore_mcp.server.router import ExecutionRouter

logger = logging.getLogger("apcore_mcp.server.factory")

# JSON-RPC: the name of a tool is a parameter, and a wrong one is told so in every revision (server/tools, "Error Handling").
INVALID_PARAMS: Final = -32602

# Where the documentation of a module is read.
DOCUMENTATION: Final = "docs://{}"


class MCPServerFactory:
    """Makes servers, and tools for them. Its two converters may be replaced by subclasses of theirs."""

    def __init__(
        self,
        schema_converter: SchemaConverter | None = None,
        annotation_mapper: AnnotationMapper | None = None,
    ) -> None:
        self.schema_converter = schema_converter or SchemaConverter()
        self.annotation_mapper = annotation_mapper or AnnotationMapper()

    def create_server(self, name: str = "apcore-mcp", version: str = "0.1.0") -> Server:
        """A server without tools, which will tell its clients when there are some.

        Raises: ValueError for an empty name or version, or a name over 255 characters.
        """
        check_name(name)
        if not version:
            raise ValueError("version must not be empty")
        return Server(name, version=version, offers=("tools", "resources"))

    def build_tool(self, descriptor: "ModuleDescriptor") -> Tool:
        """One module as MCP lists it. Hints that it did not declare are left out.

        Raises: ValueError for an empty id; KeyError for a reference that leads nowhere.
        """
        name = ModuleIDNormalizer().shorten(descriptor.module_id)
        declared = descriptor.annotations
        return Tool(
            name=name,
            title=descriptor.name or None,
            description=descriptor.description,
            input_schema=self.schema_converter.convert_input_schema(descriptor, keeps_cycles=True),
            output_schema=self.schema_converter.convert_output_schema(descriptor, keeps_cycles=True) or None,
            annotations=None if declared is None else self.annotation_mapper.to_mcp_annotations(declared),
        )

    def build_tools(
        self, registry: "Registry", tags: Sequence[str] | None = None, prefix: str | None = None
    ) -> list[Tool]:
        """Every module that passes the filters, as MCP lists it; one that cannot be described is left out, with a warning."""
        catalogue = self.build_catalogue(registry, tags, prefix)
        if not len(catalogue):
            logger.warning("No modules registered")
        return [to_tool(entry) for entry in catalogue.tools()]

    def build_catalogue(
        self, registry: "Registry", tags: Sequence[str] | None = None, prefix: str | None = None
    ) -> Catalogue:
        """The modules that pass the filters, described with these converters."""
        catalogue = Catalogue(
            registry,
            tags=tags,
            prefix=prefix,
            schema_converter=self.schema_converter,
            annotation_mapper=self.annotation_mapper,
        )
        catalogue.refresh()
        return catalogue

    def register_handlers(self, server: Server, tools: Sequence[Tool], router: "ExecutionRouter") -> None:
        """Offer these tools on the server, all handled by the router."""
        made = [_make(server, tool, _by_name(router, tool.name)) for tool in tools]
        server.catalogue.add_tools(*made, replace=True)

    def register_catalogue(self, server: Server, catalogue: Catalogue, router: "ExecutionRouter") -> "Offer":
        """Offer the whole catalogue, and keep to it while it changes, until the offer is ended."""
        return Offer(server, catalogue, router)


class Offer:
    """A catalogue as a server offers it. Changes come from any thread; `end()` stops following them."""

    def __init__(self, server: Server, catalogue: Catalogue, router: "ExecutionRouter") -> None:
        self._server = server
        self._catalogue = catalogue
        self._router = router
        self._lock = threading.Lock()
        self._listed: set[str] = set()
        self._documents: set[str] = set()
        server.catalogue.listed_name = self._listed_name
        self.end: Callable[[], None] = catalogue.subscribe(self._follow)
        self._follow(Change(added=catalogue.tools()))

    def _listed_name(self, name: str) -> str:
        """The one gate: what the catalogue does not have cannot be called, under whatever name."""
        entry = self._catalogue.find(name)
        if entry is None:
            raise JsonRpcError(INVALID_PARAMS, f"Module not found: {name[:200]}")
        return entry.name

    def _follow(self, change: Change) -> None:
        failed: list[tuple[Entry, str]] = []
        with self._lock:
            for entry in change.removed:
                self._undocument(entry)
            gone = {entry.name for entry in change.removed} - {entry.name for entry in change.added}
            gone &= self._listed
            if gone:
                self._server.remove_tool(*gone)
                self._listed -= gone
            made = []
            for entry in change.added:
                try:
                    made.append(_make(self._server, to_tool(entry), _by_entry(self._router, entry)))
                    self._document(entry)
                except UsageError as error:
                    failed.append((entry, error.message))
            if made:
                # All at once: clients are told of one change, and a thousand tools are not copied a thousand times.
                self._server.catalogue.add_tools(*made, replace=True)
                self._listed |= {tool.name for tool in made}
        for entry, reason in failed:
            self._catalogue.skip(entry.id, reason)

    def _document(self, entry: Entry) -> None:
        text = entry.documentation
        if text:
            uri = DOCUMENTATION.format(entry.id)
            about = f"Documentation of {entry.id}"
            offer = self._server.resource(
                uri, name=entry.id, description=about, mime_type="text/markdown", blocking=False
            )
            offer(lambda: text)
            self._documents.add(uri)

    def _undocument(self, entry: Entry) -> None:
        uri = DOCUMENTATION.format(entry.id)
        if uri in self._documents:
            self._server.remove_resource(uri)
            self._documents.discard(uri)


def to_tool(entry: Entry) -> Tool:
    """An entry as MCP lists it."""
    return Tool(
        name=entry.name,
        title=entry.title,
        description=entry.description,
        input_schema=entry.input_schema,
        output_schema=entry.output_schema or None,
        annotations=entry.annotations,
    )


def _by_entry(router: "ExecutionRouter", entry: Entry) -> Callable[..., object]:
    async def handle(arguments: dict[str, Any], context: Context) -> CallToolResult:
        return await router.call(entry, arguments, context)

    return handle


def _by_name(router: "ExecutionRouter", name: str) -> Callable[..., object]:
    async def handle(arguments: dict[str, Any], context: Context) -> CallToolResult:
        return await router.handle_call(name, arguments, context)

    return handle


def _make(server: Server, tool: Tool, handler: Callable[..., object]) -> Any:
    """What the server offers. Arguments are checked by apcore, and by the router if asked. Raises: UsageError."""
    hints = tool.annotations
    said = {
        "title": tool.title,
        "description": tool.description,
        "read_only": None if hints is None else hints.read_only_hint,
        "destructive": None if hints is None else hints.destructive_hint,
        "idempotent": None if hints is None else hints.idempotent_hint,
        "open_world": None if hints is None else hints.open_world_hint,
    }
    known: Any = {name: value for name, value in said.items() if value is not None}
    return server.ready_tool(
        tool.name,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        handler=handler,
        validate=False,
        **known,
    )


__all__ = ["DOCUMENTATION", "INVALID_PARAMS", "MCPServerFactory", "Offer", "to_tool"]
