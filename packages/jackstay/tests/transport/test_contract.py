"""The contract's numbers are the design's, and every transport of ours has every member of it."""

import inspect

import pytest

from jackstay.transport import MAX_QUEUED_BYTES, MAX_QUEUED_FRAMES, Target, Transport
from jackstay.transport._child import ChildTransport
from jackstay.transport._memory import MemoryTarget, MemoryTransport
from jackstay.transport._own_stdio import OwnStdioTarget, OwnStdioTransport
from jackstay.transport._stdio import StdioTarget


def test_busy_is_what_row_14_says() -> None:
    assert (MAX_QUEUED_FRAMES, MAX_QUEUED_BYTES) == (1024, 8 * 1024 * 1024)


def methods(contract: type) -> dict[str, list[str]]:
    found = inspect.getmembers(contract, inspect.isfunction)
    return {
        name: list(inspect.signature(function).parameters)
        for name, function in found
        if not name.startswith("_")
    }


@pytest.mark.parametrize(
    ("ours", "contract"),
    [
        (ChildTransport, Transport),
        (MemoryTransport, Transport),
        (OwnStdioTransport, Transport),
        (StdioTarget, Target),
        (MemoryTarget, Target),
        (OwnStdioTarget, Target),
    ],
)
def test_every_method_of_the_contract_is_there_with_its_parameters(ours: type, contract: type) -> None:
    assert methods(contract).items() <= methods(ours).items()
