"""Conversion of module ids to tool names and back. Thread-safe.

OpenAI allows letters, digits, `_` and `-` in a name, at most 64; MCP also allows dots, at most 128. Ids of apcore have
dots, no hyphens, and up to 192 characters. A dot becomes a hyphen, which is reversible; a long id is truncated with a
hash, and a table maps it back.
"""

import hashlib
import re
from typing import Final

# The maximum length of a name (OpenAI function calling; MCP 2025-11-25, server/tools, "Tool Names").
OPENAI_LIMIT: Final = 64
MCP_LIMIT: Final = 128

# The names of the tools that are not modules start with it.
APCORE_META_TOOL_PREFIX: Final = "__apcore_"

# The ids that apcore accepts.
_MODULE_ID: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")

# The number of hexadecimal digits of the hash.
_HASH: Final = 10


class ModuleIDNormalizer:
    """Maps ids to names. An instance can map every name that it created back to its id."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def normalize(self, module_id: str, limit: int = OPENAI_LIMIT) -> str:
        """Return the name for OpenAI: with hyphens instead of dots, and at most `limit` characters.

        Raises: ValueError for an id that apcore does not accept.
        """
        if module_id and not _MODULE_ID.fullmatch(module_id):
            raise ValueError(f"Invalid module ID: {module_id!r}; it must match {_MODULE_ID.pattern}")
        return self.name_for_models(module_id, limit)

    def name_for_models(self, module_id: str, limit: int = OPENAI_LIMIT) -> str:
        """As `normalize`, for any id that is not empty: a registry may only look like one of apcore."""
        return self._name(module_id, module_id.replace(".", "-"), limit)

    def shorten(self, module_id: str, limit: int = MCP_LIMIT) -> str:
        """Return the id, truncated to `limit` characters, for MCP. Raises: ValueError for an empty id."""
        return self._name(module_id, module_id, limit)

    def denormalize(self, tool_name: str) -> str:
        """Return the id of a name: from the table, or by replacing hyphens. Raises: ValueError for an empty name."""
        if not tool_name:
            raise ValueError("tool_name must not be empty")
        return self._ids.get(tool_name) or tool_name.replace("-", ".")

    def try_denormalize(self, tool_name: str) -> str | None:
        """Return the id of a name, or None for a name that no valid id has."""
        module_id = self._ids.get(tool_name) or tool_name.replace("-", ".")
        return module_id if _MODULE_ID.fullmatch(module_id) else None

    def _name(self, module_id: str, name: str, limit: int) -> str:
        if not module_id:
            raise ValueError("Invalid module ID: ''; module_id must not be empty")
        if len(name) > limit:
            digest = hashlib.sha256(module_id.encode()).hexdigest()[:_HASH]
            name = f"{name[: limit - _HASH - 1]}-{digest}"
        self._ids[name] = module_id
        return name


__all__ = ["APCORE_META_TOOL_PREFIX", "MCP_LIMIT", "OPENAI_LIMIT", "ModuleIDNormalizer"]
