"""The in-memory change bus, and servers that share one."""

import asyncio

from chaos.servers_own.conversation import connected
from jackstay.server import ChangeBus, MemoryChanges, Server
from jackstay.testing import store_suites


class TestMemoryChanges(store_suites.ChangeBusSuite):
    def make(self) -> tuple[ChangeBus, ChangeBus]:
        bus = MemoryChanges()
        return bus, bus


async def test_a_change_in_one_worker_is_announced_to_the_clients_of_all() -> None:
    bus = MemoryChanges()
    first, second = (
        Server("first", changes=bus, capabilities=("tools",)),
        Server("second", changes=bus, capabilities=("tools",)),
    )
    async with connected(first) as first_peer, connected(second) as second_peer:
        first.add_tool("new", input_schema={"type": "object"}, handler=lambda arguments: "x")
        for peer in (first_peer, second_peer):
            found = await peer.until(lambda peer=peer: [f for f in peer.frames if "method" in f])
            assert [frame["method"] for frame in found] == ["notifications/tools/list_changed"]
        await asyncio.sleep(0)
    assert "0 listeners" in repr(bus), "a server listens while it runs"
