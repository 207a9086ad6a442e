"""The client at scale: calls in flight, clients in one process, a message of 16 MiB. Part of `client.py`.

These rows are compared with a fixed bound, the same program with less work, or the limit.
"""

import os
import subprocess
import sys
from pathlib import Path

from _measure import Sample, in_words, interleave

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
WIDE = [sys.executable, str(PROGRAMS / "server_wide.py")]
LIMIT = [sys.executable, str(PROGRAMS / "limit_server.py")]
ECHO = [sys.executable, str(HERE.parent / "examples" / "echo.py")]

MEBIBYTE = 1 << 20
# A text of this size makes a message just under the limit of 16 MiB.
MAX_MESSAGE = 16 * MEBIBYTE - 512


def run(program: str, *words: str, text_size: int = 5) -> tuple[float, ...]:
    """The numbers that a program prints."""
    command = [sys.executable, str(PROGRAMS / program), *words]
    environment = {**os.environ, "TEXT_SIZE": str(text_size)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    if ended.returncode:
        raise SystemExit(f"{program} {' '.join(words)} failed:\n{ended.stderr[-2000:]}")
    return tuple(float(word) for word in ended.stdout.split())


def judge(name: str, value: float, bound: float, shown: str) -> bool:
    """Print one row."""
    is_met = value <= bound
    print(f"  {name:58} {shown:>28}  target <= {bound:g}  {'ok' if is_met else 'MISSED'}")
    return is_met


def in_flight() -> bool:
    """10,000 calls on one connection beside 100."""
    sizes = (100, 10_000)
    bytes_each: dict[int, float] = {}

    def sample(number: int) -> Sample:
        def once() -> float:
            seconds, bytes_each[number] = run("scale_jackstay.py", "calls", str(number), *WIDE)
            return seconds

        return once

    series = interleave({str(number): sample(number) for number in sizes}, rounds=3)
    few, many = (series[str(number)].middle for number in sizes)
    shown = f"{in_words(many)} beside {in_words(few)}"
    is_fast = judge("10,000 calls in flight: time a call, x 100 in flight", many / few, 1.5, shown)
    each = bytes_each[10_000]
    return judge("10,000 calls in flight: bytes each", each, 2048, f"{each:.0f} bytes") and is_fast


def clients() -> bool:
    """1,000 clients with their servers in memory; 100 with a process each."""
    is_good = True
    for mode, number, command in (("memory", 1000, []), ("stdio", 100, ECHO)):
        weight, threads = run("scale_jackstay.py", mode, str(number), *command)
        is_good = judge(f"{number:,} clients, {mode}: KiB each", weight, 64, f"{weight:.1f} KiB") and is_good
        is_good = judge(f"{number:,} clients, {mode}: more threads", threads, 0, f"{threads:.0f}") and is_good
    return is_good


def large_messages() -> bool:
    """A message just under 16 MiB, there and back; and one of 1 MiB, which shows whether time is linear."""

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
    shown = f"{in_words(jackstay)} beside {in_words(limit)}"
    is_fast = judge("16 MiB there and back: x limit", jackstay / limit, 4, shown)
    # Twice the share is the slack for caches: what is quadratic would take sixteen times it.
    share = f"{in_words(jackstay)} beside {in_words(small)}"
    return judge("16 MiB there and back: x 1 MiB", jackstay / small, 32, share) and is_fast


def measure() -> bool:
    """Run all, print, judge."""
    print("\nMuch of it")
    return all([in_flight(), clients(), large_messages()])
