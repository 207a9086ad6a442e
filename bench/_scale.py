"""The client at scale: calls in flight, clients in one process, a message of 16 MiB. Used by `client.py`.

Results are compared with a fixed bound, with the same program and less work, or with the limit.
"""

import os
import subprocess
import sys
from pathlib import Path

from _measure import Sample, format_seconds, interleave

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
WIDE = [sys.executable, str(PROGRAMS / "server_wide.py")]
LIMIT = [sys.executable, str(PROGRAMS / "limit_server.py")]
ECHO = [sys.executable, str(HERE.parent / "examples" / "echo.py")]

MEBIBYTE = 1 << 20
# A text of this size makes a message just under the limit of 16 MiB.
MAX_MESSAGE = 16 * MEBIBYTE - 512


def run(program: str, *arguments: str, text_size: int = 5) -> tuple[float, ...]:
    """Run a program and return the numbers that it prints."""
    command = [sys.executable, str(PROGRAMS / program), *arguments]
    environment = {**os.environ, "TEXT_SIZE": str(text_size)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise SystemExit(f"{program} {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return tuple(float(number) for number in done.stdout.split())


def judge(name: str, value: float, bound: float, shown: str) -> bool:
    """Print one row, and return whether the bound is met."""
    is_met = value <= bound
    print(f"  {name:58} {shown:>28}  target <= {bound:g}  {'ok' if is_met else 'MISSED'}")
    return is_met


def in_flight() -> bool:
    """Compare 10,000 calls in flight on one connection with 100."""
    sizes = (100, 10_000)
    bytes_each: dict[int, float] = {}

    def sample(number: int) -> Sample:
        def once() -> float:
            seconds, bytes_each[number] = run("scale_jackstay.py", "calls", str(number), *WIDE)
            return seconds

        return once

    series = interleave({str(number): sample(number) for number in sizes}, rounds=3)
    few, many = (series[str(number)].middle for number in sizes)
    shown = f"{format_seconds(many)} and {format_seconds(few)}"
    is_fast = judge("10,000 calls in flight: time per call, x 100 in flight", many / few, 1.5, shown)
    each = bytes_each[10_000]
    return judge("10,000 calls in flight: bytes per call", each, 2048, f"{each:.0f} bytes") and is_fast


def clients() -> bool:
    """Measure 1,000 clients with in-memory servers, and 100 clients with server processes."""
    is_good = True
    for mode, number, command in (("memory", 1000, []), ("stdio", 100, ECHO)):
        kib, threads = run("scale_jackstay.py", mode, str(number), *command)
        is_good = judge(f"{number:,} clients, {mode}: KiB per client", kib, 64, f"{kib:.1f} KiB") and is_good
        is_good = judge(f"{number:,} clients, {mode}: additional threads", threads, 0, f"{threads:.0f}") and is_good
    return is_good


def large_messages() -> bool:
    """Measure the round trip of a message just under 16 MiB, and of 1 MiB, to check that the time is linear."""

    def sample(program: str, size: int) -> Sample:
        return lambda: run(program, "5", "1", *LIMIT, text_size=size)[0]

    series = interleave(
        {
            "limit": sample("client_limit.py", MAX_MESSAGE),
            "jackstay": sample("client_jackstay.py", MAX_MESSAGE),
            "jackstay, 1 MiB": sample("client_jackstay.py", MEBIBYTE),
        },
        rounds=3,
    )
    limit, jackstay, small = (series[name].middle for name in ("limit", "jackstay", "jackstay, 1 MiB"))
    shown = f"{format_seconds(jackstay)} and {format_seconds(limit)}"
    is_fast = judge("16 MiB round trip: x limit", jackstay / limit, 4, shown)
    # 16 times would be linear; twice that allows for cache effects. Quadratic time would be 256 times.
    share = f"{format_seconds(jackstay)} and {format_seconds(small)}"
    return judge("16 MiB round trip: x 1 MiB", jackstay / small, 32, share) and is_fast


def measure() -> bool:
    """Run and print all measurements; return whether all bounds are met."""
    print("\nScale")
    return all([in_flight(), clients(), large_messages()])
