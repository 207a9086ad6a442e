"""The members of `_meta` that MCP defines, and the data of its errors."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jackstay.types._body import Body, Maybe, MaybeJson, ProgressToken, RequestId
from jackstay.types._capabilities import ClientCapabilities
from jackstay.types._display import Implementation
from jackstay.types._messages import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_PROTOCOL_VERSION,
    META_SERVER_INFO,
    META_SUBSCRIPTION_ID,
    LoggingLevel,
)


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
