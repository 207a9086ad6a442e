"""The start of a connection: capabilities, the handshake until 2025-11-25, `server/discover` and subscriptions later.

Also the members of `_meta` that MCP defines, and the data of its errors. An empty object declares a capability, so
those without members are plain JSON objects here; the others are Structs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from jackstay.types._body import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_PROTOCOL_VERSION,
    META_SERVER_INFO,
    META_SUBSCRIPTION_ID,
    Body,
    JsonObject,
    LoggingLevel,
    Maybe,
    MaybeJson,
    ProgressToken,
    RequestId,
)
from jackstay.types._display import Implementation
from jackstay.types._messages import (
    CacheableResult,
    NotificationParams,
    RequestParams,
    Result,
    id_in,
)

# --- capabilities: in the handshake, and with every request since 2026-07-28 ---


class RootsCapability(Body, frozen=True):
    """The client has roots to list. `list_changed` until 2025-11-25."""

    list_changed: Maybe[bool] = None


class SamplingCapability(Body, frozen=True, kw_only=True):
    """The client supports sampling. Both members since 2025-11-25."""

    context: Maybe[JsonObject] = None
    tools: Maybe[JsonObject] = None


class ElicitationCapability(Body, frozen=True, kw_only=True):
    """The client supports elicitation; without members, by forms only (both members since 2025-11-25)."""

    form: Maybe[JsonObject] = None
    url: Maybe[JsonObject] = None


class TasksSamplingCapability(Body, frozen=True):
    """Which sampling requests may be run as tasks (2025-11-25 only)."""

    create_message: Maybe[JsonObject] = None


class TasksElicitationCapability(Body, frozen=True):
    """Which elicitation requests may be run as tasks (2025-11-25 only)."""

    create: Maybe[JsonObject] = None


class ClientTasksRequestsCapability(Body, frozen=True, kw_only=True):
    """Which requests to the client may be run as tasks (2025-11-25 only)."""

    sampling: Maybe[TasksSamplingCapability] = None
    elicitation: Maybe[TasksElicitationCapability] = None


class ClientTasksCapability(Body, frozen=True, kw_only=True):
    """The client supports tasks (2025-11-25 only)."""

    list: Maybe[JsonObject] = None
    cancel: Maybe[JsonObject] = None
    requests: Maybe[ClientTasksRequestsCapability] = None


class ClientCapabilities(Body, frozen=True, kw_only=True):
    """The capabilities of a client."""

    experimental: Maybe[Mapping[str, JsonObject]] = None
    roots: Maybe[RootsCapability] = None
    sampling: Maybe[SamplingCapability] = None
    # Since 2025-06-18.
    elicitation: Maybe[ElicitationCapability] = None
    # 2025-11-25 only.
    tasks: Maybe[ClientTasksCapability] = None
    # Since 2026-07-28: settings by the extension's identifier.
    extensions: Maybe[Mapping[str, JsonObject]] = None


class PromptsCapability(Body, frozen=True):
    """The server has prompts."""

    list_changed: Maybe[bool] = None


class ResourcesCapability(Body, frozen=True, kw_only=True):
    """The server has resources."""

    subscribe: Maybe[bool] = None
    list_changed: Maybe[bool] = None


class ToolsCapability(Body, frozen=True):
    """The server has tools."""

    list_changed: Maybe[bool] = None


class TasksToolsCapability(Body, frozen=True):
    """Which tool requests may be run as tasks (2025-11-25 only)."""

    call: Maybe[JsonObject] = None


class ServerTasksRequestsCapability(Body, frozen=True):
    """Which requests to the server may be run as tasks (2025-11-25 only)."""

    tools: Maybe[TasksToolsCapability] = None


class ServerTasksCapability(Body, frozen=True, kw_only=True):
    """The server supports tasks (2025-11-25 only)."""

    list: Maybe[JsonObject] = None
    cancel: Maybe[JsonObject] = None
    requests: Maybe[ServerTasksRequestsCapability] = None


class ServerCapabilities(Body, frozen=True, kw_only=True):
    """The capabilities of a server."""

    experimental: Maybe[Mapping[str, JsonObject]] = None
    logging: Maybe[JsonObject] = None
    prompts: Maybe[PromptsCapability] = None
    resources: Maybe[ResourcesCapability] = None
    tools: Maybe[ToolsCapability] = None
    # Since 2025-03-26.
    completions: Maybe[JsonObject] = None
    # 2025-11-25 only.
    tasks: Maybe[ServerTasksCapability] = None
    # Since 2026-07-28: settings by the extension's identifier.
    extensions: Maybe[Mapping[str, JsonObject]] = None


# --- the members of `_meta`, and the data of errors ---


class RequestMetaObject(Body, frozen=True, kw_only=True):
    """The `_meta` of a request. Everything but the progress token since 2026-07-28.

    In 2026-07-28 the version and the capabilities are required; they are optional here for earlier revisions.
    """

    protocol_version: Maybe[str] = msgspec.field(default=None, name=META_PROTOCOL_VERSION)
    client_capabilities: Maybe[ClientCapabilities] = msgspec.field(default=None, name=META_CLIENT_CAPABILITIES)
    client_info: Maybe[Implementation] = msgspec.field(default=None, name=META_CLIENT_INFO)
    log_level: Maybe[LoggingLevel] = msgspec.field(default=None, name=META_LOG_LEVEL)
    progress_token: Maybe[ProgressToken] = None


class NotificationMetaObject(Body, frozen=True, kw_only=True):
    """The `_meta` of a notification: the `subscriptions/listen` request that it belongs to (2026-07-28)."""

    subscription_id: Maybe[RequestId] = msgspec.field(default=None, name=META_SUBSCRIPTION_ID)


class ResultMetaObject(Body, frozen=True, kw_only=True):
    """The `_meta` of a result: the server's name (2026-07-28). For display only: it is not verified."""

    server_info: Maybe[Implementation] = msgspec.field(default=None, name=META_SERVER_INFO)


class Error(Body, frozen=True):
    """A JSON-RPC error inside a body: in a failed task of the 2026-07-28 extension."""

    code: int
    message: str
    data: MaybeJson = None


class UnsupportedProtocolVersionErrorData(Body, frozen=True):
    """The data of error -32022 (2026-07-28): retry with one of the `supported` revisions."""

    supported: Sequence[str]
    requested: str


class MissingRequiredClientCapabilityErrorData(Body, frozen=True):
    """The data of error -32021 (2026-07-28): the capabilities that the client must declare."""

    required_capabilities: ClientCapabilities


# --- requests and results ---


class InitializeRequestParams(RequestParams, frozen=True):
    """Params of `initialize` (until 2025-11-25)."""

    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


class InitializeResult(Result, frozen=True):
    """The result of `initialize` (until 2025-11-25). `protocol_version` is the server's choice."""

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: Maybe[str] = None


class DiscoverResult(CacheableResult, frozen=True):
    """The result of `server/discover` (2026-07-28)."""

    supported_versions: Sequence[str]
    capabilities: ServerCapabilities
    instructions: Maybe[str] = None


class SubscriptionFilter(Body, frozen=True, kw_only=True):
    """The changes that are requested or accepted (2026-07-28). Extensions add members."""

    tools_list_changed: Maybe[bool] = None
    prompts_list_changed: Maybe[bool] = None
    resources_list_changed: Maybe[bool] = None
    # URIs.
    resource_subscriptions: Maybe[Sequence[str]] = None
    # Of the tasks extension: tasks whose status is requested.
    task_ids: Maybe[Sequence[str]] = None


class SubscriptionsListenRequestParams(RequestParams, frozen=True):
    """Params of `subscriptions/listen` (2026-07-28)."""

    notifications: SubscriptionFilter


class SubscriptionsAcknowledgedNotificationParams(NotificationParams, frozen=True):
    """Params of `notifications/subscriptions/acknowledged` (2026-07-28): the accepted part."""

    notifications: SubscriptionFilter


class SubscriptionsListenResult(Result, frozen=True):
    """The result of `subscriptions/listen` (2026-07-28): the server ended the subscription."""

    @property
    def subscription_id(self) -> RequestId | None:
        """The id of the `subscriptions/listen` request, which is required in `_meta`."""
        return id_in(self.meta, META_SUBSCRIPTION_ID)


class SubscriptionsListenResultMetaObject(ResultMetaObject, frozen=True, kw_only=True):
    """The required `_meta` of `SubscriptionsListenResult` (2026-07-28)."""

    subscription_id: RequestId = msgspec.field(name=META_SUBSCRIPTION_ID)
