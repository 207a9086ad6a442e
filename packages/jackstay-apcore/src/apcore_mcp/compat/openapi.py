"""Modules from an OpenAPI document: each operation is a module that sends a request.

Documents are read by `jackstay.openapi`, as for `Server.from_openapi()`. As modules, operations pass the ACL, the
approval gate and the middleware of apcore. Operations that write need approval.
"""

import logging
import re
import warnings
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apcore import (  # type: ignore[import-untyped]  # apcore ships no types
    Config,
    ModuleAnnotations,
    ModuleError,
    Registry,
)

from apcore_mcp.compat.constants import MODULE_ID_PATTERN
from jackstay.openapi import Api, ApiSettings, Endpoint, HttpSender, OpenApiWarning, load_document

if TYPE_CHECKING:
    from apcore_mcp.bridge import Bridge

logger = logging.getLogger("apcore_mcp.openapi")

# The keywords of `openapi_backend`.
BACKEND_OPTIONS: Final = frozenset(
    (
        "base_url",
        "prefix",
        "include",
        "exclude",
        "include_deprecated",
        "headers",
        "timeout",
        "auth_header_factory",
        "registry",
        "has_other_backend_source",
        "project_root",
        "acknowledge_unapproved_writes",
        "transform_operation",
        "transform_module",
        "derive_module_id",
    )
)

_URLS: Final = ("http://", "https://")
_READS: Final = ("GET", "HEAD", "OPTIONS")


# The settings whose operations were added, by registry.
_ADDED: Final[weakref.WeakKeyDictionary[Any, list[Any]]] = weakref.WeakKeyDictionary()


def openapi_backend(
    spec: Any,
    *,
    base_url: str | None = None,
    prefix: str | None = None,
    include: str | None = None,
    exclude: str | None = None,
    include_deprecated: bool = True,
    headers: Mapping[str, str] | None = None,
    timeout: float = 30.0,
    auth_header_factory: Callable[[], Mapping[str, str]] | None = None,
    registry: Registry | None = None,
    has_other_backend_source: bool = False,
    project_root: str | None = None,
    acknowledge_unapproved_writes: bool = False,  # noqa: ARG001  # operations that write need approval here
    transform_operation: object = None,
    transform_module: object = None,
    derive_module_id: Callable[[str, str, dict[str, Any]], str | None] | None = None,
) -> Registry:
    """Return a registry with a module for each operation of a document: a URL, a path, or the parsed document.

    `include` and `exclude` are regular expressions for ids without the prefix. `headers` are for fetching the document.

    Raises: ValueError; jackstay's OpenApiError for a document that cannot be used.
    """
    if transform_operation is not None or transform_module is not None:
        raise ValueError(
            "transform_operation and transform_module are not supported: change the document, or use include, exclude"
            " and derive_module_id"
        )
    if has_other_backend_source and not prefix:
        raise ValueError("prefix (mcp.openapi.prefix) is required for a document beside other modules")
    location = resolve_spec_location(spec, project_root=project_root)
    if location is None:
        raise ValueError("spec (mcp.openapi.spec) is required: a URL, a path, or a document")
    source = (
        _fetch(location, headers, timeout) if isinstance(location, str) and location.startswith(_URLS) else location
    )
    document = load_document(source)
    sender = HttpSender(_client(auth_header_factory))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OpenApiWarning)
        api = Api(document, sender, ApiSettings(base_url=base_url, timeout=timeout))
    for warning in caught:
        logger.warning("%s", warning.message)
    modules = {}
    for endpoint in api.endpoints:
        is_deprecated = bool(_node(document.root, endpoint).get("deprecated"))
        module_id = _module_id(document.root, endpoint, derive_module_id)
        if _is_wanted(module_id, include, exclude) and (include_deprecated or not is_deprecated):
            modules[f"{prefix}.{module_id}" if prefix else module_id] = OperationModule(api, endpoint)
    return _register(modules, Registry() if registry is None else registry)


def _register(modules: "dict[str, OperationModule]", registry: Registry) -> Registry:
    for module_id in [id for id in modules if MODULE_ID_PATTERN.fullmatch(id) is None]:
        logger.warning("OpenAPI operation skipped: module ID %r is not valid; use derive_module_id", module_id)
        del modules[module_id]
    if not modules:
        logger.warning("OpenAPI document yielded zero modules")
    taken = sorted(id for id in modules if registry.has(id))
    if taken:
        raise ValueError(f"modules with these ids exist already: {', '.join(taken)}; set mcp.openapi.prefix")
    for module_id, module in modules.items():
        registry.register(module_id, module)
    return registry


def build_openapi_backend_from_config(
    openapi_config: Any, *, registry: Registry | None = None, has_other_backend_source: bool = False
) -> Registry | None:
    """Return a registry for `mcp.openapi`, or None without it. Raises: ValueError."""
    if not openapi_config:
        return None
    if not isinstance(openapi_config, dict):
        raise ValueError(f"mcp.openapi must be a mapping, got {type(openapi_config).__name__}")
    if not openapi_config.get("spec"):
        raise ValueError("mcp.openapi.spec is required when mcp.openapi is configured")
    known = BACKEND_OPTIONS - {"registry", "has_other_backend_source", "auth_header_factory", "derive_module_id"}
    options = dict(openapi_config)
    spec = options.pop("spec")
    unknown = sorted(map(str, options.keys() - known))
    if unknown:
        raise ValueError(f"mcp.openapi has no key {unknown[0]!r}; its keys are spec, {', '.join(sorted(known))}")
    return openapi_backend(spec, registry=registry, has_other_backend_source=has_other_backend_source, **options)


def add_operations(openapi_config: Any) -> "Callable[[Bridge], None]":
    """Return what adds the operations of `mcp.openapi` to a bridge."""

    def add(bridge: "Bridge") -> None:
        add_operations_once(openapi_config, bridge.registry)
        bridge.catalogue.refresh()

    return add


def add_operations_once(openapi_config: Any, registry: Registry) -> None:
    """Add the operations of `mcp.openapi` to a registry, unless they were added before. Raises: ValueError."""
    known = _ADDED.setdefault(registry, [])
    if openapi_config not in known:
        build_openapi_backend_from_config(
            openapi_config, registry=registry, has_other_backend_source=bool(registry.list())
        )
        known.append(openapi_config)


def project_module_id(module_id: str) -> str | None:
    """Return an id in lower case with `_` for `-`, or None if that is not valid. Deprecated in apcore-mcp, too."""
    warnings.warn("project_module_id() is deprecated: ids of operations are valid", DeprecationWarning, stacklevel=2)
    projected = module_id.lower().replace("-", "_")
    return projected if MODULE_ID_PATTERN.fullmatch(projected) else None


def resolve_spec_location(spec: Any, *, project_root: str | None = None) -> Any:
    """Return a URL or a document unchanged, and a path as an absolute one; None for an empty value."""
    if spec is None or not isinstance(spec, str | Path):
        return spec
    text = str(spec)
    if not text.strip():
        logger.warning("mcp.openapi.spec is empty, so it is ignored")
        return None
    if text.startswith(_URLS):
        return text
    root = project_root or getattr(Config.load(validate=False), "project_root", None) or "."
    return str((Path(root) / text).resolve())


class OperationModule:
    """A module of apcore that calls an operation."""

    def __init__(self, api: Api, endpoint: Endpoint) -> None:
        operation = endpoint.operation
        self._api = api
        self._endpoint = endpoint
        self.name = operation.title or endpoint.name
        self.description = operation.description or operation.title or str(operation)
        self.input_schema = operation.input_schema
        self.output_schema = {} if operation.output is None else operation.output.schema
        self.tags = list(operation.tags)
        is_read = operation.method in _READS
        self.annotations = ModuleAnnotations(
            readonly=is_read,
            destructive=operation.method == "DELETE",
            idempotent=is_read or operation.method in ("PUT", "DELETE"),
            requires_approval=not is_read,
        )

    def __repr__(self) -> str:
        return f"<OperationModule {self._endpoint.operation}>"

    async def execute(self, inputs: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG002  # apcore's
        """Send the request. Raises: ModuleError with the status and the beginning of the body."""
        result = await self._api.call_tool(self._endpoint, inputs, {})
        if result.is_error:
            raise ModuleError(code="OPENAPI_CALL_FAILED", message=result.error_text)
        structured = result.structured_content
        return structured if isinstance(structured, dict) else {"result": result.text}


def _module_id(root: Mapping[str, Any], endpoint: Endpoint, derive: Callable[..., str | None] | None) -> str:
    """Return the id: the given one, the operation id, or path and method; in words with `_`, segments with dots."""
    operation = endpoint.operation
    given = None if derive is None else derive(operation.path, operation.method, dict(_node(root, endpoint)))
    if given is None:
        segments = [part.strip("{}") for part in operation.path.split("/") if part]
        given = operation.operation_id or ".".join((*segments, operation.method.lower()))
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", given)
    return ".".join(re.sub(r"[^a-z0-9]+", "_", part.lower()).strip("_") for part in words.split("."))


def _node(root: Mapping[str, Any], endpoint: Endpoint) -> Mapping[str, Any]:
    paths: Any = root.get("paths") or {}
    found = (paths.get(endpoint.operation.path) or {}).get(endpoint.operation.method.lower())
    return found if isinstance(found, dict) else {}


def _is_wanted(module_id: str, include: str | None, exclude: str | None) -> bool:
    is_included = include is None or re.search(include, module_id) is not None
    return is_included and (exclude is None or re.search(exclude, module_id) is None)


def _fetch(url: str, headers: Mapping[str, str] | None, timeout: float) -> bytes:
    import httpx  # noqa: PLC0415  # the extra `openapi`

    response = httpx.get(url, headers=dict(headers or {}), timeout=timeout, follow_redirects=True)
    response.raise_for_status()
    return response.content


def _client(auth_header_factory: Callable[[], Mapping[str, str]] | None) -> Any:
    if auth_header_factory is None:
        return None
    import httpx  # noqa: PLC0415  # the extra `openapi`

    async def add_headers(request: Any) -> None:
        request.headers.update(auth_header_factory())

    return httpx.AsyncClient(event_hooks={"request": [add_headers]})


__all__ = [
    "BACKEND_OPTIONS",
    "OperationModule",
    "add_operations",
    "add_operations_once",
    "build_openapi_backend_from_config",
    "openapi_backend",
    "project_module_id",
    "resolve_spec_location",
]
