"""The outcome of calls whose server is killed or stopped, for Jackstay and other libraries.

    python bench/recovery.py        or: make bench ONLY=recovery

Each client has its default settings. Exits with 1 if a call of Jackstay hangs, or the client does not reconnect.
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
    "jackstay": ("recovery_jackstay.py", None),
    "jackstay, keepalive=5": ("recovery_jackstay_keepalive.py", None),
    "mcp 2.3.0, Client": ("recovery_sdk_client.py", "mcp-2.3.0"),
    "mcp 1.30.0, ClientSession": ("recovery_sdk.py", "mcp-1.30.0"),
    "fastmcp 4.1.2": ("recovery_fastmcp.py", "fastmcp-4.1.2"),
    "fastmcp 3.4.10": ("recovery_fastmcp.py", "fastmcp-3.4.10"),
}
FAULTS = {"killed (SIGKILL)": signal.SIGKILL, "stopped (SIGSTOP)": signal.SIGSTOP}
CALLS = ("the open call", "the next call")


def run_client(name: str, signal_number: signal.Signals) -> list[dict[str, str | float]]:
    """Return the outcomes of the two calls of a client."""
    program, environment = CLIENTS[name]
    with tempfile.TemporaryDirectory() as folder:
        ledger = str(Path(folder) / "ledger")
        server = [sys.executable, str(PROGRAMS / "recovery_server.py"), ledger]
        done = subprocess.run(
            [python_of(environment), str(PROGRAMS / program), ledger, *server],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "SIGNAL": str(int(signal_number))},
        )
    outcomes = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(outcomes) != len(CALLS):
        raise SystemExit(f"{name} reported {len(outcomes)} calls:\n{done.stderr[-2000:]}")
    return outcomes


def main() -> int:
    """Print the outcomes; return 1 if a call of Jackstay hung or was not followed by a reconnect."""
    print_platform()
    for _, environment in CLIENTS.values():
        python_of(environment)  # created one after the other
    has_failed = False
    for fault, signal_number in FAULTS.items():
        print(f"\nThe server is {fault} with a call open")
        with ThreadPoolExecutor(len(CLIENTS)) as pool:  # the clients mostly wait
            all_outcomes = list(
                pool.map(lambda name, signal_number=signal_number: run_client(name, signal_number), CLIENTS)
            )
        for name, outcomes in zip(CLIENTS, all_outcomes, strict=True):
            for call, outcome in zip(CALLS, outcomes, strict=True):
                print(f"  {name:27} {call}: {outcome['kind']:5} after {outcome['seconds']:6.3f} s  {outcome['text']}")
            must_reconnect = signal_number == signal.SIGKILL or "keepalive" in name
            kinds = {outcome["kind"] for outcome in outcomes}
            if name.startswith("jackstay") and ("hung" in kinds or (must_reconnect and outcomes[1]["kind"] != "ok")):
                has_failed = True
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
