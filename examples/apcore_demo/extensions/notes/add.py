"""A module that writes: it stores a note as a file in the folder of the demo."""

import os
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from apcore import Context, InvalidInputError, ModuleAnnotations
from pydantic import BaseModel, Field

FOLDER = Path(os.environ.get("APCORE_DEMO_NOTES") or Path(tempfile.gettempdir(), "apcore-demo-notes"))


class Input(BaseModel):
    name: str = Field(pattern=r"^[a-z0-9-]{1,40}$", description="Small letters, digits and dashes.")
    text: str = Field(max_length=10_000)
    overwrite: bool = False


class Output(BaseModel):
    name: str
    notes: list[str]


class Add:
    """Keep a note."""

    description = "Keep a note under a name."
    input_schema = Input
    output_schema = Output
    tags: ClassVar = ["notes"]
    annotations = ModuleAnnotations(destructive=False, idempotent=True, open_world=False)

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:  # noqa: ARG002  # apcore's
        FOLDER.mkdir(parents=True, exist_ok=True)
        note = FOLDER / f"{inputs['name']}.txt"
        if note.exists() and not inputs["overwrite"]:
            raise InvalidInputError(message=f"there is a note {inputs['name']!r}; overwrite replaces it")
        note.write_text(inputs["text"], encoding="utf-8")
        return {"name": inputs["name"], "notes": sorted(path.stem for path in FOLDER.glob("*.txt"))}
