"""Clients over stdio, Jackstay and other libraries, against the same minimal server, in one interleaved run.

    python bench/client.py [one | many | scale]        or: make bench ONLY=client

Exits with 1 if a target is missed by more than the noise of the run.
"""

import subprocess
import sys
from pathlib import Path
from statistics import median

from _measure import Sample, Series, compare, format_seconds, interleave, print_rows, run_parts
from _peers import is_measured, node_of, python_of
from _scale import measure as measure_scale

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
SERVER = [sys.executable, str(PROGRAMS / "limit_server.py")]

# name -> (program, environment, calls one at a time, calls 64 in flight); the calls of TypeScript are those after
# its warm-up.
CLIENTS: dict[str, tuple[str, str | None, int, int]] = {
    "limit": ("client_limit.py", None, 10000, 100000),
    "jackstay": ("client_jackstay.py", None, 10000, 100000),
    "mcp 2.3.0": ("client_sdk.py", "mcp-2.3.0", 1000, 2000),
    "mcp 1.30.0": ("client_sdk.py", "mcp-1.30.0", 1000, 2000),
    "fastmcp 4.1.2": ("client_fastmcp.py", "fastmcp-4.1.2", 1000, 2000),
    "fastmcp 3.4.10": ("client_fastmcp.py", "fastmcp-3.4.10", 1000, 2000),
    "TypeScript 1.32.2": ("client_typescript.mjs", None, 10000, 100000),
}
SDK = "mcp 2.3.0"
# Calls in flight -> the minimum speed relative to other programs.
TARGETS: dict[int, dict[str, float]] = {
    1: {"mcp 2.3.0": 1.4},
    64: {"mcp 2.3.0": 8.0, "limit": 0.6, "TypeScript 1.32.2": 1.1},
}


# The CPU seconds of each program per call, of the part that is running. They vary less on a busy machine.
CPU: dict[tuple[str, str | None], list[float]] = {}


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
        took, cpu = map(float, done.stdout.split())
        CPU.setdefault((program, environment), []).append(cpu)
        return took

    return run


def print_speeds(title: str, series: dict[str, Series]) -> None:
    """Print the speed of every program, also relative to the limit and to the SDK."""
    print(f"\n{title}")
    cpu = {name: median(CPU[CLIENTS[name][:2]]) for name in series}
    for name, row in series.items():
        limit = series["limit"].middle / row.middle
        sdk = f"  {series[SDK].middle / row.middle:6.2f} x SDK" if SDK in series else ""
        samples = row.samples + row.control
        spread = f"({format_seconds(min(samples))} .. {format_seconds(max(samples))})"
        print(
            f"  {name:18} {1 / row.middle:>9,.0f} calls/s {format_seconds(row.middle):>9} {spread:>22}  "
            f"{limit:5.2f} of limit  CPU {format_seconds(cpu[name]):>9} {cpu['limit'] / cpu[name]:5.2f} of limit{sdk}"
        )


def calls(in_flight: int) -> bool:
    """Measure calls, with this many of them in flight."""
    CPU.clear()
    programs = {
        name: sample(program, environment, single if in_flight == 1 else many, in_flight)
        for name, (program, environment, single, many) in CLIENTS.items()
        if is_measured(name) and (not program.endswith(".mjs") or command_of(program, environment))
    }
    series = interleave(programs)
    print_speeds(f"stdio, {in_flight} in flight", series)
    rows = [
        compare(f"at least {target:g} x {name}", series["jackstay"], series[name], 1 / target)
        for name, target in TARGETS[in_flight].items()
        if name in series
    ]
    return print_rows(f"targets, {in_flight} in flight", rows)


if __name__ == "__main__":
    sys.exit(run_parts({"one": lambda: calls(1), "many": lambda: calls(64), "scale": measure_scale}))
