"""Clients over stdio, Jackstay and other libraries, against the same minimal server, in one interleaved run.

    python bench/client.py        or: make bench ONLY=client

Exits with 1 if a target is missed by more than the noise of the run.
"""

import os
import subprocess
import sys
from pathlib import Path

from _measure import Sample, Series, compare, format_seconds, interleave, print_platform, print_rows
from _peers import ENVIRONMENTS, TYPESCRIPT, node_of, python_of
from _scale import measure as measure_scale

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
SERVER = [sys.executable, str(PROGRAMS / "limit_server.py")]

# name -> (program, environment, calls one at a time, calls 64 in flight); the calls of TypeScript are those after
# its warm-up.
CLIENTS = {
    "limit": ("client_limit.py", None, 3000, 20000),
    "jackstay": ("client_jackstay.py", None, 3000, 20000),
    "mcp 2.3.0": ("client_sdk.py", "mcp-2.3.0", 1000, 2000),
    "mcp 1.30.0": ("client_sdk.py", "mcp-1.30.0", 1000, 2000),
    "fastmcp 4.1.2": ("client_fastmcp.py", "fastmcp-4.1.2", 1000, 2000),
    "fastmcp 3.4.10": ("client_fastmcp.py", "fastmcp-3.4.10", 1000, 2000),
    "TypeScript 1.32.2": ("client_typescript.mjs", None, 3000, 20000),
}
# Fewer rounds are only for a quick check, not for published results.
ROUNDS = int(os.environ.get("ROUNDS", "5"))

# Calls in flight -> the minimum speed relative to other programs.
TARGETS = {1: {"mcp 2.3.0": 1.4}, 64: {"mcp 2.3.0": 8.0, "limit": 0.6, "TypeScript 1.32.2": 1.1}}


def command_of(program: str, environment: str | None) -> list[str]:
    """Return the command of a program; empty if it cannot run on this machine."""
    path = PROGRAMS / program
    return node_of(path) if program.endswith(".mjs") else [python_of(environment), str(path)]


def sample(program: str, environment: str | None, calls: int, in_flight: int) -> Sample:
    """Return a sample of the seconds per call, as measured by the program."""
    command = [*command_of(program, environment), str(calls), str(in_flight), *SERVER]

    def run() -> float:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            raise SystemExit(f"{program} in {environment} failed:\n{done.stderr[-2000:]}")
        return float(done.stdout.split()[0])

    return run


def print_speeds(title: str, series: dict[str, Series]) -> None:
    """Print the speed of every program, also relative to the limit and to the SDK."""
    print(f"\n{title}")
    for name, row in series.items():
        limit, sdk = series["limit"].middle / row.middle, series["mcp 2.3.0"].middle / row.middle
        spread = f"({format_seconds(min(row.samples))} .. {format_seconds(max(row.samples))})"
        print(
            f"  {name:16} {1 / row.middle:>9,.0f} calls/s {format_seconds(row.middle):>9} {spread:>22}  "
            f"{limit:5.2f} of limit  {sdk:6.2f} x SDK"
        )


def main() -> int:
    """Run and print all measurements. Returns the exit code."""
    print_platform()
    print("peers: " + ", ".join([*ENVIRONMENTS, TYPESCRIPT]))
    can_run = {name: row for name, row in CLIENTS.items() if not row[0].endswith(".mjs") or command_of(*row[:2])}
    is_good = True
    for in_flight, targets in TARGETS.items():
        programs = {
            name: sample(program, environment, single if in_flight == 1 else many, in_flight)
            for name, (program, environment, single, many) in can_run.items()
        }
        series = interleave(programs, rounds=ROUNDS)
        print_speeds(f"stdio, {in_flight} in flight", series)
        rows = [
            compare(f"at least {target:g} x {name}", series["jackstay"], series[name], 1 / target)
            for name, target in targets.items()
            if name in series
        ]
        is_good = print_rows(f"targets, {in_flight} in flight", rows) and is_good
    return 0 if measure_scale() and is_good else 1


if __name__ == "__main__":
    sys.exit(main())
