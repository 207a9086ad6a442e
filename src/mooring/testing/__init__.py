"""What tests need, ours and users': a pair in memory, and the suite that a transport's author runs against the contract.

Nothing here imports a test framework: the suite is plain classes, which pytest collects where they are subclassed. Above:
tests. Below: `transport`.
"""

from mooring.testing.transport_suite import Peer, Recorder, TransportSuite
from mooring.transport import memory_pair

__all__ = ["Peer", "Recorder", "TransportSuite", "memory_pair"]
