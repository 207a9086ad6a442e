"""Notifications for `client.wire`: delivered as they arrive, with the call whose HTTP response carried them."""

from types import SimpleNamespace
from typing import Any

import pytest

from jackstay.client import connect
from jackstay.client._messages import deliver_progress, source_of
from jackstay.testing import ScriptedPeer, on_fake_clock


def test_a_transport_without_responses_has_no_source() -> None:
    assert source_of(None) == 0
    assert source_of(SimpleNamespace(source=7)) == 7


def test_an_invalid_progress_notification_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []
    deliver_progress(SimpleNamespace(on_progress=seen.append), b"{}")  # type: ignore[arg-type]
    assert "invalid progress notification" in caplog.text
    deliver_progress(SimpleNamespace(on_progress=None), b"{}")  # type: ignore[arg-type]
    deliver_progress(SimpleNamespace(on_progress=seen.append), b'{"progressToken":1,"progress":2}')  # type: ignore[arg-type]
    assert [report.progress for report in seen] == [2]


@on_fake_clock
async def test_every_notification_and_report_arrives_at_once_and_in_order() -> None:
    async with ScriptedPeer() as peer:
        client = connect(peer.target)
        seen: list[Any] = []
        client.wire.on_message = lambda method, params, source: seen.append((method, source))
        client.on_notification(lambda _: seen.append("not here"))
        await client.open()
        call = client.wire.call("tools/call", b'{"name":"t"}', on_progress=lambda report: seen.append(report.progress))
        request = await peer.expect("tools/call")
        for step in (1, 2, 3):
            request.progress(step)
        peer.notify("notifications/message", level="info", data="x")
        request.progress(4)
        request.respond({"content": []})
        await call.future
        assert seen == [1, 2, 3, ("notifications/message", 0), 4]
        await client.stop()
