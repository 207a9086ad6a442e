"""Handlers that fail, request input in the stateless era, are cancelled, or are wrapped by decorators."""

import asyncio
import functools
import itertools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import msgspec
import pytest

from chaos.servers_own.conversation import STATELESS, connected
from jackstay.errors import CapabilityError, JsonRpcError
from jackstay.server import Context, Next, Server, ToolError

# --- handlers that fail -----------------------------------------------------------------------------------------------


def failing(kind: str, error: BaseException) -> Server:
    server = Server("failing")
    if kind == "async":

        @server.tool(name="fails")
        async def fails() -> str:
            raise error

    elif kind == "direct":

        @server.tool(name="fails", blocking=False)
        def fails_directly(ctx: Context) -> str:
            raise error

    else:

        @server.tool(name="fails")
        def fails_in_a_thread() -> str:
            raise error

    return server


KINDS = ["async", "direct", "thread"]


async def test_an_unexpected_exception_is_logged_and_not_sent(
    subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture
) -> None:
    errors = (RuntimeError("secret"), SystemExit(3), StopIteration("secret"), GeneratorExit("secret"))
    for kind, error in itertools.product(KINDS, errors):
        with subtests.test(kind=kind, error=error):
            caplog.clear()
            with caplog.at_level(logging.ERROR, "jackstay.server"):
                async with connected(failing(kind, error)) as peer:
                    result = await peer.call("fails")
            assert result["isError"] is True
            text = result["content"][0]["text"]
            assert text.startswith("tool fails failed (reference ")
            assert "secret" not in str(result)
            (record,) = caplog.records
            assert record.exc_info is not None
            assert text.split()[4] in record.getMessage()


async def test_an_exception_of_a_non_blocking_function_does_not_close_the_connection() -> None:
    """docs/guarantees.md G20: `CancelledError` is not an `Exception`."""
    server = failing("direct", asyncio.CancelledError())

    @server.prompt(blocking=False)
    def greet() -> str:
        raise asyncio.CancelledError

    async with connected(server) as peer:
        assert (await peer.call("fails"))["isError"] is True
        assert (await peer.error("prompts/get", {"name": "greet"}))["code"] == -32603
        assert await peer.result("ping") == {}


async def test_the_message_of_a_tool_error_is_sent(subtests: pytest.Subtests) -> None:
    for kind in KINDS:
        with subtests.test(kind=kind):
            async with connected(failing(kind, ToolError("no such city"))) as peer:
                result = await peer.call("fails")
                assert result == {"content": [{"type": "text", "text": "no such city"}], "isError": True}


async def test_a_json_rpc_error_is_sent_unchanged(subtests: pytest.Subtests) -> None:
    for kind in KINDS:
        for code in [-32042, 0, 1]:
            with subtests.test(code=code, kind=kind):
                async with connected(failing(kind, JsonRpcError(code, "not here", {"x": 1}))) as peer:
                    error = await peer.error("tools/call", {"name": "fails"})
                    assert error == {"code": code, "message": "not here", "data": {"x": 1}}


@pytest.mark.parametrize(
    ("error", "message"),
    [(ToolError("not today"), "not today"), (ValueError("secret"), "prompt fails failed (reference")],
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_prompt_that_raises_is_an_error(error: Exception, message: str, is_async: bool) -> None:
    server = Server("failing")
    if is_async:

        @server.prompt(name="fails")
        async def fails() -> str:
            raise error

    else:

        @server.prompt(name="fails", blocking=False)
        def fails_directly(ctx: Context) -> str:
            raise error

    async with connected(server) as peer:
        response = await peer.error("prompts/get", {"name": "fails"})
        assert response["code"] == -32603
        assert response["message"].startswith(message)


async def test_a_result_that_violates_its_schema_is_an_internal_error() -> None:
    server = Server("wrong")

    @server.tool
    async def wrong() -> int:
        return "not a number"  # type: ignore[return-value]  # wrong on purpose

    async with connected(server) as peer:
        result = await peer.call("wrong")
        assert result["isError"] is True
        assert "reference" in result["content"][0]["text"]


# --- input requests in the stateless era ------------------------------------------------------------------------------


def requesting() -> Server:
    server = Server("requesting")
    form = {"type": "object", "properties": {"name": {"type": "string"}}}

    async def request_input(ctx: Context) -> str:
        response = await ctx.elicit("who?", form, key="user_name")
        return f"{ctx.method} {response.content}"

    server.tool(name="input")(request_input)
    server.prompt(name="input")(request_input)
    server.resource("input://me")(request_input)

    @server.resource("input://{how}")
    def without_input(how: str, ctx: Context) -> str:
        return how

    @server.tool(name="direct", blocking=False)
    def direct(text: str, ctx: Context) -> str:
        return text

    @server.resource("plain://me", blocking=False)
    def plain(ctx: Context) -> str:
        return "plain"

    return server


REQUESTS = [
    ("tools/call", {"name": "input", "arguments": {}}),
    ("tools/call", {"name": "input"}),
    ("prompts/get", {"name": "input"}),
    ("resources/read", {"uri": "input://me"}),
]


async def test_an_input_request_is_a_result_and_its_response_comes_with_the_same_request(
    subtests: pytest.Subtests,
) -> None:
    for method, params in REQUESTS:
        with subtests.test(method=method, params=params):
            async with connected(requesting(), STATELESS, {"elicitation": {}}) as peer:
                first = await peer.result(method, params)
                assert first["resultType"] == "input_required"
                request = first["inputRequests"]["user_name"]
                assert request["method"] == "elicitation/create"
                assert request["params"]["message"] == "who?"
                responses = {"user_name": {"action": "accept", "content": {"name": "Ada"}}, "other": 3}
                again = {**params, "inputResponses": responses, "requestState": first["requestState"]}
                result = await peer.result(method, again)
                assert result["resultType"] == "complete"
                assert "Ada" in str(result)


async def test_a_modified_request_state_is_rejected(subtests: pytest.Subtests) -> None:
    for method, params in REQUESTS:
        with subtests.test(method=method, params=params):
            async with connected(requesting(), STATELESS, {"elicitation": {}}) as peer:
                state = (await peer.result(method, params))["requestState"]
                changed = ("A" if state[0] != "A" else "B") + state[1:]
                error = await peer.error(method, {**params, "requestState": changed, "inputResponses": {}})
                assert error["code"] == -32602
                assert "requestState" in error["message"]


async def test_the_error_for_an_undeclared_capability_names_it(subtests: pytest.Subtests) -> None:
    for method, params in REQUESTS:
        with subtests.test(method=method, params=params):
            async with connected(requesting(), STATELESS) as peer:
                error = await peer.error(method, params)
                assert error["code"] == -32021
                assert error["data"]["requiredCapabilities"] == {"elicitation": {"form": {}}}


async def test_in_the_handshake_era_an_undeclared_capability_is_a_tool_error(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, Any, int]] = [(*REQUESTS[0], 0), (*REQUESTS[2], -32603)]
    for method, params, code in cases:
        with subtests.test(method=method, params=params, code=code):
            async with connected(requesting()) as peer:
                if code:
                    assert (await peer.error(method, params))["code"] == code
                else:
                    result = await peer.result(method, params)
                    assert result["isError"] is True
                    assert "elicitation" in result["content"][0]["text"]


async def test_functions_with_a_context_need_not_request_input() -> None:
    async with connected(requesting(), STATELESS) as peer:
        assert (await peer.result("resources/read", {"uri": "input://nicely"}))["contents"][0]["text"] == "nicely"
        assert (await peer.result("resources/read", {"uri": "plain://me"}))["contents"][0]["text"] == "plain"
        assert await peer.text("direct", text="x") == "x"


async def test_a_capability_error_for_a_declared_capability_is_a_tool_error() -> None:
    server = Server("confused")

    @server.tool
    async def confused() -> str:
        raise CapabilityError("sampling")

    async with connected(server, STATELESS, {"sampling": {}}) as peer:
        result = await peer.call("confused")
        assert result["isError"] is True


# --- cancellation -----------------------------------------------------------------------------------------------------


async def test_a_cancelled_request_cancels_its_handler_and_gets_no_response() -> None:
    server = Server("waiting")
    began, ended = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    async with connected(server) as peer:
        id = peer.send_request("tools/call", {"name": "wait"})
        await began.wait()
        peer.notify("notifications/cancelled", {"requestId": id, "reason": "no longer needed"})
        await ended.wait()
        await peer.result("ping")
        assert not [frame for frame in peer.frames if frame.get("id") == id]


async def test_a_blocking_function_sees_the_cancellation_and_its_result_is_discarded() -> None:
    server = Server("waiting")
    began, ended = threading.Event(), threading.Event()

    @server.tool
    def wait(ctx: Context) -> str:
        began.set()
        assert ctx.cancelled.wait(120)
        assert ctx.is_cancelled
        ended.set()
        return "too late"

    async with connected(server) as peer:
        id = peer.send_request("tools/call", {"name": "wait"})
        await asyncio.to_thread(began.wait, 5)
        peer.notify("notifications/cancelled", {"requestId": id})
        assert await asyncio.to_thread(ended.wait, 5)
        await peer.result("ping")
        assert not [frame for frame in peer.frames if frame.get("id") == id]


async def test_a_handler_that_cancels_itself_is_an_internal_error() -> None:
    server = Server("giving up")

    @server.tool
    async def give_up() -> str:
        raise asyncio.CancelledError

    async with connected(server) as peer:
        error = await peer.error("tools/call", {"name": "give_up"})
        assert error == {"code": -32603, "message": "the handler was cancelled"}


async def test_a_thread_that_waits_for_a_response_is_released_on_cancellation() -> None:
    """A client that does not respond and cancels must not keep a thread of the pool."""
    server = Server("waiting")
    ended = threading.Event()
    contexts: list[Context] = []

    @server.tool
    def request_roots(ctx: Context) -> str:
        contexts.append(ctx)
        try:
            ctx.wait(ctx.list_roots())
        except CancelledError:
            with pytest.raises(CancelledError):
                ctx.wait(ctx.list_roots())  # further requests are cancelled, too
            ended.set()
            raise
        return "never"

    async with connected(server, capabilities={"roots": {}}) as peer:
        id = peer.send_request("tools/call", {"name": "request_roots"})
        request = await peer.server_request()
        while not contexts[0]._waiting:  # the request is sent before the thread waits for the response
            await asyncio.sleep(0)
        peer.notify("notifications/cancelled", {"requestId": id})
        assert await peer.notification("notifications/cancelled") == {"requestId": request["id"]}
        assert await asyncio.to_thread(ended.wait, 5)
        assert await peer.result("ping") == {}
        assert not [frame for frame in peer.frames if frame.get("id") == id]


async def test_middleware_and_handler_see_the_cancellation() -> None:
    seen: list[bool] = []
    began, ended = asyncio.Event(), asyncio.Event()

    async def watch(ctx: Context, call_next: Next) -> bytes:
        try:
            return await call_next()
        finally:
            seen.append(ctx.is_cancelled)
            ended.set()

    server = Server("waiting", middleware=[watch])

    @server.tool
    async def wait(ctx: Context) -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(ctx.is_cancelled)
        return "never"

    async with connected(server) as peer:
        id = peer.send_request("tools/call", {"name": "wait"})
        await began.wait()
        peer.notify("notifications/cancelled", {"requestId": id})
        await ended.wait()
    assert seen == [True, True]


# --- unusual functions ------------------------------------------------------------------------------------------------


async def test_an_async_function_behind_a_plain_decorator_is_awaited() -> None:
    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            return function(*args, **keywords)

        return call

    server = Server("decorated")

    @server.tool
    @counted
    async def echo(text: str) -> str:
        await asyncio.sleep(0)
        return text

    @server.prompt
    @counted
    async def greet(text: str) -> str:
        return text

    async with connected(server) as peer:
        assert await peer.text("echo", text="hi") == "hi"
        result = await peer.result("prompts/get", {"name": "greet", "arguments": {"text": "hi"}})
        assert result["messages"][0]["content"]["text"] == "hi"


async def test_an_exception_of_a_validator_is_an_internal_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An unexpected exception in `__post_init__` is not a problem of the arguments, and is not sent."""

    class Location(msgspec.Struct):
        city: str

        def __post_init__(self) -> None:
            raise RuntimeError("secret")

    def find(place) -> str:  # type: ignore[no-untyped-def]  # annotated below: a local class
        return str(place)

    find.__annotations__["place"] = Location
    server = Server("fragile")
    server.tool(find)

    with caplog.at_level(logging.ERROR, "jackstay.server"):
        async with connected(server) as peer:
            result = await peer.call("find", place={"city": "Rome"})
    assert result["isError"] is True
    assert result["content"][0]["text"].startswith("tool find failed (reference ")
    assert caplog.records[0].exc_info is not None


async def test_a_json_rpc_error_of_another_server_is_not_sent() -> None:
    """A tool calls another server. Its -32601 would mean that this server has no tools."""
    error = JsonRpcError(-32601, "secret").about("tools/call", 1)

    async with connected(failing("async", error)) as peer:
        result = await peer.call("fails")
        assert result["isError"] is True
        assert "secret" not in str(result)
