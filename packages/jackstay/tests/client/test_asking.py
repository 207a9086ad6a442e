"""What a server may ask: the same handlers in both eras, and what happens to questions nobody handles."""

import asyncio
import logging
from typing import Any

import pytest

from jackstay.client import Client
from jackstay.errors import CapabilityError, JsonRpcError, ProtocolError, UsageError
from jackstay.testing import ScriptedPeer, on_fake_clock
from jackstay.types import CreateMessageRequestParams, CreateMessageResult, ElicitResult, TextContent
from scripted.peer import STATELESS, opened, peered, said

SAMPLE = {"messages": [], "maxTokens": 1}
FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}


def handle_all(client: Client) -> list[str]:
    """Handlers for everything, and what they were asked."""
    asked: list[str] = []

    def sample(params: CreateMessageRequestParams) -> CreateMessageResult:
        asked.append("sample")
        return CreateMessageResult(role="assistant", content=TextContent(text="4"), model="m")

    async def elicit(params: Any) -> ElicitResult:
        asked.append("elicit")
        return ElicitResult(action="accept", content={"name": "Ada"})

    client.sampling.handle(sample)
    client.elicitation.handle(elicit)
    client.roots.set(["file:///a"])
    return asked


def questions(peer: ScriptedPeer, rounds: int, state: str | None = 's\u00e9al/+=\\"null\u2028') -> None:
    """Let `tools/call` ask for everything so many times before it answers."""
    asked = 0

    def call(params: dict[str, Any]) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        if asked > rounds:
            return said("done")
        requests = {
            "one": {"method": "sampling/createMessage", "params": SAMPLE},
            "two": {"method": "elicitation/create", "params": FORM},
            "three": {"method": "roots/list"},
        }
        question: dict[str, Any] = {"resultType": "input_required", "inputRequests": requests}
        return question if state is None else question | {"requestState": f"{state}{asked}"}

    peer.on["tools/call"] = call


# --- the stateless era ------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_questions_inside_a_result_are_answered_and_the_state_is_echoed_exactly() -> None:
    async with peered(STATELESS) as (client, peer):
        asked = handle_all(client)
        await client.open()
        questions(peer, 2)
        result = await client.tools.call("book", {"seat": 3})
        assert result.text == "done"
        assert asked == ["sample", "elicit"] * 2
        first, second, third = (message["params"] for message in peer.got("tools/call"))
        assert "inputResponses" not in first
        assert "requestState" not in first
        assert second["requestState"] == 's\u00e9al/+=\\"null\u20281'
        assert third["requestState"] == 's\u00e9al/+=\\"null\u20282'
        assert (
            second["inputResponses"]
            == third["inputResponses"]
            == {
                "one": {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "m"},
                "two": {"action": "accept", "content": {"name": "Ada"}},
                "three": {"roots": [{"uri": "file:///a"}]},
            }
        )
        assert [params["arguments"] for params in (first, second, third)] == [{"seat": 3}] * 3
        ids = [message["id"] for message in peer.got("tools/call")]
        assert len(set(ids)) == 3


@on_fake_clock
async def test_a_state_that_is_not_given_is_not_echoed_and_one_alone_is_enough() -> None:
    async with peered(STATELESS) as (client, peer):
        handle_all(client)
        await client.open()
        questions(peer, 1, state=None)
        await client.tools.call("book")
        assert "requestState" not in peer.got("tools/call")[1]["params"]
        answers = iter([{"resultType": "input_required", "requestState": "wait"}, said("done")])
        peer.on["tools/call"] = lambda params: next(answers)
        await client.tools.call("book")
        params = peer.got("tools/call")[-1]["params"]
        assert params["requestState"] == "wait"
        assert "inputResponses" not in params


@on_fake_clock
async def test_eight_rounds_are_answered_and_a_ninth_question_ends_the_call() -> None:
    async with peered(STATELESS) as (client, peer):
        asked = handle_all(client)
        await client.open()
        questions(peer, 8)
        assert (await client.tools.call("book")).text == "done"
        assert len(asked) == 16
        questions(peer, 9)
        with pytest.raises(ProtocolError, match="more than 8 times") as caught:
            await client.tools.call("book")
        assert caught.value.may_have_run is True
        assert len(asked) == 32, "nobody was asked for the ninth"


@on_fake_clock
async def test_a_request_is_not_replayed_between_rounds() -> None:
    async with peered(STATELESS, replay="safe") as (client, peer):
        handle_all(client)
        await client.open()
        calls = 0

        def get(params: dict[str, Any]) -> dict[str, Any] | None:
            nonlocal calls
            calls += 1
            return {"resultType": "input_required", "requestState": "s"} if calls == 1 else None

        peer.on["prompts/get"] = get
        call = asyncio.ensure_future(client.prompts.get("p"))
        await peer.expect("prompts/get", 2)
        peer.die()
        with pytest.raises(Exception, match="may have run"):
            await call
        await client.ready(60)
        assert calls == 2


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        ({"method": "sampling/createMessage", "params": SAMPLE}, "sampling/createMessage"),
        ({"method": "elicitation/create", "params": FORM}, "elicitation/create"),
        ({"method": "roots/list"}, "roots/list"),
        ({"method": "planets/list"}, "planets/list"),
        ({}, "something without a method"),
    ],
)
@on_fake_clock
async def test_what_nothing_handles_ends_the_call_by_name(request_: dict[str, Any], named: str) -> None:
    async with opened(STATELESS) as (client, peer):
        peer.on["tools/call"] = {"resultType": "input_required", "inputRequests": {"q": request_}}
        with pytest.raises(CapabilityError, match=named) as caught:
            await client.tools.call("book")
        assert caught.value.may_have_run is True
        assert len(peer.got("tools/call")) == 1


@on_fake_clock
async def test_what_a_handler_raises_goes_to_the_caller() -> None:
    def elicit(params: Any) -> ElicitResult:
        raise JsonRpcError(-1, "not now")

    async with peered(STATELESS) as (client, peer):
        client.elicitation.handle(elicit)
        await client.open()
        question = {"q": {"method": "elicitation/create", "params": FORM}}
        peer.on["tools/call"] = {"resultType": "input_required", "inputRequests": question}
        with pytest.raises(JsonRpcError, match="not now"):
            await client.tools.call("book")


@on_fake_clock
async def test_a_task_that_nobody_asked_for_is_refused() -> None:
    async with opened(STATELESS) as (client, peer):
        peer.on["tools/call"] = {
            "resultType": "task",
            "taskId": "t",
            "status": "working",
            "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:00Z",
            "ttlMs": None,
        }
        with pytest.raises(ProtocolError) as caught:
            await client.tools.call("book")
        assert caught.value.may_have_run is True


@on_fake_clock
async def test_a_request_of_a_stateless_server_is_never_answered() -> None:
    async with peered(STATELESS) as (client, peer):
        asked = handle_all(client)
        await client.open()
        peer.ask("q", "sampling/createMessage", SAMPLE)
        await client.ping()
        assert peer.answers("q") == []
        assert asked == []


# --- the handshake era ------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_requests_of_every_kind_reach_their_handlers() -> None:
    async with peered() as (client, peer):
        asked = handle_all(client)
        await client.open()
        peer.ask(1, "sampling/createMessage", SAMPLE)
        peer.ask(2, "elicitation/create", FORM)
        peer.send({"jsonrpc": "2.0", "id": 3, "method": "roots/list"})
        assert (await peer.answer_to(1))["result"]["model"] == "m"
        assert (await peer.answer_to(2))["result"]["action"] == "accept"
        assert (await peer.answer_to(3))["result"] == {"roots": [{"uri": "file:///a"}]}
        assert asked == ["sample", "elicit"]


@on_fake_clock
async def test_requests_nobody_handles_are_refused_and_bad_ones_are_named() -> None:
    async with opened() as (client, peer):
        for method in ("sampling/createMessage", "elicitation/create", "roots/list", "planets/list"):
            peer.ask(method, method)
            assert (await peer.answer_to(method))["error"]["code"] == -32601
        client.sampling.handle(lambda params: None)  # type: ignore[arg-type, return-value]
        peer.ask("bad", "sampling/createMessage", {"messages": []})
        assert (await peer.answer_to("bad"))["error"]["code"] == -32602


@on_fake_clock
async def test_a_handler_that_fails_is_answered_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    async with opened() as (client, peer):
        for id, error in enumerate((RuntimeError("a secret"), UsageError("a mistake"))):

            def fail(params: Any, error: Exception = error) -> ElicitResult:
                raise error

            client.elicitation.handle(fail)
            with caplog.at_level(logging.ERROR, "jackstay.client"):
                peer.ask(id, "elicitation/create", FORM)
                answer = await peer.answer_to(id)
            assert answer["error"]["code"] == -32603
            assert "secret" not in answer["error"]["message"]
        assert "a secret" in caplog.text
        client.elicitation.handle(lambda params: "yes")  # type: ignore[arg-type, return-value]
        peer.ask("kind", "elicitation/create", FORM)
        assert "ElicitResult, not str" in (await peer.answer_to("kind"))["error"]["message"]


@pytest.mark.parametrize(
    ("data", "sent"), [(None, None), ({"why": "tired"}, {"why": "tired"}), (float("nan"), None)]
)
@on_fake_clock
async def test_a_handler_may_refuse_with_a_code_and_data(data: Any, sent: Any) -> None:
    def refuse(params: Any) -> ElicitResult:
        raise JsonRpcError(-1, "the person said no", data)

    async with opened() as (client, peer):
        client.elicitation.handle(refuse)
        peer.ask(1, "elicitation/create", FORM)
        error = (await peer.answer_to(1))["error"]
        assert (error["code"], error["message"], error.get("data")) == (-1, "the person said no", sent)
