# Invariant: any params have a complete `_meta`, an error with its key, or none; skipped frames have no version.
"""`_meta` of the stateless era, and the test for its version that avoids decoding most requests."""

import json

import msgspec

from jackstay.protocol.server._stateless import (
    META_CLIENT_CAPABILITIES,
    META_PROTOCOL_VERSION,
    InvalidMeta,
    RequestMeta,
    may_name_version,
    progress_token,
    read_meta,
)

META = {META_PROTOCOL_VERSION: "2026-07-28", META_CLIENT_CAPABILITIES: {}}
CORPUS = [
    json.dumps({"_meta": META}).encode(),
    json.dumps({"_meta": {**META, "progressToken": 1}}).encode(),
    json.dumps({"_meta": {META_PROTOCOL_VERSION: 1}}).encode(),
    json.dumps({"_meta": META}).replace("/", "\\/").encode(),
    json.dumps({"_meta": META}).replace("V", "\\u0056").encode(),
    b'{"_meta":5,"_meta":%b}' % json.dumps({**META, "progressToken": 1}).encode(),
]


def fuzz(data: bytes) -> None:
    params = msgspec.Raw(data)
    meta = read_meta(params)
    token = progress_token(params)
    if meta is None:
        return
    assert may_name_version(data)
    if isinstance(meta, InvalidMeta):
        assert meta.key
        assert meta.reason
    else:
        assert isinstance(meta, RequestMeta)
        assert bytes(meta.capabilities).startswith(b"{")
        assert token == meta.progress_token
