"""A client that continues after its server was killed.

    python examples/client_survives.py

After `OutcomeUnknownError` the call may have run; after an error with `may_have_run=False` it did not.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from jackstay.client import connect
from jackstay.errors import McpError
from jackstay.transport import stdio

ECHO = Path(__file__).parent / "echo.py"


def children() -> list[int]:
    """Return the child processes of this process (Linux)."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(pid) for pid in listed.split()]


async def main() -> None:
    target = stdio(sys.executable, ECHO, inherit_env=["PYTHONPATH"])
    async with connect(target, backoff_min=0.05) as client:
        client.on_event(
            lambda name, fields: (
                print(f"  {fields['from']} -> {fields['to']}") if name == "jackstay.connection.transition" else None
            )
        )
        print((await client.tools.call("echo", {"text": "one"})).text)
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        try:
            print((await client.tools.call("echo", {"text": "two"})).text)
        except McpError as error:
            print("may it have run?", error.may_have_run)
        print((await client.tools.call("echo", {"text": "three"})).text)


if __name__ == "__main__":
    asyncio.run(main())
