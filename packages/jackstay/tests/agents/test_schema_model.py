"""Pydantic models with a given JSON Schema."""

from jackstay.agents._schema_model import schema_model

SCHEMA = {"type": "object", "properties": {"a-b": {"type": "integer"}}, "required": ["a-b"]}


def test_the_model_has_the_schema_and_accepts_any_arguments() -> None:
    model = schema_model("add", SCHEMA)
    assert model.__name__ == "add"
    assert model.model_json_schema() == SCHEMA
    assert model.model_validate({"a-b": "x", "c": 1}).model_dump() == {"a-b": "x", "c": 1}
