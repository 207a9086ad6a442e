# Invariant: in every state, a frame returns effects and raises nothing; sent frames are JSON; `closed` sends nothing.
"""A server connection in each of its states, with the same frame."""

import json

from jackstay.protocol.server import events as e
from jackstay.protocol.server._states import ServerState as S
from model.server import INITIALIZED, call, cancel, connect, copied, frame, initialize, stateless

CONNECTIONS = [connect(state, version) for state in S for version in ("2025-03-26", "2025-11-25")]
CORPUS = [
    initialize(),
    INITIALIZED,
    call(1),
    stateless(1),
    cancel(90),
    frame(id=1, result={}),
    frame(id="x", error={}),
    b"[%b,%b,1]" % (call(1), cancel(1)),
    b"[]",
]


def fuzz(data: bytes) -> None:
    for connection in CONNECTIONS:
        core = copied(connection)
        effects = core.receive(data)
        assert all(isinstance(effect, e.Effect) for effect in effects)
        for effect in effects:
            if isinstance(effect, e.Send):
                json.loads(effect.frame)
        assert not (connection.state is S.CLOSED and effects)
