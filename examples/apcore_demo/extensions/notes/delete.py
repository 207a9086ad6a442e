"""A destructive module, which requires the approval of a person before it runs."""

import os
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from apcore import Context, ModuleAnnotations
from pydantic import BaseModel, Field

FOLDER = Path(os.environ.get("APCORE_DEMO_NOTES") or Path(tempfile.gettempdir(), "apcore-demo-notes"))


class Input(BaseModel):
    name: str = Field(pattern=r"^[a-z0-9-]{1,40}$", description="The note to delete.")


class Output(BaseModel):
    deleted: bool
    notes: list[str]


class Delete:
    """Delete a note permanently."""

    description = "Delete a note permanently. Requires approval."
    input_schema = Input
    output_schema = Output
    tags: ClassVar = ["notes"]
    annotations = ModuleAnnotations(destructive=True, requires_approval=True, open_world=False)

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:  # noqa: ARG002  # apcore's
        note = FOLDER / f"{inputs['name']}.txt"
        was_there = note.exists()
        note.unlink(missing_ok=True)
        return {"deleted": was_there, "notes": sorted(path.stem for path in FOLDER.glob("*.txt"))}
