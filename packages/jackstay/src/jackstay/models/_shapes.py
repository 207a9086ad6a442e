"""Tool definitions in the shapes of three APIs: OpenAI chat completions, OpenAI responses, Anthropic messages.

Plain dicts, no client library: each is what the API's reference calls a tool. Pure. Above: `_toolbox`, `apcore_mcp`. Below:
`jackstay.errors`.
"""

from typing import Any, Final, TypeAlias

from jackstay.errors import UsageError

# The APIs: OpenAI's chat completions, OpenAI's responses, Anthropic's messages.
SHAPES: Final = ("openai", "openai-responses", "anthropic")

# A tool definition: a TypedDict of the API's own library, which is not imported here, so that it type-checks with all.
Definition: TypeAlias = Any
# A message or an input item for the model; as above.
Message: TypeAlias = Any


def check_shape(shape: str) -> None:
    """Raises: UsageError for a shape that is none."""
    if shape not in SHAPES:
        raise UsageError(f"shape must be one of {', '.join(SHAPES)}, not {shape!r}", path="shape")


def definition(
    shape: str, name: str, description: str, parameters: dict[str, Any], *, strict: bool = False
) -> dict[str, Any]:
    """One tool in the shape of one API. Name and schema are taken as they are. Raises: UsageError for a shape that is none."""
    check_shape(shape)
    marked = {"strict": True} if strict else {}
    if shape == "anthropic":
        return {"name": name, "description": description, "input_schema": parameters, **marked}
    function = {"name": name, "description": description, "parameters": parameters}
    if shape == "openai":
        return {"type": "function", "function": {**function, **marked}}
    # Said either way: that API is strict unless told otherwise.
    return {"type": "function", **function, "strict": strict}
