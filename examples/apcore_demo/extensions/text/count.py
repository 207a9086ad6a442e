"""A synchronous, read-only module."""

from typing import Any, ClassVar

from apcore import Context, ModuleAnnotations
from pydantic import BaseModel, Field


class Input(BaseModel):
    text: str = Field(description="What to count.", max_length=100_000)
    ignore_case: bool = Field(default=True, description="Count 'Tea' and 'tea' as one word.")


class Output(BaseModel):
    characters: int
    words: int
    different_words: int
    lines: int


class Count:
    """Count characters, words and lines of a string."""

    description = "Count characters, words and lines of a string."
    input_schema = Input
    output_schema = Output
    tags: ClassVar = ["text"]
    annotations = ModuleAnnotations(readonly=True, idempotent=True, open_world=False)

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:  # noqa: ARG002  # apcore's
        text = inputs["text"]
        words = (text.lower() if inputs["ignore_case"] else text).split()
        return {
            "characters": len(text),
            "words": len(words),
            "different_words": len(set(words)),
            "lines": len(text.splitlines()),
        }
