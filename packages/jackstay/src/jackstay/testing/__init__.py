"""Test tools: an in-memory pair, a fake clock, a faulty transport, a scripted peer, recording and replay, and suites.

Nothing here imports a test framework: the suites are plain classes, which pytest collects where they are subclassed.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._clock": "ClockLoop DeadlockError on_fake_clock run_on_fake_clock",
        "._faulty": "Faults FaultyTarget FaultyTransport",
        "._recorder": "RecordedTarget RecordingSink recorded",
        "._recording": "Side event_line frame_line header_line",
        "._relay": "RelayResult pass_through",
        "._replayer": "ReplayedTarget replayed serve_recording",
        "._scripted": "ReceivedMessage ScriptedError ScriptedPeer",
        ".transport_suite": "Peer RecordingHandler TransportSuite",
        "jackstay.transport": "memory_pair",
    },
)
