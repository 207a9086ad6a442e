"""What tests need, ours and users': a pair in memory, a clock that jumps, a transport that misbehaves, a peer that says what it
is told to, a real conversation recorded and replayed, and the suite that a transport's author runs against the contract.

Nothing here imports a test framework: the suite is plain classes, which pytest collects where they are subclassed. Above:
tests, `jackstay record` and `jackstay replay`. Below: `transport`.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.testing._clock import ClockLoop, Stuck, on_fake_clock, run_on_fake_clock
    from jackstay.testing._faulty import Faults, FaultyTarget, FaultyTransport
    from jackstay.testing._pair import memory_pair
    from jackstay.testing._recorder import RecordedTarget, recorded
    from jackstay.testing._relay import Passed, pass_through
    from jackstay.testing._replayer import ReplayedTarget, replayed, serve_recording
    from jackstay.testing._scripted import Heard, Refusal, ScriptedPeer
    from jackstay.testing.transport_suite import Peer, Recorder, TransportSuite

__all__ = [
    "ClockLoop",
    "Faults",
    "FaultyTarget",
    "FaultyTransport",
    "Heard",
    "Passed",
    "Peer",
    "RecordedTarget",
    "Recorder",
    "Refusal",
    "ReplayedTarget",
    "ScriptedPeer",
    "Stuck",
    "TransportSuite",
    "memory_pair",
    "on_fake_clock",
    "pass_through",
    "recorded",
    "replayed",
    "run_on_fake_clock",
    "serve_recording",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "ClockLoop": "_clock",
            "Faults": "_faulty",
            "FaultyTarget": "_faulty",
            "FaultyTransport": "_faulty",
            "Heard": "_scripted",
            "Passed": "_relay",
            "Peer": "transport_suite",
            "RecordedTarget": "_recorder",
            "Recorder": "transport_suite",
            "Refusal": "_scripted",
            "ReplayedTarget": "_replayer",
            "ScriptedPeer": "_scripted",
            "Stuck": "_clock",
            "TransportSuite": "transport_suite",
            "memory_pair": "_pair",
            "on_fake_clock": "_clock",
            "pass_through": "_relay",
            "recorded": "_recorder",
            "replayed": "_replayer",
            "run_on_fake_clock": "_clock",
            "serve_recording": "_replayer",
        },
    )
