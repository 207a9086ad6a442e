"""Exports: a registry as tool definitions for model APIs."""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from apcore_mcp.converters.openai import OpenAIConverter

__all__ = ["OpenAIConverter"]

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, {"OpenAIConverter": "openai"})
