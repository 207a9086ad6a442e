"""Concurrent callers, and a comparison of their outcomes with the ledger."""

import asyncio
from collections import Counter
from typing import Any

from jackstay.client import Client
from jackstay.errors import JsonRpcError, McpError


class Callers:
    """The outcome of every call, by its nonce: ok, failed or unknown."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.errors: list[McpError] = []
        self.longest = 0.0
        # Released once per successful call.
        self.answered = asyncio.Semaphore(0)

    async def call(self, client: Client, tool: str, nonce: str, timeout: float | None, **arguments: Any) -> None:
        """Call once. It must return its own result or raise an McpError."""
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        try:
            result = await client.tools.call(tool, {"nonce": nonce, **arguments}, timeout=timeout, max_timeout=timeout)
        except McpError as error:
            self.errors.append(error)
            self.outcomes[nonce] = outcome(error)
            await asyncio.sleep(0)  # a caller that fails at once must not starve the others
        else:
            assert result.text == nonce, "the result of another call"
            self.outcomes[nonce] = "ok"
            self.answered.release()
        self.longest = max(self.longest, loop.time() - started_at)

    def check(self, runs: Counter[str]) -> Counter[str]:
        """Compare the outcomes with the ledger. Returns how many calls had each outcome."""
        remaining = Counter(runs)
        for nonce, reported in self.outcomes.items():
            times = remaining.pop(nonce, 0)
            allowed = {"ok": (1,), "failed": (0,), "unknown": (0, 1)}[reported]
            assert times in allowed, f"{nonce}: outcome {reported}, but it ran {times} times"
        assert not remaining, f"ran without an outcome: {remaining}"
        counts = Counter(self.outcomes.values())
        print(counts, f"longest {self.longest:.2f} s", Counter(map(repr, self.errors)), sep="\n")
        return counts


def outcome(error: McpError) -> str:
    """Return the outcome of a call that raised this error. An error of the server must state that it did not run."""
    if error.may_have_run is None:
        assert isinstance(error, JsonRpcError), repr(error)
        assert error.data == {"retryable": True, "mayHaveRun": False}, repr(error)
    return "unknown" if error.may_have_run else "failed"
