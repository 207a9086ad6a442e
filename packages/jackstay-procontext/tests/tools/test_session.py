"""The list of a session: reference, section 5."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from procontext.models import Match
from procontext.tools import _session as session


def match(id: str) -> Match:
    return Match(id, id.title(), (), None, "package_name", 1.0)


def test_each_library_is_there_once_with_its_newest_time() -> None:
    """Design, section 1: each match added once, newest time kept; reference 5.3 for the form."""
    store: dict[str, Any] = {}
    assert json.loads(session.recall(store)) == {"resolved_libraries": []}
    session.remember(store, [match("langchain"), match("pydantic")], datetime(2026, 2, 23, 10, 0, 0, 5, UTC))
    session.remember(store, [match("langchain")], datetime(2026, 2, 23, 10, 5, tzinfo=UTC))
    assert json.loads(session.recall(store)) == {
        "resolved_libraries": [
            {"library_id": "pydantic", "name": "Pydantic", "resolved_at": "2026-02-23T10:00:00Z"},
            {"library_id": "langchain", "name": "Langchain", "resolved_at": "2026-02-23T10:05:00Z"},
        ]
    }


def test_the_oldest_make_room() -> None:
    """A client that resolves all day does not fill the memory."""
    store: dict[str, Any] = {}
    session.remember(store, [match(f"a{number}") for number in range(session.MOST_REMEMBERED + 5)])
    kept = json.loads(session.recall(store))["resolved_libraries"]
    assert len(kept) == session.MOST_REMEMBERED
    assert kept[0]["library_id"] == "a5"


@pytest.mark.parametrize(
    ("version", "has"),
    [
        ("2024-11-05", True),
        ("2025-03-26", True),
        ("2025-06-18", True),
        ("2025-11-25", True),
        ("2026-07-28", False),
    ],
)
def test_only_the_handshake_era_has_sessions(version: str, has: bool) -> None:
    """2026-07-28 basic/index, "Statelessness"."""
    assert session.has_session(version) is has
