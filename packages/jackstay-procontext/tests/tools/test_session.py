"""The resolved libraries of a session."""

import json
from datetime import UTC, datetime
from typing import Any

from procontext.models import Match
from procontext.tools import _session as session


def match(id: str) -> Match:
    return Match(id, id.title(), (), None, "package_name", 1.0)


def test_each_library_is_listed_once_with_its_newest_time() -> None:
    store: dict[str, Any] = {}
    assert json.loads(session.resolved_as_json(store)) == {"resolved_libraries": []}
    session.record_matches(store, [match("langchain"), match("pydantic")], datetime(2026, 2, 23, 10, 0, 0, 5, UTC))
    session.record_matches(store, [match("langchain")], datetime(2026, 2, 23, 10, 5, tzinfo=UTC))
    assert json.loads(session.resolved_as_json(store)) == {
        "resolved_libraries": [
            {"library_id": "pydantic", "name": "Pydantic", "resolved_at": "2026-02-23T10:00:00Z"},
            {"library_id": "langchain", "name": "Langchain", "resolved_at": "2026-02-23T10:05:00Z"},
        ]
    }


def test_number_of_libraries_is_limited() -> None:
    store: dict[str, Any] = {}
    session.record_matches(store, [match(f"a{number}") for number in range(session.MAX_RESOLVED + 5)])
    kept = json.loads(session.resolved_as_json(store))["resolved_libraries"]
    assert len(kept) == session.MAX_RESOLVED
    assert kept[0]["library_id"] == "a5"


REVISIONS: list[tuple[str, bool]] = [
    ("2024-11-05", True),
    ("2025-03-26", True),
    ("2025-06-18", True),
    ("2025-11-25", True),
    ("2026-07-28", False),
]


def test_has_session() -> None:
    """MCP 2026-07-28, basic/index, "Statelessness"."""
    for version, expected in REVISIONS:
        assert session.has_session(version) is expected, version
