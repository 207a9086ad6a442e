"""The five revisions of MCP as rows: their era and what each permits.

A rule that differs by revision is a column here, never an `if version == ...` elsewhere. Revision names are dates and
sort as strings, so the newest of a set is its `max`. Sources: the changelogs of the specification.
"""

from enum import Enum

import msgspec


class Era(Enum):
    """How peers exchange versions and capabilities: once, in a handshake, or with every request."""

    HANDSHAKE = "handshake"
    STATELESS = "stateless"


class Revision(msgspec.Struct, frozen=True):
    """One revision of the specification and the features it has."""

    name: str
    era: Era
    # JSON-RPC arrays: only 2025-03-26 has them (basic/index, removed again in 2025-06-18).
    has_batches: bool = False
    # Streamable HTTP; 2024-11-05 has HTTP with a separate SSE stream instead (basic/transports).
    has_streamable_http: bool = True
    # `Mcp-Session-Id`, created by the server with its InitializeResult.
    has_sessions: bool = False
    # `MCP-Protocol-Version` on every HTTP request after the handshake (since 2025-06-18).
    has_version_header: bool = False
    # `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` beside the body (2026-07-28).
    has_method_headers: bool = False
    # SSE events carry ids, and a stream is resumed with `Last-Event-ID`.
    has_resumable_streams: bool = False
    # The server may close a stream, and the client polls it after `retry` (2025-11-25).
    has_polling: bool = False
    # A server may send requests to its client; in 2026-07-28 it returns `input_required` results instead.
    has_server_requests: bool = True
    # An error to a request whose id could not be read leaves `id` out; before, it must be null (JSON-RPC 2.0).
    omits_unreadable_id: bool = False
    # Closing an HTTP response cancels its request; in earlier revisions a disconnect does not.
    disconnect_cancels: bool = False
    # Every result has `resultType`, and list results have `ttlMs` and `cacheScope`.
    has_result_type: bool = False
    # `structuredContent` and `outputSchema` (2025-06-18).
    has_structured_output: bool = False
    # A resource that does not exist: -32002, and -32602 from 2026-07-28 on.
    resource_not_found: int = -32002


# By name, oldest first.
REVISIONS = {
    row.name: row
    for row in (
        Revision("2024-11-05", Era.HANDSHAKE, has_streamable_http=False),
        Revision("2025-03-26", Era.HANDSHAKE, has_batches=True, has_sessions=True, has_resumable_streams=True),
        Revision(
            "2025-06-18",
            Era.HANDSHAKE,
            has_sessions=True,
            has_version_header=True,
            has_resumable_streams=True,
            has_structured_output=True,
        ),
        Revision(
            "2025-11-25",
            Era.HANDSHAKE,
            has_sessions=True,
            has_version_header=True,
            has_resumable_streams=True,
            has_polling=True,
            omits_unreadable_id=True,
            has_structured_output=True,
        ),
        Revision(
            "2026-07-28",
            Era.STATELESS,
            has_version_header=True,
            has_method_headers=True,
            has_server_requests=False,
            omits_unreadable_id=True,
            disconnect_cancels=True,
            has_result_type=True,
            has_structured_output=True,
            resource_not_found=-32602,
        ),
    )
}

# The names alone, oldest first.
VERSIONS = tuple(REVISIONS)

# The revision of an HTTP request without a version header (2025-06-18 basic/transports, and every later revision).
ASSUMED_VERSION = "2025-03-26"


def newest(versions: tuple[str, ...], era: Era) -> str | None:
    """Return the newest known revision of `era` in `versions`, or None."""
    known = [name for name in versions if name in REVISIONS and REVISIONS[name].era is era]
    return max(known, default=None)
