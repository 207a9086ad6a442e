"""Requests of the server: the same handlers in both eras, and requests without a handler."""

import asyncio
import json
import logging
from typing import Any

import pytest

from jackstay.client import Client
from jackstay.client._request_handlers import encode_error
from jackstay.errors import CapabilityError, JsonRpcError, ProtocolError, UsageError
from jackstay.testing import ScriptedPeer, on_fake_clock
from jackstay.types import CreateMessageRequestParams, CreateMessageResult, ElicitResult, TextContent
from scripted.peer import STATELESS, opened, peered, text_result

SAMPLE = {"messages": [], "maxTokens": 1}
FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}


def handle_all(client: Client) -> list[str]:
    """Register handlers for everything; return the list of their calls."""
    handled: list[str] = []

    def sample(params: CreateMessageRequestParams) -> CreateMessageResult:
        handled.append("sample")
        return CreateMessageResult(role="assistant", content=TextContent(text="4"), model="m")

    async def elicit(params: Any) -> ElicitResult:
        handled.append("elicit")
        return ElicitResult(action="accept", content={"name": "Ada"})

    client.sampling.handle(sample)
    client.elicitation.handle(elicit)
    client.roots.set(["file:///a"])
    return handled


def require_input(peer: ScriptedPeer, rounds: int, state: str | None = 's\u00e9al/+=\\"null\u2028') -> None:
    """Let `tools/call` require every kind of input in this many rounds before it returns a result."""
    count = 0

    def call(params: dict[str, Any]) -> dict[str, Any]:
        nonlocal count
        count += 1
        if count > rounds:
            return text_result("done")
        requests = {
            "one": {"method": "sampling/createMessage", "params": SAMPLE},
            "two": {"method": "elicitation/create", "params": FORM},
            "three": {"method": "roots/list"},
        }
        question: dict[str, Any] = {"resultType": "input_required", "inputRequests": requests}
        return question if state is None else question | {"requestState": f"{state}{count}"}

    peer.on["tools/call"] = call


# --- the stateless era ------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_input_requests_are_answered_and_the_request_state_is_echoed_exactly() -> None:
    async with peered(STATELESS) as (client, peer):
        handled = handle_all(client)
        await client.open()
        require_input(peer, 2)
        result = await client.tools.call("book", {"seat": 3})
        assert result.text == "done"
        assert handled == ["sample", "elicit"] * 2
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
async def test_a_missing_request_state_is_not_echoed_and_a_state_alone_suffices() -> None:
    async with peered(STATELESS) as (client, peer):
        handle_all(client)
        await client.open()
        require_input(peer, 1, state=None)
        await client.tools.call("book")
        assert "requestState" not in peer.got("tools/call")[1]["params"]
        answers = iter([{"resultType": "input_required", "requestState": "wait"}, text_result("done")])
        peer.on["tools/call"] = lambda params: next(answers)
        await client.tools.call("book")
        params = peer.got("tools/call")[-1]["params"]
        assert params["requestState"] == "wait"
        assert "inputResponses" not in params


@on_fake_clock
async def test_eight_rounds_are_answered_and_a_ninth_fails_the_call() -> None:
    async with peered(STATELESS) as (client, peer):
        handled = handle_all(client)
        await client.open()
        require_input(peer, 8)
        assert (await client.tools.call("book")).text == "done"
        assert len(handled) == 16
        require_input(peer, 9)
        with pytest.raises(ProtocolError, match="more than 8 times") as caught:
            await client.tools.call("book")
        assert caught.value.may_have_run is True
        assert len(handled) == 32, "no handler ran for the ninth"


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
        peer.crash()
        with pytest.raises(Exception, match="may have run"):
            await call
        await client.ready(60)
        assert calls == 2


@on_fake_clock
async def test_an_input_request_without_a_handler_fails_the_call() -> None:
    async with opened(STATELESS) as (client, peer):
        for count, (request, named) in enumerate(
            [
                ({"method": "sampling/createMessage", "params": SAMPLE}, "sampling/createMessage"),
                ({"method": "elicitation/create", "params": FORM}, "elicitation/create"),
                ({"method": "roots/list"}, "roots/list"),
                ({"method": "planets/list"}, "planets/list"),
                ({}, r"\(no method\)"),
            ],
            1,
        ):
            peer.on["tools/call"] = {"resultType": "input_required", "inputRequests": {"q": request}}
            with pytest.raises(CapabilityError, match=named) as caught:
                await client.tools.call("book")
            assert caught.value.may_have_run is True
            assert len(peer.got("tools/call")) == count


@on_fake_clock
async def test_an_exception_of_a_handler_propagates_to_the_caller() -> None:
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
async def test_an_unsolicited_task_is_refused() -> None:
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
        handled = handle_all(client)
        await client.open()
        peer.request("q", "sampling/createMessage", SAMPLE)
        await client.ping()
        assert peer.responses("q") == []
        assert handled == []


# --- the handshake era ------------------------------------------------------------------------------------------------


@on_fake_clock
async def test_requests_of_every_kind_reach_their_handlers() -> None:
    async with peered() as (client, peer):
        handled = handle_all(client)
        await client.open()
        peer.request(1, "sampling/createMessage", SAMPLE)
        peer.request(2, "elicitation/create", FORM)
        peer.send({"jsonrpc": "2.0", "id": 3, "method": "roots/list"})
        assert (await peer.response_to(1))["result"]["model"] == "m"
        assert (await peer.response_to(2))["result"]["action"] == "accept"
        assert (await peer.response_to(3))["result"] == {"roots": [{"uri": "file:///a"}]}
        assert handled == ["sample", "elicit"]


@on_fake_clock
async def test_requests_without_a_handler_and_invalid_requests_are_refused() -> None:
    async with opened() as (client, peer):
        for method in ("sampling/createMessage", "elicitation/create", "roots/list", "planets/list"):
            peer.request(method, method)
            assert (await peer.response_to(method))["error"]["code"] == -32601
        client.sampling.handle(lambda params: None)  # type: ignore[arg-type, return-value]
        peer.request("bad", "sampling/createMessage", {"messages": []})
        assert (await peer.response_to("bad"))["error"]["code"] == -32602


@on_fake_clock
async def test_the_exception_of_a_handler_is_not_sent_to_the_server(caplog: pytest.LogCaptureFixture) -> None:
    async with opened() as (client, peer):
        for id, error in enumerate((RuntimeError("a secret"), UsageError("a mistake"))):

            def fail(params: Any, error: Exception = error) -> ElicitResult:
                raise error

            client.elicitation.handle(fail)
            with caplog.at_level(logging.ERROR, "jackstay.client"):
                peer.request(id, "elicitation/create", FORM)
                answer = await peer.response_to(id)
            assert answer["error"]["code"] == -32603
            assert "secret" not in answer["error"]["message"]
        assert "a secret" in caplog.text
        client.elicitation.handle(lambda params: "yes")  # type: ignore[arg-type, return-value]
        peer.request("kind", "elicitation/create", FORM)
        assert "ElicitResult, got str" in (await peer.response_to("kind"))["error"]["message"]


@on_fake_clock
async def test_a_handler_may_refuse_with_a_code_and_data() -> None:
    async with opened() as (client, peer):
        for id, (data, sent) in enumerate([(None, None), ({"why": "tired"}, {"why": "tired"}), (float("nan"), None)]):

            def refuse(params: Any, data: Any = data) -> ElicitResult:
                raise JsonRpcError(-1, "the user declined", data)

            client.elicitation.handle(refuse)
            peer.request(id, "elicitation/create", FORM)
            error = (await peer.response_to(id))["error"]
            assert (error["code"], error["message"], error.get("data")) == (-1, "the user declined", sent)


def test_code_message_and_data_are_encoded() -> None:
    assert json.loads(encode_error(-32601, "no such method")) == {"code": -32601, "message": "no such method"}
    assert json.loads(encode_error(7, "no", {"why": [1]})) == {
        "code": 7,
        "message": "no",
        "data": {"why": [1]},
    }


def test_data_that_is_not_json_is_logged_and_omitted(caplog: pytest.LogCaptureFixture) -> None:
    assert json.loads(encode_error(7, "no", {"why": float("nan")})) == {"code": 7, "message": "no"}
    assert "cannot be encoded" in caplog.text
