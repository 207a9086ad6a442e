"""The pair in memory, shown in this room too: a test needs it beside the rest.

Above: tests. Below: `jackstay.transport`, which holds it.
"""

from jackstay.transport import memory_pair

__all__ = ["memory_pair"]
