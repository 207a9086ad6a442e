"""Re-exports `memory_pair` beside the other test tools."""

from jackstay.transport import memory_pair

__all__ = ["memory_pair"]
