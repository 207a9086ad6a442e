"""MCP tools for language models: definitions for the OpenAI and Anthropic APIs, and execution of the model's calls.

`Toolbox(client, "anthropic").definitions()` returns the `tools` of a model request, and `answer(response)` runs the
calls of the response and returns the messages to append.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.models._calls import ModelCall
    from jackstay.models._names import model_name
    from jackstay.models._outcomes import Outcome
    from jackstay.models._schemas import deep_copy, object_schema, resolve_reference, strict_schema, walk_schema
    from jackstay.models._shapes import SHAPES, Definition, Message, check_shape, definition
    from jackstay.models._toolbox import Toolbox

__all__ = [
    "SHAPES",
    "Definition",
    "Message",
    "ModelCall",
    "Outcome",
    "Toolbox",
    "check_shape",
    "deep_copy",
    "definition",
    "model_name",
    "object_schema",
    "resolve_reference",
    "strict_schema",
    "walk_schema",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "Definition": "_shapes",
            "Message": "_shapes",
            "ModelCall": "_calls",
            "Outcome": "_outcomes",
            "SHAPES": "_shapes",
            "Toolbox": "_toolbox",
            "check_shape": "_shapes",
            "deep_copy": "_schemas",
            "definition": "_shapes",
            "resolve_reference": "_schemas",
            "model_name": "_names",
            "object_schema": "_schemas",
            "strict_schema": "_schemas",
            "walk_schema": "_schemas",
        },
    )
