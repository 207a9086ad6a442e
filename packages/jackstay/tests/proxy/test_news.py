"""What a server says by itself reaches the clients it is for, and those alone."""

import asyncio
import logging
from typing import Any

import pytest

from jackstay.client import Client, Notification
from jackstay.testing import on_fake_clock
from scripted.between import ERAS, HANDSHAKE, PAIRS, STATELESS, Between, between

LEVEL = "io.modelcontextprotocol/logLevel"


def heard_by(client: Client) -> list[Notification]:
    """What this client hears from now on."""
    told: list[Notification] = []
    client.on_notification(told.append)
    return told


async def settled() -> None:
    """Everything that is on its way has arrived."""
    await asyncio.sleep(0.1)


def log(made: Between, text: str, level: str = "info", **more: Any) -> None:
    made.peer.notify("notifications/message", level=level, data=text, **more)


@pytest.mark.parametrize(("front", "back"), PAIRS)
@on_fake_clock
async def test_a_list_that_changed_is_told_to_everybody(front: str, back: str) -> None:
    async with between(back) as made:
        told = [heard_by(await made.join(front)) for _ in range(2)]
        await settled()
        params: dict[str, Any] = {"extra": 1}
        if back == STATELESS:
            listen = made.peer.got("subscriptions/listen")[0]
            params["_meta"] = {"io.modelcontextprotocol/subscriptionId": listen.id, "own": 2}
        made.peer.notify("notifications/prompts/list_changed", **params)
        await settled()
        for one in told:
            assert [each.method for each in one] == ["notifications/prompts/list_changed"]
            assert one[0].params["extra"] == 1, "what else it says is kept"
            meta = one[0].params.get("_meta", {})
            if front == HANDSHAKE:
                assert "io.modelcontextprotocol/subscriptionId" not in meta, "ours, and nobody else's"
            assert meta.get("own") == (2 if back == STATELESS else None)


@pytest.mark.parametrize(("front", "back"), PAIRS)
@on_fake_clock
async def test_a_log_message_goes_to_the_client_whose_call_is_under_way(front: str, back: str) -> None:
    async with between(back) as made:
        client, other = await made.join(front), await made.join()
        mine, others = heard_by(client), heard_by(other)
        call = client.submit("tools/call", {"name": "t"}, meta={LEVEL: "info"})
        heard = await made.peer.expect("tools/call")
        log(made, "yours", logger="x", unheardOf=1)
        await settled()
        heard.answer({"content": []})
        await call
        assert [one.params["data"] for one in mine] == ["yours"]
        assert mine[0].params["unheardOf"] == 1
        assert others == []


@on_fake_clock
async def test_a_log_message_while_several_clients_calls_are_under_way_is_told_to_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It may hold what is one client's alone."""
    async with between() as made:
        clients = [await made.join(version) for version in ERAS]
        told = [heard_by(client) for client in clients]
        calls = [client.submit("tools/call", {"name": "t"}, meta={LEVEL: "debug"}) for client in clients]
        heard = [await made.peer.expect("tools/call") for _ in calls]
        with caplog.at_level(logging.WARNING, "jackstay.proxy"):
            for _ in range(3):
                log(made, "whose?")
            await settled()
        assert told == [[], []]
        assert caplog.text.count("was not passed on") == 2, "the first, and ever fewer"
        for each in heard:
            each.answer({"content": []})
        await asyncio.gather(*calls)


@on_fake_clock
async def test_a_log_message_outside_any_call_goes_to_everybody_with_a_handshake() -> None:
    async with between() as made:
        one, two = heard_by(await made.join()), heard_by(await made.join())
        three = heard_by(await made.join(STATELESS))
        log(made, "hello")
        await settled()
        assert [len(told) for told in (one, two, three)] == [1, 1, 0]


@on_fake_clock
async def test_a_log_message_after_an_answer_never_reaches_another_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Loggers and background jobs go on after the answer; what they quote is the business of one client."""
    async with between() as made:
        clients = [await made.join(), await made.join()]
        mine, others = (heard_by(client) for client in clients)
        made.peer.on["tools/call"] = {"content": []}
        await clients[0].tools.call("t")
        log(made, "AFTER secret of the first")
        await settled()
        assert [len(mine), len(others)] == [1, 0], "nobody else was served yet"
        await clients[1].tools.call("t")
        log(made, "AFTER secret of one of them")
        await asyncio.sleep(3600)
        log(made, "an hour later")
        await settled()
        assert [len(mine), len(others)] == [1, 0]
        assert "--per-client" in caplog.text


@on_fake_clock
async def test_what_a_given_up_call_logs_is_not_told_to_others() -> None:
    async with between() as made:
        client, other = await made.join(), await made.join()
        mine, others = heard_by(client), heard_by(other)
        client.submit("tools/call", {"name": "t"}).cancel()
        call = client.submit("tools/call", {"name": "t"})
        await made.peer.expect("tools/call")
        call.cancel()
        await made.peer.expect("notifications/cancelled")
        log(made, "still at it")
        await settled()
        assert others == []
        assert len(mine) == 1


@pytest.mark.parametrize(("level", "count"), [("debug", 1), ("warning", 0), (None, 1)])
@on_fake_clock
async def test_a_client_hears_the_levels_that_it_wants(level: Any, count: int) -> None:
    async with between() as made:
        made.peer.on["logging/setLevel"] = {}
        client = await made.join()
        told = heard_by(client)
        if level is not None:
            await client.logging.set_level(level)
        log(made, "outside")
        call = client.submit("tools/call", {"name": "t"})
        heard = await made.peer.expect("tools/call")
        log(made, "inside")
        log(made, "loud", "alert")
        log(made, "odd", "shrill")
        await settled()
        heard.answer({"content": []})
        await call
        assert [one.params["data"] for one in told] == ["outside", "inside"] * count + ["loud", "odd"]


@pytest.mark.parametrize(("level", "count"), [("info", 1), ("error", 0), (None, 0)])
@on_fake_clock
async def test_a_stateless_client_hears_the_levels_that_its_request_wants(level: Any, count: int) -> None:
    """2026-07-28: without a level no log message may be sent."""
    async with between() as made:
        client = await made.join(STATELESS)
        told = heard_by(client)
        call = client.submit("tools/call", {"name": "t"}, meta={} if level is None else {LEVEL: level})
        heard = await made.peer.expect("tools/call")
        log(made, "inside")
        await settled()
        heard.answer({"content": []})
        await call
        assert len(told) == count


@on_fake_clock
async def test_what_nobody_knows_passes_like_a_log_message() -> None:
    async with between() as made:
        told = heard_by(await made.join())
        made.peer.notify("notifications/of/its/own", a=1)
        await settled()
        assert [(one.method, one.params) for one in told] == [("notifications/of/its/own", {"a": 1})]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("notifications/resources/updated", {"uri": 5}),
        ("notifications/message", {"level": []}),
        ("notifications/tools/list_changed", {"_meta": 5}),
        ("notifications/elicitation/complete", {"elicitationId": {}}),
        ("notifications/prompts/list_changed", {"_meta": {"a": "io.modelcontextprotocol/subscriptionId"}}),
    ],
)
@on_fake_clock
async def test_what_cannot_be_read_does_no_harm(method: str, params: dict[str, Any]) -> None:
    async with between() as made:
        made.peer.on |= {"logging/setLevel": {}, "tools/list": {"tools": []}}
        for version in ERAS:
            client = await made.join(version)
            heard_by(client)
        first = await made.join()
        await first.logging.set_level("info")
        await settled()
        made.peer.notify(method, **params)
        await settled()
        assert await first.tools.list() == []
        assert made.peer.connections == 1


@on_fake_clock
async def test_a_message_that_is_too_large_for_the_front_is_dropped() -> None:
    async with between(settings={"max_frame_bytes": 33_554_432}) as made:
        client = await made.join()
        told = heard_by(client)
        log(made, "x" * 16_777_200)
        log(made, "small")
        await asyncio.sleep(1)
        assert [one.params["data"] for one in told] == ["small"]


@on_fake_clock
async def test_a_list_that_mcp_does_not_have_takes_no_other_along() -> None:
    """It passes as what nobody here knows; the change beside it is told."""
    async with between() as made:
        told = heard_by(await made.join())
        for name in ("made/up", "tools"):
            made.peer.notify(f"notifications/{name}/list_changed")
        await settled()
        assert {one.method for one in told} == {
            "notifications/made/up/list_changed",
            "notifications/tools/list_changed",
        }
