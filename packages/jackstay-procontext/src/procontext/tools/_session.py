"""Which libraries a session has resolved: one list for each stdio connection and each HTTP session (reference, section 5).

It lives in the store that the server keeps for a connection or session, and goes with it. 2026-07-28 has no sessions, and a
server must not take a connection for a conversation (basic/index, "Statelessness"): there nothing is kept, the resource is not
listed, and reading it says that it is not there.

Must never know how a library is found. Above: `_server`, `_tools`. Below: `jackstay.protocol` for what a revision has.
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

# More than any conversation resolves; a client that resolves names all day must not fill the memory.
MOST_REMEMBERED: Final = 1000


class Resolved(msgspec.Struct, frozen=True):
    """One library that was resolved."""

    library_id: str
    name: str
    resolved_at: datetime


def has_session(version: str) -> bool:
    """Whether a conversation in this revision has anything to remember by."""
    return REVISIONS[version].era is Era.HANDSHAKE


def remember(store: MutableMapping[str, Any], matches: Iterable[Match], now: datetime | None = None) -> None:
    """Add what was just resolved, each once, with the newest time."""
    at = (datetime.now(UTC) if now is None else now).replace(microsecond=0)
    known: dict[str, Resolved] = store.setdefault(_KEY, {})
    for match in matches:
        known.pop(match.library_id, None)
        known[match.library_id] = Resolved(match.library_id, match.name, at)
    while len(known) > MOST_REMEMBERED:
        known.pop(next(iter(known)))


def recall(store: MutableMapping[str, Any]) -> str:
    """The list as JSON; empty at the start of a session."""
    known: dict[str, Resolved] = store.get(_KEY, {})
    return msgspec.json.encode({"resolved_libraries": list(known.values())}).decode()


__all__ = ["DESCRIPTION", "NAME", "URI", "Resolved", "has_session", "recall", "remember"]
