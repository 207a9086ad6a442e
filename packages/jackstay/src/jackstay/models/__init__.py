"""The tools of any connected server for models: as definitions of OpenAI and Anthropic, and the calls back.

    toolbox = Toolbox(client, "anthropic")
    answer = model.messages.create(tools=await toolbox.definitions(), messages=messages, ...)
    messages += await toolbox.answer(answer)

No model library is imported: answers are read, and messages written, in the published formats. Above: users, `jackstay.sync`,
`apcore_mcp` (the shapes and schemas). Below: `jackstay.client`, `jackstay.types`.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.models._calls import ModelCall
    from jackstay.models._names import model_name
    from jackstay.models._outcomes import Outcome
    from jackstay.models._schemas import copied, look_up, object_schema, strict_schema, walk_schema
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
    "copied",
    "definition",
    "look_up",
    "model_name",
    "object_schema",
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
            "copied": "_schemas",
            "definition": "_shapes",
            "look_up": "_schemas",
            "model_name": "_names",
            "object_schema": "_schemas",
            "strict_schema": "_schemas",
            "walk_schema": "_schemas",
        },
    )
