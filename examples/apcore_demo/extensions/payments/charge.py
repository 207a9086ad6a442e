"""A module that fails. Its exception contains details that must not reach a client, and it has a sensitive field."""

from typing import Any, ClassVar

from apcore import Context, ModuleAnnotations
from pydantic import BaseModel, Field


class Input(BaseModel):
    amount: float = Field(gt=0, le=10_000, description="In euros.")
    card: str = Field(
        pattern=r"^[0-9]{12,19}$",
        description="The number of the card. It is hidden in prompts, logs and histories.",
        json_schema_extra={"x-sensitive": True},
    )
    reference: str | None = None


class Output(BaseModel):
    receipt: str


class Charge:
    """Charge a card. Always fails."""

    description = "Charge a card. The bank of this demo is always closed: every call fails."
    input_schema = Input
    output_schema = Output
    tags: ClassVar = ["payments"]
    annotations = ModuleAnnotations(destructive=False, idempotent=False, open_world=True)

    async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:  # noqa: ARG002  # apcore's
        raise ConnectionError(f"bank-gateway.internal:8443 refused card {inputs['card']}")
