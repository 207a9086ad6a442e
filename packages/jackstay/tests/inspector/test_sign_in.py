"""The sign-in on the page, with an authorization server on loopback."""

import re
from pathlib import Path

import pytest

from jackstay.inspector import Choice, Inspection
from jackstay.transport.http import http
from scripted.oauth import AuthorizationSite, Browser, GuardedSite, PlainClient


async def next_event(inspection: Inspection, kind: bytes) -> bytes:
    async for event in inspection.events.follow():
        if b"event: %b\n" % kind in event:
            return event
    raise AssertionError(kind)


async def test_the_link_is_shown_until_the_sign_in_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    async with AuthorizationSite() as issuing, GuardedSite(issuing) as server:
        inspection = Inspection([Choice("url", "url", http(server.endpoint))])
        await inspection.connect()
        shown = await next_event(inspection, b"sign_in")
        url = re.search(rb'"url":"([^"]+)"', shown)
        assert url is not None
        assert b"event: signed_in" not in b"".join(event for _, event in inspection.events.after(0))
        callback = await Browser()(url[1].decode())
        await (await PlainClient().send("GET", callback, (), None)).close()
        await next_event(inspection, b"signed_in")
        await inspection.client.ready(60)
        await inspection.close()
