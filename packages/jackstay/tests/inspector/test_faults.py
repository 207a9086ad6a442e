"""Faults on demand: each occurs once, with the next message."""

import pytest

from jackstay.errors import OutcomeUnknownError, TimeoutError, UsageError
from jackstay.inspector._faults import FAULTS
from scripted.inspected import Inspected, with_inspected

TOO_SHORT = 0.2


def arm(inspected: Inspected, fault: str, seconds: float = 0.0) -> None:
    assert inspected.inspection.faults is not None
    inspected.inspection.faults.arm(fault, seconds)


@with_inspected
async def test_a_dropped_response(inspected: Inspected) -> None:
    client = inspected.inspection.client
    arm(inspected, "drop")
    with pytest.raises(TimeoutError) as lost:
        await client.tools.call("broken", timeout=TOO_SHORT)
    assert lost.value.may_have_run
    assert (await client.tools.call("add", {"a": 1})).data == 3
    assert inspected.events("fault") == [{"fault": "drop", "text": FAULTS["drop"]}]


@with_inspected
async def test_a_late_response(inspected: Inspected) -> None:
    arm(inspected, "delay", 0.01)
    assert (await inspected.inspection.client.tools.call("add", {"a": 1})).data == 3
    assert [event["fault"] for event in inspected.events("fault")] == ["delay"]


@with_inspected
async def test_garbage_before_a_response(inspected: Inspected) -> None:
    arm(inspected, "garble")
    assert (await inspected.inspection.client.tools.call("add", {"a": 1})).data == 3
    assert [event["text"] for event in inspected.events("message") if event["kind"] == "garbage"]


@with_inspected
async def test_half_of_a_response(inspected: Inspected) -> None:
    arm(inspected, "truncate")
    with pytest.raises(TimeoutError):
        await inspected.inspection.client.tools.call("broken", timeout=TOO_SHORT)


@with_inspected
async def test_the_connection_ends_before_a_response(inspected: Inspected) -> None:
    client = inspected.inspection.client
    arm(inspected, "cut")
    with pytest.raises(OutcomeUnknownError):
        await client.tools.call("add", {"a": 1})
    await client.ready(60)
    assert [row["to"] for row in inspected.events("state")].count("ready") == 2


@pytest.mark.parametrize("fault", ["garble_sent", "truncate_sent"])
@with_inspected
async def test_a_request_that_the_server_cannot_read(inspected: Inspected, fault: str) -> None:
    client = inspected.inspection.client
    arm(inspected, fault)
    with pytest.raises(TimeoutError):
        await client.tools.call("add", {"a": 1}, timeout=TOO_SHORT)
    assert (await client.tools.call("add", {"a": 1})).data == 3


@with_inspected
async def test_invalid_faults(inspected: Inspected) -> None:
    with pytest.raises(UsageError, match="unknown fault 'fire'; use one of drop, delay"):
        arm(inspected, "fire")
    with pytest.raises(UsageError, match="seconds must be from 0 to 600, not 601"):
        arm(inspected, "delay", 601)


@with_inspected
async def test_a_server_in_memory_cannot_be_killed(inspected: Inspected) -> None:
    assert inspected.inspection.faults is not None
    assert not inspected.inspection.faults.kill()
