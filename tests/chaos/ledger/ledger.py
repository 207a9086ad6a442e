"""The ledger of a chaos run: the outcomes of calls, compared with what the servers ran.

ok: the call ran once and got its own result. failed (`may_have_run` is False): it never ran. unknown (`may_have_run` is
True or None) and cancelled: it ran at most once, with `replay="safe"` at most twice. Every call ends by its deadline,
and raises nothing but an `McpError`.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from jackstay.errors import McpError

# How much later than its deadline a call may end, in addition to the measured lag of the event loop.
SLACK_SECONDS = 1.0
ALLOWED = {"ok": (1,), "failed": (0,), "unknown": (0, 1), "cancelled": (0, 1)}
LAG_INTERVAL = 0.05


@dataclass
class Ledger:
    """The outcomes of one part of a run, by nonce. Safe to share between threads."""

    path: Path
    outcomes: dict[str, str] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    # The kind of error of each call that failed.
    failures: dict[str, str] = field(default_factory=dict)
    breaches: list[str] = field(default_factory=list)
    replayed: set[str] = field(default_factory=set)
    longest_lag: float = 0.0
    longest_call: float = 0.0

    @contextmanager
    def watch(self, nonce: str, deadline: float, *, may_replay: bool = False) -> Iterator[list[str]]:
        """Record the outcome of one call. The body appends the text of the result to the yielded list."""
        answers: list[str] = []
        started_at = time.monotonic()
        if may_replay:
            self.replayed.add(nonce)
        if nonce in self.outcomes:
            self.breaches.append(f"{nonce} got a second outcome")
        try:
            yield answers
        except McpError as error:
            self.outcomes[nonce] = "failed" if error.may_have_run is False else "unknown"
            self.errors[type(error).__name__] += 1
            self.failures[nonce] = type(error).__name__
        except asyncio.CancelledError:
            self.outcomes[nonce] = "cancelled"
        except Exception as error:  # noqa: BLE001  recorded as a breach
            self.outcomes[nonce] = "unknown"
            self.breaches.append(f"{nonce} raised {error!r}")
        else:
            self.outcomes[nonce] = "ok"
            if answers != [nonce]:
                self.breaches.append(f"{nonce} got the result {answers!r}")
        took = time.monotonic() - started_at
        self.longest_call = max(self.longest_call, took)
        if took > deadline + SLACK_SECONDS + self.longest_lag:
            self.breaches.append(f"{nonce} ended after {took:.2f} s; its deadline was {deadline:g} s")

    @contextlib.asynccontextmanager
    async def measure_lag(self) -> AsyncIterator[None]:
        """Measure the lag of the event loop while the body runs."""

        async def measure() -> None:
            while True:
                due = time.monotonic() + LAG_INTERVAL
                await asyncio.sleep(LAG_INTERVAL)
                self.longest_lag = max(self.longest_lag, time.monotonic() - due)

        task = asyncio.get_running_loop().create_task(measure())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    def check(self) -> list[str]:
        """Compare the outcomes with what ran, after all servers have ended. Returns the breaches."""
        runs = Counter(self.path.read_text().split()) if self.path.exists() else Counter[str]()
        found = list(self.breaches)
        for nonce, outcome in self.outcomes.items():
            times = runs.pop(nonce, 0)
            allowed = (0, 1, 2) if nonce in self.replayed and outcome != "failed" else ALLOWED[outcome]
            if times not in allowed:
                found.append(f"{nonce}: outcome {outcome}, but ran {times} times")
        found += [f"{nonce}: ran {times} times without an outcome" for nonce, times in runs.items()]
        return found

    def __str__(self) -> str:
        counts = Counter(self.outcomes.values())
        outcomes = ", ".join(f"{outcome} {counts[outcome]}" for outcome in ALLOWED)
        durations = f"longest {self.longest_call:.2f} s, loop lag {self.longest_lag:.2f} s"
        return f"{len(self.outcomes)} calls: {outcomes}; {durations}"
