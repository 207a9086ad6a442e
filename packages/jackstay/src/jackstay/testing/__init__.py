"""Test tools: an in-memory pair, a fake clock, a faulty transport, a scripted peer, recording and replay, and suites.

Nothing here imports a test framework: the suites are plain classes, which pytest collects where they are subclassed.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.testing._clock import ClockLoop, DeadlockError, on_fake_clock, run_on_fake_clock
    from jackstay.testing._faulty import Faults, FaultyTarget, FaultyTransport
    from jackstay.testing._pair import memory_pair
    from jackstay.testing._recorder import RecordedTarget, recorded
    from jackstay.testing._relay import RelayResult, pass_through
    from jackstay.testing._replayer import ReplayedTarget, replayed, serve_recording
    from jackstay.testing._scripted import ReceivedMessage, ScriptedError, ScriptedPeer
    from jackstay.testing.transport_suite import Peer, RecordingHandler, TransportSuite

__all__ = [
    "ClockLoop",
    "DeadlockError",
    "Faults",
    "FaultyTarget",
    "FaultyTransport",
    "Peer",
    "ReceivedMessage",
    "RecordedTarget",
    "RecordingHandler",
    "RelayResult",
    "ReplayedTarget",
    "ScriptedError",
    "ScriptedPeer",
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
            "ReceivedMessage": "_scripted",
            "RelayResult": "_relay",
            "Peer": "transport_suite",
            "RecordedTarget": "_recorder",
            "RecordingHandler": "transport_suite",
            "ScriptedError": "_scripted",
            "ReplayedTarget": "_replayer",
            "ScriptedPeer": "_scripted",
            "DeadlockError": "_clock",
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
