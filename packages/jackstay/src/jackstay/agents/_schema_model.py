"""`schema_model()`: a pydantic model that has a given JSON Schema, for frameworks that require a model."""

from typing import Any

from pydantic import BaseModel, ConfigDict, create_model


def schema_model(name: str, schema: dict[str, Any]) -> Any:
    """Return a model with this JSON Schema that accepts any arguments: the server validates them."""

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:  # noqa: ARG003
            return schema

    return create_model(name, __base__=Arguments)
