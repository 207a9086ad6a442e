"""Applications that are called in this process."""

import asyncio
import logging
from typing import Any

import pytest

from jackstay.openapi import AsgiSender, Request, SendError

GET = Request("GET", "/", (("X-A", "é"),), None)
URL = "http://localhost:8000/a%20b?c=d"


def responding(*bodies: bytes, status: int = 200) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"X-B", b"1")]})
        for index, body in enumerate(bodies):
            await send({"type": "http.response.body", "body": body, "more_body": index + 1 < len(bodies)})

    return app


async def test_the_scope_and_the_body() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.extend((scope, await receive()))
        await responding(b"a", b"b")(scope, receive, send)
        seen.append(await receive())

    sender = AsgiSender(app)
    response = await sender.send(URL, Request("POST", "/", (("X-A", "é"),), b"data"), 10)
    assert (response.status, response.headers, response.body) == (200, {"x-b": "1"}, b"ab")
    scope = seen[0]
    assert (scope["method"], scope["path"], scope["raw_path"], scope["query_string"]) == (
        "POST",
        "/a b",
        b"/a%20b",
        b"c=d",
    )
    assert scope["headers"] == [(b"host", b"localhost:8000"), (b"x-a", b"\xe9"), (b"content-length", b"4")]
    assert seen[1] == {"type": "http.request", "body": b"data", "more_body": False}
    await sender.close()
    assert seen[2:] in ([], [{"type": "http.disconnect"}])


async def test_an_endless_response_is_limited_and_its_application_cancelled() -> None:
    ended = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x" * 10, "more_body": True})
                await asyncio.sleep(0)
        finally:
            ended.set()

    with pytest.raises(SendError, match="HTTP 200, but the body is larger than 100 bytes"):
        await AsgiSender(app).send(URL, GET, 100)
    await ended.wait()


async def test_an_application_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError("secret")

    async def silent(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.debug"})

    with caplog.at_level(logging.ERROR, "jackstay.openapi"), pytest.raises(SendError) as caught:
        await AsgiSender(app).send(URL, GET, 10)
    assert str(caught.value) == "the application failed; see the server's log"
    assert "secret" in caplog.text
    with pytest.raises(SendError, match="there is no response"):
        await AsgiSender(silent).send(URL, GET, 10)


async def test_work_after_the_response_continues_and_is_cancelled_at_the_end() -> None:
    steps: list[str] = []
    goes_on, ended = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await responding(b"x")(scope, receive, send)
        await goes_on.wait()
        steps.append("after")
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    sender = AsgiSender(app)
    assert (await sender.send(URL, GET, 10)).body == b"x"
    assert steps == []
    goes_on.set()
    await asyncio.sleep(0)
    await sender.close()
    assert steps == ["after"]
    assert ended.is_set()


async def test_cancelling_a_call_cancels_the_application() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    call = asyncio.ensure_future(AsgiSender(app).send(URL, GET, 10))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await ended.wait()


async def test_the_lifespan() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append(scope["state"]["pool"])
            return await responding(b"")(scope, receive, send)
        for step in ("startup", "shutdown"):
            seen.append((await receive())["type"])
            scope["state"]["pool"] = "pool"
            await send({"type": f"lifespan.{step}.complete"})
        return None

    sender = AsgiSender(app)
    await sender.start()
    await sender.send(URL, GET, 10)
    await sender.close()
    assert seen == ["lifespan.startup", "pool", "lifespan.shutdown"]


async def test_a_lifespan_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    with pytest.raises(RuntimeError, match="the startup of the application failed: no database"):
        await AsgiSender(app).start()

    async def later(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.failed", "message": "stuck"})

    sender = AsgiSender(later)
    await sender.start()
    with caplog.at_level(logging.ERROR, "jackstay.openapi"):
        await sender.close()
    assert "the shutdown of the application failed: stuck" in caplog.text


async def test_an_application_without_a_lifespan() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"

    sender = AsgiSender(app)
    await sender.start()
    await sender.close()
