"""What a handler can know and say: the same words in both eras, seen from the client."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from chaos.servers_own.conversation import ALL, HANDSHAKE, STATELESS, Peer, run, talking
from jackstay.errors import UsageError
from jackstay.server import Context, Server
from jackstay.types import SamplingMessage, TextContent

EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


@dataclass
class Person:
    name: str
    age: int = 0


def serving(*functions: Callable[..., Any]) -> Server:
    server = Server("context", keys=(b"0123456789abcdef",))
    for function in functions:
        server.tool(function)
    return server


async def answered(peer: Peer, name: str, *answers: Any) -> Any:
    """Call a tool and answer its questions, in order, whatever the era."""
    params: dict[str, Any] = {"name": name, "arguments": {}}
    given = list(answers)
    if peer.version != STATELESS:
        id = peer.ask("tools/call", params)
        while given:
            question = await peer.question()
            peer.say({"jsonrpc": "2.0", "id": question["id"], "result": given.pop(0)})
        return (await peer.answer(id))["result"]
    result = await peer.result("tools/call", params)
    while result["resultType"] == "input_required":
        responses = {key: given.pop(0) for key in result["inputRequests"]}
        again = {**params, "inputResponses": responses, "requestState": result["requestState"]}
        result = await peer.result("tools/call", again)
    return result


def text_of(result: Any) -> str:
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


# --- what is known ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL)
def test_a_handler_knows_its_request_and_its_client(version: str) -> None:
    async def look(ctx: Context) -> str:
        assert ctx.method == "tools/call"
        assert ctx.version == version
        assert ctx.request_id == "mine"
        assert ctx.meta["mine"] == 1
        assert ctx.params["name"] == "look"
        assert ctx.client_capabilities.sampling is not None
        assert ctx.principal == ""
        assert not ctx.is_cancelled
        info = ctx.client_info
        assert repr(ctx) == f"<Context tools/call 'mine' {version}>"
        return "none" if info is None else info.name

    async def test() -> None:
        async with talking(serving(look), version, {"sampling": {}}) as peer:
            params = {"name": "look", "_meta": {"mine": 1}}
            answer = await peer.request("tools/call", params, id="mine")
            assert text_of(answer["result"]) == ("none" if version == STATELESS else "peer")

    run(test)


@pytest.mark.parametrize(
    ("info", "name"), [({"name": "me", "version": "1"}, "me"), ({"name": 3}, "none"), (7, "none")]
)
def test_a_stateless_client_names_itself_or_not(info: Any, name: str) -> None:
    async def look(ctx: Context) -> str:
        return "none" if ctx.client_info is None else ctx.client_info.name

    async def test() -> None:
        async with talking(serving(look), STATELESS) as peer:
            params = {"name": "look", "_meta": {"io.modelcontextprotocol/clientInfo": info}}
            assert text_of(await peer.result("tools/call", params)) == name

    run(test)


def test_capabilities_that_cannot_be_read_are_none() -> None:
    async def look(ctx: Context) -> str:
        return str(ctx.client_capabilities.sampling)

    async def test() -> None:
        async with talking(serving(look), STATELESS, {"sampling": 3}) as peer:
            assert await peer.text("look") == "None"

    run(test)


def test_a_request_without_meta_has_none() -> None:
    async def look(ctx: Context) -> str:
        return str(ctx.meta)

    async def test() -> None:
        async with talking(serving(look)) as peer:
            assert await peer.text("look") == "{}"

    run(test)


def test_the_store_lives_as_long_as_the_connection() -> None:
    async def count(ctx: Context) -> int:
        ctx.store["count"] = ctx.store.get("count", 0) + 1
        return int(ctx.store["count"])

    async def test() -> None:
        server = serving(count)
        async with talking(server) as one, talking(server) as other:
            assert [await one.text("count"), await one.text("count")] == ["1", "2"]
            assert await other.text("count") == "1"

    run(test)


def test_cancelled_is_set_for_who_asks_after_the_fact() -> None:
    seen: list[Context] = []

    async def look(ctx: Context) -> None:
        seen.append(ctx)

    async def test() -> None:
        async with talking(serving(look)) as peer:
            await peer.call("look")
            (ctx,) = seen
            event = ctx.cancelled
            assert not event.is_set()
            ctx.cancel()
            assert event.is_set()
            assert ctx.cancelled is event
            ctx._cancelled = None
            assert ctx.cancelled.is_set()

    run(test)


# --- progress and logs ------------------------------------------------------------------------------------------------


async def work(ctx: Context) -> str:
    for step in (1, 2, 2, 1, 3):
        ctx.progress(step, 3, "working")
    return "done"


def work_in_a_thread(ctx: Context) -> str:
    for step in (1, 2, 3):
        ctx.progress(step)
    return "done"


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("name", ["work", "work_in_a_thread", "work_in_place"])
def test_progress_only_grows_and_comes_before_the_result(version: str, name: str) -> None:
    async def test() -> None:
        server = serving(work, work_in_a_thread)
        server.tool(name="work_in_place", blocking=False)(work_in_a_thread)
        async with talking(server, version) as peer:
            params = {"name": name, "_meta": {"progressToken": "t"}}
            id = peer.ask("tools/call", params)
            await peer.answer(id)
            steps = [note["params"] for note in peer.notes]
            assert [step["progress"] for step in steps] == [1, 2, 3]
            assert all(step["progressToken"] == "t" for step in steps)
            assert ("message" in steps[0]) == (name == "work")

    run(test)


def test_no_token_no_progress_and_none_after_the_end() -> None:
    seen: list[Context] = []

    async def keep(ctx: Context) -> str:
        seen.append(ctx)
        ctx.progress(1)
        return "done"

    async def test() -> None:
        async with talking(serving(keep)) as peer:
            await peer.text("keep")
            assert peer.notes == []
            await peer.result("tools/call", {"name": "keep", "_meta": {"progressToken": 1}})
            assert len(peer.notes) == 1
            seen[-1].progress(2)
            seen[-1].log("error", "too late")
            await peer.result("ping")
            assert len(peer.notes) == 1

    run(test)


async def shout(ctx: Context) -> str:
    ctx.log("debug", "quiet")
    ctx.log("info", {"n": 1}, logger="mine")
    ctx.log("error", "loud")
    return "done"


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize(
    ("level", "heard"),
    [(None, ["info", "error"]), ("debug", ["debug", "info", "error"]), ("error", ["error"])],
)
def test_a_client_of_the_handshake_era_sets_its_level_once(
    version: str, level: str | None, heard: list[str]
) -> None:
    async def test() -> None:
        async with talking(serving(shout), version) as peer:
            if level is not None:
                await peer.result("logging/setLevel", {"level": level})
            await peer.text("shout")
            assert [note["params"]["level"] for note in peer.notes] == heard
            assert {"level": "error", "data": "loud"} in [note["params"] for note in peer.notes]

    run(test)


@pytest.mark.parametrize(("level", "heard"), [(None, []), ("info", ["info", "error"])])
def test_a_stateless_client_sets_its_level_with_each_request(level: str | None, heard: list[str]) -> None:
    async def test() -> None:
        async with talking(serving(shout), STATELESS) as peer:
            more = {} if level is None else {"_meta": {"io.modelcontextprotocol/logLevel": level}}
            await peer.result("tools/call", {"name": "shout", **more})
            assert [note["params"]["level"] for note in peer.notes] == heard
            if heard:
                assert peer.notes[0]["params"] == {"level": "info", "logger": "mine", "data": {"n": 1}}

    run(test)


def test_a_level_that_is_none_and_data_that_is_no_json_are_refused() -> None:
    async def wrong(ctx: Context) -> str:
        with pytest.raises(UsageError, match="level must be one of"):
            ctx.log("loud", "x")  # type: ignore[arg-type]  # that is the point
        with pytest.raises(UsageError):
            ctx.log("error", object())
        return "refused"

    async def test() -> None:
        async with talking(serving(wrong)) as peer:
            assert await peer.text("wrong") == "refused"

    run(test)


# --- asking -----------------------------------------------------------------------------------------------------------

ASKING = ["2025-06-18", "2025-11-25", STATELESS]


@pytest.mark.parametrize("version", ASKING)
def test_a_form_is_filled_in_as_its_class(version: str) -> None:
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("who are you?", Person)
        assert answer.is_accepted
        assert isinstance(answer.data, Person)
        return f"{answer.data.name} {answer.data.age}"

    async def test() -> None:
        async with talking(serving(ask), version, {"elicitation": {}}) as peer:
            accept = {"action": "accept", "content": {"name": "Ada", "age": 36}}
            assert text_of(await answered(peer, "ask", accept)) == "Ada 36"

    run(test)


@pytest.mark.parametrize("version", ASKING)
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_user_may_say_no(version: str, action: str) -> None:
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("who are you?", Person)
        return f"{answer.action} {answer.content} {answer.data} {answer.is_accepted}"

    async def test() -> None:
        async with talking(serving(ask), version, EVERYTHING) as peer:
            assert text_of(await answered(peer, "ask", {"action": action})) == f"{action} None None False"

    run(test)


@pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
def test_an_answer_that_does_not_fit_the_form_is_an_error(version: str) -> None:
    """In both eras: asked again, a program that answers for its user would answer the same, eight times."""

    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("who?", Person)).data)

    wrong = {"action": "accept", "content": {"name": 3}}

    async def test() -> None:
        async with talking(serving(ask), version, EVERYTHING) as peer:
            assert (await answered(peer, "ask", wrong))["isError"] is True

    run(test)


@pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
def test_a_user_is_sent_to_a_url(version: str) -> None:
    async def send(ctx: Context) -> str:
        return (await ctx.elicit_url("go", "https://example.org/pay", key="pay")).action

    async def test() -> None:
        async with talking(serving(send), version, EVERYTHING) as peer:
            if version == STATELESS:
                asked = await peer.result("tools/call", {"name": "send"})
                params = asked["inputRequests"]["pay"]["params"]
                assert "elicitationId" not in params
            else:
                id = peer.ask("tools/call", {"name": "send"})
                question = await peer.question()
                params = question["params"]
                assert params["elicitationId"]
                peer.say({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})
                assert text_of((await peer.answer(id))["result"]) == "accept"
            assert (params["mode"], params["url"]) == ("url", "https://example.org/pay")

    run(test)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", STATELESS])
def test_the_clients_model_and_roots_are_asked(version: str) -> None:
    async def ask(ctx: Context) -> str:
        first = await ctx.sample("Capital of France?", max_tokens=10, system_prompt="brief", key="q")
        message = SamplingMessage(role="assistant", content=TextContent(text="Paris"))
        second = await ctx.sample(["sure?", message], temperature=0.5, more={"include_context": "none"})
        roots = await ctx.roots()
        return f"{first.text} {second.text} {[root.uri for root in roots]}"

    said = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}

    async def test() -> None:
        async with talking(serving(ask), version, EVERYTHING) as peer:
            result = await answered(peer, "ask", said, said, {"roots": [{"uri": "file:///x"}]})
            assert text_of(result) == "Paris Paris ['file:///x']"

    run(test)


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("kind", ["elicit", "elicit_url", "sample", "roots"])
def test_what_the_client_did_not_declare_is_not_asked(version: str, kind: str) -> None:
    async def ask(ctx: Context) -> None:
        if kind == "elicit":
            await ctx.elicit("x", Person)
        elif kind == "elicit_url":
            await ctx.elicit_url("x", "https://example.org")
        elif kind == "sample":
            await ctx.sample("x")
        else:
            await ctx.roots()

    async def test() -> None:
        async with talking(
            serving(ask), version, {"elicitation": {"url": {}}} if kind == "elicit" else {}
        ) as peer:
            answer = await peer.request("tools/call", {"name": "ask"})
            if version == STATELESS:
                assert answer["error"]["code"] == -32021
            else:
                assert answer["result"]["isError"] is True
            assert not peer.asked

    if kind == "elicit" and version == "2025-06-18":
        return  # there `elicitation` alone means forms, whatever is in it
    run(test)


def test_a_completion_of_the_stateless_era_cannot_ask() -> None:
    server = Server("completing")
    server.prompt(name="p")(lambda: "x")

    @server.completion("p", "a")
    async def complete(typed: str, ctx: Context) -> list[str]:
        with pytest.raises(UsageError, match="cannot ask"):
            await ctx.roots()
        return ["refused"]

    async def test() -> None:
        async with talking(server, STATELESS, EVERYTHING) as peer:
            asked = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}
            assert (await peer.result("completion/complete", asked))["completion"]["values"] == ["refused"]

    run(test)


def test_a_question_to_a_client_that_gives_up_is_withdrawn() -> None:
    async def ask(ctx: Context) -> None:
        await ctx.roots()

    async def test() -> None:
        async with talking(serving(ask), capabilities=EVERYTHING) as peer:
            id = peer.ask("tools/call", {"name": "ask"})
            question = await peer.question()
            peer.notify("notifications/cancelled", {"requestId": id})
            assert (await peer.note("notifications/cancelled"))["requestId"] == question["id"]

    run(test)


# --- rounds (connection.md, section 7) --------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "plain", "once"), [("2025-11-25", 1, 1), (STATELESS, 3, 1)])
def test_work_before_a_question_is_done_once_a_round_unless_it_is_done_once(
    version: str, plain: int, once: int
) -> None:
    counts = {"plain": 0, "once": 0}

    async def compute() -> list[int]:
        counts["once"] += 1
        return [counts["once"]]

    async def ask(ctx: Context) -> str:
        counts["plain"] += 1
        value = await ctx.once("work", compute)
        assert await ctx.once("work", compute) == value
        assert await ctx.once("sync", lambda: {"a": (1, 2)}) == {"a": [1, 2]}, "as JSON, in every era"
        await ctx.roots(key="step1")
        await ctx.roots(key="step2")
        return str(value)

    async def test() -> None:
        async with talking(serving(ask), version, EVERYTHING) as peer:
            roots: dict[str, Any] = {"roots": []}
            assert text_of(await answered(peer, "ask", roots, roots)) == "[1]"
            assert counts == {"plain": plain, "once": once}

    run(test)


def test_rounds_may_be_served_by_different_workers() -> None:
    async def ask(ctx: Context) -> str:
        first = await ctx.elicit("a", Person, key="step1")
        second = await ctx.elicit("b", Person, key="step2")
        return f"{first.data.name} {second.data.name}"

    async def test() -> None:
        params: dict[str, Any] = {"name": "ask", "arguments": {}}
        for name in ("Ada", "Bob", ""):
            async with talking(serving(ask), STATELESS, EVERYTHING) as peer:  # a new server each time
                result = await peer.result("tools/call", params)
            if name:
                answer = {"action": "accept", "content": {"name": name}}
                (key,) = result["inputRequests"]
                params = {**params, "requestState": result["requestState"], "inputResponses": {key: answer}}
        assert text_of(result) == "Ada Bob"

    run(test)


def test_a_state_of_one_tool_is_not_taken_by_another_nor_with_other_arguments() -> None:
    async def one(ctx: Context, n: int = 0) -> str:
        await ctx.roots()
        return "one"

    async def two(ctx: Context) -> str:
        await ctx.roots()
        return "two"

    async def test() -> None:
        async with talking(serving(one, two), STATELESS, EVERYTHING) as peer:
            state = (await peer.result("tools/call", {"name": "one"}))["requestState"]
            for params in ({"name": "two"}, {"name": "one", "arguments": {"n": 1}}):
                error = await peer.error("tools/call", {**params, "requestState": state})
                assert error["code"] == -32602
                assert "another request" in error["message"]

    run(test)


@pytest.mark.parametrize("group", ["gather", "task group"])
@pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
def test_questions_asked_side_by_side_are_one_round(group: str, version: str) -> None:
    runs = []

    async def ask(ctx: Context) -> str:
        runs.append(1)
        questions = [ctx.roots(key="client_roots"), ctx.elicit("who?", Person, key="user_name")]
        if group == "gather":
            roots, person = await asyncio.gather(*questions)
        else:
            async with asyncio.TaskGroup() as tasks:
                made = [tasks.create_task(question) for question in questions]
            roots, person = (task.result() for task in made)
        return f"{len(roots)} {person.data.name}"

    async def test() -> None:
        async with talking(serving(ask), version, EVERYTHING) as peer:
            answers = [{"roots": []}, {"action": "accept", "content": {"name": "Ada"}}]
            assert text_of(await answered(peer, "ask", *answers)) == "0 Ada"
            assert len(runs) == (2 if version == STATELESS else 1)

    run(test)


def test_an_accident_beside_a_question_is_an_accident() -> None:
    async def fail() -> None:
        raise ValueError("secret")

    async def ask(ctx: Context) -> None:
        await asyncio.gather(ctx.roots(), fail())

    async def test() -> None:
        async with talking(serving(ask), STATELESS, EVERYTHING) as peer:
            result = await peer.call("ask")
            assert result["resultType"] == "complete"
            assert result["isError"] is True

    run(test)


# --- blocking functions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
def test_a_blocking_function_waits_for_an_answer_in_its_thread(version: str) -> None:
    def ask(ctx: Context) -> str:
        assert threading.current_thread() is not threading.main_thread()
        return str(len(ctx.wait(ctx.roots())))

    async def test() -> None:
        async with talking(serving(ask), version, EVERYTHING) as peer:
            assert text_of(await answered(peer, "ask", {"roots": []})) == "0"

    run(test)


def test_waiting_on_the_loop_itself_is_refused() -> None:
    async def ask(ctx: Context) -> str:
        with pytest.raises(UsageError, match="use await here"):
            ctx.wait(ctx.roots())
        return "refused"

    async def test() -> None:
        async with talking(serving(ask), capabilities=EVERYTHING) as peer:
            assert await peer.text("ask") == "refused"

    run(test)


@pytest.mark.parametrize("is_blocking", [True, False])
def test_progress_that_is_no_number_fails_its_tool_and_nothing_else(is_blocking: bool) -> None:
    """Section 6: a function that is called in place is called by the connection itself, which must go on."""
    server = Server("context")

    @server.tool(blocking=is_blocking)
    def wrong(ctx: Context) -> str:
        with pytest.raises(UsageError, match="total must be a number, not '10'"):
            ctx.progress(1, "10")  # type: ignore[arg-type]  # as it may be called
        with pytest.raises(UsageError, match="message must be a string, not 5"):
            ctx.progress(1, message=5)  # type: ignore[arg-type]  # as above
        ctx.progress("half")  # type: ignore[arg-type]  # as above
        return "never"

    async def test() -> None:
        async with talking(server) as peer:
            asked = {"name": "wrong", "_meta": {"progressToken": 1}}
            assert (await peer.result("tools/call", asked))["isError"] is True
            assert await peer.result("ping") == {}
            assert peer.notes == []

    run(test)
