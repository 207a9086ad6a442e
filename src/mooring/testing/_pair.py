"""The pair in memory, shown in this room too: a test needs it beside the rest.

Above: tests. Below: `mooring.transport`, which holds it.
"""

from mooring.transport import memory_pair

__all__ = ["memory_pair"]
