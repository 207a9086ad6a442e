"""Exports: a registry as tool definitions for model APIs."""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        ".openai": "OpenAIConverter",
    },
)
