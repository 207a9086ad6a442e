"""The application: one client for all requests, HTTP statuses, and shutdown."""

import asyncio
import http.client
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from guides.loading import ENVIRONMENT, FAULTY, GUIDES, load
from jackstay import connect
from jackstay.errors import (
    BackpressureError,
    CapabilityError,
    ClosedError,
    JsonRpcError,
    McpError,
    OutcomeUnknownError,
    ShutdownError,
    StateError,
    TimeoutError,
    TransportError,
    UsageError,
)
from jackstay.testing import ScriptedError, ScriptedPeer, on_fake_clock

app_module = load("fastapi_app")

Work = Callable[[httpx.AsyncClient, ScriptedPeer], Awaitable[None]]


async def serving(work: Work, **settings: Any) -> None:
    """The application with a scripted shop, from its start to its end."""
    async with ScriptedPeer() as peer:
        client = connect(peer.target, name="shop", wait_for_ready=True, **settings)
        app = app_module.make_app({"shop": client})
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as browser:
                await work(browser, peer)
        assert client.state == "closed"


def pay(browser: httpx.AsyncClient, cents: int = 500) -> "asyncio.Future[httpx.Response]":
    return asyncio.ensure_future(browser.post("/orders/A7/payment", params={"cents": cents}))


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}], **more}


@on_fake_clock
async def test_requests_share_one_client() -> None:
    async def work(browser: httpx.AsyncClient, peer: ScriptedPeer) -> None:
        peer.on["tools/call"] = text("500 cents for A7")
        answers = await asyncio.gather(*(pay(browser) for _ in range(5)))
        assert {answer.status_code for answer in answers} == {200}
        assert answers[0].json() == {"paid": "500 cents for A7"}
        assert len(peer.got("initialize")) + len(peer.got("server/discover")) <= 2
        assert (await browser.get("/health")).json() == {"shop": "ready"}

    await serving(work)


@on_fake_clock
async def test_tool_errors_and_server_errors_have_different_statuses() -> None:
    async def work(browser: httpx.AsyncClient, peer: ScriptedPeer) -> None:
        peer.on["tools/call"] = text("0 cents cannot be paid", isError=True)
        answer = await pay(browser, 0)
        assert (answer.status_code, answer.json()) == (422, {"detail": "0 cents cannot be paid"})

        def refuse(params: Any) -> Any:
            raise ScriptedError(-32000, "closed on Sundays")

        peer.on["tools/call"] = refuse
        answer = await pay(browser)
        assert answer.status_code == 502
        assert answer.json() == {"error": "jsonrpc", "message": "closed on Sundays", "may_have_run": None}

    await serving(work)


@on_fake_clock
async def test_a_lost_payment_is_504_without_retry_after() -> None:
    async def work(browser: httpx.AsyncClient, peer: ScriptedPeer) -> None:
        paying = pay(browser)
        await peer.expect("tools/call")
        peer.crash()
        answer = await paying
        assert answer.status_code == 504
        assert answer.json()["may_have_run"] is True
        assert "retry-after" not in answer.headers
        peer.on["tools/call"] = text("500 cents for A8")
        assert (await pay(browser)).status_code == 200, "and the next one finds a new server"

    await serving(work)


@on_fake_clock
async def test_a_server_that_is_down_is_503_with_retry_after() -> None:
    async def work(browser: httpx.AsyncClient, peer: ScriptedPeer) -> None:
        assert (await browser.get("/health")).status_code == 200
        peer.on["tools/call"] = text("500 cents for A7")
        assert (await pay(browser)).status_code == 200
        peer.reopens = False
        peer.crash()
        answer = await pay(browser)
        assert answer.status_code == 503
        assert answer.json()["may_have_run"] is False
        assert int(answer.headers["retry-after"]) >= 1
        health = await browser.get("/health")
        assert health.status_code == 200, "the client reconnects automatically"
        assert health.json()["shop"] in ("backoff", "starting", "initializing")

    await serving(work)


@on_fake_clock
async def test_a_client_that_is_closed_for_good_is_not_healthy() -> None:
    async with ScriptedPeer() as peer:
        client = connect(peer.target, name="shop")
        app = app_module.make_app({"shop": client})
        async with app.router.lifespan_context(app):
            await client.stop()
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as browser:
                health = await browser.get("/health")
                assert (health.status_code, health.json()) == (503, {"shop": "closed"})
                assert (await pay(browser)).status_code == 503


@on_fake_clock
async def test_the_application_starts_while_a_server_is_down() -> None:
    """`open(wait=False)`: one server that is late must not keep the rest of the application from serving."""

    async def work(browser: httpx.AsyncClient, peer: ScriptedPeer) -> None:
        assert (await browser.get("/health")).json()["shop"] != "ready"
        peer.on["tools/call"] = text("500 cents for A7")
        assert (await pay(browser)).status_code == 200, "the payment waited for the server"

    await serving(work)


STATUSES: list[tuple[McpError, int]] = [
    (OutcomeUnknownError("lost"), 504),
    (TimeoutError(20, sent=True), 504),
    (ShutdownError(sent=True), 504),
    (TimeoutError(20, sent=False), 503),
    (TransportError("gone"), 503),
    (StateError("backoff"), 503),
    (BackpressureError("full"), 503),
    (CapabilityError("tools"), 503),
    (ClosedError(ShutdownError()), 503),
    (JsonRpcError(-32602, "no"), 502),
    (UsageError("not JSON"), 500),
]


@pytest.mark.parametrize(("error", "status"), STATUSES)
def test_http_status_of_an_error(error: McpError, status: int) -> None:
    assert app_module.http_status(error) == status


# --- the process ------------------------------------------------------------------------------------------------------

STARTED = """\
import sys
sys.argv = ["fastapi_app.py", sys.argv[2], "0"]
sys.path.insert(0, {guides!r})
import fastapi_app
fastapi_app.SHOP = {faulty!r}
real = fastapi_app.stdio
fastapi_app.stdio = lambda *words, **more: real(*words, "held", **more)
fastapi_app.main()
"""


def test_sigterm_answers_the_open_request_and_ends_the_shop(tmp_path: Path) -> None:
    """uvicorn lets open requests end, then the lifespan ends and the clients with it; nothing is left running."""
    ledger = tmp_path / "ledger"
    for name in ("begun", "go"):
        os.mkfifo(f"{ledger}.{name}")
    program = STARTED.format(guides=str(GUIDES), faulty=str(FAULTY))
    with subprocess.Popen(
        [sys.executable, "-c", program, "fastapi_app.py", str(ledger)],
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        assert process.stderr is not None
        port = next(found[1] for line in process.stderr if (found := re.search(r"127\.0\.0\.1:(\d+)", line)))
        answers: list[tuple[int, bytes]] = []
        paying = threading.Thread(target=lambda: answers.append(post(int(port))))
        paying.start()
        assert Path(f"{ledger}.begun").read_text() == "begun"
        shops = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGTERM)
        Path(f"{ledger}.go").write_text("go")
        paying.join(120)
        process.communicate(timeout=240)
    assert answers == [(200, b'{"paid":"500 cents for A7"}')]
    assert process.returncode == -signal.SIGTERM, "uvicorn ends by the signal it was sent, when all is done"
    assert ledger.read_text() == "A7 500\n"
    assert len(shops) == 1
    assert not Path(f"/proc/{shops[0]}").exists()


def post(port: int) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=240)
    connection.request("POST", "/orders/A7/payment?cents=500")
    answer = connection.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        connection.close()
