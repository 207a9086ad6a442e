"""The steps of a client under test: a call during which its server is killed or stopped, then another call.

python recovery_x.py LEDGER SERVER...

SIGNAL in the environment is 9 (SIGKILL) or 19 (SIGSTOP). Prints the outcome of each call as a line of JSON.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

TIMEOUT = 60.0  # after this, the call counts as hung


async def outcome_of(call: Awaitable[str]) -> tuple[str, str]:
    """Return the outcome of a call: its kind (`ok`, `error`, `hung`) and its text."""
    try:
        async with asyncio.timeout(TIMEOUT) as timeout:
            return "ok", await call
    except TimeoutError as error:
        return ("hung", "") if timeout.expired() else ("error", repr(error))
    except BaseException as error:  # noqa: BLE001 - peers raise groups and cancellations; each is an outcome
        may_have_run = getattr(error, "may_have_run", None)
        text = f"{type(error).__name__}: {error}"[:150]
        return "error", text if may_have_run is None else f"{text} (may_have_run={may_have_run})"


async def measure_recovery(call: Callable[[str], Awaitable[str]]) -> None:
    """Send the signal while `hang` runs, then call `where` on the next server."""
    ledger = Path(sys.argv[1])
    server = int(await call("where"))
    hanging = asyncio.ensure_future(call("hang"))
    while not ledger.exists():
        await asyncio.sleep(0.01)
    os.kill(server, int(os.environ["SIGNAL"]))
    for awaited in (hanging, None):
        started_at = time.perf_counter()
        kind, text = await outcome_of(awaited or asyncio.ensure_future(call("where")))
        print(json.dumps({"kind": kind, "text": text, "seconds": time.perf_counter() - started_at}), flush=True)
    with contextlib.suppress(ProcessLookupError):
        os.kill(server, 9)  # a stopped process would remain
    os._exit(0)  # how the client shuts down is not measured
