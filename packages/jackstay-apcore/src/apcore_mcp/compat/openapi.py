"""Modules from an OpenAPI document: each operation is a module that sends a request.

Documents are read by `jackstay.openapi`, as for `Server.from_openapi()`. As modules, operations pass the ACL, the
approval gate and the middleware of apcore. Operations that write need approval.
"""

import logging
import re
import warnings
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apcore import (  # type: ignore[import-untyped]  # apcore ships no types
    Config,
    ModuleAnnotations,
    ModuleError,
    ModuleExample,
    Registry,
)

from apcore_mcp.compat.constants import MODULE_ID_PATTERN
from apcore_mcp.config import convert
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

# A part of an id between dots.
MODULE_ID_SEGMENT: Final = re.compile(r"^[a-z][a-z0-9_]*$")

_URLS: Final = ("http://", "https://")
_METHODS: Final = frozenset(("get", "put", "post", "delete", "options", "head", "patch", "trace"))
_READS: Final = ("GET", "HEAD", "OPTIONS")
_MAX_REDIRECTS: Final = 5
# The seconds that a call may take, as in apcore-mcp.
_CALL_TIMEOUT: Final = 60.0


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
    transform_operation: Callable[[str, str, dict[str, Any]], dict[str, Any] | None] | None = None,
    transform_module: "Callable[[OperationModule], OperationModule | None] | None" = None,
    derive_module_id: Callable[[str, str, dict[str, Any]], str | None] | None = None,
) -> Registry:
    """Return a registry with a module for each operation of a document: a URL, a path, or the parsed document.

    `include` and `exclude` are regular expressions for ids. `transform_operation` and `transform_module` return what is
    used instead, or None to leave it out; a module is changed with `dataclasses.replace`. `headers` and `timeout`
    are for fetching the document; a redirect to another origin is followed without the headers. Those of
    `auth_header_factory` are sent to one origin: that of `base_url`, or of the document's URL, or of the servers of a
    document that is not fetched.

    Raises: ValueError; OpenApiError for a document that cannot be used; FileNotFoundError; httpx.HTTPError for one that
    cannot be fetched.
    """
    if has_other_backend_source and not prefix:
        raise ValueError(
            "mcp.openapi.prefix is required (prefix=, --openapi-prefix) for a document beside other modules"
        )
    _check_filters("", {name: text for name, text in (("include", include), ("exclude", exclude)) if text is not None})
    location = resolve_spec_location(spec, project_root=project_root)
    if location is None:
        raise ValueError("spec (mcp.openapi.spec) is required: a URL, a path, or a document")
    source = load_document(_find(location, headers, timeout))
    document = load_document(_prepare(source.root, transform_operation))
    sender = HttpSender(_client(auth_header_factory))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OpenApiWarning)
        api = Api(document, sender, ApiSettings(base_url=base_url, timeout=_CALL_TIMEOUT))
    for warning in caught:
        logger.warning("%s", warning.message)
    found = []
    for endpoint in api.endpoints:
        node = _node(document.root, endpoint)
        if node.get("deprecated") and not include_deprecated:
            continue
        id = _derive_id(endpoint, node, derive_module_id)
        module = _make_module(_normalize(f"{prefix}.{id}" if prefix else id), api, endpoint, document.root)
        transformed = module if transform_module is None else transform_module(module)
        if transformed is not None:
            found.append(transformed)
    modules = _with_ids([module for module in found if _is_wanted(_normalize(module.module_id), include, exclude)])
    if auth_header_factory is not None and base_url is None:
        _check_origins([module.url for module in modules.values()], location)
    return _register(modules, Registry() if registry is None else registry)


def _with_ids(modules: "list[OperationModule]") -> "dict[str, OperationModule]":
    """Return modules by their ids, which become valid if they can; the second of two equal ones gets `_2`."""
    ids = [_normalize(module.module_id) for module in modules]
    found: dict[str, OperationModule] = {}
    for id, module in zip(ids, modules, strict=True):
        segment = next((part for part in id.split(".") if MODULE_ID_PATTERN.fullmatch(part) is None), None)
        if segment is not None:
            message = "OpenAPI operation skipped: module ID %r is not valid because of %r; use derive_module_id"
            logger.warning(message, id, segment)
            continue
        free, number = id, 1
        while free in found or (number > 1 and free in ids):
            number += 1
            free = f"{id}_{number}"
        if free != id:
            logger.warning("module ID renamed from %r to %r: another operation has it", id, free)
        display = {} if module.display is None else {"display": module.display}
        found[free] = replace(module, module_id=free, metadata={**module.metadata, **display})
    return found


def _register(modules: "dict[str, OperationModule]", registry: Registry) -> Registry:
    if not modules:
        logger.warning("OpenAPI document yielded zero modules")
    taken = sorted(id for id in modules if registry.has(id))
    if taken:
        raise ValueError(f"modules with these ids exist already: {', '.join(taken)}; set mcp.openapi.prefix")
    for module_id, module in modules.items():
        registry.register(module_id, module)
    return registry


def _check_filters(place: str, options: Mapping[str, Any]) -> None:
    """Raise ValueError for an empty filter. (An empty regular expression matches every id.)"""
    for key in ("include", "exclude"):
        if key in options and options[key] in (None, ""):
            raise ValueError(f"{place}{key} is empty and protects nothing: remove it, or set it")


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
    known -= {"transform_operation", "transform_module"}
    options = dict(openapi_config)
    spec = options.pop("spec")
    unknown = sorted(map(str, options.keys() - known))
    if unknown:
        raise ValueError(f"mcp.openapi has no key {unknown[0]!r}; its keys are spec, {', '.join(sorted(known))}")
    _check_filters("mcp.openapi.", options)
    options = convert("mcp.openapi", options, openapi_backend)
    return openapi_backend(spec, registry=registry, has_other_backend_source=has_other_backend_source, **options)


def add_operations(openapi_config: Any) -> "Callable[[Bridge], None]":
    """Return what adds the operations of `mcp.openapi` to a bridge."""

    def add(bridge: "Bridge") -> None:
        add_operations_once(openapi_config, bridge.registry)
        bridge.catalogue.refresh()

    return add


def add_operations_once(openapi_config: Any, registry: Registry, *, is_shared: bool = False) -> None:
    """Add the operations of `mcp.openapi` to a registry, unless they were added before. Raises: ValueError.

    `is_shared`: the program may add modules to the registry later.
    """
    known = _ADDED.setdefault(registry, [])
    if openapi_config not in known:
        build_openapi_backend_from_config(
            openapi_config, registry=registry, has_other_backend_source=is_shared or bool(registry.list())
        )
        known.append(openapi_config)


def project_module_id(module_id: str) -> str | None:
    """Return an id in lower case with `_` for `-`, or None if that is not valid. Deprecated in apcore-mcp, too."""
    warnings.warn(
        "project_module_id() is deprecated: ids are valid, as those of apcore-toolkit >= 0.13.0",
        DeprecationWarning,
        stacklevel=2,
    )
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


@dataclass(kw_only=True, eq=False, repr=False)
class OperationModule:
    """A module of apcore that calls an operation, with the fields that hooks for apcore-toolkit's modules use.

    `target` and `metadata` describe the request: to change them does not change it. `display` replaces
    `metadata["display"]`.
    """

    module_id: str
    name: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    tags: list[str]
    annotations: ModuleAnnotations
    target: str
    version: str
    documentation: str | None
    metadata: dict[str, Any]
    examples: list[ModuleExample] = field(default_factory=list)
    display: dict[str, Any] | None = None
    url: str
    _api: Api
    _endpoint: Endpoint

    def __repr__(self) -> str:
        return f"<OperationModule {self._endpoint.operation}>"

    async def execute(self, inputs: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG002  # apcore's
        """Send the request. Raises: ModuleError with the status and the beginning of the body."""
        result = await self._api.call_tool(self._endpoint, inputs, {})
        if result.is_error:
            raise ModuleError(code="OPENAPI_CALL_FAILED", message=result.error_text)
        structured = result.structured_content
        return structured if isinstance(structured, dict) else {"result": result.text}


def _make_module(module_id: str, api: Api, endpoint: Endpoint, root: Mapping[str, Any]) -> OperationModule:
    operation, node = endpoint.operation, _node(root, endpoint)
    is_read = operation.method in _READS
    info: Any = root.get("info")
    version = info.get("version") if isinstance(info, dict) else None
    documentation = node.get("description")
    openapi = {
        "spec_version": root.get("openapi"),
        "operation_id": operation.operation_id,
        "server_url": operation.server,
    }
    return OperationModule(
        module_id=module_id,
        name=operation.title or endpoint.name,
        description=operation.description or operation.title or str(operation),
        input_schema=operation.input_schema,
        output_schema={} if operation.output is None else operation.output.schema,
        tags=list(operation.tags),
        annotations=ModuleAnnotations(
            readonly=is_read,
            destructive=operation.method == "DELETE",
            idempotent=is_read or operation.method in ("PUT", "DELETE"),
            requires_approval=not is_read,
        ),
        target=f"{operation.method} {operation.path}",
        version=version if isinstance(version, str) and version else "1.0.0",
        documentation=documentation if isinstance(documentation, str) else None,
        metadata={
            "http_method": operation.method,
            "url_path": operation.path,
            "openapi": {name: value for name, value in openapi.items() if value},
        },
        url=endpoint.url,
        _api=api,
        _endpoint=endpoint,
    )


def _derive_id(endpoint: Endpoint, node: Mapping[str, Any], derive: Callable[..., str | None] | None) -> str:
    """Return the id: the given one, the operation id, or path and method."""
    operation = endpoint.operation
    given = None if derive is None else derive(operation.path, operation.method.lower(), dict(node))
    if given is not None:
        return given
    id = _normalize(operation.operation_id or "").rstrip("_")
    parts = [_normalize(re.sub(r"^\{(.*)\}$", r"\1", part)) for part in operation.path.split("/")]
    return id or ".".join((*(filter(None, parts) if any(parts) else ("root",)), operation.method.lower()))


def _normalize(id: str) -> str:
    """Return an id as apcore-toolkit does: in lower case, and in words with `_`. A valid one is returned unchanged."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", id)
    segments = re.sub(r"[^A-Za-z0-9_.]", "_", words).lower().split(".")
    return ".".join(filter(None, (segment.lstrip("_") for segment in segments)))


def _prepare(root: Mapping[str, Any], transform: Callable[..., dict[str, Any] | None] | None) -> dict[str, Any]:
    """Return the document with the changed operations; path variables without a parameter become strings."""
    paths: Any = root.get("paths")
    changed: dict[str, Any] = {}
    for path, item in paths.items() if isinstance(paths, dict) else ():
        changed[path] = item
        if not isinstance(item, dict):
            continue
        changed[path] = rows = dict(item)
        for key in [key for key, value in item.items() if key in _METHODS and isinstance(value, dict)]:
            operation = rows.pop(key) if transform is None else transform(path, key, rows.pop(key))
            if operation is not None:
                rows[key] = _with_variables(root, path, item, operation)
    return {**root, "paths": changed} if isinstance(paths, dict) else dict(root)


def _with_variables(root: Mapping[str, Any], path: str, item: dict[str, Any], operation: Any) -> Any:
    given = operation.get("parameters") or [] if isinstance(operation, dict) else None
    if not isinstance(given, list):
        return operation
    shared = item.get("parameters")
    known: Any = (root.get("components") or {}).get("parameters") or {}
    declared = set()
    for row in (*(shared if isinstance(shared, list) else ()), *given):
        reference = row.get("$ref") if isinstance(row, dict) else None
        found = known.get(str(reference).removeprefix("#/components/parameters/")) if reference else row
        if not isinstance(found, dict) or "$ref" in found:
            return operation  # the reader reports it
        if found.get("in") == "path":
            declared.add(found.get("name"))
    missing = [name for name in dict.fromkeys(re.findall(r"\{([^{}]+)\}", path)) if name not in declared]
    more = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in missing]
    return {**operation, "parameters": [*given, *more]} if more else operation


def _node(root: Mapping[str, Any], endpoint: Endpoint) -> Mapping[str, Any]:
    paths: Any = root.get("paths") or {}
    found = (paths.get(endpoint.operation.path) or {}).get(endpoint.operation.method.lower())
    return found if isinstance(found, dict) else {}


def _is_wanted(module_id: str, include: str | None, exclude: str | None) -> bool:
    try:
        is_included = include is None or re.search(include, module_id) is not None
        return is_included and (exclude is None or re.search(exclude, module_id) is None)
    except re.error as error:
        raise ValueError(f"include and exclude must be regular expressions: {error}") from error


def _find(location: Any, headers: Mapping[str, str] | None, timeout: float) -> Any:
    """Return a document of a URL as bytes, others unchanged. Raises: ValueError, httpx.HTTPError, FileNotFoundError."""
    if not isinstance(location, str):
        return location
    if location.startswith(_URLS):
        return _fetch(location, headers, timeout)
    Path(location).stat()  # a missing file is a FileNotFoundError, as in apcore-mcp
    return location


def _fetch(url: str, headers: Mapping[str, str] | None, timeout: float) -> bytes:
    """Return the document of a URL. No other origin receives the headers. Raises: ValueError, httpx.HTTPError."""
    import httpx  # noqa: PLC0415  # the extra `openapi`

    given, target = dict(headers or {}), url
    for _ in range(_MAX_REDIRECTS + 1):
        response = httpx.get(target, headers=given, timeout=timeout)
        if response.next_request is None:
            response.raise_for_status()
            return response.content
        target = str(response.next_request.url)
        if _origin(target) != _origin(url):
            given = {}
    raise ValueError(f"cannot fetch the document {url[:200]}: more than {_MAX_REDIRECTS} redirects")


def _check_origins(urls: list[str], location: Any) -> None:
    """Raise ValueError if requests would bring the headers of `auth_header_factory` to another origin."""
    is_fetched = isinstance(location, str) and location.startswith(_URLS)
    expected = location if is_fetched else next(iter(urls), "")
    other = next((url for url in urls if _origin(url) != _origin(expected)), None)
    if other is not None:
        raise ValueError(
            f"the headers of auth_header_factory would be sent to {other[:200]}, another origin than that of"
            f" {expected[:200]}: set base_url, or leave these operations out with exclude"
        )


def _origin(url: str) -> tuple[str, str, int | None]:
    import httpx  # noqa: PLC0415  # the extra `openapi`

    parsed = httpx.URL(url)
    return parsed.scheme, parsed.host, parsed.port


def _client(auth_header_factory: Callable[[], Mapping[str, str]] | None) -> Any:
    if auth_header_factory is None:
        return None
    import httpx  # noqa: PLC0415  # the extra `openapi`

    async def add_headers(request: Any) -> None:
        request.headers.update(auth_header_factory())

    return httpx.AsyncClient(timeout=_CALL_TIMEOUT, event_hooks={"request": [add_headers]})


__all__ = [
    "BACKEND_OPTIONS",
    "MODULE_ID_SEGMENT",
    "OperationModule",
    "add_operations",
    "add_operations_once",
    "build_openapi_backend_from_config",
    "openapi_backend",
    "project_module_id",
    "resolve_spec_location",
]
