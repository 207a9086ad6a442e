"""Tool definitions as plain dicts in the shapes of OpenAI, Anthropic and Gemini."""

from typing import Any, Final, TypeAlias

from jackstay.errors import UsageError

# The APIs: OpenAI's chat completions, OpenAI's responses, Anthropic's messages, Google's Gemini.
SHAPES: Final = ("openai", "openai-responses", "anthropic", "gemini")

# A tool definition. `Any`, because the API libraries, whose TypedDicts it must match, are not imported here.
Definition: TypeAlias = Any
# A message or an input item for the model; as above.
Message: TypeAlias = Any


def check_shape(shape: str) -> None:
    """Raises: UsageError for an unknown shape."""
    if shape not in SHAPES:
        raise UsageError(f"shape must be one of {', '.join(map(repr, SHAPES))}, got {shape!r}", path="shape")


def definition(
    shape: str, name: str, description: str, parameters: dict[str, Any], *, strict: bool = False
) -> dict[str, Any]:
    """Return the definition of one tool; name and schema are used unchanged.

    Gemini has no strict mode for a tool; its definitions are grouped: `tools=[{"functionDeclarations": [...]}]`.

    Raises: UsageError for an unknown shape.
    """
    check_shape(shape)
    if shape == "gemini":
        return {"name": name, "description": description, "parametersJsonSchema": parameters}
    strict_flag = {"strict": True} if strict else {}
    if shape == "anthropic":
        return {"name": name, "description": description, "input_schema": parameters, **strict_flag}
    function = {"name": name, "description": description, "parameters": parameters}
    if shape == "openai":
        return {"type": "function", "function": {**function, **strict_flag}}
    # Always explicit, because the Responses API is strict by default.
    return {"type": "function", **function, "strict": strict}
