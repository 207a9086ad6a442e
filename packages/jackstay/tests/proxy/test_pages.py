"""The metrics and the status page of a proxy over HTTP."""

import asyncio
from typing import Any

import pytest

from jackstay.proxy import Proxy, ProxyOptions
from jackstay.proxy._pages import METRICS_PATH, STATUS_PATH, Pages
from jackstay.server.http import keys
from jackstay.testing import ScriptedPeer, on_fake_clock
from jackstay.transport import memory_pair, stdio
from peers.asgi import request_app
from scripted.between import FAST, HANDSHAKE, between


async def page() -> str:
    return "<p>text</p>"


def pages(**options: Any) -> Pages:
    app = Proxy(memory_pair("never").client).asgi(**options)
    return Pages(app, {METRICS_PATH: page, STATUS_PATH: page})


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_page_is_served_by_its_path(method: str) -> None:
    answer = asyncio.run(request_app(pages(), method, STATUS_PATH))
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.body == (b"<p>text</p>" if method == "GET" else b"")
    assert answer.headers["content-length"] == "11"
    metrics = asyncio.run(request_app(pages(), method, METRICS_PATH))
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")


def test_everything_else_goes_to_the_endpoint() -> None:
    assert asyncio.run(request_app(pages(), "GET", "/elsewhere")).status == 404
    assert asyncio.run(request_app(pages(), "POST", STATUS_PATH)).status == 404


@pytest.mark.parametrize("path", [STATUS_PATH, METRICS_PATH])
def test_foreign_host_and_origin_are_rejected(path: str) -> None:
    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
        answer = asyncio.run(request_app(pages(), "GET", path, **headers))
        assert answer.status == 403
        assert b"text" not in answer.body.replace(b"context", b"")


@pytest.mark.parametrize("path", [STATUS_PATH, METRICS_PATH])
def test_pages_require_the_key_of_the_endpoint(path: str) -> None:
    app = pages(auth=keys("sesame-sesame-sesame"))
    refused = asyncio.run(request_app(app, "GET", path))
    assert refused.status == 401
    assert "www-authenticate" in refused.headers
    admitted = asyncio.run(request_app(app, "GET", path, authorization="Bearer sesame-sesame-sesame"))
    assert admitted.status == 200


@on_fake_clock
async def test_health_is_that_of_the_upstream_server() -> None:
    """200 while the server responds; 503 with state and cause while it hangs or is down."""
    async with between(settings={"backoff_min": 5.0, "backoff_max": 5.0}) as harness:
        app = harness.proxy.asgi(health=True)
        healthy = await request_app(app, "GET", "/health")
        assert (healthy.status, healthy.json["status"]) == (200, "ok")
        assert healthy.json["servers"] == [{"era": "handshake", "state": "ok", "restarts": 0}]
        await request_app(app, "GET", "/health")
        assert len(harness.peer.got("ping")) == 1, "a response is reused for a second"
        await asyncio.sleep(2)
        harness.peer.on["ping"] = None
        hung = await asyncio.gather(request_app(app, "GET", "/health"), request_app(app, "GET", "/health"))
        for answer in hung:
            assert (answer.status, answer.json["status"]) == (503, "unresponsive")
            assert "no response to a health check" in answer.json["servers"][0]["cause"]
        assert (await request_app(app, "GET", "/health")).status == 503
        assert len(harness.peer.got("ping")) == 2, "an unanswered check is not repeated"
        harness.peer.got("ping")[-1].respond({})
        await asyncio.sleep(0.1)
        assert (await request_app(app, "GET", "/health")).status == 200
        await asyncio.sleep(2)
        checking = asyncio.ensure_future(request_app(app, "GET", "/health"))
        await harness.peer.until(lambda: len(harness.peer.got("ping")) == 3)
        harness.peer.crash()
        assert (await checking).json["status"] == "down", "lost during the check"
        down = await request_app(app, "GET", "/health")
        assert (down.status, down.json["status"]) == (503, "down")
        assert down.json["servers"][0]["cause"]
        harness.peer.on.pop("ping")
        await asyncio.sleep(10)
        again = await request_app(app, "GET", "/health")
        assert (again.status, again.json["servers"][0]["restarts"]) == (200, 1)
        app.refuse_new()
        assert (await request_app(app, "GET", "/health")).json["status"] == "draining"


@on_fake_clock
async def test_a_stateless_server_is_checked_with_discover() -> None:
    async with between("2026-07-28") as harness:
        before = len(harness.peer.got("server/discover"))
        assert (await harness.proxy.snapshot()).state == "ok"
        assert len(harness.peer.got("server/discover")) == before + 1


@on_fake_clock
async def test_pages_show_the_state_of_the_server() -> None:
    async with ScriptedPeer(HANDSHAKE, name="behind") as peer:
        proxy = Proxy(peer.target, ProxyOptions(metrics=True, status=True), settings=FAST)
        await proxy.open()
        app = proxy.asgi()
        served = proxy._with_pages(app)
        assert b'jackstay_proxy_server_up{era="handshake"} 1' in (await request_app(served, "GET", METRICS_PATH)).body
        assert b"<td>ok</td>" in (await request_app(served, "GET", STATUS_PATH)).body
        await proxy.shutdown()
    without_pages = Proxy(memory_pair("never").client)._with_pages(app)
    assert isinstance(without_pages, Pages)
    assert without_pages._pages == {}


def test_stderr_is_kept_only_for_the_status_page(caplog: pytest.LogCaptureFixture) -> None:
    plain = Proxy(stdio("true"))
    assert plain._target.stderr == "log"  # type: ignore[attr-defined]
    proxy = Proxy(stdio("true", name="child"), ProxyOptions(status=True))
    with caplog.at_level("INFO"):
        proxy._target.stderr("a line")  # type: ignore[attr-defined]
    assert list(proxy._report.lines) == ["a line"]
    assert caplog.records[0].name == "jackstay.server.child"
