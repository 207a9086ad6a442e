"""What becomes of a handler: it fails, it asks the client in the stateless era, it is cancelled, it is not what it seems."""

import asyncio
import functools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import msgspec
import pytest

from chaos.servers_own.conversation import STATELESS, run, talking
from jackstay.errors import CapabilityError, JsonRpcError
from jackstay.server import Context, Next, Server, ToolError

# --- handlers that fail -----------------------------------------------------------------------------------------------


def failing(kind: str, error: BaseException) -> Server:
    server = Server("failing")
    if kind == "async":

        @server.tool(name="fails")
        async def fails() -> str:
            raise error

    elif kind == "in place":

        @server.tool(name="fails", blocking=False)
        def fails_in_place(ctx: Context) -> str:
            raise error

    else:

        @server.tool(name="fails")
        def fails_in_a_thread() -> str:
            raise error

    return server


KINDS = ["async", "in place", "thread"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "error",
    [RuntimeError("secret"), SystemExit(3), StopIteration("secret"), GeneratorExit("secret")],
    ids=repr,
)
def test_nothing_of_an_accident_leaks_and_all_of_it_is_logged(
    kind: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        with caplog.at_level(logging.ERROR, "jackstay.server"):
            async with talking(failing(kind, error)) as peer:
                result = await peer.call("fails")
        assert result["isError"] is True
        text = result["content"][0]["text"]
        assert text.startswith("tool fails failed (reference ")
        assert "secret" not in str(result)
        (record,) = caplog.records
        assert record.exc_info is not None
        assert text.split()[4] in record.getMessage()

    run(test)


def test_a_function_called_in_place_cannot_stop_the_connection_that_calls_it() -> None:
    """G20: `task.result()` of a task that was cancelled raises what is no `Exception`."""
    server = failing("in place", asyncio.CancelledError())

    @server.prompt(blocking=False)
    def say() -> str:
        raise asyncio.CancelledError

    async def test() -> None:
        async with talking(server) as peer:
            assert (await peer.call("fails"))["isError"] is True
            assert (await peer.error("prompts/get", {"name": "say"}))["code"] == -32603
            assert await peer.result("ping") == {}

    run(test)


@pytest.mark.parametrize("kind", KINDS)
def test_an_authors_own_words_reach_the_client(kind: str) -> None:
    async def test() -> None:
        async with talking(failing(kind, ToolError("no such city"))) as peer:
            result = await peer.call("fails")
            assert result == {"content": [{"type": "text", "text": "no such city"}], "isError": True}

    run(test)


@pytest.mark.parametrize("code", [-32042, 0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_an_authors_own_error_is_the_answer(kind: str, code: int) -> None:
    async def test() -> None:
        async with talking(failing(kind, JsonRpcError(code, "go there", {"x": 1}))) as peer:
            error = await peer.error("tools/call", {"name": "fails"})
            assert error == {"code": code, "message": "go there", "data": {"x": 1}}

    run(test)


@pytest.mark.parametrize(
    ("error", "message"),
    [(ToolError("not today"), "not today"), (ValueError("secret"), "prompt fails failed (reference")],
)
@pytest.mark.parametrize("is_async", [True, False])
def test_a_prompt_that_fails_is_an_error(error: Exception, message: str, is_async: bool) -> None:
    server = Server("failing")
    if is_async:

        @server.prompt(name="fails")
        async def fails() -> str:
            raise error

    else:

        @server.prompt(name="fails", blocking=False)
        def fails_in_place(ctx: Context) -> str:
            raise error

    async def test() -> None:
        async with talking(server) as peer:
            said = await peer.error("prompts/get", {"name": "fails"})
            assert said["code"] == -32603
            assert said["message"].startswith(message)

    run(test)


def test_a_result_that_breaks_its_schema_is_an_accident() -> None:
    server = Server("lying")

    @server.tool
    async def lie() -> int:
        return "not a number"  # type: ignore[return-value]  # that is the point

    async def test() -> None:
        async with talking(server) as peer:
            result = await peer.call("lie")
            assert result["isError"] is True
            assert "reference" in result["content"][0]["text"]

    run(test)


# --- asking in the stateless era --------------------------------------------------------------------------------------


def asking() -> Server:
    server = Server("asking")
    form = {"type": "object", "properties": {"name": {"type": "string"}}}

    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("who?", form, key="user_name")
        return f"{ctx.method} {answer.content}"

    server.tool(name="ask")(ask)
    server.prompt(name="ask")(ask)
    server.resource("ask://me")(ask)

    @server.resource("ask://{how}")
    def plainly(how: str, ctx: Context) -> str:
        return how

    @server.tool(name="in_place", blocking=False)
    def in_place(text: str, ctx: Context) -> str:
        return text

    @server.resource("plain://me", blocking=False)
    def plain(ctx: Context) -> str:
        return "plain"

    return server


ASKING = [
    ("tools/call", {"name": "ask", "arguments": {}}),
    ("tools/call", {"name": "ask"}),
    ("prompts/get", {"name": "ask"}),
    ("resources/read", {"uri": "ask://me"}),
]


@pytest.mark.parametrize(("method", "params"), ASKING)
def test_a_question_is_a_result_and_its_answer_comes_with_the_same_request(method: str, params: Any) -> None:
    async def test() -> None:
        async with talking(asking(), STATELESS, {"elicitation": {}}) as peer:
            asked = await peer.result(method, params)
            assert asked["resultType"] == "input_required"
            question = asked["inputRequests"]["user_name"]
            assert question["method"] == "elicitation/create"
            assert question["params"]["message"] == "who?"
            answers = {"user_name": {"action": "accept", "content": {"name": "Ada"}}, "other": 3}
            again = {**params, "inputResponses": answers, "requestState": asked["requestState"]}
            result = await peer.result(method, again)
            assert result["resultType"] == "complete"
            assert "Ada" in str(result)

    run(test)


@pytest.mark.parametrize(("method", "params"), ASKING)
def test_a_state_that_was_changed_is_refused(method: str, params: Any) -> None:
    async def test() -> None:
        async with talking(asking(), STATELESS, {"elicitation": {}}) as peer:
            state = (await peer.result(method, params))["requestState"]
            changed = ("A" if state[0] != "A" else "B") + state[1:]
            error = await peer.error(method, {**params, "requestState": changed, "inputResponses": {}})
            assert error["code"] == -32602
            assert "requestState" in error["message"]

    run(test)


@pytest.mark.parametrize(("method", "params"), ASKING)
def test_a_client_that_did_not_declare_it_is_refused_with_what_is_missing(method: str, params: Any) -> None:
    async def test() -> None:
        async with talking(asking(), STATELESS) as peer:
            error = await peer.error(method, params)
            assert error["code"] == -32021
            assert error["data"]["requiredCapabilities"] == {"elicitation": {"form": {}}}

    run(test)


@pytest.mark.parametrize(("method", "params", "code"), [(*ASKING[0], 0), (*ASKING[2], -32603)])
def test_a_client_of_the_handshake_era_that_did_not_declare_it_is_told_in_words(
    method: str, params: Any, code: int
) -> None:
    async def test() -> None:
        async with talking(asking()) as peer:
            if code:
                assert (await peer.error(method, params))["code"] == code
            else:
                result = await peer.result(method, params)
                assert result["isError"] is True
                assert "elicitation" in result["content"][0]["text"]

    run(test)


def test_functions_with_a_context_that_do_not_ask_are_served_as_ever() -> None:
    async def test() -> None:
        async with talking(asking(), STATELESS) as peer:
            assert (await peer.result("resources/read", {"uri": "ask://nicely"}))["contents"][0][
                "text"
            ] == "nicely"
            assert (await peer.result("resources/read", {"uri": "plain://me"}))["contents"][0][
                "text"
            ] == "plain"
            assert await peer.text("in_place", text="x") == "x"

    run(test)


def test_an_undeclared_capability_that_was_declared_after_all_is_told_in_words() -> None:
    async def test() -> None:
        server = Server("confused")

        @server.tool
        async def confused() -> str:
            raise CapabilityError("sampling")

        async with talking(server, STATELESS, {"sampling": {}}) as peer:
            result = await peer.call("confused")
            assert result["isError"] is True

    run(test)


# --- cancellation -----------------------------------------------------------------------------------------------------


def test_a_cancelled_request_is_cancelled_in_its_handler_and_never_answered() -> None:
    async def test() -> None:
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

        async with talking(server) as peer:
            id = peer.ask("tools/call", {"name": "wait"})
            await began.wait()
            peer.notify("notifications/cancelled", {"requestId": id, "reason": "bored"})
            await ended.wait()
            await peer.result("ping")
            assert not [frame for frame in peer.frames if frame.get("id") == id]

    run(test)


def test_a_blocking_function_gets_a_token_and_its_result_is_never_sent() -> None:
    async def test() -> None:
        server = Server("waiting")
        began, ended = threading.Event(), threading.Event()

        @server.tool
        def wait(ctx: Context) -> str:
            began.set()
            assert ctx.cancelled.wait(10)
            assert ctx.is_cancelled
            ended.set()
            return "too late"

        async with talking(server) as peer:
            id = peer.ask("tools/call", {"name": "wait"})
            await asyncio.to_thread(began.wait, 5)
            peer.notify("notifications/cancelled", {"requestId": id})
            assert await asyncio.to_thread(ended.wait, 5)
            await peer.result("ping")
            assert not [frame for frame in peer.frames if frame.get("id") == id]

    run(test)


def test_a_handler_that_cancels_itself_is_an_error_to_the_client() -> None:
    async def test() -> None:
        server = Server("giving up")

        @server.tool
        async def give_up() -> str:
            raise asyncio.CancelledError

        async with talking(server) as peer:
            error = await peer.error("tools/call", {"name": "give_up"})
            assert error == {"code": -32603, "message": "the handler was cancelled"}

    run(test)


def test_a_thread_that_waits_for_an_answer_is_let_go_when_its_request_is_cancelled() -> None:
    """Section 6: a client that calls, is asked and cancels must not keep a thread of the pool."""

    async def test() -> None:
        server = Server("waiting")
        ended = threading.Event()
        contexts: list[Context] = []

        @server.tool
        def ask(ctx: Context) -> str:
            contexts.append(ctx)
            try:
                ctx.wait(ctx.roots())
            except CancelledError:
                with pytest.raises(CancelledError):
                    ctx.wait(ctx.roots())  # nor can anything else be asked
                ended.set()
                raise
            return "never"

        async with talking(server, capabilities={"roots": {}}) as peer:
            id = peer.ask("tools/call", {"name": "ask"})
            question = await peer.question()
            while not contexts[0]._waiting:  # the question is out before its thread waits for the answer
                await asyncio.sleep(0.001)
            peer.notify("notifications/cancelled", {"requestId": id})
            assert await peer.note("notifications/cancelled") == {"requestId": question["id"]}
            assert await asyncio.to_thread(ended.wait, 5)
            assert await peer.result("ping") == {}
            assert not [frame for frame in peer.frames if frame.get("id") == id]

    run(test)


def test_middleware_and_the_function_in_it_both_see_that_a_request_was_cancelled() -> None:
    async def test() -> None:
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

        async with talking(server) as peer:
            id = peer.ask("tools/call", {"name": "wait"})
            await began.wait()
            peer.notify("notifications/cancelled", {"requestId": id})
            await ended.wait()
        assert seen == [True, True]

    run(test)


# --- functions that are not what they seem ----------------------------------------------------------------------------


def test_a_plain_decorator_around_an_async_function_is_awaited() -> None:
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
    async def say(text: str) -> str:
        return text

    async def test() -> None:
        async with talking(server) as peer:
            assert await peer.text("echo", text="hi") == "hi"
            said = await peer.result("prompts/get", {"name": "say", "arguments": {"text": "hi"}})
            assert said["messages"][0]["content"]["text"] == "hi"

    run(test)


def test_a_class_of_the_authors_that_fails_to_be_made_is_an_accident(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Section 6: what a validator raises by mistake is no problem of the arguments, and nothing of it leaks."""

    class Place(msgspec.Struct):
        city: str

        def __post_init__(self) -> None:
            raise RuntimeError("secret")

    def find(place) -> str:  # type: ignore[no-untyped-def]  # a local class cannot be written there
        return str(place)

    find.__annotations__["place"] = Place
    server = Server("fragile")
    server.tool(find)

    async def test() -> None:
        with caplog.at_level(logging.ERROR, "jackstay.server"):
            async with talking(server) as peer:
                result = await peer.call("find", place={"city": "Rome"})
        assert result["isError"] is True
        assert result["content"][0]["text"].startswith("tool find failed (reference ")
        assert caplog.records[0].exc_info is not None

    run(test)


def test_what_another_server_answered_is_not_our_answer() -> None:
    """A tool that calls a server: its -32601 would say that we have no tools."""
    error = JsonRpcError(-32601, "secret").about("tools/call", 1)

    async def test() -> None:
        async with talking(failing("async", error)) as peer:
            result = await peer.call("fails")
            assert result["isError"] is True
            assert "secret" not in str(result)

    run(test)
