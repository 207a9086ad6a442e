"""The history: workers call while the server is killed -9 again and again, and its ledger says who told the truth.

ok means that it ran once, failed means that it never ran, unknown means at most once; everybody gets his own answer, and
nobody waits for ever. `JACKSTAY_PROFILE=soak` kills for longer.
"""

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from jackstay.client import Client, connect
from jackstay.errors import McpError
from jackstay.transport import stdio
from scripted.loop import timed

SERVER = str(Path(__file__).parent / "servers" / "working.py")
WORKERS = 8
IS_SOAK = os.environ.get("JACKSTAY_PROFILE") == "soak"
KILLS = 60 if IS_SOAK else 8


class History:
    """What every call came to, by its nonce; and the kills that go on meanwhile."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.lots = random.Random(seed)
        self.outcomes: dict[str, str] = {}
        self.kills = 0
        self.until_kill = 5

    async def work(self, client: Client, worker: int) -> None:
        """Call, one after the other, until the last kill."""
        number = 0
        # Two are never answered, so that every kill finds calls open: one that ran, and one that did not.
        name = {0: "record_and_hang", 1: "hang"}.get(worker, "record")
        while self.kills < KILLS:
            nonce = f"{worker}-{number}"
            number += 1
            try:
                result = await client.tools.call(
                    name, {"nonce": nonce}, timeout=10 if name == "record" else 2
                )
            except McpError as error:
                self.outcomes[nonce] = "unknown" if error.may_have_run else "failed"
            else:
                assert result.text == nonce, "somebody else's answer"
                self.outcomes[nonce] = "ok"
            self.maybe_kill()

    def maybe_kill(self) -> None:
        """Kill the server after a number of outcomes that the lots decide: then others are open."""
        self.until_kill -= 1
        if self.until_kill <= 0:
            self.until_kill = self.lots.randint(8, 40)
            try:
                os.kill(int((self.directory / "pid").read_text()), signal.SIGKILL)
            except ProcessLookupError:
                return  # it is dead already, and the next is not there yet
            self.kills += 1

    def check(self) -> Counter[str]:
        """Hold what was told against what happened."""
        runs = Counter((self.directory / "ledger").read_text().split())
        for nonce, outcome in self.outcomes.items():
            times = runs.pop(nonce, 0)
            allowed = {"ok": (1,), "failed": (0,), "unknown": (0, 1)}[outcome]
            assert times in allowed, f"{nonce} was told {outcome} and ran {times} times"
        assert not runs, f"ran, and nobody was told: {runs}"
        return Counter(self.outcomes.values())


@pytest.mark.guard(120)
@pytest.mark.parametrize("seed", range(4 if IS_SOAK else 1))
def test_the_ledger_agrees_with_what_every_caller_was_told(seed: int, tmp_path: Path) -> None:
    """G7: at most once, whatever dies."""

    @timed
    async def test() -> None:
        history = History(tmp_path, seed)
        target = stdio(sys.executable, "-I", "-S", SERVER, "works", str(tmp_path), name="killed")
        async with connect(
            target, backoff_min=0.01, backoff_max=0.02, versions=("2025-11-25",), wait_for_ready=True
        ) as client:
            async with asyncio.timeout(100):
                await asyncio.gather(*(history.work(client, worker) for worker in range(WORKERS)))
        outcomes = history.check()
        assert outcomes["ok"] > 0
        assert outcomes["unknown"] >= 2, "no kill hit an open call: nothing was shown"

    test()
