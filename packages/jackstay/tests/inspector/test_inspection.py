"""An inspection: the client of the page, with servers that start, crash, change and require headers."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.inspector import Choice, Inspection
from jackstay.inspector._inspection import ConnectionOptions
from jackstay.transport import stdio
from jackstay.transport.http import http
from scripted.inspected import Inspected, with_inspected
from scripted.places import ROOT

PEER = ROOT / "tests" / "peers" / "stdio_server.py"


@asynccontextmanager
async def inspection_of(*command: str) -> AsyncIterator[Inspection]:
    inspection = Inspection([Choice("peer", " ".join(command), stdio(*command))])
    await inspection.connect()
    try:
        yield inspection
    finally:
        await inspection.close()


async def wait_for(inspection: Inspection, *parts: bytes) -> bytes:
    """Return the first event that contains all of these."""
    async for event in inspection.events.follow():
        if all(part in event for part in parts):
            return event
    raise AssertionError(parts)


@with_inspected
async def test_transitions_are_published(inspected: Inspected) -> None:
    states = [(row["from"], row["to"]) for row in inspected.events("state")]
    assert states == [("new", "starting"), ("starting", "initializing"), ("initializing", "ready")]
    assert len(inspected.events("changed")) == 1
    assert repr(inspected.inspection) == "<Inspection demo ready>"


@with_inspected
async def test_a_change_of_a_list_is_published(inspected: Inspected) -> None:
    before = inspected.inspection.events.last

    @inspected.server.tool
    def later() -> str:
        return ""

    await wait_for(inspected.inspection, b"event: notification", b"tools/list_changed")
    assert sum(b"event: changed" in event for _, event in inspected.inspection.events.after(before)) == 1


async def test_a_killed_server_is_started_again() -> None:
    async with inspection_of(sys.executable, str(PEER)) as inspection:
        await inspection.client.ready(60)
        assert inspection.faults is not None
        assert inspection.faults.kill()
        event = await wait_for(inspection, b"event: state", b'"to":"backoff"')
        assert b"exited [signal 9]" in event
        await wait_for(inspection, b"event: connection", b'"connection":2')
        await inspection.client.ready(60)


async def test_a_server_that_cannot_start_shows_its_traceback(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text("import no_such_module\n")
    async with inspection_of(sys.executable, str(program)) as inspection:
        event = await wait_for(inspection, b"event: ended")
        assert b"ModuleNotFoundError: No module named 'no_such_module'" in event
        assert b'"may_have_run":false' in event
        await wait_for(inspection, b"event: stderr", b"import no_such_module")
        ends = []
        async for event in inspection.events.follow():
            if b"event: ended" in event:
                ends.append(event.count(b"ModuleNotFoundError"))
            if b'"to":"closed"' in event:
                break
        assert len(ends) > 1
        assert len(set(ends)) == 1, "each attempt has its own traceback only"
        # The program is mended: connecting again shows its tools.
        program.write_text(PEER.read_text("utf-8"))
        await inspection.reconnect("server.py was saved")
        await inspection.client.ready(60)
        await wait_for(inspection, b"event: note", b"server.py was saved")


def test_headers_and_sign_in_of_a_server_over_http(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    inspection = Inspection([Choice("url", "url", http("http://127.0.0.1:9/mcp"))])
    assert inspection.choice.name == "url"
    target: Any = inspection._http_target(inspection.choice.target, [])
    assert target.has_credentials, "a sign-in"
    target = inspection._http_target(inspection.choice.target, [("Authorization", "Bearer x")])
    assert target._authorizer is None
    assert target._headers == (("Authorization", "Bearer x"),)
    plain = http("http://example.org/mcp")
    assert inspection._http_target(plain, []) is plain
    with pytest.raises(UsageError, match="url must begin with https"):
        inspection._http_target(plain, [("Authorization", "Bearer x")])


async def test_not_connected() -> None:
    inspection = Inspection([Choice("peer", "peer", stdio("peer"))])
    with pytest.raises(UsageError, match="the inspector is not connected to a server"):
        _ = inspection.client
    assert inspection.state == "closed"
    with pytest.raises(UsageError, match="unknown server 'x'; use one of peer"):
        await inspection.connect(ConnectionOptions(server="x"))
    await inspection.close()
