"""Who hears of changes: everybody or nobody in the handshake era, who listens in the stateless one."""

import asyncio
import threading
from typing import Any

import pytest

from chaos.servers_own.conversation import HANDSHAKE, STATELESS, Peer, run, talking
from jackstay.protocol import REVISIONS
from jackstay.server import Server, _subscriptions

ID = "io.modelcontextprotocol/subscriptionId"


def make() -> Server:
    server = Server("changing")
    server.tool(name="first", blocking=False)(lambda: None)
    server.resource("test://one", blocking=False)(lambda: "one")
    server.prompt(name="say", blocking=False)(lambda: "say")
    return server


def add(server: Server, name: str) -> None:
    server.tool(name=name, blocking=False)(lambda: None)


async def listen(peer: Peer, id: Any, **wanted: Any) -> dict[str, Any]:
    peer.ask("subscriptions/listen", {"notifications": wanted}, id=id)
    acknowledged = await peer.note("notifications/subscriptions/acknowledged")
    assert acknowledged["_meta"] == {ID: id}
    honoured: dict[str, Any] = acknowledged["notifications"]
    return honoured


# --- the handshake era ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE)
def test_every_connection_is_told_of_every_list_that_changes(version: str) -> None:
    async def test() -> None:
        server = make()
        async with talking(server, version) as one, talking(server, version) as other:
            await one.result("ping")
            await other.result("ping")
            add(server, "second")
            server.remove_prompt("say")
            server.remove_resource("test://one")
            for peer in (one, other):
                for kind in ("tools", "prompts", "resources"):
                    assert await peer.note(f"notifications/{kind}/list_changed") == {}

    run(test)


def test_a_burst_of_changes_is_told_once() -> None:
    async def test() -> None:
        server = make()
        async with talking(server) as peer:
            await peer.result("ping")
            for number in range(100):
                add(server, f"tool_{number}")
            await peer.note("notifications/tools/list_changed")
            await peer.result("ping")
            assert peer.notes == []

    run(test)


def test_changes_of_another_thread_are_told() -> None:
    async def test() -> None:
        server = make()
        async with talking(server) as peer:
            await peer.result("resources/subscribe", {"uri": "test://one"})
            thread = threading.Thread(
                target=lambda: (add(server, "second"), server.notify_resource_updated("test://one"))
            )
            thread.start()
            await peer.note("notifications/tools/list_changed")
            assert await peer.note("notifications/resources/updated") == {"uri": "test://one"}
            thread.join()

    run(test)


def test_who_listens_is_kept_by_the_loops_thread_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that make it at once would lose what was subscribed to in one of them."""
    made_by: list[int] = []
    init = _subscriptions.Listening.__init__

    def noted(self: Any, connection: Any) -> None:
        made_by.append(threading.get_ident())
        init(self, connection)

    monkeypatch.setattr(_subscriptions.Listening, "__init__", noted)

    async def test() -> None:
        server = make()
        async with talking(server) as peer:
            await asyncio.to_thread(add, server, "second")
            await peer.note("notifications/tools/list_changed")

    run(test)
    assert made_by == [threading.get_ident()]


def test_changes_made_while_the_loop_stands_still_are_told_when_it_goes_on() -> None:
    loop = asyncio.new_event_loop()
    server = make()
    talk = talking(server)
    peer = loop.run_until_complete(talk.__aenter__())
    add(server, "second")
    loop.run_until_complete(peer.note("notifications/tools/list_changed"))
    (connection,) = server._connections.values()
    loop.run_until_complete(talk.__aexit__(None, None, None))
    loop.close()
    server.remember(connection)  # as one that was never closed
    add(server, "third")


def test_a_client_that_was_not_told_of_a_capability_is_not_told_of_its_changes() -> None:
    async def test() -> None:
        server = Server("empty")
        async with talking(server) as peer:
            add(server, "first")
            await peer.result("ping")
            assert peer.notes == []

    run(test)


def test_before_the_handshake_nothing_is_said() -> None:
    async def test() -> None:
        server = make()
        async with talking(server, is_fresh=True) as peer:
            add(server, "second")
            await asyncio.sleep(0)
            await peer.initialize()
            await peer.result("ping")
            assert peer.notes == []

    run(test)


def numbered() -> Server:
    """As `make`, with a resource for every name."""
    server = make()
    server.resource("test://{name}", name="numbered", blocking=False)(lambda name: name)
    return server


def test_there_is_a_limit_to_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_subscriptions, "MOST_URIS", 2)

    async def test() -> None:
        async with talking(numbered()) as peer:
            for number in range(2):
                await peer.result("resources/subscribe", {"uri": f"test://{number}"})
            error = await peer.error("resources/subscribe", {"uri": "test://3"})
            assert error["message"] == "at most 2 resources can be subscribed to"
            await peer.result("resources/subscribe", {"uri": "test://1"})  # it is, already
            error = await peer.error("resources/subscribe", {"uri": "test://" + "x" * 16_384})
            assert error["code"] == -32602

    run(test)


def test_the_limit_is_that_of_all_subscriptions_of_a_client_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Section 6: a client may open as many as it may have requests in flight, each with what fits into a frame."""
    monkeypatch.setattr(_subscriptions, "MOST_URIS", 3)

    async def test() -> None:
        async with talking(numbered(), STATELESS) as peer:
            long = "test://" + "x" * 16_384
            first = await listen(peer, 1, resourceSubscriptions=["test://1", long, "test://2"])
            assert first == {"resourceSubscriptions": ["test://1", "test://2"]}
            second = await listen(peer, 2, resourceSubscriptions=["test://3", "test://4"])
            assert second == {"resourceSubscriptions": ["test://3"]}
            assert await listen(peer, 3, resourceSubscriptions=["test://5"]) == {"resourceSubscriptions": []}
            peer.notify("notifications/cancelled", {"requestId": 1})
            assert await listen(peer, 4, resourceSubscriptions=["test://5"]) == {
                "resourceSubscriptions": ["test://5"]
            }

    run(test)


@pytest.mark.parametrize("version", [*HANDSHAKE, STATELESS])
def test_what_does_not_exist_cannot_be_subscribed_to(version: str) -> None:
    """A client could make up URIs without end; templates match what they would read."""

    async def test() -> None:
        async with talking(numbered(), version) as peer:
            if version == STATELESS:
                honoured = await listen(
                    peer, 1, resourceSubscriptions=["made://up", "test://7", "test://one"]
                )
                assert honoured == {"resourceSubscriptions": ["test://7", "test://one"]}
                return
            error = await peer.error("resources/subscribe", {"uri": "made://up"})
            assert error["code"] == REVISIONS[version].resource_not_found
            await peer.result("resources/subscribe", {"uri": "test://7"})
            await peer.result("resources/unsubscribe", {"uri": "made://up"})

    run(test)


def uri(number: int, size: int = 1000) -> str:
    return f"test://{number:06}".ljust(size, "x")


@pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
def test_the_bytes_of_all_uris_of_a_client_are_bounded(version: str) -> None:
    async def test() -> None:
        fits = _subscriptions.MAX_URI_BYTES // 1000
        async with talking(numbered(), version) as peer:
            if version == STATELESS:
                wanted = [uri(number) for number in range(fits + 10)]
                assert (
                    len((await listen(peer, 1, resourceSubscriptions=wanted))["resourceSubscriptions"])
                    == fits
                )
                assert await listen(peer, 2, resourceSubscriptions=[uri(0)]) == {"resourceSubscriptions": []}
                peer.notify("notifications/cancelled", {"requestId": 1})
                assert await listen(peer, 3, resourceSubscriptions=[uri(0)]) == {
                    "resourceSubscriptions": [uri(0)]
                }
                return
            for number in range(fits):
                await peer.result("resources/subscribe", {"uri": uri(number)})
            error = await peer.error("resources/subscribe", {"uri": uri(fits)})
            assert error["message"] == "too many bytes of URIs are subscribed to"
            await peer.result("resources/subscribe", {"uri": uri(0)})  # it is, already
            await peer.result("resources/unsubscribe", {"uri": uri(0)})
            await peer.result("resources/unsubscribe", {"uri": uri(0)})
            await peer.result("resources/subscribe", {"uri": uri(fits)})

    run(test)


def test_a_quota_is_shared_by_all_and_given_back() -> None:
    quota = _subscriptions.Quota(10, 15)
    assert quota.take(10)
    assert not quota.take(6)
    assert quota.take(5)
    quota.release(10)
    assert (quota.used, quota.take(10)) == (5, True)
    assert _subscriptions.Quota().take(2**60), "without a total only each connection is bounded"


# --- the stateless era ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", [7, "seven"])
def test_a_subscription_is_acknowledged_first_and_hears_what_it_asked_for(id: Any) -> None:
    async def test() -> None:
        server = make()
        async with talking(server, STATELESS) as peer:
            honoured = await listen(peer, id, toolsListChanged=True, resourceSubscriptions=["test://one"])
            assert honoured == {"toolsListChanged": True, "resourceSubscriptions": ["test://one"]}
            add(server, "second")
            assert await peer.note("notifications/tools/list_changed") == {"_meta": {ID: id}}
            server.notify_resource_updated("test://other")
            server.notify_resource_updated("test://one")
            said = await peer.note("notifications/resources/updated")
            assert said == {"uri": "test://one", "_meta": {ID: id}}
            server.remove_prompt("say")
            server.remove_resource("test://one")
            await peer.result("tools/list")
            assert peer.notes == []

    run(test)


def test_only_what_is_offered_is_honoured() -> None:
    async def test() -> None:
        server = Server("tools only")
        add(server, "first")
        async with talking(server, STATELESS) as peer:
            everything: dict[str, Any] = {
                "toolsListChanged": True,
                "promptsListChanged": True,
                "resourcesListChanged": True,
                "resourceSubscriptions": ["test://one"],
            }
            assert await listen(peer, 1, **everything) == {"toolsListChanged": True}
            assert await listen(peer, 2, toolsListChanged=False) == {}

    run(test)


def test_many_subscriptions_hear_each_for_itself() -> None:
    async def test() -> None:
        server = make()
        async with talking(server, STATELESS) as peer:
            await listen(peer, 1, toolsListChanged=True)
            await listen(peer, 2, toolsListChanged=True, promptsListChanged=True)
            add(server, "second")
            heard = [await peer.note("notifications/tools/list_changed") for _ in range(2)]
            assert heard == [{"_meta": {ID: 1}}, {"_meta": {ID: 2}}]
            assert "2 subscriptions" in repr(next(iter(server._connections.values())).listening)

    run(test)


def test_a_cancelled_subscription_hears_nothing_more() -> None:
    async def test() -> None:
        server = make()
        async with talking(server, STATELESS) as peer:
            await listen(peer, 1, toolsListChanged=True)
            peer.notify("notifications/cancelled", {"requestId": 1})
            await peer.result("tools/list")
            add(server, "second")
            await peer.result("tools/list")
            assert peer.notes == []
            assert not [frame for frame in peer.frames if frame.get("id") == 1]

    run(test)


def test_without_a_subscription_nothing_is_said() -> None:
    async def test() -> None:
        server = make()
        async with talking(server, STATELESS) as peer:
            await peer.result("tools/list")
            add(server, "second")
            server.notify_resource_updated("test://one")
            await peer.result("tools/list")
            assert peer.notes == []

    run(test)


def test_a_server_that_ends_says_so_in_both_ways() -> None:
    async def test() -> None:
        server = make()
        async with talking(server, STATELESS) as peer:
            await listen(peer, "s", toolsListChanged=True)
            server.drain()
            assert (await peer.note("notifications/cancelled"))["requestId"] == "s"
            result = (await peer.answer("s"))["result"]
            assert result["resultType"] == "complete"
            assert result["_meta"][ID] == "s"

    run(test)


def test_a_filter_that_is_none_is_refused() -> None:
    async def test() -> None:
        async with talking(make(), STATELESS) as peer:
            assert (await peer.error("subscriptions/listen", {}))["code"] == -32602

    run(test)


# --- what is said in somebody else's words ----------------------------------------------------------------------------


def test_params_are_told_as_they_are_to_everybody_who_wants_to_hear() -> None:
    """For a server that passes on what another said: nothing of it is lost, and a subscription's mark is added."""

    async def test() -> None:
        server = make()
        async with talking(server, HANDSHAKE[-1]) as old, talking(server, STATELESS) as new:
            await old.result("resources/subscribe", {"uri": "test://one"})
            await listen(new, 7, toolsListChanged=True, resourceSubscriptions=["test://one"])
            server.tell("notifications/tools/list_changed", "", b'{"a":1}')
            server.tell(
                "notifications/resources/updated", "test://one", b'{"uri":"test://one/2","_meta":{"b":2}}'
            )
            assert await old.note("notifications/tools/list_changed") == {"a": 1}
            assert await new.note("notifications/tools/list_changed") == {"a": 1, "_meta": {ID: 7}}
            told = {"uri": "test://one/2", "_meta": {"b": 2}}
            assert await old.note("notifications/resources/updated") == told
            assert await new.note("notifications/resources/updated") == {**told, "_meta": {"b": 2, ID: 7}}

    run(test)


def test_a_meta_that_is_none_gives_way_and_the_word_elsewhere_is_left_alone() -> None:
    assert _subscriptions._marked(b'{"a":{"_meta":1}}', b'{"m":1}') == b'{"a":{"_meta":1},"_meta":{"m":1}}'
    assert _subscriptions._marked(b'{"_meta":5}', b'{"m":1}') == b'{"_meta":{"m":1}}'
