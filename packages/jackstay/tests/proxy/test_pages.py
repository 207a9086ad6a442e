"""The pages of a proxy: who may read them, and what a browser may do with them."""

import asyncio
from typing import Any

import pytest

from jackstay.proxy import Proxy, ProxyOptions
from jackstay.proxy._pages import METRICS_PATH, STATUS_PATH, Pages
from jackstay.server.http import keys
from jackstay.testing import ScriptedPeer, on_fake_clock
from jackstay.transport import memory_pair, stdio
from peers.asgi import ask
from scripted.between import FAST, HANDSHAKE, between


async def page() -> str:
    return "<p>text</p>"


def pages(**options: Any) -> Pages:
    app = Proxy(memory_pair("never").client).asgi(**options)
    return Pages(app, {METRICS_PATH: page, STATUS_PATH: page})


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_page_is_served_by_its_path(method: str) -> None:
    answer = asyncio.run(ask(pages(), method, STATUS_PATH))
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.body == (b"<p>text</p>" if method == "GET" else b"")
    assert answer.headers["content-length"] == "11"
    assert (
        asyncio.run(ask(pages(), method, METRICS_PATH))
        .headers["content-type"]
        .startswith("text/plain; version=0.0.4")
    )


def test_everything_else_goes_to_the_endpoint() -> None:
    assert asyncio.run(ask(pages(), "GET", "/elsewhere")).status == 404
    assert asyncio.run(ask(pages(), "POST", STATUS_PATH)).status == 404
    assert "Pages" in repr(pages())


@pytest.mark.parametrize("path", [STATUS_PATH, METRICS_PATH])
def test_a_foreign_host_or_page_reads_nothing(path: str) -> None:
    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
        answer = asyncio.run(ask(pages(), "GET", path, **headers))
        assert answer.status == 403
        assert b"text" not in answer.body.replace(b"context", b"")


@pytest.mark.parametrize("path", [STATUS_PATH, METRICS_PATH])
def test_callers_need_the_key_of_the_endpoint(path: str) -> None:
    app = pages(auth=keys("sesame-sesame-sesame"))
    refused = asyncio.run(ask(app, "GET", path))
    assert refused.status == 401
    assert "www-authenticate" in refused.headers
    admitted = asyncio.run(ask(app, "GET", path, authorization="Bearer sesame-sesame-sesame"))
    assert admitted.status == 200


@on_fake_clock
async def test_health_is_that_of_the_server_behind() -> None:
    """200 while it answers; 503 with state and cause while it hangs and while it is gone."""
    async with between(settings={"backoff_min": 5.0, "backoff_max": 5.0}) as made:
        app = made.proxy.asgi(health=True)
        healthy = await ask(app, "GET", "/health")
        assert (healthy.status, healthy.json["status"]) == (200, "ok")
        assert healthy.json["servers"] == [{"era": "handshake", "state": "ok", "restarts": 0}]
        await ask(app, "GET", "/health")
        assert len(made.peer.got("ping")) == 1, "an answer counts for a second"
        await asyncio.sleep(2)
        made.peer.on["ping"] = None
        hung = await asyncio.gather(ask(app, "GET", "/health"), ask(app, "GET", "/health"))
        for answer in hung:
            assert (answer.status, answer.json["status"]) == (503, "unresponsive")
            assert "no answer to a check" in answer.json["servers"][0]["cause"]
        assert (await ask(app, "GET", "/health")).status == 503
        assert len(made.peer.got("ping")) == 2, "one that is not answered is not repeated"
        made.peer.got("ping")[-1].answer({})
        await asyncio.sleep(0.1)
        assert (await ask(app, "GET", "/health")).status == 200
        await asyncio.sleep(2)
        checking = asyncio.ensure_future(ask(app, "GET", "/health"))
        await made.peer.until(lambda: len(made.peer.got("ping")) == 3)
        made.peer.die()
        assert (await checking).json["status"] == "down", "lost while it was checked"
        down = await ask(app, "GET", "/health")
        assert (down.status, down.json["status"]) == (503, "down")
        assert down.json["servers"][0]["cause"]
        made.peer.on.pop("ping")
        await asyncio.sleep(10)
        again = await ask(app, "GET", "/health")
        assert (again.status, again.json["servers"][0]["restarts"]) == (200, 1)
        app.refuse_new()
        assert (await ask(app, "GET", "/health")).json["status"] == "draining"


@on_fake_clock
async def test_a_stateless_server_is_checked_with_discover_and_an_error_is_an_answer() -> None:
    async with between("2026-07-28") as made:
        before = len(made.peer.got("server/discover"))
        assert (await made.proxy.snapshot()).state == "ok"
        assert len(made.peer.got("server/discover")) == before + 1


@on_fake_clock
async def test_the_pages_show_what_happened() -> None:
    async with ScriptedPeer(HANDSHAKE, name="behind") as peer:
        proxy = Proxy(peer.target, ProxyOptions(metrics=True, status=True), settings=FAST)
        await proxy.open()
        app = proxy.asgi()
        served = Pages(app, proxy._pages(app))
        assert b'jackstay_proxy_server_up{era="handshake"} 1' in (await ask(served, "GET", METRICS_PATH)).body
        assert b"<td>ok</td>" in (await ask(served, "GET", STATUS_PATH)).body
        await proxy.shutdown()
    assert Proxy(memory_pair("never").client)._pages(app) == {}


def test_stderr_is_kept_for_the_status_page_alone(caplog: pytest.LogCaptureFixture) -> None:
    plain = Proxy(stdio("true"))
    assert plain._target._stderr == "log"  # type: ignore[attr-defined]
    proxy = Proxy(stdio("true", name="child"), ProxyOptions(status=True))
    with caplog.at_level("INFO"):
        proxy._target._stderr("a line")  # type: ignore[attr-defined]
    assert list(proxy._report.lines) == ["a line"]
    assert caplog.records[0].name == "jackstay.server.child"
