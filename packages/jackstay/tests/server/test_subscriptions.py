"""Notifications of changes and subscriptions, in both eras."""

import asyncio
import threading
import types
from typing import Any

import pytest

from chaos.servers_own.conversation import HANDSHAKE, STATELESS, Peer, connected
from jackstay.protocol import REVISIONS
from jackstay.server import Server, _subscriptions
from jackstay.server._driver import Driver

ID = "io.modelcontextprotocol/subscriptionId"


def make() -> Server:
    server = Server("changing")
    server.tool(name="first", blocking=False)(lambda: None)
    server.resource("test://one", blocking=False)(lambda: "one")
    server.prompt(name="greet", blocking=False)(lambda: "greet")
    return server


def add(server: Server, name: str) -> None:
    server.tool(name=name, blocking=False)(lambda: None)


async def listen(peer: Peer, id: Any, **wanted: Any) -> dict[str, Any]:
    peer.send_request("subscriptions/listen", {"notifications": wanted}, id=id)
    await peer.until(lambda: peer.notifications or [frame for frame in peer.frames if "error" in frame])
    assert not [frame for frame in peer.frames if "error" in frame]  # rather than to wait for the acknowledgement
    acknowledged = await peer.notification("notifications/subscriptions/acknowledged")
    assert acknowledged["_meta"] == {ID: id}
    accepted: dict[str, Any] = acknowledged["notifications"]
    return accepted


# --- the handshake era ------------------------------------------------------------------------------------------------


async def test_all_connections_are_notified_of_changed_lists(subtests: pytest.Subtests) -> None:
    for version in HANDSHAKE:
        with subtests.test(version=version):
            server = make()
            async with connected(server, version) as first, connected(server, version) as second:
                await first.result("ping")
                await second.result("ping")
                add(server, "second")
                server.remove_prompt("greet")
                server.remove_resource("test://one")
                for peer in (first, second):
                    for kind in ("tools", "prompts", "resources"):
                        assert await peer.notification(f"notifications/{kind}/list_changed") == {}


async def test_a_burst_of_changes_causes_one_notification() -> None:
    server = make()
    async with connected(server) as peer:
        await peer.result("ping")
        for number in range(100):
            add(server, f"tool_{number}")
        await peer.notification("notifications/tools/list_changed")
        await peer.result("ping")
        assert peer.notifications == []


async def test_changes_by_another_thread_are_notified() -> None:
    server = make()
    async with connected(server) as peer:
        await peer.result("resources/subscribe", {"uri": "test://one"})
        thread = threading.Thread(target=lambda: (add(server, "second"), server.notify_resource_updated("test://one")))
        thread.start()
        await peer.notification("notifications/tools/list_changed")
        assert await peer.notification("notifications/resources/updated") == {"uri": "test://one"}
        thread.join()


async def test_subscriptions_are_created_only_by_the_thread_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """If two threads created them at the same time, subscriptions would be lost."""
    created_by: list[int] = []
    init = _subscriptions.Subscriptions.__init__

    def recorded(self: Any, connection: Any) -> None:
        created_by.append(threading.get_ident())
        init(self, connection)

    monkeypatch.setattr(_subscriptions.Subscriptions, "__init__", recorded)

    server = make()
    async with connected(server) as peer:
        await asyncio.to_thread(add, server, "second")
        await peer.notification("notifications/tools/list_changed")
    assert created_by == [threading.get_ident()]


def test_changes_while_the_loop_is_stopped_are_notified_when_it_continues() -> None:
    loop = asyncio.new_event_loop()
    server = make()
    talk = connected(server)
    peer = loop.run_until_complete(talk.__aenter__())
    add(server, "second")
    loop.run_until_complete(peer.notification("notifications/tools/list_changed"))
    (connection,) = server._connections.values()
    loop.run_until_complete(talk.__aexit__(None, None, None))
    loop.close()
    server._add_connection(connection)  # as if it had not been closed
    add(server, "third")


class FakeConnection:
    """Counts the notifications of one client; `error` is raised instead."""

    def __init__(self, loop: asyncio.AbstractEventLoop, error: Exception | None = None) -> None:
        self.core, self.capabilities = types.SimpleNamespace(version=HANDSHAKE[0]), {"tools"}
        self.quota, self._loop, self._error = _subscriptions.Quota(), loop, error
        self.notified = 0

    def notify(self, method: str, params: bytes) -> None:
        assert (method, params) == ("notifications/tools/list_changed", b"{}")
        if self._error is not None:
            raise self._error
        self.notified += 1


async def test_many_clients_are_notified_in_several_turns(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_subscriptions, "FLUSHED_PER_TURN", 2)
    loop = asyncio.get_running_loop()
    clients = [FakeConnection(loop, ValueError("defect") if number == 1 else None) for number in range(5)]
    subscriptions = [_subscriptions.Subscriptions(client) for client in clients]  # type: ignore[arg-type]  # a fake
    for one in subscriptions:
        one.changed("notifications/tools/list_changed")
    counts = []
    for _ in range(4):
        await asyncio.sleep(0)
        counts.append([client.notified for client in clients])
    assert counts == [[1, 0, 0, 0, 0], [1, 0, 1, 1, 0], [1, 0, 1, 1, 1], [1, 0, 1, 1, 1]]
    logged = [record.getMessage() for record in caplog.records if record.name == "jackstay.server"]
    assert logged == ["internal error while notifying a client"]
    assert _subscriptions._this_thread.flusher is None  # the loop is not kept alive


async def test_a_change_during_a_notification_is_sent_in_a_later_turn() -> None:
    loop = asyncio.get_running_loop()
    client = FakeConnection(loop)
    subscriptions = _subscriptions.Subscriptions(client)  # type: ignore[arg-type]  # a fake
    subscriptions.changed("notifications/tools/list_changed")
    loop.call_soon(subscriptions.changed, "notifications/tools/list_changed")
    for expected in (1, 2):
        await asyncio.sleep(0)
        assert client.notified == expected


def test_loops_of_one_thread_are_notified_each() -> None:
    loops = [asyncio.new_event_loop() for _ in range(2)]
    clients = [FakeConnection(loop) for loop in loops]
    for client in clients:
        _subscriptions.Subscriptions(client).changed("notifications/tools/list_changed")  # type: ignore[arg-type]
    for loop in loops:
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    assert [client.notified for client in clients] == [1, 1]


async def test_without_the_declared_capability_there_are_no_notifications() -> None:
    server = Server("empty")
    async with connected(server) as peer:
        add(server, "first")
        await peer.result("ping")
        assert peer.notifications == []


async def test_before_the_handshake_there_are_no_notifications() -> None:
    server = make()
    async with connected(server, is_fresh=True) as peer:
        add(server, "second")
        await asyncio.sleep(0)
        await peer.initialize()
        await peer.result("ping")
        assert peer.notifications == []


def numbered() -> Server:
    """As `make`, with a resource for every URI."""
    server = make()
    server.resource("test://{name}", name="numbered", blocking=False)(lambda name: name)
    return server


async def test_the_number_of_subscriptions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_subscriptions, "MAX_URIS", 2)

    async with connected(numbered()) as peer:
        for number in range(2):
            await peer.result("resources/subscribe", {"uri": f"test://{number}"})
        error = await peer.error("resources/subscribe", {"uri": "test://3"})
        assert error["message"] == "cannot subscribe to more than 2 resources"
        await peer.result("resources/subscribe", {"uri": "test://1"})  # already subscribed
        error = await peer.error("resources/subscribe", {"uri": "test://" + "x" * 16_384})
        assert error["code"] == -32602


async def test_the_limit_is_for_all_subscriptions_of_a_client_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the limit would be multiplied by the number of requests in flight."""
    monkeypatch.setattr(_subscriptions, "MAX_URIS", 3)

    async with connected(numbered(), STATELESS) as peer:
        long = "test://" + "x" * 16_384
        first = await listen(peer, 1, resourceSubscriptions=["test://1", long, "test://2"])
        assert first == {"resourceSubscriptions": ["test://1", "test://2"]}
        second = await listen(peer, 2, resourceSubscriptions=["test://3", "test://4"])
        assert second == {"resourceSubscriptions": ["test://3"]}
        assert await listen(peer, 3, resourceSubscriptions=["test://5"]) == {"resourceSubscriptions": []}
        peer.notify("notifications/cancelled", {"requestId": 1})
        assert await listen(peer, 4, resourceSubscriptions=["test://5"]) == {"resourceSubscriptions": ["test://5"]}


@pytest.mark.parametrize("version", [*HANDSHAKE, STATELESS])
async def test_only_existing_resources_can_be_subscribed_to(version: str) -> None:
    """Otherwise a client could subscribe to any number of invented URIs."""
    async with connected(numbered(), version) as peer:
        if version == STATELESS:
            accepted = await listen(peer, 1, resourceSubscriptions=["invented://uri", "test://7", "test://one"])
            assert accepted == {"resourceSubscriptions": ["test://7", "test://one"]}
            return
        error = await peer.error("resources/subscribe", {"uri": "invented://uri"})
        assert error["code"] == REVISIONS[version].resource_not_found
        await peer.result("resources/subscribe", {"uri": "test://7"})
        await peer.result("resources/unsubscribe", {"uri": "invented://uri"})


def uri(number: int, size: int = 1000) -> str:
    return f"test://{number:06}".ljust(size, "x")


@pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
async def test_the_bytes_of_all_uris_of_a_client_are_limited(version: str) -> None:
    fits = _subscriptions.MAX_URI_BYTES // 1000
    async with connected(numbered(), version) as peer:
        if version == STATELESS:
            wanted = [uri(number) for number in range(fits + 10)]
            assert len((await listen(peer, 1, resourceSubscriptions=wanted))["resourceSubscriptions"]) == fits
            assert await listen(peer, 2, resourceSubscriptions=[uri(0)]) == {"resourceSubscriptions": []}
            peer.notify("notifications/cancelled", {"requestId": 1})
            assert await listen(peer, 3, resourceSubscriptions=[uri(0)]) == {"resourceSubscriptions": [uri(0)]}
            return
        for number in range(fits):
            await peer.result("resources/subscribe", {"uri": uri(number)})
        error = await peer.error("resources/subscribe", {"uri": uri(fits)})
        assert error["message"] == "cannot subscribe: the limit for all URIs together is reached"
        await peer.result("resources/subscribe", {"uri": uri(0)})  # already subscribed
        await peer.result("resources/unsubscribe", {"uri": uri(0)})
        await peer.result("resources/unsubscribe", {"uri": uri(0)})
        await peer.result("resources/subscribe", {"uri": uri(fits)})


def test_quota() -> None:
    quota = _subscriptions.Quota(10, 15)
    assert quota.reserve(10)
    assert not quota.reserve(6)
    assert quota.reserve(5)
    quota.release(10)
    assert (quota.used, quota.reserve(10)) == (5, True)
    assert _subscriptions.Quota().reserve(2**60), "without a total there is only the limit of each connection"


# --- the stateless era ------------------------------------------------------------------------------------------------


async def test_a_subscription_is_acknowledged_and_gets_the_requested_notifications(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [7, "seven"]
    for id in cases:
        with subtests.test(id=id):
            server = make()
            async with connected(server, STATELESS) as peer:
                accepted = await listen(peer, id, toolsListChanged=True, resourceSubscriptions=["test://one"])
                assert accepted == {"toolsListChanged": True, "resourceSubscriptions": ["test://one"]}
                add(server, "second")
                assert await peer.notification("notifications/tools/list_changed") == {"_meta": {ID: id}}
                server.notify_resource_updated("test://other")
                server.notify_resource_updated("test://one")
                params = await peer.notification("notifications/resources/updated")
                assert params == {"uri": "test://one", "_meta": {ID: id}}
                server.remove_prompt("greet")
                server.remove_resource("test://one")
                await peer.result("tools/list")
                assert peer.notifications == []


async def test_only_declared_capabilities_are_accepted() -> None:
    server = Server("tools only")
    add(server, "first")
    async with connected(server, STATELESS) as peer:
        everything: dict[str, Any] = {
            "toolsListChanged": True,
            "promptsListChanged": True,
            "resourcesListChanged": True,
            "resourceSubscriptions": ["test://one"],
        }
        assert await listen(peer, 1, **everything) == {"toolsListChanged": True}
        assert await listen(peer, 2, toolsListChanged=False) == {}


async def test_every_subscription_gets_its_own_notifications() -> None:
    server = make()
    async with connected(server, STATELESS) as peer:
        await listen(peer, 1, toolsListChanged=True)
        await listen(peer, 2, toolsListChanged=True, promptsListChanged=True)
        add(server, "second")
        received = [await peer.notification("notifications/tools/list_changed") for _ in range(2)]
        assert received == [{"_meta": {ID: 1}}, {"_meta": {ID: 2}}]
        assert len(next(iter(server._connections.values())).subscriptions._open) == 2


async def test_a_cancelled_subscription_gets_no_more_notifications() -> None:
    server = make()
    async with connected(server, STATELESS) as peer:
        await listen(peer, 1, toolsListChanged=True)
        peer.notify("notifications/cancelled", {"requestId": 1})
        await peer.result("tools/list")
        add(server, "second")
        await peer.result("tools/list")
        assert peer.notifications == []
        assert not [frame for frame in peer.frames if frame.get("id") == 1]


async def test_without_a_subscription_there_are_no_notifications() -> None:
    server = make()
    async with connected(server, STATELESS) as peer:
        await peer.result("tools/list")
        add(server, "second")
        server.notify_resource_updated("test://one")
        await peer.result("tools/list")
        assert peer.notifications == []


async def test_draining_ends_subscriptions_with_a_notification_and_a_result() -> None:
    server = make()
    async with connected(server, STATELESS) as peer:
        await listen(peer, "s", toolsListChanged=True)
        server.drain()
        assert (await peer.notification("notifications/cancelled"))["requestId"] == "s"
        result = (await peer.answer("s"))["result"]
        assert result["resultType"] == "complete"
        assert result["_meta"][ID] == "s"


async def test_a_missing_filter_is_rejected() -> None:
    async with connected(make(), STATELESS) as peer:
        assert (await peer.error("subscriptions/listen", {}))["code"] == -32602


# --- notifications with params of the caller --------------------------------------------------------------------------


async def test_params_are_sent_unchanged_to_all_subscribers() -> None:
    """For a proxy: nothing is lost, and the subscription id is added."""
    server = make()
    async with connected(server, HANDSHAKE[-1]) as old, connected(server, STATELESS) as new:
        await old.result("resources/subscribe", {"uri": "test://one"})
        await listen(new, 7, toolsListChanged=True, resourceSubscriptions=["test://one"])
        server._notify("notifications/tools/list_changed", "", b'{"a":1}')
        server._notify("notifications/resources/updated", "test://one", b'{"uri":"test://one/2","_meta":{"b":2}}')
        assert await old.notification("notifications/tools/list_changed") == {"a": 1}
        assert await new.notification("notifications/tools/list_changed") == {"a": 1, "_meta": {ID: 7}}
        params = {"uri": "test://one/2", "_meta": {"b": 2}}
        assert await old.notification("notifications/resources/updated") == params
        assert await new.notification("notifications/resources/updated") == {**params, "_meta": {"b": 2, ID: 7}}


def test_with_meta_replaces_an_invalid_meta_and_ignores_nested_ones() -> None:
    assert _subscriptions._with_meta(b'{"a":{"_meta":1}}', b'{"m":1}') == b'{"a":{"_meta":1},"_meta":{"m":1}}'
    assert _subscriptions._with_meta(b'{"_meta":5}', b'{"m":1}') == b'{"_meta":{"m":1}}'


# --- which connections are visited ------------------------------------------------------------------------------------


class Unlisted(dict[int, Driver]):
    """Connections that cannot be walked: an update may cost only what its subscribers cost."""

    def values(self) -> Any:
        raise AssertionError("all connections were visited")


async def test_an_update_visits_only_the_connections_that_subscribed(monkeypatch: pytest.MonkeyPatch) -> None:
    server, visited = numbered(), dict[str, list[int]]()
    server._connections = Unlisted()
    monkeypatch.setattr(Driver, "changed", lambda self, _, uri, __: visited[uri].append(self.number))

    def visits() -> list[list[int]]:
        """Update three resources, and return the connections that were visited for each."""
        visited.update((f"test://{number}", []) for number in range(3))
        for uri in visited:
            server.notify_resource_updated(uri)
        return list(visited.values())

    async with connected(server), connected(server, STATELESS) as new:
        async with connected(server) as old:
            await old.result("resources/subscribe", {"uri": "test://0"})
            await old.result("resources/subscribe", {"uri": "test://1"})
            await listen(new, "a", resourceSubscriptions=["test://1", "test://2"])
            await listen(new, "b", resourceSubscriptions=["test://2"])
            assert visits() == [[3], [3, 2], [2]]
            await old.result("resources/unsubscribe", {"uri": "test://1"})
            assert visits() == [[3], [2], [2]]
            new.notify("notifications/cancelled", {"requestId": "a"})
            await new.result("tools/list")
            assert visits() == [[3], [], [2]]
        assert visits() == [[], [], [2]]
        server._connections = dict(server._connections)  # draining is for all of them
        server.drain()
        await new.answer("b")
        assert visits() == [[], [], []]
    assert server._subscriber_index is not None
    assert not server._subscriber_index._by_topic


async def test_subscriptions_of_a_connection_that_is_added_later_are_indexed() -> None:
    """As those of a stored session, which are restored first."""
    server = numbered()
    async with connected(server) as peer:
        await peer.result("resources/subscribe", {"uri": "test://1"})
        (connection,) = server._connections.values()
        assert server._subscriber_index is not None
        server._remove_connection(connection)
        assert server._subscriber_index.changed("test://1") == []
        server._add_connection(connection)
        assert server._subscriber_index.changed("test://1") == [connection]
