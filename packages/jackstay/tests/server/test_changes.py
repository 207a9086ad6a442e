"""The bus in memory keeps its contract, and servers on one bus tell each other's clients."""

import asyncio

from chaos.servers_own.conversation import run, talking
from jackstay.server import ChangeBus, MemoryChanges, Server
from jackstay.testing import store_suites


class TestMemoryChanges(store_suites.ChangeBusSuite):
    def make(self) -> tuple[ChangeBus, ChangeBus]:
        bus = MemoryChanges()
        return bus, bus


def test_a_change_in_one_worker_is_told_to_the_clients_of_another() -> None:
    """architecture.md, "Growing past one process": to every open subscription."""

    async def test() -> None:
        bus = MemoryChanges()
        one, other = (
            Server("one", changes=bus, offers=("tools",)),
            Server("two", changes=bus, offers=("tools",)),
        )
        async with talking(one) as peer_of_one, talking(other) as peer_of_other:
            one.add_tool("new", input_schema={"type": "object"}, handler=lambda arguments: "x")
            for peer in (peer_of_one, peer_of_other):
                found = await peer.until(lambda peer=peer: [f for f in peer.frames if "method" in f])
                assert [frame["method"] for frame in found] == ["notifications/tools/list_changed"]
            await asyncio.sleep(0)
        assert "2 listeners" in repr(bus)

    run(test)
