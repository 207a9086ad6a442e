"""Tools for smolagents."""

import hashlib
import keyword
import re
from base64 import b64decode
from io import BytesIO
from typing import Any

from PIL import Image
from smolagents import Tool

from jackstay.agents._source import AgentTool, ToolSource

# The types of JSON Schema; the framework calls everything else `any`.
_TYPES = ("string", "boolean", "integer", "number", "array", "object", "null")


class SmolagentsTool(Tool):
    """A tool of an MCP server."""

    skip_forward_signature_validation = True
    output_type = "any"

    def __init__(self, source: ToolSource, tool: AgentTool) -> None:
        super().__init__()
        self._source = source
        self._tool = tool
        self.name = _identifier(tool.name)
        self.description = tool.description
        self.inputs = _inputs(tool.parameters)
        self.output_schema = None if tool.tool.output_schema is None else dict(tool.tool.output_schema)

    def forward(self, /, **arguments: Any) -> Any:
        """Call the tool: its structured output, its text, or its images and texts; of a failure, the text."""
        # An optional argument without a value is None here, which its schema may not allow.
        optional = {name for name, schema in self.inputs.items() if schema.get("nullable")}
        given = {name: value for name, value in arguments.items() if value is not None or name not in optional}
        outcome = self._source.wait_call(self._tool.name, given)
        if outcome.is_error or outcome.result is None:
            # An exception would reach the model with the request to try again, whatever may have run.
            return f"Error: {outcome.text}"
        parts = [part if isinstance(part, str) else Image.open(BytesIO(b64decode(part.data))) for part in outcome.parts]
        if all(isinstance(part, str) for part in parts):
            structured = outcome.result.structured_content
            return outcome.text if structured is None else structured
        return parts[0] if len(parts) == 1 else parts


def _identifier(name: str) -> str:
    """Return a name that is valid in Python, where models call tools in code; always the same."""
    if name.isidentifier() and not keyword.iskeyword(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"tool_{re.sub(r'[^A-Za-z0-9_]', '_', name)}_{digest}"


def _inputs(parameters: dict[str, Any]) -> dict[str, Any]:
    required = parameters.get("required", ())
    inputs = {}
    for name, value in parameters["properties"].items():
        schema = dict(value) if isinstance(value, dict) else {}
        types = schema.get("type")
        listed = types if isinstance(types, list) else [types]
        schema["type"] = types if listed and all(kind in _TYPES for kind in listed) else "any"
        schema.setdefault("description", name)
        if name not in required:
            schema["nullable"] = True
        inputs[name] = schema
    return inputs
