"""A real client and a real server on a clock that jumps, over a pipe that misbehaves by a seed; then it heals.

While the storm lasts workers call. The tool keeps a ledger, and every caller was told the truth: a result means that it ran
once, `may_have_run=False` never, `True` at most once; and nobody gets another's answer. When the storm is over the client is
ready by itself, a call works, and nothing is left in any table. The number of a test is its seed: the same one, the same storm.
"""

import asyncio
import os
from collections import Counter
from random import Random

import pytest

from jackstay.client import Client
from jackstay.errors import McpError
from jackstay.protocol.client import Settings
from jackstay.protocol.client._calls import _IF, Calls
from jackstay.protocol.client._exchange import If
from jackstay.server import Server
from jackstay.testing import Faults, FaultyTarget, on_fake_clock
from jackstay.transport import memory_pair
from scripted.peer import ERAS

SEEDS = range(1_000 if os.environ.get("JACKSTAY_PROFILE") == "soak" else 12)
WORKERS, CALLS = 6, 20

STORMS = {
    "all at once": Faults(
        refuse=0.2, busy=0.05, cut=0.02, garble=0.05, truncate=0.01, delay=0.1, stall=0.01, longest_delay=5.0
    ),
    "cuts": Faults(cut=0.1, refuse=0.3),
    "lies": Faults(garble=0.3, truncate=0.05),
    "slow": Faults(delay=0.5, stall=0.05, longest_delay=20.0),
    "full": Faults(busy=0.5),
}


class World:
    """A server that is started again whenever its connection ends, and what it ran."""

    def __init__(self, seed: int, storm: Faults, version: str) -> None:
        self.ledger: Counter[str] = Counter()
        self.told: dict[str, McpError | None] = {}
        self.random = Random(seed)
        pair = memory_pair("storm")
        # Answers may come twice; requests may not: a pipe does not repeat what was written, and a server must not guess.
        twice = Faults(**{**{name: getattr(storm, name) for name in storm.__struct_fields__}, "repeat": 0.1})
        self.near = FaultyTarget(pair.client, twice, seed)
        self.far = FaultyTarget(
            pair.server, Faults(cut=storm.cut / 2, delay=storm.delay, busy=storm.busy), seed + 1
        )
        options = {"backoff_max": 5.0, "max_attempts": 1_000, "init_timeout": 20.0, "open_timeout": None}
        settings = Settings.of(name="storm", versions=(version,), keepalive=10.0, **options)
        self.client = Client(self.near, settings, lots=Random(seed + 2))
        self.server = Server("storm")
        self.server.add_tool(
            "work",
            input_schema={"type": "object", "properties": {"key": {"type": "string"}}},
            handler=self._work,
            validate=False,
        )

    async def _work(self, arguments: dict[str, str], ctx: object) -> str:
        self.ledger[arguments["key"]] += 1
        await asyncio.sleep(self.random.uniform(0, 2))
        return arguments["key"]

    async def serve(self) -> None:
        while True:
            try:
                await self.server.serve(self.far)
            except McpError:
                await asyncio.sleep(0.1)

    async def worker(self, name: str) -> None:
        for number in range(CALLS):
            key = f"{name}{number}"
            try:
                result = await self.client.tools.call(
                    "work",
                    {"key": key},
                    timeout=30,
                    wait_for_ready=self.random.random() < 0.7,
                    busy=self.random.choice(("retry", "wait")),
                )
            except McpError as error:
                self.told[key] = error
                await asyncio.sleep(self.random.uniform(0, 3))
            else:
                assert result.text == key, "an answer of somebody else's"
                assert not result.is_error
                self.told[key] = None

    def check(self) -> None:
        """Everybody was told the truth."""
        assert len(self.told) == WORKERS * CALLS
        for key, error in self.told.items():
            runs = self.ledger[key]
            if error is None:
                assert runs == 1, f"{key} ran {runs} times and was answered"
            elif error.may_have_run is False:
                assert runs == 0, f"{key} ran and was called not run: {error!r}"
            else:
                assert runs <= 1, f"{key} ran {runs} times: {error!r}"


@pytest.mark.parametrize("storm", STORMS)
@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("seed", SEEDS)
def test_in_any_storm_everybody_is_told_the_truth_and_after_it_all_is_well(
    seed: int, version: str, storm: str, caplog: pytest.LogCaptureFixture
) -> None:
    """G5, G7, G10 and the design's layer of simulation."""
    caplog.set_level("CRITICAL")  # a storm has much to say, and a failed test would say it all

    @on_fake_clock
    async def test() -> None:
        world = World(seed, STORMS[storm], version)
        serving = asyncio.ensure_future(world.serve())
        client = world.client
        await client.open()
        await asyncio.gather(*(world.worker(name) for name in "abcdef"[:WORKERS]))
        world.near.faults = world.far.faults = Faults()
        await client.ready(200)
        world.told["last"] = None
        result = await client.tools.call("work", {"key": "last"}, wait_for_ready=True, timeout=100)
        assert result.text == "last"
        del world.told["last"]
        await asyncio.sleep(200)
        core = client._requests.connection.core
        assert client.state == "ready"
        assert (dict(core.calls.pending), dict(core.calls.queue), core._unsent, core._serving) == (
            {},
            {},
            [],
            {},
        )
        assert len(core.calls.tombstones) == 0, "swept"
        world.check()
        await client.stop()
        serving.cancel()
        await asyncio.wait([serving])

    test()


def test_a_client_that_repeats_what_was_written_does_not_survive_the_storms(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """G7: the ledger finds the defect that it is there for."""
    monkeypatch.setitem(_IF, If.MAY_REPLAY, lambda _, exchange: not exchange.was_sent)
    with pytest.raises(AssertionError, match="ran 2 times"):
        test_in_any_storm_everybody_is_told_the_truth_and_after_it_all_is_well(0, ERAS[0], "cuts", caplog)


def test_a_client_that_forgets_what_was_written_does_not_survive_the_storms(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """G7: a call that ran must not be called one that did not."""
    monkeypatch.setattr(Calls, "may_have_run", lambda self, exchange: False)
    with pytest.raises(AssertionError, match="was called not run"):
        test_in_any_storm_everybody_is_told_the_truth_and_after_it_all_is_well(0, ERAS[0], "cuts", caplog)
