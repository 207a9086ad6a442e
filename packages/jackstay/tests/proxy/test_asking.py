"""Questions of a server reach the client whose call caused them, in every pair of eras, and nobody else."""

import asyncio
import logging
from typing import Any

import pytest

from jackstay.client import Client
from jackstay.errors import JsonRpcError
from jackstay.proxy import _asking
from jackstay.proxy._flights import LINGER
from jackstay.testing import Heard, on_fake_clock
from jackstay.types import CreateMessageResult, ElicitResult, Root, TextContent
from scripted.between import ERAS, HANDSHAKE, PAIRS, STATELESS, Between, between

FORM = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}, "unheardOf": 1}
ANSWER = ElicitResult(action="accept", content={"name": "Ada"})


def asking(made: Between, version: str, said: list[Any] | None = None, answer: Any = ANSWER) -> Client:
    """A client that answers questions, and keeps what it was asked; not opened yet."""

    def elicit(params: Any) -> ElicitResult:
        if said is not None:
            said.append(params.raw)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]  # as the test says

    client = made.make(version)
    client.elicitation.handle(elicit)
    return client


def question(
    heard: Heard, made: Between, id: Any = "q1", params: Any = None, method: str = "elicitation/create"
) -> None:
    """The server asks before it answers this call: as its era does."""
    asked = FORM if params is None else params
    if made.peer.version == STATELESS:
        heard.answer(
            {
                "resultType": "input_required",
                "inputRequests": {id: {"method": method, "params": asked}},
                "requestState": "opaque ÿ",
            }
        )
    else:
        made.peer.ask(id, method, asked)


async def answered(heard: Heard, made: Between, id: Any = "q1") -> tuple[Any, Heard]:
    """The answer to that question, and the call to give its result to."""
    if made.peer.version == STATELESS:
        again = await made.peer.expect("tools/call")
        assert again.id != heard.id
        assert again.params["requestState"] == "opaque ÿ"
        return again.params["inputResponses"][id], again
    answer = await made.peer.answer_to(id)
    return answer.get("result") or answer["error"], heard


@pytest.mark.parametrize(("front", "back"), PAIRS)
@on_fake_clock
async def test_a_question_reaches_the_caller_and_its_answer_the_server(front: str, back: str) -> None:
    async with between(back) as made:
        asked: list[Any] = []
        client = asking(made, front, asked)
        await client.open()
        other = asking(made, HANDSHAKE, answer=AssertionError("the wrong one was asked"))
        await other.open()
        call = asyncio.ensure_future(client.tools.call("t", {"a": 1}))
        heard = await made.peer.expect("tools/call")
        question(heard, made)
        answer, heard = await answered(heard, made)
        assert answer == {"action": "accept", "content": {"name": "Ada"}}
        assert heard.params["arguments"] == {"a": 1}
        heard.answer({"content": [{"type": "text", "text": "hello Ada"}]})
        assert (await call).text == "hello Ada"
        assert [one["message"] for one in asked] == ["who?"]
        assert asked[0]["unheardOf"] == 1


@pytest.mark.parametrize(("front", "back"), PAIRS)
@on_fake_clock
async def test_a_server_may_ask_again_and_again(front: str, back: str) -> None:
    async with between(back) as made:
        client = asking(made, front)
        await client.open()
        call = asyncio.ensure_future(client.tools.call("t"))
        heard = await made.peer.expect("tools/call")
        for number in range(4):
            question(heard, made, f"q{number}")
            _, heard = await answered(heard, made, f"q{number}")
        heard.answer({"content": []})
        await call


@pytest.mark.parametrize(("front", "back"), PAIRS)
@on_fake_clock
async def test_sampling_and_roots_pass_as_elicitation_does(front: str, back: str) -> None:
    async with between(back) as made:
        client = made.make(front)
        client.sampling.handle(
            lambda _: CreateMessageResult(role="assistant", content=TextContent(text="hm"), model="m")
        )
        client.roots.set([Root(uri="file:///a")])
        await client.open()
        call = asyncio.ensure_future(client.tools.call("t"))
        heard = await made.peer.expect("tools/call")
        question(heard, made, "s", {"messages": [], "maxTokens": 1}, "sampling/createMessage")
        answer, heard = await answered(heard, made, "s")
        assert answer["model"] == "m"
        question(heard, made, "r", {}, "roots/list")
        answer, heard = await answered(heard, made, "r")
        assert answer["roots"] == [{"uri": "file:///a"}]
        heard.answer({"content": []})
        await call


@pytest.mark.parametrize("front", ERAS)
@on_fake_clock
async def test_what_a_client_cannot_answer_is_refused_as_a_client_would(front: str) -> None:
    """The server behind is told that everything can be asked; who did not declare it says no."""
    async with between() as made:
        client = await made.join(front)
        call = asyncio.ensure_future(client.tools.call("t"))
        heard = await made.peer.expect("tools/call")
        question(heard, made)
        answer, heard = await answered(heard, made)
        assert answer["code"] == -32601
        assert "elicitation" in answer["message"]
        heard.answer({"content": []})
        await call


@on_fake_clock
async def test_an_error_of_the_client_reaches_the_server_with_its_code_and_data() -> None:
    async with between() as made:
        client = asking(made, HANDSHAKE, answer=JsonRpcError(-1, "the user left", {"at": "once"}))
        await client.open()
        call = asyncio.ensure_future(client.tools.call("t"))
        heard = await made.peer.expect("tools/call")
        question(heard, made)
        answer, heard = await answered(heard, made)
        assert answer == {"code": -1, "message": "the user left", "data": {"at": "once"}}
        heard.answer({"content": []})
        await call


@on_fake_clock
async def test_an_error_of_the_client_ends_the_call_where_it_cannot_be_answered() -> None:
    """2026-07-28 has no way to answer a question with an error."""
    async with between(STATELESS) as made:
        client = asking(made, HANDSHAKE, answer=JsonRpcError(-1, "the user left", {"at": "once"}))
        await client.open()
        call = asyncio.ensure_future(client.tools.call("t"))
        question(await made.peer.expect("tools/call"), made)
        with pytest.raises(JsonRpcError) as told:
            await call
        assert (told.value.code, told.value.data) == (-1, {"at": "once"})


@on_fake_clock
async def test_a_server_that_asks_without_end_is_ended() -> None:
    async with between(STATELESS) as made:
        client = asking(made, HANDSHAKE)
        await client.open()
        made.peer.on["tools/call"] = {"resultType": "input_required", "requestState": "again"}
        with pytest.raises(JsonRpcError, match="broke the protocol") as told:
            await client.tools.call("t")
        assert told.value.data == {"reason": "broken answer", "mayHaveRun": True, "retryable": False}


# --- whose question it is ---------------------------------------------------------------------------------------------


@on_fake_clock
async def test_a_question_while_several_clients_calls_are_under_way_is_refused_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nobody knows for whom it is, and the wrong person must not be asked."""
    async with between() as made:
        asked: list[Any] = []
        clients = [asking(made, version, asked) for version in ERAS]
        calls = []
        for client in clients:
            await client.open()
            calls.append(asyncio.ensure_future(client.tools.call("t")))
        heard = [await made.peer.expect("tools/call") for _ in calls]
        with caplog.at_level(logging.WARNING, "jackstay.proxy"):
            question(heard[0], made)
            answer, _ = await answered(heard[0], made)
            for number in range(9):
                question(heard[0], made, f"again-{number}")
                await answered(heard[0], made, f"again-{number}")
        assert answer["code"] == -32603
        assert answer["data"] == {"reason": "several clients"}
        assert "--per-client" in caplog.text
        counts = [record.args[-1] for record in caplog.records if isinstance(record.args, tuple)]
        assert counts == [1, 2, 4, 8], "a server that asks on and on does not fill the log"
        assert asked == []
        heard[0].answer({"content": []})
        await calls[0]
        question(heard[1], made, "still unclear")
        assert (await answered(heard[1], made, "still unclear"))[0]["code"] == -32603
        await asyncio.sleep(LINGER)
        question(heard[1], made, "q2")
        await made.peer.until(lambda: asked)
        assert (await answered(heard[1], made, "q2"))[0]["action"] == "accept", "now it is clear whose it is"
        heard[1].answer({"content": []})
        await calls[1]


@on_fake_clock
async def test_several_calls_of_one_client_are_one_clients() -> None:
    async with between() as made:
        client = asking(made, HANDSHAKE)
        await client.open()
        calls = [asyncio.ensure_future(client.tools.call("t")) for _ in range(3)]
        heard = [await made.peer.expect("tools/call") for _ in calls]
        question(heard[0], made)
        answer, _ = await answered(heard[0], made)
        assert answer["action"] == "accept"
        for each in heard:
            each.answer({"content": []})
        await asyncio.gather(*calls)


@on_fake_clock
async def test_a_call_that_was_given_up_may_still_be_asking() -> None:
    """The server was told, and may be at work on it all the same: for a while its questions are not another's."""
    async with between() as made:
        asked: list[Any] = []
        one, two = asking(made, HANDSHAKE), asking(made, HANDSHAKE, asked)
        await one.open()
        await two.open()
        gone = asyncio.ensure_future(one.tools.call("t"))
        await made.peer.expect("tools/call")
        gone.cancel()
        await made.peer.expect("notifications/cancelled")
        call = asyncio.ensure_future(two.tools.call("t", timeout=200))
        heard = await made.peer.expect("tools/call")
        question(heard, made)
        assert (await answered(heard, made))[0]["code"] == -32603
        assert asked == []
        await asyncio.sleep(11)
        question(heard, made, "later")
        assert (await answered(heard, made, "later"))[0]["action"] == "accept"
        call.cancel()


@on_fake_clock
async def test_a_question_outside_any_call_goes_to_the_only_client_there_is() -> None:
    """Servers ask for roots when they have been opened."""
    async with between() as made:
        made.peer.ask("early", "roots/list")
        assert "0 clients are open" in (await made.peer.answer_to("early"))["error"]["message"]
        client = made.make()
        client.roots.set([Root(uri="file:///mine")])
        await client.open()
        made.peer.ask("alone", "roots/list")
        assert (await made.peer.answer_to("alone"))["result"]["roots"] == [{"uri": "file:///mine"}]
        await made.join()
        made.peer.ask("not alone", "roots/list")
        assert "2 clients are open" in (await made.peer.answer_to("not alone"))["error"]["message"]


@on_fake_clock
async def test_a_question_that_the_server_takes_back_is_taken_back() -> None:
    async with between() as made:
        gone = asyncio.Event()

        async def elicit(_: Any) -> ElicitResult:
            try:
                await asyncio.Event().wait()
            finally:
                gone.set()
            raise AssertionError

        client = made.make()
        client.elicitation.handle(elicit)
        await client.open()
        call = asyncio.ensure_future(client.tools.call("t"))
        heard = await made.peer.expect("tools/call")
        question(heard, made)
        await asyncio.sleep(0.1)
        made.peer.notify("notifications/cancelled", requestId="q1")
        await gone.wait()
        heard.answer({"content": []})
        await call


@on_fake_clock
async def test_who_was_sent_to_an_address_is_told_that_he_is_done() -> None:
    """2025-11-25 client/elicitation: the notification says which question it is about, and so for whom it is."""
    async with between() as made:
        told: list[str] = []
        clients = [asking(made, HANDSHAKE), asking(made, HANDSHAKE)]
        for number, client in enumerate(clients):
            client.on_notification(
                lambda one, number=number: told.append(f"{number} {one.params['elicitationId']}")
            )
            await client.open()
            call = asyncio.ensure_future(client.tools.call("t"))
            heard = await made.peer.expect("tools/call")
            sent = {
                "mode": "url",
                "message": "go",
                "url": "https://example.org",
                "elicitationId": f"e{number}",
            }
            question(heard, made, f"q{number}", sent)
            await answered(heard, made, f"q{number}")
            heard.answer({"content": []})
            await call
            await asyncio.sleep(LINGER)
        for id in ("e1", "e0", "e0", "nobody's"):
            made.peer.notify("notifications/elicitation/complete", elicitationId=id)
        made.peer.notify("notifications/elicitation/complete", elicitationId=7)
        await asyncio.sleep(0.1)
        assert told == ["1 e1", "0 e0"]


@on_fake_clock
async def test_addresses_that_nobody_comes_back_from_are_not_kept_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_asking, "MOST_SENT_AWAY", 1)
    async with between() as made:
        client = asking(made, HANDSHAKE)
        told: list[Any] = []
        client.on_notification(told.append)
        await client.open()
        made.peer.on["tools/call"] = {"content": []}
        await client.tools.call("t")
        for id in ("e0", 5, "e1"):
            made.peer.ask(str(id), "elicitation/create", {**FORM, "elicitationId": id})
            await made.peer.answer_to(str(id))
        await (await made.join()).tools.call("t")  # from now on nothing else is known to be for one of them
        for id in ("e0", "e1"):
            made.peer.notify("notifications/elicitation/complete", elicitationId=id)
        await asyncio.sleep(0.1)
        assert [one.params["elicitationId"] for one in told] == ["e1"]


# --- a stateless client at a server with a handshake: held calls ------------------------------------------------------


async def held(made: Between, **more: Any) -> tuple[Client, Heard, dict[str, Any]]:
    """A client whose call is held, the call, and the result that asks."""
    client = await made.join(STATELESS, capabilities={"elicitation": {}})
    call = client.submit("tools/call", {"name": "t", "arguments": {"a": 1}, **more})
    heard = await made.peer.expect("tools/call")
    question(heard, made)
    return client, heard, await call


def round_of(asked: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The next round: the same request with the answer."""
    (key,) = asked["inputRequests"]
    answers = {key: {"action": "decline"}}
    return {
        "name": "t",
        "arguments": {"a": 1},
        "requestState": asked["requestState"],
        "inputResponses": answers,
        **more,
    }


@on_fake_clock
async def test_a_held_call_goes_on_with_the_next_round_and_runs_once() -> None:
    async with between() as made:
        client, heard, asked = await held(made)
        assert asked["resultType"] == "input_required"
        (one,) = asked["inputRequests"].values()
        assert one == {"method": "elicitation/create", "params": FORM}
        again = client.submit("tools/call", round_of(asked))
        assert (await answered(heard, made))[0] == {"action": "decline"}
        heard.answer({"content": [], "at": "last"})
        assert (await again)["at"] == "last"
        assert len(made.peer.got("tools/call")) == 1


@on_fake_clock
async def test_a_round_without_the_answer_is_asked_again() -> None:
    """2026-07-28 basic/patterns/mrtr: missing input is asked for again rather than refused."""
    async with between() as made:
        client, heard, asked = await held(made)
        again = await client.submit("tools/call", round_of(asked, inputResponses={"unknown": {}}))
        assert again["inputRequests"] == asked["inputRequests"]
        assert again["requestState"] != asked["requestState"]
        last = client.submit("tools/call", round_of(again))
        await answered(heard, made)
        heard.answer({"content": []})
        await last


@pytest.mark.parametrize(
    "more",
    [
        {"requestState": "made up"},
        {"arguments": {"a": 2}},
        {"name": "another"},
    ],
    ids=str,
)
@on_fake_clock
async def test_a_state_is_good_for_its_own_request_alone(more: dict[str, Any]) -> None:
    async with between() as made:
        client, _, asked = await held(made)
        with pytest.raises(JsonRpcError, match="requestState") as told:
            await client.submit("tools/call", round_of(asked, **more))
        assert told.value.code == -32602
        assert len(made.peer.got("tools/call")) == 1


@on_fake_clock
async def test_a_state_is_good_once() -> None:
    async with between() as made:
        client, heard, asked = await held(made)
        first, second = (client.submit("tools/call", round_of(asked)) for _ in range(2))
        await answered(heard, made)
        heard.answer({"content": []})
        await first
        with pytest.raises(JsonRpcError, match="requestState"):
            await second


@on_fake_clock
async def test_a_state_that_is_no_text_begins_a_new_call() -> None:
    async with between() as made:
        client, _, asked = await held(made)
        client.submit("tools/call", round_of(asked, requestState=7, inputResponses=[]))
        await made.peer.expect("tools/call")


@on_fake_clock
async def test_a_held_call_whose_client_does_not_come_back_is_cancelled() -> None:
    async with between() as made:
        client, heard, asked = await held(made)
        told = asyncio.ensure_future(made.peer.expect("notifications/cancelled"))
        await asyncio.sleep(599)
        assert not told.done()
        assert (await told).params["requestId"] == heard.id
        assert "did not come back" in (await made.peer.answer_to("q1"))["error"]["message"]
        with pytest.raises(JsonRpcError, match="no longer"):
            await client.submit("tools/call", round_of(asked))


@on_fake_clock
async def test_a_held_call_whose_server_dies_says_so_in_the_next_round() -> None:
    """The truth, one round later: it may have run."""
    async with between() as made:
        client, _, asked = await held(made)
        made.peer.die()
        await asyncio.sleep(0.1)
        with pytest.raises(JsonRpcError) as told:
            await client.submit("tools/call", round_of(asked))
        assert told.value.data == {"reason": "lost", "mayHaveRun": True, "retryable": False}


@on_fake_clock
async def test_a_held_call_that_is_answered_meanwhile_has_its_answer_in_the_next_round() -> None:
    async with between() as made:
        client, heard, asked = await held(made)
        made.peer.notify("notifications/cancelled", requestId="q1")
        heard.answer({"content": [], "without": "you"})
        assert (await client.submit("tools/call", round_of(asked)))["without"] == "you"


@on_fake_clock
async def test_a_held_call_that_has_ended_counts_for_a_while_and_then_no_more() -> None:
    """However long its client takes: what others are asked is clear some seconds after the answer."""
    async with between() as made:
        _, heard, _ = await held(made)
        other = asking(made, HANDSHAKE)
        await other.open()
        heard.answer({"content": []})
        await asyncio.sleep(LINGER + 1)
        call = other.submit("tools/call", {"name": "t"})
        question(await made.peer.expect("tools/call"), made, "q2")
        assert (await made.peer.answer_to("q2"))["result"]["action"] == "accept"
        assert (await made.peer.answer_to("q1"))["error"]["message"].endswith("has ended"), (
            "nobody will answer"
        )
        made.peer.die()
        with pytest.raises(JsonRpcError):
            await call
        await held(made)
        made.peer.die()
        await asyncio.sleep(5)
        made.peer.ask("q3", "elicitation/create", FORM)
        assert (await made.peer.answer_to("q3"))["result"]["action"] == "accept", "it was started again"


@on_fake_clock
async def test_a_server_that_answers_although_it_asks_is_not_left_with_its_question() -> None:
    async with between() as made:
        client = await made.join(STATELESS, capabilities={"elicitation": {}})
        call = client.submit("tools/call", {"name": "t"})
        heard = await made.peer.expect("tools/call")
        question(heard, made)
        heard.answer({"content": []})
        assert (await call)["resultType"] == "complete"
        assert (await made.peer.answer_to("q1"))["error"]["code"] == -32603


@on_fake_clock
async def test_progress_of_a_held_call_has_the_token_of_the_newest_round() -> None:
    """Each round is a request of its own, with a token of its own."""
    async with between() as made:
        client = await made.join(STATELESS, capabilities={"elicitation": {}})
        told: list[str] = []
        first, second = (lambda _, name=name: told.append(name) for name in ("first", "second"))
        call = client.submit("tools/call", {"name": "t", "arguments": {"a": 1}}, on_progress=first)
        heard = await made.peer.expect("tools/call")
        question(heard, made)
        again = client.submit("tools/call", round_of(await call), on_progress=second)
        await answered(heard, made)
        heard.progress(1)
        await asyncio.sleep(0.1)
        assert told == ["second"]
        heard.answer({"content": []})
        await again


@on_fake_clock
async def test_a_server_that_comes_back_in_the_other_era_is_refused_what_its_caller_cannot_be_asked() -> None:
    """The call was begun for a server that asks in results; a question beside it would never be answered."""
    async with between(STATELESS) as made:
        client = await made.join(STATELESS, capabilities={"elicitation": {}})
        made.peer.version = HANDSHAKE
        made.peer.die()
        await asyncio.sleep(0.01)
        call = client.submit("tools/call", {"name": "t"})
        heard = await made.peer.expect("tools/call")
        made.peer.ask("q1", "elicitation/create", FORM)
        assert (await made.peer.answer_to("q1"))["error"]["code"] == -32603
        heard.answer({"content": []})
        await call


@on_fake_clock
async def test_a_client_that_cancels_its_next_round_cancels_the_held_call() -> None:
    async with between() as made:
        client, heard, asked = await held(made)
        again = client.submit("tools/call", round_of(asked))
        await answered(heard, made)
        again.cancel()
        assert (await made.peer.expect("notifications/cancelled")).params["requestId"] == heard.id


@on_fake_clock
async def test_calls_are_not_held_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_asking, "MOST_HELD", 1)
    async with between() as made:
        client, _, _ = await held(made)
        again = client.submit("tools/call", {"name": "t", "arguments": {"a": 2}})
        heard = await made.peer.expect("tools/call")
        # Both calls are one client's: over stdio a stateless client is a connection, too.
        question(heard, made, "q2")
        assert "are being asked already" in (await made.peer.answer_to("q2"))["error"]["message"]
        heard.answer({"content": []})
        await again


@on_fake_clock
async def test_a_request_that_cannot_ask_is_not_asked_about() -> None:
    """2026-07-28: only tools, prompts and resources can come back with a question."""
    async with between() as made:
        client = await made.join(STATELESS, capabilities={"elicitation": {}, "roots": {}})
        call = client.submit("tools/list")
        heard = await made.peer.expect("tools/list")
        question(heard, made)
        assert "cannot ask" in (await made.peer.answer_to("q1"))["error"]["message"]
        made.peer.ask("unknown", "org.example/ask")
        assert (await made.peer.answer_to("unknown"))["error"]["code"] == -32601
        heard.answer({"tools": []})
        await call


@on_fake_clock
async def test_a_proxy_that_ends_lets_go_of_held_calls() -> None:
    async with between() as made:
        await held(made)
        await made.proxy.shutdown()
        assert made.peer.got("notifications/cancelled")


@on_fake_clock
async def test_a_client_that_is_gone_cannot_be_asked() -> None:
    async with between() as made:
        client = asking(made, HANDSHAKE)
        stuck = asyncio.Event()

        async def elicit(_: Any) -> ElicitResult:
            await stuck.wait()
            raise AssertionError

        client.elicitation.handle(elicit)
        await client.open()
        call = client.submit("tools/call", {"name": "t", "arguments": {}})
        heard = await made.peer.expect("tools/call")
        question(heard, made)
        await asyncio.sleep(0.1)
        await client.stop()
        answer, _ = await answered(heard, made)
        assert "cannot be asked" in answer["message"]
        assert call.future.done()
