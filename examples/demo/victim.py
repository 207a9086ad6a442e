"""The server that everything happens to: two tools, and a ledger of what they ran.

    python victim.py DIRECTORY PACE

In DIRECTORY it appends to `ledger` a line for each run, and to `pids` its own number; while there is a file `broken`, it
does not come up. PACE stretches or shortens how long things take. It knows nothing of the story.
"""

import asyncio
import os
import random
import sys
import time
from pathlib import Path

from jackstay.server import Server

# Seconds at pace 1: loading what a real server loads, and the two halves of a run, before and after it takes effect.
LOADING = 0.6
HALF_A_RUN = (0.08, 0.3)

server = Server("victim", version="1.0")


class Ledger:
    """Where the effects go. A line that was written stays, whatever becomes of this process."""

    def __init__(self, directory: Path, pace: float) -> None:
        self.directory = directory
        self.pace = pace

    def append(self, name: str, line: str) -> None:
        """Add a line, in one write: a kill leaves all of it or nothing."""
        opened = os.open(self.directory / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(opened, f"{line}\n".encode())
        finally:
            os.close(opened)

    async def run(self, nonce: str) -> str:
        """Take effect in the middle: who is killed before has not run, who is killed after has."""
        await asyncio.sleep(random.uniform(*HALF_A_RUN) * self.pace)  # noqa: S311  # lots, not secrets
        self.append("ledger", nonce)
        await asyncio.sleep(random.uniform(*HALF_A_RUN) * self.pace)  # noqa: S311
        return nonce


def main(words: list[str]) -> int:
    """Serve over stdio; `words` are the arguments of the command line."""
    if len(words) != 2:
        print("usage: victim.py DIRECTORY PACE", file=sys.stderr)
        return 2
    ledger = Ledger(Path(words[0]), float(words[1]))
    ledger.append("pids", str(os.getpid()))
    if (ledger.directory / "broken").exists():
        print("no configuration", file=sys.stderr)
        return 2
    time.sleep(LOADING * ledger.pace)

    @server.tool
    async def pay(nonce: str) -> str:
        """Has an effect: twice is not the same as once."""
        return await ledger.run(nonce)

    @server.tool(read_only=True)
    async def look(nonce: str) -> str:
        """Has none, and says so: clients may send it again."""
        return await ledger.run(nonce)

    return server.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
