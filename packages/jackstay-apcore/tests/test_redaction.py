"""Redaction of sensitive values."""

from typing import Any

import apcore
import pytest

from apcore_mcp.redaction import REDACTED, allow_redacted, redact, sensitive_paths

SECRET = {"type": "string", "x-sensitive": True}


def test_sensitive_paths() -> None:
    schema: dict[str, Any] = {
        "x-sensitive": True,
        "properties": {
            "a": SECRET,
            "list": {"items": {"properties": {"b": SECRET}}},
            "map": {"additionalProperties": SECRET},
            "maybe": {"anyOf": [SECRET, {"type": "null"}]},
            "tree": {"$ref": "#/$defs/T"},
            "plain": True,
        },
        "$defs": {"T": {"properties": {"c": SECRET, "next": {"$ref": "#/$defs/T"}}}},
    }
    assert sensitive_paths(schema) == (
        ("a",), ("list", "*", "b"), ("map", "*"), ("maybe",), ("tree", "c"),
    )  # fmt: skip


def test_values_of_every_type_are_replaced() -> None:
    schema = {"type": "object", "properties": {"a": SECRET, "n": {"type": "integer", "x-sensitive": True}}}
    assert redact({"a": "s", "n": 7, "b": 1}, schema) == {"a": REDACTED, "n": REDACTED, "b": 1}


def test_failed_redaction_hides_everything(monkeypatch: pytest.MonkeyPatch) -> None:

    def fail(*_: Any) -> Any:
        raise RuntimeError("no")

    monkeypatch.setattr(apcore, "redact_sensitive", fail)
    assert redact({"a": "s", "b": 1}, {}) == {"a": REDACTED, "b": REDACTED}


def test_schema_accepts_what_redaction_leaves() -> None:
    """apcore replaces a sensitive object as a whole, so its schema must accept a string."""
    secret = {"type": "object", "x-sensitive": True, "title": "S", "properties": {"b": {"type": "integer"}}}
    schema = {"type": "object", "x-sensitive": True, "properties": {"a": secret, "list": {"items": secret}}}
    value = {"a": {"b": 1}, "list": [{"b": 1}]}
    assert redact(value, schema) == {"a": REDACTED, "list": [REDACTED]}
    loose = {"x-sensitive": True, "title": "S"}
    assert allow_redacted(schema) == {**schema, "properties": {"a": loose, "list": {"items": loose}}}
    assert allow_redacted(None) is None
