"""A real client and a real server on a fake clock, over a connection with random faults.

While there are faults, workers call a tool that counts its runs, and every reported outcome must match: a result means
one run, `may_have_run=False` none, `True` at most one. After the faults the client is ready, a call succeeds, and no
table has entries left. Each test is reproducible by its seed.
"""

import asyncio
import os
from collections import Counter
from random import Random

import pytest

from jackstay.client import Client
from jackstay.errors import McpError
from jackstay.protocol.client import Settings
from jackstay.protocol.client._calls import Calls
from jackstay.protocol.client._exchange import may_replay
from jackstay.server import Server
from jackstay.testing import Faults, FaultyTarget, run_on_fake_clock
from jackstay.transport import memory_pair
from model.client_defects import replace_function
from scripted.peer import ERAS

SEEDS = range(1_000 if os.environ.get("JACKSTAY_PROFILE") == "soak" else 12)
WORKERS, CALLS = 6, 20

PROFILES = {
    "all": Faults(refuse=0.2, busy=0.05, cut=0.02, garble=0.05, truncate=0.01, delay=0.1, stall=0.01, max_delay=5.0),
    "cuts": Faults(cut=0.1, refuse=0.3),
    "garbled": Faults(garble=0.3, truncate=0.05),
    "slow": Faults(delay=0.5, stall=0.05, max_delay=20.0),
    "full": Faults(busy=0.5),
}


class Simulation:
    """A client with a server that is restarted whenever its connection ends, and the runs of its tool."""

    def __init__(self, seed: int, faults: Faults, version: str) -> None:
        self.ledger: Counter[str] = Counter()
        self.outcomes: dict[str, McpError | None] = {}
        self.random = Random(seed)
        pair = memory_pair("simulation")
        # Only responses may arrive twice: a pipe does not repeat requests.
        with_repeats = Faults(**{**{name: getattr(faults, name) for name in faults.__struct_fields__}, "repeat": 0.1})
        self.near = FaultyTarget(pair.client, with_repeats, seed)
        self.far = FaultyTarget(pair.server, Faults(cut=faults.cut / 2, delay=faults.delay, busy=faults.busy), seed + 1)
        options = {"backoff_max": 5.0, "max_attempts": 1_000, "init_timeout": 20.0, "open_timeout": None}
        settings = Settings.of(name="simulation", versions=(version,), keepalive=10.0, **options)
        self.client = Client(self.near, settings, rng=Random(seed + 2))
        self.server = Server("simulation")
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
                    raise_on_error=False,
                )
            except McpError as error:
                self.outcomes[key] = error
                await asyncio.sleep(self.random.uniform(0, 3))
            else:
                assert result.text == key, "the result of another call"
                assert not result.is_error
                self.outcomes[key] = None

    def check(self) -> None:
        """Compare the reported outcomes with the runs."""
        assert len(self.outcomes) == WORKERS * CALLS
        for key, error in self.outcomes.items():
            runs = self.ledger[key]
            if error is None:
                assert runs == 1, f"{key} has a result and ran {runs} times"
            elif error.may_have_run is False:
                assert runs == 0, f"{key} ran and was reported as not run: {error!r}"
            else:
                assert runs <= 1, f"{key} ran {runs} times: {error!r}"


@pytest.mark.guard(300)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("version", ERAS)
def test_with_random_faults_every_outcome_is_correct_and_the_client_recovers(
    version: str, profile: str, subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture
) -> None:
    """docs/guarantees.md G5, G7, G10."""
    caplog.set_level("CRITICAL")  # faults cause many log lines
    for seed in SEEDS:
        with subtests.test(seed=seed):
            run_on_fake_clock(simulate(seed, version, profile))


async def simulate(seed: int, version: str, profile: str) -> None:
    simulation = Simulation(seed, PROFILES[profile], version)
    serving = asyncio.ensure_future(simulation.serve())
    client = simulation.client
    await client.open()
    await asyncio.gather(*(simulation.worker(name) for name in "abcdef"[:WORKERS]))
    simulation.near.faults = simulation.far.faults = Faults()
    await client.ready(200)
    result = await client.tools.call("work", {"key": "last"}, wait_for_ready=True, timeout=100, raise_on_error=False)
    assert result.text == "last"
    await asyncio.sleep(200)
    core = client._requests.connection.core
    assert client.state == "ready"
    assert (dict(core.calls.pending), dict(core.calls.queue)) == ({}, {})
    assert (core.peer_requests.unsent, core.peer_requests.serving) == ([], {})
    assert len(core.calls.tombstones) == 0, "swept"
    simulation.check()
    await client.stop()
    serving.cancel()
    await asyncio.wait([serving])
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_client_that_repeats_written_calls_fails_the_simulation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """docs/guarantees.md G7: the simulation detects the defect."""
    caplog.set_level("CRITICAL")
    replace_function(monkeypatch, may_replay, lambda _, exchange: not exchange.was_sent)
    with pytest.raises(AssertionError, match="ran 2 times"):
        run_on_fake_clock(simulate(0, ERAS[0], "cuts"))


def test_a_client_that_forgets_written_calls_fails_the_simulation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """docs/guarantees.md G7: a call that ran must not be reported as not run."""
    caplog.set_level("CRITICAL")
    monkeypatch.setattr(Calls, "may_have_run", lambda self, exchange: False)
    with pytest.raises(AssertionError, match="was reported as not run"):
        run_on_fake_clock(simulate(0, ERAS[0], "cuts"))
