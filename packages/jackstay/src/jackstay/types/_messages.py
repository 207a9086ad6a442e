"""What the params and results of every method have in common, and the members of `_meta` that MCP itself defines.

`meta` is an open map and stays one: any key may be in it, so it is decoded as JSON and nothing in it can fail a
message. The Structs for it are read from the map when they are wanted: `from_json(RequestMetaObject, params.meta)`.

Above: the files of the features. Below: `_body`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from jackstay.types._body import (
    Body,
    BodyWithMeta,
    Json,
    JsonObject,
    Maybe,
    MaybeJson,
    Number,
    ProgressToken,
    RequestId,
)
from jackstay.types._capabilities import ClientCapabilities
from jackstay.types._display import Implementation

# Keys of `_meta` that belong to the protocol (2026-07-28, basic/index; the last one 2025-11-25, basic/utilities/tasks).
META_PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
META_CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
META_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
META_PROGRESS_TOKEN = "progressToken"  # noqa: S105 (a key, not a secret)
META_RELATED_TASK = "io.modelcontextprotocol/related-task"

# How severe a log message is: RFC 5424's words, least severe first. Closed.
LoggingLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]

# How a result is to be read (2026-07-28): "complete", "input_required", or a word of an extension, such as "task".
ResultType: TypeAlias = str

if TYPE_CHECKING:
    Complete: TypeAlias = str
else:
    # On the wire a result says "complete" or nothing; `decode_result` looks at other words before it comes to this.
    Complete = Literal["complete"]


def id_in(meta: JsonObject | None, key: str) -> RequestId | None:
    """An integer or a string in `_meta`; None for anything else, since `_meta` fails nothing."""
    value = None if meta is None else meta.get(key)
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


class RequestParams(BodyWithMeta, frozen=True):
    """Params of a request that has none of its own: `ping`, `roots/list`, `server/discover`."""

    @property
    def progress_token(self) -> ProgressToken | None:
        """What progress of this request is reported under; None: no reports are wanted, or none can be."""
        return id_in(self.meta, META_PROGRESS_TOKEN)


class TaskMetadata(Body, frozen=True):
    """Asks for a request to be run as a task (2025-11-25 only; later the server alone decides)."""

    ttl: Maybe[int] = None


class RelatedTaskMetadata(Body, frozen=True):
    """Ties a message to a task, in `_meta` under META_RELATED_TASK (2025-11-25 only)."""

    task_id: str


class TaskAugmentedRequestParams(RequestParams, frozen=True, kw_only=True):
    """Params of a request that may be run as a task."""

    # 2025-11-25 only.
    task: Maybe[TaskMetadata] = None


class PaginatedRequestParams(RequestParams, frozen=True):
    """Params of every `*/list`: where to go on. Without a cursor: from the beginning."""

    cursor: Maybe[str] = None


class NotificationParams(BodyWithMeta, frozen=True):
    """Params of a notification that has none of its own: `initialized` and the `list_changed` ones."""


class Result(BodyWithMeta, frozen=True, kw_only=True):
    """What every result has. An absent `result_type` means "complete"."""

    # Since 2026-07-28, where every result must say it.
    result_type: Maybe[Complete] = None


class EmptyResult(Result, frozen=True):
    """Done, and nothing to say about it."""


class CacheableResult(Result, frozen=True, kw_only=True):
    """A result that may be kept for `ttl_ms` (2026-07-28, server/utilities/caching). Absent or negative: not at all."""

    # Both since 2026-07-28. `cache_scope` is "public" or "private"; open, and anything else is to be read as private.
    ttl_ms: Maybe[int] = None
    cache_scope: Maybe[str] = None


class PaginatedResult(CacheableResult, frozen=True, kw_only=True):
    """One page of a list. No `next_cursor`: the last one; an empty string is a cursor like any other.

    The schemas have pages and cacheable results side by side; here one stands on the other, because Structs have one
    base and every list but `tasks/list` is both.
    """

    next_cursor: Maybe[str] = None


class CancelledNotificationParams(NotificationParams, frozen=True, kw_only=True):
    """Params of `notifications/cancelled`. `request_id` may be absent in 2025-11-25 only (a task is cancelled by name)."""

    request_id: Maybe[RequestId] = None
    reason: Maybe[str] = None


class ProgressNotificationParams(NotificationParams, frozen=True):
    """Params of `notifications/progress`. `progress` only grows; `total` may be unknown."""

    progress_token: ProgressToken
    progress: Number
    total: Maybe[Number] = None
    # Since 2025-03-26.
    message: Maybe[str] = None


class SetLevelRequestParams(RequestParams, frozen=True):
    """Params of `logging/setLevel` (until 2025-11-25; then META_LOG_LEVEL with each request)."""

    level: LoggingLevel


class LoggingMessageNotificationParams(NotificationParams, frozen=True):
    """Params of `notifications/message`. `data` is any JSON, often a string."""

    level: LoggingLevel
    data: Json
    logger: Maybe[str] = None


class RequestMetaObject(Body, frozen=True, kw_only=True):
    """What `_meta` of a request says about its sender. Everything but the progress token since 2026-07-28.

    There the version and the capabilities must be sent; that they may be absent here is for the revisions before.
    """

    protocol_version: Maybe[str] = msgspec.field(default=None, name=META_PROTOCOL_VERSION)
    client_capabilities: Maybe[ClientCapabilities] = msgspec.field(
        default=None, name=META_CLIENT_CAPABILITIES
    )
    client_info: Maybe[Implementation] = msgspec.field(default=None, name=META_CLIENT_INFO)
    log_level: Maybe[LoggingLevel] = msgspec.field(default=None, name=META_LOG_LEVEL)
    progress_token: Maybe[ProgressToken] = None


class NotificationMetaObject(Body, frozen=True, kw_only=True):
    """What `_meta` of a notification says: the `subscriptions/listen` request it belongs to (2026-07-28)."""

    subscription_id: Maybe[RequestId] = msgspec.field(default=None, name=META_SUBSCRIPTION_ID)


class ResultMetaObject(Body, frozen=True, kw_only=True):
    """What `_meta` of a result says: who answered (2026-07-28). For display only; nobody has verified it."""

    server_info: Maybe[Implementation] = msgspec.field(default=None, name=META_SERVER_INFO)


class Error(Body, frozen=True):
    """A JSON-RPC error where it stands inside a body: in a failed task of the 2026-07-28 extension."""

    code: int
    message: str
    data: MaybeJson = None


class UnsupportedProtocolVersionErrorData(Body, frozen=True):
    """The data of -32022 (2026-07-28): what the server speaks. Choose one of `supported` and ask again."""

    supported: Sequence[str]
    requested: str


class MissingRequiredClientCapabilityErrorData(Body, frozen=True):
    """The data of -32021 (2026-07-28): what the client would have to declare."""

    required_capabilities: ClientCapabilities
