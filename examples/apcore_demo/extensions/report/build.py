"""A streaming module: each section is a chunk, which is sent as progress; the complete report is the result."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

from apcore import Context, ModuleAnnotations
from pydantic import BaseModel, Field


class Input(BaseModel):
    title: str = Field(default="Quarterly report", max_length=120)
    sections: int = Field(default=5, ge=1, le=50, description="How many to write.")
    seconds_each: float = Field(default=0.3, ge=0, le=5, description="How long each takes.")


class Output(BaseModel):
    title: str
    done: int
    sections: dict[str, str]


class Build:
    """Write a report, section by section."""

    description = "Write a report, section by section. Shows progress, and can be cancelled between sections."
    input_schema = Input
    output_schema = Output
    tags: ClassVar = ["report"]
    annotations = ModuleAnnotations(readonly=True, streaming=True, open_world=False)

    async def stream(self, inputs: dict[str, Any], context: Context) -> AsyncIterator[dict[str, Any]]:
        yield {"title": inputs["title"], "done": 0, "sections": {}}
        for number in range(1, inputs["sections"] + 1):
            if context.cancel_token is not None:
                context.cancel_token.check()
            await asyncio.sleep(inputs["seconds_each"])
            text = f"What happened in part {number} of {inputs['title']}."
            yield {"done": number, "sections": {f"section {number}": text}}

    async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        made: dict[str, Any] = {"sections": {}}
        async for chunk in self.stream(inputs, context):
            made["sections"].update(chunk.pop("sections"))
            made.update(chunk)
        return made
