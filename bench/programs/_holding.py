"""What every client under test lives through: its server is killed, or frozen, with a call open; then it is called again.

python holding_x.py LEDGER SERVER...

SIGNAL in the environment says which (9, or 19 to freeze). Two lines of JSON on stdout, one for each call: how it ended, and
after how many seconds.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

PATIENCE = 60.0  # beyond, the caller is called hung


async def ending(call: Awaitable[str]) -> tuple[str, str]:
    """How the call ended: its kind (`ok`, `error`, `hung`) and the words for it."""
    try:
        async with asyncio.timeout(PATIENCE) as patience:
            return "ok", await call
    except TimeoutError as error:
        return ("hung", "") if patience.expired() else ("error", repr(error))
    except BaseException as error:  # noqa: BLE001 - peers raise groups and cancellations; each is an ending
        told = getattr(error, "may_have_run", None)
        words = f"{type(error).__name__}: {error}"[:150]
        return "error", words if told is None else f"{words} (may_have_run={told})"


async def tell(call: Callable[[str], Awaitable[str]]) -> None:
    """Strike the server while `hang` runs, then ask a server where it is."""
    ledger = Path(sys.argv[1])
    server = int(await call("where"))
    hanging = asyncio.ensure_future(call("hang"))
    while not ledger.exists():
        await asyncio.sleep(0.01)
    os.kill(server, int(os.environ["SIGNAL"]))
    for awaited in (hanging, None):
        began = time.perf_counter()
        kind, words = await ending(awaited or asyncio.ensure_future(call("where")))
        print(json.dumps({"kind": kind, "words": words, "seconds": time.perf_counter() - began}), flush=True)
    with contextlib.suppress(ProcessLookupError):
        os.kill(server, 9)  # a frozen one would stay
    os._exit(0)  # how a client ends after this is another question
