"""Create an MCP server from a catalogue: each module is a tool, its documentation a resource.

The server follows changes of the catalogue. All calls go to one router. A module that the server cannot list is skipped
with a reason.
"""

import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from apcore_mcp.adapters.annotations import AnnotationMapper
from apcore_mcp.adapters.descriptions import describe
from apcore_mcp.adapters.id_normalizer import APCORE_META_TOOL_PREFIX, ModuleIDNormalizer
from apcore_mcp.adapters.schema import SchemaConverter
from apcore_mcp.approval import CLIENT_CALL, ClientCall
from apcore_mcp.backends import is_registry
from apcore_mcp.catalogue import (
    Catalogue,
    Change,
    Entry,
    alias_of,
    display_of,
    listed_input_schema,
    listed_output_schema,
    runs_in_background,
)
from apcore_mcp.compat.calls import TaskCalls, to_result
from apcore_mcp.compat.components import FactoryMethods
from apcore_mcp.compat.results import FactoryTool, to_factory_tool
from apcore_mcp.options import check_name
from apcore_mcp.redaction import allow_redacted
from apcore_mcp.server.system import add_system_resource, is_readonly_system_module
from apcore_mcp.validation import ArgumentRules
from jackstay.errors import Json, JsonRpcError, UsageError
from jackstay.server import Context, Server
from jackstay.types import CallToolResult, Tool

if TYPE_CHECKING:
    from apcore import ModuleDescriptor, Registry  # type: ignore[import-untyped]  # apcore ships no types

    from apcore_mcp.server.router import ExecutionRouter

logger = logging.getLogger("apcore_mcp.server.factory")

# The JSON-RPC code for an unknown tool in every revision (MCP, server/tools, "Error Handling").
INVALID_PARAMS: Final = -32602

# Starts a module with these arguments in the background.
Submit: TypeAlias = Callable[[Entry, dict[str, Any], Context], Awaitable[CallToolResult]]

# The URI of the documentation of a module.
DOCUMENTATION: Final = "docs://{}"


# The tools in a page of the list. apcore-mcp has no pages, so its clients may not request a second one.
PAGE_SIZE: Final = 2000


class MCPServerFactory(FactoryMethods):
    """Creates servers and tools. The converters may be replaced by subclasses."""

    def __init__(
        self,
        schema_converter: SchemaConverter | None = None,
        annotation_mapper: AnnotationMapper | None = None,
        *,
        strict: bool = False,  # noqa: ARG002  # of apcore-mcp, where it has no effect either
        rich_description: bool = False,
    ) -> None:
        self.schema_converter = schema_converter or SchemaConverter()
        self.annotation_mapper = annotation_mapper or AnnotationMapper()
        # Descriptions as Markdown, with the schemas and examples.
        self.rich_description = rich_description

    def create_server(self, name: str = "apcore-mcp", version: str = "0.1.0", **options: Any) -> Server:
        """Return a server without tools. Clients are notified when tools are added. `options` are those of `Server`.

        Raises: ValueError for an empty name or version, or a name over 255 characters.
        """
        check_name(name)
        if not version:
            raise ValueError("version must not be empty")
        return Server(name, version=version, capabilities=("tools", "resources"), **{"page_size": PAGE_SIZE, **options})

    def build_tool(
        self,
        descriptor: "ModuleDescriptor",
        *,
        registry: "Registry | None" = None,  # noqa: ARG002  # of apcore-mcp
        strict: bool | None = None,  # noqa: ARG002  # of apcore-mcp, where it has no effect either
    ) -> FactoryTool:
        """Return the MCP tool of a module. Hints that the module does not declare are omitted, and so is the output
        schema of a module that runs in the background: an `AsyncTaskBridge` returns the id of its task.

        Raises: ValueError for an empty id, or one with the prefix of the tools that the server adds.
        """
        _check_prefix(descriptor.module_id)
        display = display_of(descriptor)
        name = alias_of(display) or ModuleIDNormalizer().shorten(descriptor.module_id)
        declared = descriptor.annotations
        is_task = runs_in_background(descriptor)
        output_schema = {} if is_task else listed_output_schema(self.schema_converter, descriptor)
        return FactoryTool(
            name=name,
            title=descriptor.name or None,
            description=describe(descriptor, display, is_rich=self.rich_description),
            input_schema=listed_input_schema(self.schema_converter, descriptor),
            output_schema=output_schema or None,
            annotations=None if declared is None else self.annotation_mapper.to_mcp_annotations(declared),
            meta=_meta(
                needs_approval=self.annotation_mapper.has_requires_approval(declared),
                is_streaming=getattr(declared, "streaming", None) is True,
            ),
        )

    def build_tools(
        self,
        registry: "Registry",
        tags: Sequence[str] | None = None,
        prefix: str | None = None,
        *,
        strict: bool | None = None,  # noqa: ARG002  # of apcore-mcp, where it has no effect either
    ) -> list[Tool]:
        """Return the MCP tools of the modules that match the filters. Modules without a description are skipped.

        Raises: ValueError for an id with the prefix of the tools that the server adds; apcore does not accept it.
        """
        for module_id in registry.list(tags=tags, prefix=prefix) if is_registry(registry) else ():
            _check_prefix(module_id)
        catalogue = self.build_catalogue(registry, tags, prefix)
        if not len(catalogue):
            logger.warning("No modules registered")
        entries = [entry for entry in catalogue.tools() if not is_readonly_system_module(entry.id)]
        return [_without_task_output(to_tool(entry), entry) for entry in entries]

    def build_catalogue(
        self, registry: "Registry", tags: Sequence[str] | None = None, prefix: str | None = None
    ) -> Catalogue:
        """Return the catalogue of the modules that match the filters, described with these converters."""
        catalogue = Catalogue(
            registry,
            tags=tags,
            prefix=prefix,
            schema_converter=self.schema_converter,
            annotation_mapper=self.annotation_mapper,
            rich_description=self.rich_description,
        )
        catalogue.refresh()
        return catalogue

    def register_handlers(
        self,
        server: Server,
        tools: Sequence[Tool],
        router: "ExecutionRouter",
        *,
        async_bridge: Any = None,
        approval_bridge: Any = None,
        descriptor_lookup: Callable[[str], Any] | None = None,
    ) -> None:
        """Add these tools to the server, handled by the router, and the tools of the bridges.

        `async_bridge` also runs the modules with `metadata.async`, whose descriptors `descriptor_lookup` returns.
        """
        tasks = None if async_bridge is None else TaskCalls(async_bridge, descriptor_lookup)
        added = [_make(server, tool, _by_name(router, tool, tasks)) for tool in map(to_factory_tool, tools)]
        if tasks is not None:
            added += [_make(server, tool, _by_name(router, tool, tasks)) for tool in async_bridge.build_meta_tools()]
        if approval_bridge is not None:
            added += [
                _make(server, tool, _by_bridge(approval_bridge, tool)) for tool in approval_bridge.build_meta_tools()
            ]
        server.catalogue.add_tools(*added, replace=True)

    def register_catalogue(self, server: Server, catalogue: Catalogue, router: "ExecutionRouter") -> "CatalogueSync":
        """Add the catalogue to the server and follow its changes until the result is stopped."""
        return CatalogueSync(server, catalogue, router)


class CatalogueSync:
    """Keeps the tools of a server equal to a catalogue. Changes may come from any thread; `stop()` ends it."""

    def __init__(self, server: Server, catalogue: Catalogue, router: "ExecutionRouter") -> None:
        self._server = server
        self._catalogue = catalogue
        self._router = router
        self._lock = threading.Lock()
        self._listed: set[str] = set()
        self._documents: set[str] = set()
        # The URIs of modules that are resources, by id.
        self._system: dict[str, tuple[str, ...]] = {}
        # Starts a module that runs in the background.
        self._submit: Submit | None = None
        server.catalogue.listed_name = self._listed_name
        self.stop: Callable[[], None] = catalogue.subscribe(self._follow)
        self._follow(Change(added=catalogue.tools()))

    def _listed_name(self, name: str) -> str:
        """Return the tool name of any valid name. A module outside the catalogue cannot be called."""
        entry = self._catalogue.find(name)
        if entry is None:
            raise JsonRpcError(INVALID_PARAMS, f"Module not found: {name[:200]}")
        return entry.name

    def _follow(self, change: Change) -> None:
        failed: list[tuple[Entry, str]] = []
        with self._lock:
            for entry in change.removed:
                self._undocument(entry)
                if entry.id in self._system:
                    self._server.remove_resource(*self._system.pop(entry.id))
            removed = {entry.name for entry in change.removed} - {entry.name for entry in change.added}
            removed &= self._listed
            if removed:
                self._server.remove_tool(*removed)
                self._listed -= removed
            added = []
            for entry in change.added:
                if is_readonly_system_module(entry.id):
                    self._system[entry.id] = add_system_resource(self._server, entry, self._router)
                    continue
                try:
                    added.append(self._make(entry))
                    self._document(entry)
                except UsageError as error:
                    failed.append((entry, error.message))
            if added:
                # All at once: one notification, and no quadratic copying.
                self._server.catalogue.add_tools(*added, replace=True)
                self._listed |= {tool.name for tool in added}
        for entry, reason in failed:
            self._catalogue.skip(entry.id, reason)

    def run_in_background_by(self, submit: "Submit") -> None:
        """Start modules that run in the background by a function: the result of a call is what it returns."""
        self._submit = submit
        rows = tuple(entry for entry in self._catalogue.tools() if runs_in_background(entry.descriptor))
        self._follow(Change(added=rows, removed=rows))

    def _make(self, entry: Entry) -> Any:
        """Return the tool of a module. One that runs in the background is a task, unless the server runs without."""
        tool, handler = to_tool(entry, redacts=self._router.redacts), _by_entry(self._router, entry)
        if runs_in_background(entry.descriptor):
            if self._submit is not None and not entry.needs_approval:
                # A task cannot request approval. The output schema describes the final result.
                submitted = msgspec.structs.replace(tool, output_schema=None)
                return _make(self._server, submitted, _in_background(self._submit, entry))
            try:
                return _make(self._server, tool, handler, task=True)
            except UsageError as error:
                if error.path != "task":
                    raise
                logger.info(
                    "%s runs in the foreground until the server is restarted: the tasks extension is not declared yet",
                    entry.id,
                )
        return _make(self._server, tool, handler)

    def _document(self, entry: Entry) -> None:
        uri = add_documentation(self._server, entry)
        if uri is not None:
            self._documents.add(uri)

    def _undocument(self, entry: Entry) -> None:
        uri = DOCUMENTATION.format(entry.id)
        if uri in self._documents:
            self._server.remove_resource(uri)
            self._documents.discard(uri)


def _check_prefix(module_id: str) -> None:
    if module_id.startswith(APCORE_META_TOOL_PREFIX):
        raise ValueError(f"module_id {module_id!r} has the reserved prefix {APCORE_META_TOOL_PREFIX!r}")


def add_documentation(server: Server, entry: Entry) -> str | None:
    """Add the documentation of a module as a resource. Return its URI, or None without documentation."""
    text = entry.documentation
    if not text:
        return None
    uri = DOCUMENTATION.format(entry.id)
    description = f"Documentation of {entry.id}"
    name = f"{entry.id} documentation"
    decorator = server.resource(uri, name=name, description=description, mime_type="text/plain", blocking=False)
    decorator(lambda: text)
    return uri


def to_tool(entry: Entry, *, redacts: bool = True) -> FactoryTool:
    """Return the MCP tool of an entry. `redacts`: sensitive values of its output are replaced by a string."""
    output_schema = entry.output_schema or None
    return FactoryTool(
        name=entry.name,
        title=entry.title,
        description=entry.description,
        input_schema=entry.input_schema,
        output_schema=allow_redacted(output_schema) if redacts else output_schema,
        annotations=entry.annotations,
        meta=_meta(needs_approval=entry.needs_approval, is_streaming=entry.is_streaming),
    )


def _without_task_output(tool: Tool, entry: Entry) -> Tool:
    """Return a tool as `build_tool` does: the result of a module that runs in the background is the id of its task."""
    return msgspec.structs.replace(tool, output_schema=None) if runs_in_background(entry.descriptor) else tool


def _meta(*, needs_approval: bool, is_streaming: bool) -> dict[str, Json] | None:
    """Return what a client can know before a call, as `_meta` of the tool."""
    facts = {"requiresApproval": needs_approval, "streaming": is_streaming}
    return {key: True for key, is_set in facts.items() if is_set} or None


def _in_background(submit: Submit, entry: Entry) -> Callable[..., object]:
    async def handle(arguments: dict[str, Any], context: Context) -> CallToolResult:
        return await submit(entry, arguments, context)

    return handle


def _by_entry(router: "ExecutionRouter", entry: Entry) -> Callable[..., object]:
    async def handle(arguments: dict[str, Any], context: Context) -> CallToolResult:
        return await router.call(entry, arguments, context)

    return handle


def _by_bridge(bridge: Any, tool: Tool) -> Callable[..., object]:
    async def handle(arguments: dict[str, Any], context: Context) -> CallToolResult:
        reset = CLIENT_CALL.set(ClientCall(context.principal))
        try:
            return to_result(await bridge.handle_meta_tool(tool.name, arguments), None)
        finally:
            CLIENT_CALL.reset(reset)

    return handle


def _by_name(router: "ExecutionRouter", tool: Tool, tasks: TaskCalls | None) -> Callable[..., object]:
    rules = None if tool.output_schema is None else ArgumentRules(dict(tool.output_schema))

    async def handle(arguments: dict[str, Any], context: Context) -> CallToolResult:
        started = None if tasks is None else await tasks.call(tool.name, arguments, context)
        if started is not None:
            return to_result(started, None)
        return to_result(await router.handle_call(tool.name, arguments, context), rules, context.version)

    return handle


def _make(server: Server, tool: Tool, handler: Callable[..., object], *, task: bool | None = None) -> Any:
    """Return a tool of the server. apcore, and optionally the router, validate the arguments. Raises: UsageError."""
    hints = tool.annotations
    options = {
        "title": tool.title,
        "description": tool.description,
        "read_only": None if hints is None else hints.read_only_hint,
        "destructive": None if hints is None else hints.destructive_hint,
        "idempotent": None if hints is None else hints.idempotent_hint,
        "open_world": None if hints is None else hints.open_world_hint,
        "meta": tool.meta,
        "task": task,
    }
    given: Any = {name: value for name, value in options.items() if value is not None}
    return server.tool_from_schema(
        tool.name,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        handler=handler,
        validate=False,
        **given,
    )


__all__ = [
    "DOCUMENTATION",
    "INVALID_PARAMS",
    "PAGE_SIZE",
    "CatalogueSync",
    "MCPServerFactory",
    "Submit",
    "add_documentation",
    "is_readonly_system_module",
    "to_tool",
]
