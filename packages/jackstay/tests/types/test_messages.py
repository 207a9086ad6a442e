"""The common parts of params and results, and `_meta`."""

import json

from jackstay.types import (
    CancelledNotificationParams,
    EmptyResult,
    LoggingMessageNotificationParams,
    NotificationParams,
    PaginatedRequestParams,
    PaginatedResult,
    ProgressNotificationParams,
    RelatedTaskMetadata,
    RequestParams,
    SetLevelRequestParams,
    TaskAugmentedRequestParams,
    TaskMetadata,
    decode,
    encode_json,
)

# Body, and its JSON.
WRITTEN = [
    (RequestParams(), {}),
    (RequestParams(meta={}), {"_meta": {}}),
    (NotificationParams(meta={"a/b": [None]}), {"_meta": {"a/b": [None]}}),
    (EmptyResult(), {}),
    (EmptyResult(result_type="complete"), {"resultType": "complete"}),
    (PaginatedRequestParams(""), {"cursor": ""}),
    (
        PaginatedResult(next_cursor="", ttl_ms=0, cache_scope="private"),
        {"nextCursor": "", "ttlMs": 0, "cacheScope": "private"},
    ),
    (TaskAugmentedRequestParams(task=TaskMetadata(1)), {"task": {"ttl": 1}}),
    (RelatedTaskMetadata("t"), {"taskId": "t"}),
    (CancelledNotificationParams(request_id=0, reason=""), {"requestId": 0, "reason": ""}),
    (CancelledNotificationParams(), {}),
    (ProgressNotificationParams("p", 0.5, 1, "m"), {"progressToken": "p", "progress": 0.5, "total": 1, "message": "m"}),
    (SetLevelRequestParams("debug"), {"level": "debug"}),
    (LoggingMessageNotificationParams("alert", {"a": 1}, "l"), {"level": "alert", "data": {"a": 1}, "logger": "l"}),
    (LoggingMessageNotificationParams("alert", None), {"level": "alert", "data": None}),
]


def test_bodies_round_trip() -> None:
    for body, members in WRITTEN:
        assert json.loads(encode_json(body)) == members
        assert decode(type(body), encode_json(body)) == body


def test_a_progress_token_is_an_integer_or_a_string_or_absent() -> None:
    for meta, token in [
        (None, None),
        ({}, None),
        ({"progressToken": "p"}, "p"),
        ({"progressToken": ""}, ""),
        ({"progressToken": 0}, 0),
        ({"progressToken": True}, None),
        ({"progressToken": 1.5}, None),
        ({"progressToken": None}, None),
        ({"progressToken": [1]}, None),
    ]:
        params = decode(RequestParams, json.dumps({} if meta is None else {"_meta": meta}).encode())
        assert params.progress_token == token
        assert params.raw == ({} if meta is None else {"_meta": meta})
