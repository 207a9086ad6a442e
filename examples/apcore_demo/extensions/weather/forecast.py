"""An async module, which waits like for a remote service and returns the same weather for the same place."""

import asyncio
import hashlib
from typing import Any, ClassVar, Literal

from apcore import Context, ModuleAnnotations
from pydantic import BaseModel, Field

SKIES = ("clear", "cloudy", "rain", "storm", "fog")


class Input(BaseModel):
    place: str = Field(description="A town.", min_length=1, max_length=80, examples=["Kiel"])
    days: int = Field(default=3, ge=1, le=7, description="How many days.")
    unit: Literal["celsius", "fahrenheit"] = "celsius"


class Day(BaseModel):
    day: int
    sky: str
    high: float
    low: float


class Output(BaseModel):
    place: str
    unit: str
    days: list[Day]


class Forecast:
    """The weather of the next days, invented."""

    description = "The weather of the next days. Invented, but always the same for the same place."
    input_schema = Input
    output_schema = Output
    tags: ClassVar = ["weather"]
    annotations = ModuleAnnotations(readonly=True, idempotent=True, open_world=True)

    async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:  # noqa: ARG002  # apcore's
        await asyncio.sleep(0.2)
        return {
            "place": inputs["place"],
            "unit": inputs["unit"],
            "days": [self.day(inputs["place"], number, inputs["unit"]) for number in range(inputs["days"])],
        }

    def day(self, place: str, number: int, unit: str) -> dict[str, Any]:
        digest = hashlib.sha256(f"{place.lower()} {number}".encode()).digest()
        low = digest[0] % 15
        high = low + 2 + digest[1] % 12
        if unit == "fahrenheit":
            low, high = low * 9 / 5 + 32, high * 9 / 5 + 32
        return {"day": number + 1, "sky": SKIES[digest[2] % len(SKIES)], "high": high, "low": low}
