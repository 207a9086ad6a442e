"""The start of a connection: the handshake until 2025-11-25; `server/discover` and subscriptions since 2026-07-28."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jackstay.types._body import Body, Maybe, RequestId
from jackstay.types._capabilities import ClientCapabilities, ServerCapabilities
from jackstay.types._display import Implementation
from jackstay.types._messages import (
    META_SUBSCRIPTION_ID,
    CacheableResult,
    NotificationParams,
    RequestParams,
    Result,
    id_in,
)
from jackstay.types._metadata import ResultMetaObject


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
