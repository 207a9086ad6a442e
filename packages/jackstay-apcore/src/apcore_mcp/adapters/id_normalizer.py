"""Module ids as tool names and back, by one table.

OpenAI allows letters, digits, `_` and `-` in a name, 64 at most; MCP allows dots, and 128. apcore's ids have dots and no
hyphens, and may have 192 characters. So a dot becomes a hyphen, which can be undone by rule, and a long id is cut and given
a hash, which can be undone by the table alone.

Pure, and safe in any thread: entries are only ever added. Above: the catalogue and the exports. Below: nothing.
"""

import hashlib
from typing import Final

# How long a name may be (OpenAI function calling; 2025-11-25 server/tools, "Tool Names").
OPENAI_LIMIT: Final = 64
MCP_LIMIT: Final = 128

# Ten hexadecimal digits: among a million long ids, one chance in a million that two are the same.
_HASH: Final = 10


class ModuleIDNormalizer:
    """Names for ids. What one instance has named, it can name back."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def normalize(self, module_id: str, limit: int = OPENAI_LIMIT) -> str:
        """The name for OpenAI: dots are hyphens, and at most `limit` characters.

        Raises: ValueError for an empty id.
        """
        return self._name(module_id, module_id.replace(".", "-"), limit)

    def shorten(self, module_id: str, limit: int = MCP_LIMIT) -> str:
        """The id as it is, or cut to `limit` characters, for MCP. Raises: ValueError for an empty id."""
        return self._name(module_id, module_id, limit)

    def denormalize(self, tool_name: str) -> str:
        """The id of a name: by the table, or else by the rule. Raises: ValueError for an empty name."""
        if not tool_name:
            raise ValueError("tool_name must not be empty")
        return self._ids.get(tool_name) or tool_name.replace("-", ".")

    def _name(self, module_id: str, name: str, limit: int) -> str:
        if not module_id:
            raise ValueError("module_id must not be empty")
        if len(name) > limit:
            digest = hashlib.sha256(module_id.encode()).hexdigest()[:_HASH]
            name = f"{name[: limit - _HASH - 1]}-{digest}"
        self._ids[name] = module_id
        return name


__all__ = ["MCP_LIMIT", "OPENAI_LIMIT", "ModuleIDNormalizer"]
