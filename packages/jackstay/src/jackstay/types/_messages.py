"""The common parts of params and results.

`meta` is an open map, decoded as JSON, so that nothing in it can fail a message. Parse it on demand with the Structs of
`_lifecycle`: `from_json(RequestMetaObject, params.meta)`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from jackstay.types._body import (
    META_PROGRESS_TOKEN,
    Body,
    BodyWithMeta,
    Json,
    JsonObject,
    LoggingLevel,
    Maybe,
    Number,
    OnWire,
    ProgressToken,
    RequestId,
)

# The kind of a result (2026-07-28): "complete", "input_required", or a value of an extension, such as "task".
ResultType: TypeAlias = str

# On the wire it is "complete" or absent; `decode_result` handles other values.
Complete: TypeAlias = OnWire[str, Literal["complete"]]


def id_in(meta: JsonObject | None, key: str) -> RequestId | None:
    """Return an integer or a string in `_meta`; None for anything else, since `_meta` must not fail a message."""
    value = None if meta is None else meta.get(key)
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


class RequestParams(BodyWithMeta, frozen=True):
    """Params of a request without members of its own: `ping`, `roots/list`, `server/discover`."""

    @property
    def progress_token(self) -> ProgressToken | None:
        """The progress token; None if progress is not requested or the token is invalid."""
        return id_in(self.meta, META_PROGRESS_TOKEN)


class TaskMetadata(Body, frozen=True):
    """Requests that a request is run as a task (2025-11-25 only; later the server decides)."""

    ttl: Maybe[int] = None


class RelatedTaskMetadata(Body, frozen=True):
    """Associates a message with a task, in `_meta` under META_RELATED_TASK (2025-11-25 only)."""

    task_id: str


class TaskAugmentedRequestParams(RequestParams, frozen=True, kw_only=True):
    """Params of a request that may be run as a task."""

    # 2025-11-25 only.
    task: Maybe[TaskMetadata] = None


class PaginatedRequestParams(RequestParams, frozen=True):
    """Params of every `*/list`: the cursor of the page; None: the first page."""

    cursor: Maybe[str] = None


class NotificationParams(BodyWithMeta, frozen=True):
    """Params of a notification without members of its own: `initialized` and the `list_changed` ones."""


class Result(BodyWithMeta, frozen=True, kw_only=True):
    """The base of all results. An absent `result_type` means "complete"."""

    # Since 2026-07-28, where it is required.
    result_type: Maybe[Complete] = None


class EmptyResult(Result, frozen=True):
    """A result without members of its own."""


class CacheableResult(Result, frozen=True, kw_only=True):
    """A result that may be cached for `ttl_ms` (2026-07-28, server/utilities/caching).

    Absent or negative: not at all.
    """

    # Both since 2026-07-28. `cache_scope` is "public" or "private"; open: treat anything else as private.
    ttl_ms: Maybe[int] = None
    cache_scope: Maybe[str] = None


class PaginatedResult(CacheableResult, frozen=True, kw_only=True):
    """One page of a list. Without `next_cursor` it is the last one; an empty string is a valid cursor.

    It inherits from `CacheableResult`, because a Struct has one base and every list except `tasks/list` is cacheable.
    """

    next_cursor: Maybe[str] = None


class CancelledNotificationParams(NotificationParams, frozen=True, kw_only=True):
    """Params of `notifications/cancelled`. `request_id` may be absent in 2025-11-25 only."""

    request_id: Maybe[RequestId] = None
    reason: Maybe[str] = None


class ProgressNotificationParams(NotificationParams, frozen=True):
    """Params of `notifications/progress`. `progress` only increases; `total` may be unknown."""

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
