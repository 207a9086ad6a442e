"""The limits of the contract, and the members of every transport."""

import inspect

from jackstay.transport import MAX_QUEUED_BYTES, MAX_QUEUED_FRAMES, Target, Transport
from jackstay.transport._child import ChildTransport
from jackstay.transport._memory import MemoryTarget, MemoryTransport
from jackstay.transport._own_stdio import OwnStdioTarget, OwnStdioTransport
from jackstay.transport._pipe import FrameReader
from jackstay.transport._queue import WriteQueue
from jackstay.transport._stdio import StdioTarget


def test_the_queue_limits() -> None:
    assert (MAX_QUEUED_FRAMES, MAX_QUEUED_BYTES) == (1024, 8 * 1024 * 1024)


def methods(contract: type) -> dict[str, list[str]]:
    found = inspect.getmembers(contract, inspect.isfunction)
    return {name: list(inspect.signature(function).parameters) for name, function in found if not name.startswith("_")}


def test_every_transport_has_the_methods_of_the_contract() -> None:
    # Some are attributes: methods of the queue and of the reader.
    forwarded = methods(WriteQueue) | methods(FrameReader)
    for implementation, contract, attributes in [
        (ChildTransport, Transport, ["send", "withdraw", "next_frame", "flush"]),
        (MemoryTransport, Transport, ["withdraw"]),
        (OwnStdioTransport, Transport, ["send", "withdraw", "next_frame", "flush"]),
        (StdioTarget, Target, []),
        (MemoryTarget, Target, []),
        (OwnStdioTarget, Target, []),
    ]:
        found = methods(implementation) | {name: forwarded[name] for name in attributes}
        assert methods(contract).items() <= found.items()
