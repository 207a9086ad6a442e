"""Who calls while things break, and what each was told, to be held against the ledger."""

import asyncio
from collections import Counter
from typing import Any

from jackstay.client import Client
from jackstay.errors import JsonRpcError, McpError


class Callers:
    """What every call came to, by its nonce: ok, failed or unknown."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.errors: list[McpError] = []
        self.longest = 0.0
        # One for each call that was answered, to be waited for.
        self.answered = asyncio.Semaphore(0)

    async def call(
        self, client: Client, tool: str, nonce: str, timeout: float | None, **arguments: Any
    ) -> None:
        """Call once. It must end in time, and with its own answer or an error of ours."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            result = await client.tools.call(
                tool, {"nonce": nonce, **arguments}, timeout=timeout, max_timeout=timeout
            )
        except McpError as error:
            self.errors.append(error)
            self.outcomes[nonce] = outcome(error)
            await asyncio.sleep(
                0
            )  # who is refused at once and calls again must not keep the others from running
        else:
            assert result.text == nonce, "somebody else's answer"
            self.outcomes[nonce] = "ok"
            self.answered.release()
        self.longest = max(self.longest, loop.time() - begun)

    def check(self, runs: Counter[str]) -> Counter[str]:
        """Hold what everybody was told against what was done. How many were told what."""
        left = Counter(runs)
        for nonce, told in self.outcomes.items():
            times = left.pop(nonce, 0)
            allowed = {"ok": (1,), "failed": (0,), "unknown": (0, 1)}[told]
            assert times in allowed, f"{nonce} was told {told} and ran {times} times"
        assert not left, f"ran, and nobody was told: {left}"
        told_by = Counter(self.outcomes.values())
        print(told_by, f"longest {self.longest:.2f} s", Counter(map(repr, self.errors)), sep="\n")
        return told_by


def outcome(error: McpError) -> str:
    """What an error says of a call. Where it leaves that to the server, there is one word that means: it did not run."""
    if error.may_have_run is None:
        assert isinstance(error, JsonRpcError), repr(error)
        assert error.data == {"retryable": True, "mayHaveRun": False}, repr(error)
    return "unknown" if error.may_have_run else "failed"
