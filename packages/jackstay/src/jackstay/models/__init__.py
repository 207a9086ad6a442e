"""MCP tools for language models: definitions for the APIs of OpenAI, Anthropic and Gemini, and execution of calls.

`Toolbox(client, "anthropic").definitions()` returns the `tools` of a model request, and `answer(response)` runs the
calls of the response and returns the messages to append.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._calls": "ModelCall",
        "._names": "model_name",
        "._outcomes": "Outcome",
        "._schemas": "deep_copy object_schema resolve_reference strict_schema walk_schema",
        "._shapes": "SHAPES Definition Message check_shape definition",
        "._toolbox": "Toolbox",
    },
)
