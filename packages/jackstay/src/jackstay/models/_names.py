"""Tool names for model APIs, which accept up to 64 letters, digits, `_` and `-`. MCP allows more.

A valid name is kept. Any other gets its invalid characters replaced and ends in a hash of the full name, so that a tool
always has the same name: a server that adds `a_b` later does not receive calls that were meant for `a.b`.
"""

import re
from typing import Final

from jackstay.client import MAX_NAME, with_hash

# OpenAI: "a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of 64"; Anthropic accepts these as
# well.
_VALID_NAME: Final = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_NAME}}}")
_INVALID_CHARACTER: Final = re.compile(r"[^a-zA-Z0-9_-]")


def model_name(tool: str) -> str:
    """Return the name of a tool for model APIs; always the same. It is mapped back by a table."""
    return tool if _VALID_NAME.fullmatch(tool) else with_hash(_INVALID_CHARACTER.sub("_", tool), tool)
