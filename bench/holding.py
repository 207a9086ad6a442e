"""What callers are told when their server is killed, or freezes, with a call open: ours and the peers', side by side.

    python bench/holding.py        or: make bench ONLY=holding

Not a race: each client is used as its documentation opens one, over stdio, against the same hand-written server, with the
timeouts it has by default. Exits with 1 if one of our callers hangs, or the client does not come back.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from _measure import print_platform
from _peers import python_of

PROGRAMS = Path(__file__).resolve().parent / "programs"

# name -> (program, environment)
CLIENTS = {
    "jackstay": ("holding_jackstay.py", None),
    "jackstay, keepalive=5": ("holding_jackstay_keepalive.py", None),
    "mcp 2.3.0, Client": ("holding_sdk_client.py", "mcp-2.3.0"),
    "mcp 1.30.0, ClientSession": ("holding_sdk.py", "mcp-1.30.0"),
    "fastmcp 4.1.2": ("holding_fastmcp.py", "fastmcp-4.1.2"),
    "fastmcp 3.4.10": ("holding_fastmcp.py", "fastmcp-3.4.10"),
}
SCENES = {"killed (SIGKILL)": signal.SIGKILL, "frozen (SIGSTOP)": signal.SIGSTOP}
CALLS = ("the open call", "the next call")


def live_through(name: str, strike: signal.Signals) -> list[dict[str, str | float]]:
    """How the two calls of a client ended."""
    program, environment = CLIENTS[name]
    with tempfile.TemporaryDirectory() as folder:
        ledger = str(Path(folder) / "ledger")
        server = [sys.executable, str(PROGRAMS / "holding_server.py"), ledger]
        done = subprocess.run(
            [python_of(environment), str(PROGRAMS / program), ledger, *server],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "SIGNAL": str(int(strike))},
        )
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(told) != len(CALLS):
        raise SystemExit(f"{name} told of {len(told)} calls:\n{done.stderr[-2000:]}")
    return told


def main() -> int:
    """Print what each caller was told; 1 if one of ours was left alone."""
    print_platform()
    for _, environment in CLIENTS.values():
        python_of(environment)  # made one after the other
    has_failed = False
    for scene, strike in SCENES.items():
        print(f"\nThe server is {scene} with a call open")
        with ThreadPoolExecutor(len(CLIENTS)) as pool:  # they wait, and measure nothing
            stories = list(pool.map(lambda name, strike=strike: live_through(name, strike), CLIENTS))
        for name, story in zip(CLIENTS, stories, strict=True):
            for call, told in zip(CALLS, story, strict=True):
                print(f"  {name:27} {call}: {told['kind']:5} after {told['seconds']:6.3f} s  {told['words']}")
            must_be_back = strike == signal.SIGKILL or "keepalive" in name
            kinds = {told["kind"] for told in story}
            if name.startswith("jackstay") and (
                "hung" in kinds or (must_be_back and story[1]["kind"] != "ok")
            ):
                has_failed = True
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
