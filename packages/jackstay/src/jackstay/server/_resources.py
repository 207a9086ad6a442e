"""Resources and resource templates from functions. The variables of a template are the parameters of the function.

Strings are returned as text, bytes and media as base64, `ResourceContents` unchanged, and everything else as JSON.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec

from jackstay import types
from jackstay.errors import UsageError
from jackstay.protocol import REVISIONS, Setting, settings_of
from jackstay.server._content import MEDIA, encode_base64, encode_value
from jackstay.server._entries import Entry, EntryOptions, body_fields, entry_fields
from jackstay.server._functions import Function
from jackstay.server._uris import UriTemplate, check_uri
from jackstay.types import encode_json


class ResourceOptions(EntryOptions, frozen=True, kw_only=True):
    """The options of a resource.

    `ttl_ms` and `cache_scope` are the cache hints of 2026-07-28. `allow_traversal`: see `_uris`.
    """

    mime_type: str | None = None
    size: int | None = None
    annotations: types.Annotations | None = None
    ttl_ms: Annotated[int, Setting("How many milliseconds the contents may be cached.", low=0)] = 0
    cache_scope: Annotated[Literal["private", "public"], Setting("Who may cache them.")] = "private"
    allow_traversal: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, row in settings_of(type(self)).items():
            row.check(getattr(self, name))


class ResourceEntry(Entry, frozen=True, kw_only=True):
    """A registered resource, or a template if `template` is not None. The key is the URI or the URI template."""

    body: types.Resource | types.ResourceTemplate
    template: UriTemplate | None
    options: ResourceOptions

    def encode_result(self, uri: str, value: object, version: str) -> bytes:
        """Encode what the function returned for this URI.

        Raises:
            UsageError: for a value without a JSON form.
        """
        if not isinstance(value, types.ReadResourceResult):
            if isinstance(value, types.Result):
                return encode_json(value)
            parts = value if isinstance(value, list | tuple) and value else [value]
            # A list is one value, unless all of it is contents.
            contents: Any = parts if all(isinstance(part, types.ResourceContents) for part in parts) else [value]
            value = types.ReadResourceResult(contents=[self._to_contents(part, uri) for part in contents])
        ttl_ms, cache_scope = None, None
        if REVISIONS[version].has_result_type:
            ttl_ms = self.options.ttl_ms if value.ttl_ms is None else value.ttl_ms
            cache_scope = value.cache_scope or self.options.cache_scope
        return encode_json(msgspec.structs.replace(value, ttl_ms=ttl_ms, cache_scope=cache_scope))

    def _to_contents(self, value: object, uri: str) -> types.ResourceContents:
        if isinstance(value, types.ResourceContents):
            return value
        mime_type = self.options.mime_type
        if isinstance(value, MEDIA):
            mime_type, value = mime_type or value.mime_type, value.data
        if isinstance(value, str):
            return types.TextResourceContents(uri=uri, mime_type=mime_type or "text/plain", text=value)
        if isinstance(value, bytes | bytearray | memoryview):
            blob = encode_base64(bytes(value))
            return types.BlobResourceContents(uri=uri, mime_type=mime_type or "application/octet-stream", blob=blob)
        text = encode_value(value).decode()
        return types.TextResourceContents(uri=uri, mime_type=mime_type or "application/json", text=text)


def resource_from_function(
    uri: str, call: Callable[..., object], options: ResourceOptions | None = None
) -> ResourceEntry:
    """Create a resource from a function, or a template if `uri` has variables in braces.

    Raises:
        UsageError: if variables and parameters do not match, and as `UriTemplate` and `Function`.
    """
    options = options or ResourceOptions()
    function = Function(call)
    template = None
    if "{" in uri or "}" in uri:
        template = UriTemplate(uri, allow_traversal=options.allow_traversal)
    _match_parameters(function, () if template is None else template.variables, uri)
    members = body_fields(options.name or function.name, function, options)
    members |= {"mime_type": options.mime_type, "annotations": options.annotations}
    body: types.Resource | types.ResourceTemplate
    if template is None:
        body = types.Resource(uri=check_uri(uri, "uri"), size=options.size, **members)
    else:
        body = types.ResourceTemplate(uri_template=uri, **members)
    fields = entry_fields(uri, body, function, function.bind_strings, options)
    return ResourceEntry(template=template, options=options, **fields)


def _match_parameters(function: Function, variables: tuple[str, ...], uri: str) -> None:
    names = {parameter.name for parameter in function.parameters}
    for variable in variables:
        if variable not in names:
            message = f"{function.name} has no parameter for the variable {variable!r} of {uri!r}"
            raise UsageError(message, path=variable)
    properties: Any = function.input_schema.get("properties", {})
    for parameter in function.parameters:
        if parameter.name in variables and properties[parameter.name].get("type") in ("array", "object"):
            kind = "str or another type of a single value"
            message = f"{function.name}: {parameter.name!r} is a variable of {uri!r}, so its type must be {kind}"
            raise UsageError(message, path=parameter.name)
        if parameter.is_required and parameter.name not in variables:
            message = f"{function.name} requires the parameter {parameter.name!r}, which is not a variable of {uri!r}"
            raise UsageError(message, path=parameter.name)
