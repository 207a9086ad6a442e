"""Requests from a server reach the client whose call caused them, in every pair of eras, and no other client."""

import asyncio
import logging
from typing import Any

import pytest

from jackstay.client import Client
from jackstay.errors import JsonRpcError
from jackstay.proxy import _router
from jackstay.proxy._in_flight import LINGER
from jackstay.testing import ReceivedMessage, on_fake_clock
from jackstay.types import CreateMessageResult, ElicitResult, Root, TextContent
from scripted.between import ERAS, HANDSHAKE, PAIRS, STATELESS, Between, between

FORM = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}, "unknownMember": 1}
ANSWER = ElicitResult(action="accept", content={"name": "Ada"})


async def eliciting_client(
    harness: Between, version: str, elicited: list[Any] | None = None, answer: Any = ANSWER
) -> Client:
    """An open client that responds to elicitations and keeps them."""

    def on_elicit(params: Any) -> ElicitResult:
        if elicited is not None:
            elicited.append(params.raw)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    client = harness.make(version)
    client.elicitation.handle(on_elicit)
    await client.open()
    return client


def elicit(
    received: ReceivedMessage, harness: Between, id: Any = "q1", params: Any = None, method: str = "elicitation/create"
) -> ReceivedMessage:
    """The server elicits before it responds to this call, in the way of its era. Returns the call."""
    form = FORM if params is None else params
    if harness.peer.version == STATELESS:
        received.respond(
            {
                "resultType": "input_required",
                "inputRequests": {id: {"method": method, "params": form}},
                "requestState": "opaque ÿ",
            }
        )
    else:
        harness.peer.request(id, method, form)
    return received


async def elicitation_response(
    received: ReceivedMessage, harness: Between, id: Any = "q1"
) -> tuple[Any, ReceivedMessage]:
    """Return the response to that elicitation, and the call to respond to."""
    if harness.peer.version == STATELESS:
        again = await harness.peer.expect("tools/call")
        assert again.id != received.id
        assert again.params["requestState"] == "opaque ÿ"
        return again.params["inputResponses"][id], again
    answer = await harness.peer.response_to(id)
    return answer.get("result") or answer["error"], received


@pytest.mark.parametrize(("client_version", "server_version"), PAIRS)
@on_fake_clock
async def test_an_elicitation_reaches_the_caller_and_its_response_the_server(
    client_version: str, server_version: str
) -> None:
    async with between(server_version) as harness:
        elicited: list[Any] = []
        client = await eliciting_client(harness, client_version, elicited)
        await eliciting_client(harness, HANDSHAKE, answer=AssertionError("the wrong client was elicited"))
        call = asyncio.ensure_future(client.tools.call("t", {"a": 1}))
        received = elicit(await harness.peer.expect("tools/call"), harness)
        answer, received = await elicitation_response(received, harness)
        assert answer == {"action": "accept", "content": {"name": "Ada"}}
        assert received.params["arguments"] == {"a": 1}
        received.respond({"content": [{"type": "text", "text": "hello Ada"}]})
        assert (await call).text == "hello Ada"
        assert [one["message"] for one in elicited] == ["who?"]
        assert elicited[0]["unknownMember"] == 1


@pytest.mark.parametrize(("client_version", "server_version"), PAIRS)
@on_fake_clock
async def test_a_server_may_elicit_several_times(client_version: str, server_version: str) -> None:
    async with between(server_version) as harness:
        client = await eliciting_client(harness, client_version)
        call = asyncio.ensure_future(client.tools.call("t"))
        received = await harness.peer.expect("tools/call")
        for number in range(4):
            elicit(received, harness, f"q{number}")
            _, received = await elicitation_response(received, harness, f"q{number}")
        received.respond({"content": []})
        await call


@pytest.mark.parametrize(("client_version", "server_version"), PAIRS)
@on_fake_clock
async def test_sampling_and_roots_are_forwarded(client_version: str, server_version: str) -> None:
    async with between(server_version) as harness:
        client = harness.make(client_version)
        client.sampling.handle(
            lambda _: CreateMessageResult(role="assistant", content=TextContent(text="hm"), model="m")
        )
        client.roots.set([Root(uri="file:///a")])
        await client.open()
        call = asyncio.ensure_future(client.tools.call("t"))
        received = elicit(
            await harness.peer.expect("tools/call"),
            harness,
            "s",
            {"messages": [], "maxTokens": 1},
            "sampling/createMessage",
        )
        answer, received = await elicitation_response(received, harness, "s")
        assert answer["model"] == "m"
        elicit(received, harness, "r", {}, "roots/list")
        answer, received = await elicitation_response(received, harness, "r")
        assert answer["roots"] == [{"uri": "file:///a"}]
        received.respond({"content": []})
        await call


@pytest.mark.parametrize("client_version", ERAS)
@on_fake_clock
async def test_an_undeclared_capability_is_method_not_found(client_version: str) -> None:
    """The proxy declares all capabilities to the server; a client without one returns an error."""
    async with between() as harness:
        client = await harness.join(client_version)
        call = asyncio.ensure_future(client.tools.call("t"))
        received = elicit(await harness.peer.expect("tools/call"), harness)
        answer, received = await elicitation_response(received, harness)
        assert answer["code"] == -32601
        assert "elicitation" in answer["message"]
        received.respond({"content": []})
        await call


@on_fake_clock
async def test_an_error_of_the_client_reaches_the_server() -> None:
    async with between() as harness:
        client = await eliciting_client(harness, HANDSHAKE, answer=JsonRpcError(-1, "the user left", {"at": "once"}))
        call = asyncio.ensure_future(client.tools.call("t"))
        received = elicit(await harness.peer.expect("tools/call"), harness)
        answer, received = await elicitation_response(received, harness)
        assert answer == {"code": -1, "message": "the user left", "data": {"at": "once"}}
        received.respond({"content": []})
        await call


@on_fake_clock
async def test_an_error_of_the_client_ends_the_call_of_a_stateless_server() -> None:
    """2026-07-28 has no error as a response to an input request."""
    async with between(STATELESS) as harness:
        client = await eliciting_client(harness, HANDSHAKE, answer=JsonRpcError(-1, "the user left", {"at": "once"}))
        call = asyncio.ensure_future(client.tools.call("t"))
        elicit(await harness.peer.expect("tools/call"), harness)
        with pytest.raises(JsonRpcError) as caught:
            await call
        assert (caught.value.code, caught.value.data) == (-1, {"at": "once"})


@on_fake_clock
async def test_too_many_input_rounds_are_an_error() -> None:
    async with between(STATELESS) as harness:
        client = await eliciting_client(harness, HANDSHAKE)
        harness.peer.on["tools/call"] = {"resultType": "input_required", "requestState": "again"}
        with pytest.raises(JsonRpcError, match="violated the protocol") as caught:
            await client.tools.call("t")
        assert caught.value.data == {"reason": "invalid response", "mayHaveRun": True, "retryable": False}


# --- attribution to a client ------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_request_during_calls_of_several_clients_is_refused_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It must never reach the wrong user."""
    async with between() as harness:
        elicited: list[Any] = []
        clients = [await eliciting_client(harness, version, elicited) for version in ERAS]
        calls = [asyncio.ensure_future(client.tools.call("t")) for client in clients]
        received = [await harness.peer.expect("tools/call") for _ in calls]
        with caplog.at_level(logging.WARNING, "jackstay.proxy"):
            elicit(received[0], harness)
            answer, _ = await elicitation_response(received[0], harness)
            for number in range(9):
                elicit(received[0], harness, f"again-{number}")
                await elicitation_response(received[0], harness, f"again-{number}")
        assert answer["code"] == -32603
        assert answer["data"] == {"reason": "several clients"}
        assert "--per-client" in caplog.text
        counts = [record.args[-1] for record in caplog.records if isinstance(record.args, tuple)]
        assert counts == [1, 2, 4, 8], "repeated requests do not fill the log"
        assert elicited == []
        received[0].respond({"content": []})
        await calls[0]
        elicit(received[1], harness, "still unclear")
        assert (await elicitation_response(received[1], harness, "still unclear"))[0]["code"] == -32603
        await asyncio.sleep(LINGER)
        elicit(received[1], harness, "q2")
        await harness.peer.until(lambda: elicited)
        assert (await elicitation_response(received[1], harness, "q2"))[0]["action"] == "accept", (
            "now only one client can be meant"
        )
        received[1].respond({"content": []})
        await calls[1]


@on_fake_clock
async def test_several_calls_of_one_client_are_not_ambiguous() -> None:
    async with between() as harness:
        client = await eliciting_client(harness, HANDSHAKE)
        calls = [asyncio.ensure_future(client.tools.call("t")) for _ in range(3)]
        received = [await harness.peer.expect("tools/call") for _ in calls]
        elicit(received[0], harness)
        answer, _ = await elicitation_response(received[0], harness)
        assert answer["action"] == "accept"
        for each in received:
            each.respond({"content": []})
        await asyncio.gather(*calls)


@on_fake_clock
async def test_a_cancelled_call_may_still_send_requests() -> None:
    """The server may still work on it: for a while, its requests are not attributed to another client."""
    async with between() as harness:
        elicited: list[Any] = []
        one, two = await eliciting_client(harness, HANDSHAKE), await eliciting_client(harness, HANDSHAKE, elicited)
        gone = asyncio.ensure_future(one.tools.call("t"))
        await harness.peer.expect("tools/call")
        gone.cancel()
        await harness.peer.expect("notifications/cancelled")
        call = asyncio.ensure_future(two.tools.call("t", timeout=200))
        received = elicit(await harness.peer.expect("tools/call"), harness)
        assert (await elicitation_response(received, harness))[0]["code"] == -32603
        assert elicited == []
        await asyncio.sleep(11)
        elicit(received, harness, "later")
        assert (await elicitation_response(received, harness, "later"))[0]["action"] == "accept"
        call.cancel()


@on_fake_clock
async def test_a_request_outside_any_call_goes_to_the_only_client() -> None:
    """Servers request roots after the handshake."""
    async with between() as harness:
        harness.peer.request("early", "roots/list")
        assert "0 clients are connected" in (await harness.peer.response_to("early"))["error"]["message"]
        client = harness.make()
        client.roots.set([Root(uri="file:///root")])
        await client.open()
        harness.peer.request("alone", "roots/list")
        assert (await harness.peer.response_to("alone"))["result"]["roots"] == [{"uri": "file:///root"}]
        await harness.join()
        harness.peer.request("not alone", "roots/list")
        assert "2 clients are connected" in (await harness.peer.response_to("not alone"))["error"]["message"]


@on_fake_clock
async def test_a_request_that_the_server_cancels_is_cancelled_at_the_client() -> None:
    async with between() as harness:
        gone = asyncio.Event()

        async def on_elicit(_: Any) -> ElicitResult:
            try:
                await asyncio.Event().wait()
            finally:
                gone.set()
            raise AssertionError

        client = harness.make()
        client.elicitation.handle(on_elicit)
        await client.open()
        call = asyncio.ensure_future(client.tools.call("t"))
        received = elicit(await harness.peer.expect("tools/call"), harness)
        await asyncio.sleep(0.1)
        harness.peer.notify("notifications/cancelled", requestId="q1")
        await gone.wait()
        received.respond({"content": []})
        await call


@on_fake_clock
async def test_elicitation_complete_reaches_the_elicited_client() -> None:
    """2025-11-25 client/elicitation: the notification contains the id of the elicitation."""
    async with between() as harness:
        notified: list[str] = []
        clients = [await eliciting_client(harness, HANDSHAKE) for _ in range(2)]
        for number, client in enumerate(clients):
            client.on_notification(
                lambda message, number=number: notified.append(f"{number} {message.params['elicitationId']}")
            )
            call = asyncio.ensure_future(client.tools.call("t"))
            received = await harness.peer.expect("tools/call")
            sent = {"mode": "url", "message": "go", "url": "https://example.org", "elicitationId": f"e{number}"}
            elicit(received, harness, f"q{number}", sent)
            await elicitation_response(received, harness, f"q{number}")
            received.respond({"content": []})
            await call
            await asyncio.sleep(LINGER)
        for id in ("e1", "e0", "e0", "unknown"):
            harness.peer.notify("notifications/elicitation/complete", elicitationId=id)
        harness.peer.notify("notifications/elicitation/complete", elicitationId=7)
        await asyncio.sleep(0.1)
        assert notified == ["1 e1", "0 e0"]


@on_fake_clock
async def test_the_number_of_url_elicitations_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_router, "MAX_URL_ELICITATIONS", 1)
    async with between() as harness:
        client = await eliciting_client(harness, HANDSHAKE)
        notified: list[Any] = []
        client.on_notification(notified.append)
        harness.peer.on["tools/call"] = {"content": []}
        await client.tools.call("t")
        for id in ("e0", 5, "e1"):
            harness.peer.request(str(id), "elicitation/create", {**FORM, "elicitationId": id})
            await harness.peer.response_to(str(id))
        await (await harness.join()).tools.call("t")  # now the server has served several clients
        for id in ("e0", "e1"):
            harness.peer.notify("notifications/elicitation/complete", elicitationId=id)
        await asyncio.sleep(0.1)
        assert [message.params["elicitationId"] for message in notified] == ["e1"]


# --- stateless client, handshake server: suspended calls --------------------------------------------------------------


async def suspended_call(harness: Between, **more: Any) -> tuple[Client, ReceivedMessage, dict[str, Any]]:
    """Return a client whose call is suspended, the call at the server, and the `input_required` result."""
    client = await harness.join(STATELESS, capabilities={"elicitation": {}})
    call = client.submit("tools/call", {"name": "t", "arguments": {"a": 1}, **more})
    received = elicit(await harness.peer.expect("tools/call"), harness)
    return client, received, await call


def round_of(required: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the params of the next round: the same request with the response."""
    (key,) = required["inputRequests"]
    responses = {key: {"action": "decline"}}
    return {
        "name": "t",
        "arguments": {"a": 1},
        "requestState": required["requestState"],
        "inputResponses": responses,
        **more,
    }


@on_fake_clock
async def test_a_suspended_call_resumes_with_the_next_round() -> None:
    async with between() as harness:
        client, received, required = await suspended_call(harness)
        assert required["resultType"] == "input_required"
        (request,) = required["inputRequests"].values()
        assert request == {"method": "elicitation/create", "params": FORM}
        again = client.submit("tools/call", round_of(required))
        assert (await elicitation_response(received, harness))[0] == {"action": "decline"}
        received.respond({"content": [], "at": "last"})
        assert (await again)["at"] == "last"
        assert len(harness.peer.got("tools/call")) == 1


@on_fake_clock
async def test_a_round_without_the_response_gets_input_required_again() -> None:
    """2026-07-28 basic/patterns/mrtr: missing input is requested again."""
    async with between() as harness:
        client, received, required = await suspended_call(harness)
        again = await client.submit("tools/call", round_of(required, inputResponses={"unknown": {}}))
        assert again["inputRequests"] == required["inputRequests"]
        assert again["requestState"] != required["requestState"]
        last = client.submit("tools/call", round_of(again))
        await elicitation_response(received, harness)
        received.respond({"content": []})
        await last


@pytest.mark.parametrize(
    "more",
    [{"requestState": "made up"}, {"arguments": {"a": 2}}, {"name": "another"}],
    ids=str,
)
@on_fake_clock
async def test_a_state_is_valid_for_its_own_request_only(more: dict[str, Any]) -> None:
    async with between() as harness:
        client, _, required = await suspended_call(harness)
        with pytest.raises(JsonRpcError, match="requestState") as caught:
            await client.submit("tools/call", round_of(required, **more))
        assert caught.value.code == -32602
        assert len(harness.peer.got("tools/call")) == 1


@on_fake_clock
async def test_a_state_is_valid_once() -> None:
    async with between() as harness:
        client, received, required = await suspended_call(harness)
        first, second = (client.submit("tools/call", round_of(required)) for _ in range(2))
        await elicitation_response(received, harness)
        received.respond({"content": []})
        await first
        with pytest.raises(JsonRpcError, match="requestState"):
            await second


@on_fake_clock
async def test_a_state_that_is_not_a_string_starts_a_new_call() -> None:
    async with between() as harness:
        client, _, required = await suspended_call(harness)
        client.submit("tools/call", round_of(required, requestState=7, inputResponses=[]))
        await harness.peer.expect("tools/call")


@on_fake_clock
async def test_a_suspended_call_expires() -> None:
    async with between() as harness:
        client, received, required = await suspended_call(harness)
        notified = asyncio.ensure_future(harness.peer.expect("notifications/cancelled"))
        await asyncio.sleep(599)
        assert not notified.done()
        assert (await notified).params["requestId"] == received.id
        assert "did not return input" in (await harness.peer.response_to("q1"))["error"]["message"]
        with pytest.raises(JsonRpcError, match="expired"):
            await client.submit("tools/call", round_of(required))


@on_fake_clock
async def test_a_suspended_call_whose_server_is_lost_fails_in_the_next_round() -> None:
    """The error, one round later: the call may have run."""
    async with between() as harness:
        client, _, required = await suspended_call(harness)
        harness.peer.crash()
        await asyncio.sleep(0.1)
        with pytest.raises(JsonRpcError) as caught:
            await client.submit("tools/call", round_of(required))
        assert caught.value.data == {"reason": "lost", "mayHaveRun": True, "retryable": False}


@on_fake_clock
async def test_a_suspended_call_that_was_answered_returns_its_result_in_the_next_round() -> None:
    async with between() as harness:
        client, received, required = await suspended_call(harness)
        harness.peer.notify("notifications/cancelled", requestId="q1")
        received.respond({"content": [], "without": "you"})
        assert (await client.submit("tools/call", round_of(required)))["without"] == "you"


@on_fake_clock
async def test_a_suspended_call_that_has_ended_lingers() -> None:
    """After LINGER seconds, requests are attributed to other clients again."""
    async with between() as harness:
        _, received, _ = await suspended_call(harness)
        other = await eliciting_client(harness, HANDSHAKE)
        received.respond({"content": []})
        await asyncio.sleep(LINGER + 1)
        call = other.submit("tools/call", {"name": "t"})
        elicit(await harness.peer.expect("tools/call"), harness, "q2")
        assert (await harness.peer.response_to("q2"))["result"]["action"] == "accept"
        assert (await harness.peer.response_to("q1"))["error"]["message"].endswith("has ended"), (
            "there will be no response"
        )
        harness.peer.crash()
        with pytest.raises(JsonRpcError):
            await call
        await suspended_call(harness)
        harness.peer.crash()
        await asyncio.sleep(5)
        harness.peer.request("q3", "elicitation/create", FORM)
        assert (await harness.peer.response_to("q3"))["result"]["action"] == "accept", "the server was restarted"


@on_fake_clock
async def test_a_pending_request_fails_when_the_call_ends() -> None:
    async with between() as harness:
        client = await harness.join(STATELESS, capabilities={"elicitation": {}})
        call = client.submit("tools/call", {"name": "t"})
        received = elicit(await harness.peer.expect("tools/call"), harness)
        received.respond({"content": []})
        assert (await call)["resultType"] == "complete"
        assert (await harness.peer.response_to("q1"))["error"]["code"] == -32603


@on_fake_clock
async def test_progress_of_a_suspended_call_has_the_token_of_the_newest_round() -> None:
    """Each round is a new request with a new token."""
    async with between() as harness:
        client = await harness.join(STATELESS, capabilities={"elicitation": {}})
        notified: list[str] = []
        first, second = (lambda _, name=name: notified.append(name) for name in ("first", "second"))
        call = client.submit("tools/call", {"name": "t", "arguments": {"a": 1}}, on_progress=first)
        received = elicit(await harness.peer.expect("tools/call"), harness)
        again = client.submit("tools/call", round_of(await call), on_progress=second)
        await elicitation_response(received, harness)
        received.progress(1)
        await asyncio.sleep(0.1)
        assert notified == ["second"]
        received.respond({"content": []})
        await again


@on_fake_clock
async def test_a_server_that_restarts_in_the_other_era_cannot_send_requests_for_old_calls() -> None:
    """The call was sent to a stateless-era server: nothing would respond to a request outside a result."""
    async with between(STATELESS) as harness:
        client = await harness.join(STATELESS, capabilities={"elicitation": {}})
        harness.peer.version = HANDSHAKE
        harness.peer.crash()
        await asyncio.sleep(0.01)
        call = client.submit("tools/call", {"name": "t"})
        received = await harness.peer.expect("tools/call")
        harness.peer.request("q1", "elicitation/create", FORM)
        assert (await harness.peer.response_to("q1"))["error"]["code"] == -32603
        received.respond({"content": []})
        await call


@on_fake_clock
async def test_cancelling_the_next_round_cancels_the_suspended_call() -> None:
    async with between() as harness:
        client, received, required = await suspended_call(harness)
        again = client.submit("tools/call", round_of(required))
        await elicitation_response(received, harness)
        again.cancel()
        assert (await harness.peer.expect("notifications/cancelled")).params["requestId"] == received.id


@on_fake_clock
async def test_the_number_of_suspended_calls_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_router, "MAX_SUSPENDED", 1)
    async with between() as harness:
        client, _, _ = await suspended_call(harness)
        again = client.submit("tools/call", {"name": "t", "arguments": {"a": 2}})
        received = await harness.peer.expect("tools/call")
        # Both calls belong to one client: over stdio, a stateless client is one connection, too.
        elicit(received, harness, "q2")
        assert "too many suspended calls" in (await harness.peer.response_to("q2"))["error"]["message"]
        received.respond({"content": []})
        await again


@on_fake_clock
async def test_methods_without_input_required_get_no_requests() -> None:
    """2026-07-28: only tools/call, prompts/get and resources/read can return input_required."""
    async with between() as harness:
        client = await harness.join(STATELESS, capabilities={"elicitation": {}, "roots": {}})
        call = client.submit("tools/list")
        received = await harness.peer.expect("tools/list")
        elicit(received, harness)
        assert "cannot return input_required" in (await harness.peer.response_to("q1"))["error"]["message"]
        harness.peer.request("unknown", "org.example/unknown")
        assert (await harness.peer.response_to("unknown"))["error"]["code"] == -32601
        received.respond({"tools": []})
        await call


@on_fake_clock
async def test_shutdown_cancels_suspended_calls() -> None:
    async with between() as harness:
        await suspended_call(harness)
        await harness.proxy.shutdown()
        assert harness.peer.got("notifications/cancelled")


@on_fake_clock
async def test_a_request_to_a_disconnected_client_fails() -> None:
    async with between() as harness:
        client = harness.make()
        stuck = asyncio.Event()

        async def on_elicit(_: Any) -> ElicitResult:
            await stuck.wait()
            raise AssertionError

        client.elicitation.handle(on_elicit)
        await client.open()
        call = client.submit("tools/call", {"name": "t", "arguments": {}})
        received = elicit(await harness.peer.expect("tools/call"), harness)
        await asyncio.sleep(0.1)
        await client.stop()
        answer, _ = await elicitation_response(received, harness)
        assert "to the client" in answer["message"]
        assert call.future.done()
