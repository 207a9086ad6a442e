"""What tests need, ours and users': a pair in memory, a clock that jumps, a transport that misbehaves, a peer that says what it
is told to, and the suite that a transport's author runs against the contract.

Nothing here imports a test framework: the suite is plain classes, which pytest collects where they are subclassed. Above:
tests. Below: `transport`.
"""

from mooring.testing._clock import ClockLoop, Stuck, on_fake_clock, run_on_fake_clock
from mooring.testing._faulty import Faults, FaultyTarget, FaultyTransport
from mooring.testing._scripted import Heard, Refusal, ScriptedPeer
from mooring.testing.transport_suite import Peer, Recorder, TransportSuite
from mooring.transport import memory_pair

__all__ = [
    "ClockLoop",
    "Faults",
    "FaultyTarget",
    "FaultyTransport",
    "Heard",
    "Peer",
    "Recorder",
    "Refusal",
    "ScriptedPeer",
    "Stuck",
    "TransportSuite",
    "memory_pair",
    "on_fake_clock",
    "run_on_fake_clock",
]
