"""The room that moves bytes: one contract, and what keeps it. Frames go in and out whole; what they say is nobody's business here.

Above: the client's and the server's rooms. Below: `protocol` (framing), the operating system.
"""

from mooring.transport._contract import MAX_QUEUED_BYTES, MAX_QUEUED_FRAMES, Owner, Target, Transport
from mooring.transport._last_words import StderrTo
from mooring.transport._memory import MemoryPair, MemoryTarget, MemoryTransport, memory_pair
from mooring.transport._own_stdio import OwnStdioTarget, own_stdio
from mooring.transport._stdio import StdioTarget, stdio

__all__ = [
    "MAX_QUEUED_BYTES",
    "MAX_QUEUED_FRAMES",
    "MemoryPair",
    "MemoryTarget",
    "MemoryTransport",
    "OwnStdioTarget",
    "Owner",
    "StderrTo",
    "StdioTarget",
    "Target",
    "Transport",
    "memory_pair",
    "own_stdio",
    "stdio",
]
