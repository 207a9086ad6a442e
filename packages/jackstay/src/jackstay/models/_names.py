"""What a tool is called before a model: 64 letters, digits, `_` and `-`, which is what every model API takes.

MCP allows more: dots and slashes, 128 characters, in practice anything. A name that the APIs take is kept. Any other has its
odd characters replaced and ends in a hash of the whole. The hash is there even where nothing was cut and nothing clashes now:
so one tool has one name for ever, and a server that adds `a_b` later does not get the calls that were meant for `a.b`.

Pure. Must never know a server. Above: `_toolbox`. Below: nothing.
"""

import hashlib
import re
from typing import Final

# OpenAI: "a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of 64"; Anthropic takes these, too.
MAX_NAME: Final = 64
_TAKEN: Final = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_NAME}}}")
_ODD: Final = re.compile(r"[^a-zA-Z0-9_-]")

# Of the hash. A server can find two names with the same 32 bits in a moment; 64 take years.
_DIGITS: Final = 16


def model_name(tool: str) -> str:
    """The name of a tool as model APIs take it; the same each time. The way back is a table, not a rule."""
    if _TAKEN.fullmatch(tool):
        return tool
    digits = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{_ODD.sub('_', tool)[: MAX_NAME - _DIGITS - 1]}_{digits}"
