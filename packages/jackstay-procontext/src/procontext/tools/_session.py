"""The libraries that a session has resolved: one list for each stdio connection and each HTTP session.

MCP 2026-07-28 has no sessions, and a server must not treat a connection as a conversation (basic/index,
"Statelessness"): there the resource is not listed, and reading it fails as not found.
"""

from collections.abc import Iterable, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from jackstay.protocol import REVISIONS, Era
from procontext.models import Match

URI: Final = "procontext://session/libraries"
NAME: Final = "Session Libraries"
DESCRIPTION: Final = "Libraries resolved in the current session."

_KEY: Final = "procontext.resolved_libraries"

# A limit for the memory of a long session.
MAX_RESOLVED: Final = 1000


class Resolved(msgspec.Struct, frozen=True):
    """A resolved library."""

    library_id: str
    name: str
    resolved_at: datetime


def has_session(version: str) -> bool:
    """Return whether a protocol revision has sessions."""
    return REVISIONS[version].era is Era.HANDSHAKE


def record_matches(store: MutableMapping[str, Any], matches: Iterable[Match], now: datetime | None = None) -> None:
    """Add matches to the list, each library once, with the newest time."""
    at = (datetime.now(UTC) if now is None else now).replace(microsecond=0)
    known: dict[str, Resolved] = store.setdefault(_KEY, {})
    for match in matches:
        known.pop(match.library_id, None)
        known[match.library_id] = Resolved(match.library_id, match.name, at)
    while len(known) > MAX_RESOLVED:
        known.pop(next(iter(known)))


def resolved_as_json(store: MutableMapping[str, Any]) -> str:
    """Return the list as JSON."""
    known: dict[str, Resolved] = store.get(_KEY, {})
    return msgspec.json.encode({"resolved_libraries": list(known.values())}).decode()


__all__ = ["DESCRIPTION", "NAME", "URI", "Resolved", "has_session", "record_matches", "resolved_as_json"]
