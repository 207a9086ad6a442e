"""The server of the demonstration: two tools, and a ledger of what they ran.

    python target_server.py DIRECTORY PACE

Appends each run to `ledger` and its pid to `pids` in DIRECTORY. While a file `broken` exists, it fails to start.
"""

import asyncio
import os
import random
import sys
import time
from pathlib import Path

from jackstay.server import Server

# Seconds at pace 1: the start of the server, and the time of a run before and after its effect.
LOADING = 0.6
HALF_RUN = (0.08, 0.3)

server = Server("target", version="1.0")


class Ledger:
    """Records effects in files, which survive the process."""

    def __init__(self, directory: Path, pace: float) -> None:
        self.directory = directory
        self.pace = pace

    def append(self, name: str, line: str) -> None:
        """Append a line in one write, which is atomic with respect to a kill."""
        opened = os.open(self.directory / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(opened, f"{line}\n".encode())
        finally:
            os.close(opened)

    async def run(self, nonce: str) -> str:
        """Record the effect in the middle of the run."""
        await asyncio.sleep(random.uniform(*HALF_RUN) * self.pace)  # noqa: S311  # not a secret
        self.append("ledger", nonce)
        await asyncio.sleep(random.uniform(*HALF_RUN) * self.pace)  # noqa: S311
        return nonce


def main(arguments: list[str]) -> int:
    """Serve over stdio; `arguments` are those of the command line."""
    if len(arguments) != 2:
        print("usage: target_server.py DIRECTORY PACE", file=sys.stderr)
        return 2
    ledger = Ledger(Path(arguments[0]), float(arguments[1]))
    ledger.append("pids", str(os.getpid()))
    if (ledger.directory / "broken").exists():
        print("no configuration", file=sys.stderr)
        return 2
    time.sleep(LOADING * ledger.pace)

    @server.tool
    async def pay(nonce: str) -> str:
        """Have an effect; not idempotent."""
        return await ledger.run(nonce)

    @server.tool(read_only=True)
    async def read(nonce: str) -> str:
        """Have no effect; declared read-only, so clients may retry it."""
        return await ledger.run(nonce)

    return server.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
