"""Resources: listing, reading and updates. The params of `resources/read` are in `_input_required`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jackstay.types._body import BodyWithMeta, Maybe
from jackstay.types._content import Contents
from jackstay.types._display import Annotations, Icon
from jackstay.types._messages import CacheableResult, NotificationParams, PaginatedResult, RequestParams


class Resource(BodyWithMeta, frozen=True):
    """A resource that can be read. `size` is in bytes, before base64."""

    uri: str
    name: str
    # Since 2025-06-18, as is `meta`.
    title: Maybe[str] = None
    description: Maybe[str] = None
    mime_type: Maybe[str] = None
    annotations: Maybe[Annotations] = None
    size: Maybe[int] = None
    # Since 2025-11-25.
    icons: Maybe[Sequence[Icon]] = None


class ResourceTemplate(BodyWithMeta, frozen=True):
    """A family of resources: `uri_template` is an RFC 6570 template."""

    uri_template: str
    name: str
    # Since 2025-06-18, as is `meta`.
    title: Maybe[str] = None
    description: Maybe[str] = None
    mime_type: Maybe[str] = None
    annotations: Maybe[Annotations] = None
    # Since 2025-11-25.
    icons: Maybe[Sequence[Icon]] = None

    def expand(self, values: Mapping[str, Any]) -> str:
        """Return the URI for these values of the variables: strings, numbers, lists and mappings (RFC 6570).

        Raises: UsageError for an unknown variable or an invalid template.
        """
        from jackstay.types._uri_templates import expand_template  # noqa: PLC0415  # few clients need it

        return expand_template(self.uri_template, values)


class ListResourcesResult(PaginatedResult, frozen=True):
    """The result of `resources/list`."""

    resources: Sequence[Resource]


class ListResourceTemplatesResult(PaginatedResult, frozen=True):
    """The result of `resources/templates/list`."""

    resource_templates: Sequence[ResourceTemplate]


class ReadResourceResult(CacheableResult, frozen=True):
    """The result of `resources/read`: the resource, or its members if it is a collection."""

    contents: Sequence[Contents]


class ResourceRequestParams(RequestParams, frozen=True):
    """Params of the requests about one resource."""

    uri: str


class SubscribeRequestParams(ResourceRequestParams, frozen=True):
    """Params of `resources/subscribe` (until 2025-11-25)."""


class UnsubscribeRequestParams(ResourceRequestParams, frozen=True):
    """Params of `resources/unsubscribe` (until 2025-11-25)."""


class ResourceUpdatedNotificationParams(NotificationParams, frozen=True):
    """Params of `notifications/resources/updated`. `uri` may be a sub-resource of the subscribed one."""

    uri: str


def is_part_of(uri: str, whole: str) -> bool:
    """Return whether `uri` extends `whole` by a path segment, query or fragment.

    `file:///ab` does not extend `file:///a`.
    """
    return uri.startswith(whole) and (whole.endswith("/") or uri[len(whole) : len(whole) + 1] in ("/", "?", "#"))
