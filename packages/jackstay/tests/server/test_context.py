"""`Context`: the request, notifications and requests to the client, in both eras."""

import asyncio
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from chaos.servers_own.conversation import ALL, HANDSHAKE, STATELESS, Peer, connected
from jackstay.errors import UsageError
from jackstay.server import Context, Server
from jackstay.types import SamplingMessage, TextContent

EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


@dataclass
class Person:
    name: str
    age: int = 0


def serving(*functions: Callable[..., Any]) -> Server:
    server = Server("context", request_state_secrets=(b"0123456789abcdef",))
    for function in functions:
        server.tool(function)
    return server


async def respond(peer: Peer, name: str, *responses: Any) -> Any:
    """Call a tool and respond to its requests, in order, in any era."""
    params: dict[str, Any] = {"name": name, "arguments": {}}
    remaining = list(responses)
    if peer.version != STATELESS:
        id = peer.send_request("tools/call", params)
        while remaining:
            question = await peer.server_request()
            peer.send({"jsonrpc": "2.0", "id": question["id"], "result": remaining.pop(0)})
        return (await peer.answer(id))["result"]
    result = await peer.result("tools/call", params)
    while result["resultType"] == "input_required":
        by_key = {key: remaining.pop(0) for key in result["inputRequests"]}
        again = {**params, "inputResponses": by_key, "requestState": result["requestState"]}
        result = await peer.result("tools/call", again)
    return result


def text_of(result: Any) -> str:
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


# --- the request ------------------------------------------------------------------------------------------------------


async def test_the_context_describes_the_request_and_the_client(subtests: pytest.Subtests) -> None:
    seen: list[tuple[str, str]] = []

    async def look(ctx: Context) -> str:
        assert ctx.method == "tools/call"
        assert ctx.request_id == "my-id"
        assert ctx.meta["my-member"] == 1
        assert ctx.params["name"] == "look"
        assert ctx.client_capabilities.sampling is not None
        assert ctx.principal == ""
        assert not ctx.is_cancelled
        seen.append((ctx.version, repr(ctx)))
        info = ctx.client_info
        return "none" if info is None else info.name

    for version in ALL:
        with subtests.test(version=version):
            async with connected(serving(look), version, {"sampling": {}}) as peer:
                params = {"name": "look", "_meta": {"my-member": 1}}
                response = await peer.request("tools/call", params, id="my-id")
                assert text_of(response["result"]) == ("none" if version == STATELESS else "peer")
                assert seen[-1] == (version, f"<Context tools/call 'my-id' {version}>")


async def test_client_info_is_optional_in_the_stateless_era(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [({"name": "me", "version": "1"}, "me"), ({"name": 3}, "none"), (7, "none")]
    for info, name in cases:
        with subtests.test(info=info, name=name):

            async def look(ctx: Context) -> str:
                return "none" if ctx.client_info is None else ctx.client_info.name

            async with connected(serving(look), STATELESS) as peer:
                params = {"name": "look", "_meta": {"io.modelcontextprotocol/clientInfo": info}}
                assert text_of(await peer.result("tools/call", params)) == name


async def test_invalid_capabilities_are_ignored() -> None:
    async def look(ctx: Context) -> str:
        return str(ctx.client_capabilities.sampling)

    async with connected(serving(look), STATELESS, {"sampling": 3}) as peer:
        assert await peer.text("look") == "None"


async def test_meta_is_empty_if_the_request_has_none() -> None:
    async def look(ctx: Context) -> str:
        return str(ctx.meta)

    async with connected(serving(look)) as peer:
        assert await peer.text("look") == "{}"


async def test_the_store_lives_as_long_as_the_connection() -> None:
    async def count(ctx: Context) -> int:
        ctx.store["count"] = ctx.store.get("count", 0) + 1
        return int(ctx.store["count"])

    server = serving(count)
    async with connected(server) as first, connected(server) as second:
        assert [await first.text("count"), await first.text("count")] == ["1", "2"]
        assert await second.text("count") == "1"


async def test_cancelled_can_be_read_before_and_after_the_cancellation() -> None:
    seen: list[Context] = []

    async def look(ctx: Context) -> None:
        seen.append(ctx)

    async with connected(serving(look)) as peer:
        await peer.call("look")
        (ctx,) = seen
        event = ctx.cancelled
        assert not event.is_set()
        ctx.cancel()
        assert event.is_set()
        assert ctx.cancelled is event
        ctx._cancelled = None
        assert ctx.cancelled.is_set()


# --- progress and logging ---------------------------------------------------------------------------------------------


async def work(ctx: Context) -> str:
    for step in (1, 2, 2, 1, 3):
        ctx.progress(step, 3, "working")
    return "done"


def work_in_a_thread(ctx: Context) -> str:
    for step in (1, 2, 3):
        ctx.progress(step)
    return "done"


async def test_progress_increases_and_is_sent_before_the_result(subtests: pytest.Subtests) -> None:
    for name in ["work", "work_in_a_thread", "work_in_place"]:
        for version in ALL:
            with subtests.test(version=version, name=name):
                server = serving(work, work_in_a_thread)
                server.tool(name="work_in_place", blocking=False)(work_in_a_thread)
                async with connected(server, version) as peer:
                    params = {"name": name, "_meta": {"progressToken": "t"}}
                    id = peer.send_request("tools/call", params)
                    await peer.answer(id)
                    steps = [note["params"] for note in peer.notifications]
                    assert [step["progress"] for step in steps] == [1, 2, 3]
                    assert all(step["progressToken"] == "t" for step in steps)
                    assert ("message" in steps[0]) == (name == "work")


async def test_no_progress_without_a_token_nor_after_the_handler_has_returned() -> None:
    seen: list[Context] = []

    async def keep(ctx: Context) -> str:
        seen.append(ctx)
        await ctx.progress(1)
        return "done"

    async with connected(serving(keep)) as peer:
        await peer.text("keep")
        assert peer.notifications == []
        await peer.result("tools/call", {"name": "keep", "_meta": {"progressToken": 1}})
        assert len(peer.notifications) == 1
        seen[-1].progress(2)
        seen[-1].log("error", "too late")
        await peer.result("ping")
        assert len(peer.notifications) == 1


async def shout(ctx: Context) -> str:
    ctx.log("debug", "quiet")
    ctx.log("info", {"n": 1}, logger="my-logger")
    ctx.log("error", "loud")
    return "done"


async def test_in_the_handshake_era_the_log_level_is_set_for_the_connection(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str | None, list[str]]] = [
        (None, ["info", "error"]),
        ("debug", ["debug", "info", "error"]),
        ("error", ["error"]),
    ]
    for level, expected in cases:
        for version in HANDSHAKE:
            with subtests.test(version=version, level=level, expected=expected):
                async with connected(serving(shout), version) as peer:
                    if level is not None:
                        await peer.result("logging/setLevel", {"level": level})
                    await peer.text("shout")
                    assert [note["params"]["level"] for note in peer.notifications] == expected
                    assert {"level": "error", "data": "loud"} in [note["params"] for note in peer.notifications]


async def test_in_the_stateless_era_the_log_level_is_set_by_each_request(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str | None, list[str]]] = [(None, []), ("info", ["info", "error"])]
    for level, expected in cases:
        with subtests.test(level=level, expected=expected):
            async with connected(serving(shout), STATELESS) as peer:
                more = {} if level is None else {"_meta": {"io.modelcontextprotocol/logLevel": level}}
                await peer.result("tools/call", {"name": "shout", **more})
                assert [note["params"]["level"] for note in peer.notifications] == expected
                if expected:
                    assert peer.notifications[0]["params"] == {"level": "info", "logger": "my-logger", "data": {"n": 1}}


async def test_an_unknown_level_and_data_without_a_json_form_are_rejected() -> None:
    async def wrong(ctx: Context) -> str:
        with pytest.raises(UsageError, match="level must be one of"):
            ctx.log("loud", "x")  # type: ignore[arg-type]  # wrong on purpose
        with pytest.raises(UsageError):
            ctx.log("error", object())
        return "rejected"

    async with connected(serving(wrong)) as peer:
        assert await peer.text("wrong") == "rejected"


# --- requests to the client -------------------------------------------------------------------------------------------

WITH_ELICITATION = ["2025-06-18", "2025-11-25", STATELESS]


async def test_elicit_returns_the_content_as_an_instance_of_the_form(subtests: pytest.Subtests) -> None:
    for version in WITH_ELICITATION:
        with subtests.test(version=version):

            async def requester(ctx: Context) -> str:
                response = await ctx.elicit("who are you?", Person)
                assert response.is_accepted
                assert isinstance(response.data, Person)
                return f"{response.data.name} {response.data.age}"

            async with connected(serving(requester), version, {"elicitation": {}}) as peer:
                accept = {"action": "accept", "content": {"name": "Ada", "age": 36}}
                assert text_of(await respond(peer, "requester", accept)) == "Ada 36"


async def test_a_user_may_decline_or_cancel(subtests: pytest.Subtests) -> None:
    for action in ["decline", "cancel"]:
        for version in WITH_ELICITATION:
            with subtests.test(version=version, action=action):

                async def requester(ctx: Context) -> str:
                    response = await ctx.elicit("who are you?", Person)
                    return f"{response.action} {response.content} {response.data} {response.is_accepted}"

                async with connected(serving(requester), version, EVERYTHING) as peer:
                    assert text_of(await respond(peer, "requester", {"action": action})) == f"{action} None None False"


async def test_content_that_does_not_match_the_form_is_an_error(subtests: pytest.Subtests) -> None:
    """Not requested again: a client that responds automatically would respond the same every time."""

    for version in ["2025-11-25", STATELESS]:
        with subtests.test(version=version):

            async def requester(ctx: Context) -> str:
                return str((await ctx.elicit("who?", Person)).data)

            wrong = {"action": "accept", "content": {"name": 3}}

            async with connected(serving(requester), version, EVERYTHING) as peer:
                assert (await respond(peer, "requester", wrong))["isError"] is True


async def test_elicit_url(subtests: pytest.Subtests) -> None:
    for version in ["2025-11-25", STATELESS]:
        with subtests.test(version=version):

            async def send(ctx: Context) -> str:
                return (await ctx.elicit_url("go", "https://example.org/pay", key="pay")).action

            async with connected(serving(send), version, EVERYTHING) as peer:
                if version == STATELESS:
                    result = await peer.result("tools/call", {"name": "send"})
                    params = result["inputRequests"]["pay"]["params"]
                    assert "elicitationId" not in params
                else:
                    id = peer.send_request("tools/call", {"name": "send"})
                    question = await peer.server_request()
                    params = question["params"]
                    assert params["elicitationId"]
                    peer.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})
                    assert text_of((await peer.answer(id))["result"]) == "accept"
                assert (params["mode"], params["url"]) == ("url", "https://example.org/pay")


async def test_sample_and_list_roots(subtests: pytest.Subtests) -> None:
    for version in ["2024-11-05", "2025-11-25", STATELESS]:
        with subtests.test(version=version):

            async def requester(ctx: Context) -> str:
                first = await ctx.sample("Capital of France?", max_tokens=10, system_prompt="brief", key="q")
                message = SamplingMessage(role="assistant", content=TextContent(text="Paris"))
                second = await ctx.sample(["sure?", message], temperature=0.5, extra={"include_context": "none"})
                roots = await ctx.list_roots()
                return f"{first.text} {second.text} {[root.uri for root in roots]}"

            message = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}

            async with connected(serving(requester), version, EVERYTHING) as peer:
                result = await respond(peer, "requester", message, message, {"roots": [{"uri": "file:///x"}]})
                assert text_of(result) == "Paris Paris ['file:///x']"


async def elicit(ctx: Context) -> None:
    await ctx.elicit("x", Person)


async def elicit_url(ctx: Context) -> None:
    await ctx.elicit_url("x", "https://example.org")


async def sample(ctx: Context) -> None:
    await ctx.sample("x")


async def list_roots(ctx: Context) -> None:
    await ctx.list_roots()


async def test_requests_that_need_an_undeclared_capability_are_not_sent(subtests: pytest.Subtests) -> None:
    for version, handler in itertools.product(ALL, (elicit, elicit_url, sample, list_roots)):
        if handler is elicit and version == "2025-06-18":
            continue  # in this revision `elicitation` means forms, whatever its members are
        with subtests.test(version=version, handler=handler.__name__):
            declared: dict[str, Any] = {"elicitation": {"url": {}}} if handler is elicit else {}
            async with connected(serving(handler), version, declared) as peer:
                response = await peer.request("tools/call", {"name": handler.__name__})
                if version == STATELESS:
                    assert response["error"]["code"] == -32021
                else:
                    assert response["result"]["isError"] is True
                assert not peer.server_requests


async def test_a_completion_of_the_stateless_era_cannot_request_input() -> None:
    server = Server("completing")
    server.prompt(name="p")(lambda: "x")

    @server.completion("p", "a")
    async def complete(value: str, ctx: Context) -> list[str]:
        with pytest.raises(UsageError, match="cannot request input"):
            await ctx.list_roots()
        return ["rejected"]

    async with connected(server, STATELESS, EVERYTHING) as peer:
        params = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}
        assert (await peer.result("completion/complete", params))["completion"]["values"] == ["rejected"]


async def test_a_cancelled_call_cancels_its_request_to_the_client() -> None:
    async def requester(ctx: Context) -> None:
        await ctx.list_roots()

    async with connected(serving(requester), capabilities=EVERYTHING) as peer:
        id = peer.send_request("tools/call", {"name": "requester"})
        question = await peer.server_request()
        peer.notify("notifications/cancelled", {"requestId": id})
        assert (await peer.notification("notifications/cancelled"))["requestId"] == question["id"]


# --- input rounds of the stateless era --------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "plain", "once"), [("2025-11-25", 1, 1), (STATELESS, 3, 1)])
async def test_once_keeps_a_handler_from_repeating_work_in_every_round(version: str, plain: int, once: int) -> None:
    counts = {"plain": 0, "once": 0}

    async def compute() -> list[int]:
        counts["once"] += 1
        return [counts["once"]]

    async def requester(ctx: Context) -> str:
        counts["plain"] += 1
        value = await ctx.once("work", compute)
        assert await ctx.once("work", compute) == value
        assert await ctx.once("sync", lambda: {"a": (1, 2)}) == {"a": [1, 2]}, "the JSON form, in every era"
        await ctx.list_roots(key="step1")
        await ctx.list_roots(key="step2")
        return str(value)

    async with connected(serving(requester), version, EVERYTHING) as peer:
        roots: dict[str, Any] = {"roots": []}
        assert text_of(await respond(peer, "requester", roots, roots)) == "[1]"
        assert counts == {"plain": plain, "once": once}


async def test_rounds_may_be_served_by_different_workers() -> None:
    async def requester(ctx: Context) -> str:
        first = await ctx.elicit("a", Person, key="step1")
        second = await ctx.elicit("b", Person, key="step2")
        return f"{first.data.name} {second.data.name}"

    params: dict[str, Any] = {"name": "requester", "arguments": {}}
    for name in ("Ada", "Bob", ""):
        async with connected(serving(requester), STATELESS, EVERYTHING) as peer:  # a new server each time
            result = await peer.result("tools/call", params)
        if name:
            answer = {"action": "accept", "content": {"name": name}}
            (key,) = result["inputRequests"]
            params = {**params, "requestState": result["requestState"], "inputResponses": {key: answer}}
    assert text_of(result) == "Ada Bob"


async def test_a_request_state_is_bound_to_the_tool_and_the_arguments() -> None:
    async def first(ctx: Context, n: int = 0) -> str:
        await ctx.list_roots()
        return "first"

    async def second(ctx: Context) -> str:
        await ctx.list_roots()
        return "second"

    async with connected(serving(first, second), STATELESS, EVERYTHING) as peer:
        state = (await peer.result("tools/call", {"name": "first"}))["requestState"]
        for params in ({"name": "second"}, {"name": "first", "arguments": {"n": 1}}):
            error = await peer.error("tools/call", {**params, "requestState": state})
            assert error["code"] == -32602
            assert "another request" in error["message"]


async def test_concurrent_requests_are_sent_in_one_round(subtests: pytest.Subtests) -> None:
    runs: list[str] = []

    async def with_gather(ctx: Context) -> str:
        runs.append("gather")
        roots, person = await asyncio.gather(ctx.list_roots(key="roots"), ctx.elicit("who?", Person, key="name"))
        return f"{len(roots)} {person.data.name}"

    async def with_task_group(ctx: Context) -> str:
        runs.append("task group")
        async with asyncio.TaskGroup() as tasks:
            roots = tasks.create_task(ctx.list_roots(key="roots"))
            person = tasks.create_task(ctx.elicit("who?", Person, key="name"))
        return f"{len(roots.result())} {person.result().data.name}"

    for version, handler in itertools.product(("2025-11-25", STATELESS), (with_gather, with_task_group)):
        with subtests.test(version=version, handler=handler.__name__):
            runs.clear()
            async with connected(serving(handler), version, EVERYTHING) as peer:
                responses = [{"roots": []}, {"action": "accept", "content": {"name": "Ada"}}]
                assert text_of(await respond(peer, handler.__name__, *responses)) == "0 Ada"
                assert len(runs) == (2 if version == STATELESS else 1)


async def test_an_exception_beside_a_request_is_reported_as_an_error() -> None:
    async def fail() -> None:
        raise ValueError("secret")

    async def requester(ctx: Context) -> None:
        await asyncio.gather(ctx.list_roots(), fail())

    async with connected(serving(requester), STATELESS, EVERYTHING) as peer:
        result = await peer.call("requester")
        assert result["resultType"] == "complete"
        assert result["isError"] is True


# --- blocking functions -----------------------------------------------------------------------------------------------


async def test_a_blocking_function_can_wait_for_a_response(subtests: pytest.Subtests) -> None:
    for version in ["2025-11-25", STATELESS]:
        with subtests.test(version=version):

            def requester(ctx: Context) -> str:
                assert threading.current_thread() is not threading.main_thread()
                return str(len(ctx.wait(ctx.list_roots())))

            async with connected(serving(requester), version, EVERYTHING) as peer:
                assert text_of(await respond(peer, "requester", {"roots": []})) == "0"


async def test_wait_is_rejected_on_the_event_loop() -> None:
    async def requester(ctx: Context) -> str:
        with pytest.raises(UsageError, match="use await here"):
            ctx.wait(ctx.list_roots())
        return "rejected"

    async with connected(serving(requester), capabilities=EVERYTHING) as peer:
        assert await peer.text("requester") == "rejected"


async def test_bad_progress_values_fail_only_the_tool(subtests: pytest.Subtests) -> None:
    """A non-blocking function is called by the connection itself, which must continue."""

    for is_blocking in [True, False]:
        with subtests.test(is_blocking=is_blocking):
            server = Server("context")

            @server.tool(blocking=is_blocking)
            def wrong(ctx: Context) -> str:
                with pytest.raises(UsageError, match="total must be an int or a float, not '10'"):
                    ctx.progress(1, "10")  # type: ignore[arg-type]  # wrong on purpose
                with pytest.raises(UsageError, match="message must be a str, not 5"):
                    ctx.progress(1, message=5)  # type: ignore[arg-type]  # wrong on purpose
                ctx.progress("half")  # type: ignore[arg-type]  # wrong on purpose
                return "never"

            async with connected(server) as peer:
                params = {"name": "wrong", "_meta": {"progressToken": 1}}
                assert (await peer.result("tools/call", params))["isError"] is True
                assert await peer.result("ping") == {}
                assert peer.notifications == []
