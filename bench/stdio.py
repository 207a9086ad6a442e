"""Servers over stdio, Jackstay and other libraries, under the same load, in one interleaved run.

    python bench/stdio.py        or: make bench ONLY=stdio

Exits with 1 if a target is missed by more than the noise of the run.
"""

# The load is raw: prepared frames, written and counted with system calls. Jackstay is `examples/echo.py`, with the
# public decorators. The revision is 2025-11-25; Jackstay is also measured with 2026-07-28.

import compileall
import os
import sys
import time
from pathlib import Path

import jackstay
from _measure import Sample, Series, compare, format_seconds, interleave, print_platform, print_rows
from _peers import ENVIRONMENTS, TYPESCRIPT, node_of, python_of
from _stdio import NEW, OLD, Server

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
ECHO = HERE.parent / "examples" / "echo.py"
# Fewer rounds are only for a quick check, not for published results.
ROUNDS = int(os.environ.get("ROUNDS", "5"))

# name -> (command, revision)
SERVERS: dict[str, tuple[list[str], str]] = {
    "limit": ([sys.executable, str(PROGRAMS / "limit_server.py")], OLD),
    "lean prototype": ([sys.executable, str(PROGRAMS / "lean_server.py")], OLD),
    "jackstay": ([sys.executable, str(ECHO)], OLD),
    "jackstay, 2026-07-28": ([sys.executable, str(ECHO)], NEW),
    "mcp 2.3.0, low level": ([python_of("mcp-2.3.0"), str(PROGRAMS / "server_sdk_2.py")], OLD),
    "mcp 2.3.0, 2026-07-28": ([python_of("mcp-2.3.0"), str(PROGRAMS / "server_sdk_2.py")], NEW),
    "mcp 2.3.0, MCPServer": ([python_of("mcp-2.3.0"), str(PROGRAMS / "server_sdk_2_high.py")], OLD),
    "mcp 2.3.0 on pipes": ([python_of("mcp-2.3.0"), str(PROGRAMS / "server_sdk_2_pipes.py")], OLD),
    "mcp 1.30.0, low level": ([python_of("mcp-1.30.0"), str(PROGRAMS / "server_sdk_1.py")], OLD),
    "fastmcp 4.1.2": ([python_of("fastmcp-4.1.2"), str(PROGRAMS / "server_fastmcp.py")], OLD),
    "fastmcp 3.4.10": ([python_of("fastmcp-3.4.10"), str(PROGRAMS / "server_fastmcp.py")], OLD),
}
if TYPESCRIPT_SERVER := node_of(PROGRAMS / "server_typescript.mjs"):
    SERVERS["TypeScript 1.32.2"] = (TYPESCRIPT_SERVER, OLD)
SLOW = {name for name in SERVERS if name.startswith(("mcp", "fastmcp"))}
SDK = "mcp 2.3.0, low level"
# Jackstay, and the official SDK with the same revision.
JUDGED = {"jackstay": SDK, "jackstay, 2026-07-28": "mcp 2.3.0, 2026-07-28"}
MAX_MEMORY = 24.0
# Seconds of load before the measurement, for a JIT compiler.
WARM_UP = {"TypeScript 1.32.2": 10.0}


def load(name: str, kind: str, width: int, count: int) -> Sample:
    """Return a sample of the seconds per request, with `width` requests in flight."""
    command, revision = SERVERS[name]
    extra = ["--tools", "100"] if kind == "list" else []

    def run() -> float:
        server = Server([*command, *extra], revision)
        make = server.listing if kind == "list" else server.call
        checked = server.exchange([make()])
        if (b'"hello"' if kind == "call" else b"tool_099") not in checked:
            raise SystemExit(f"{name} returned an unexpected response: {checked[:300]!r}")
        warm_at = time.perf_counter() + WARM_UP.get(name, 0.0)
        for _ in range(20):
            server.exchange([make() for _ in range(width)])
        while time.perf_counter() < warm_at:
            server.exchange([make() for _ in range(width)])
        batches = [[make() for _ in range(width)] for _ in range(count // width)]
        started = time.perf_counter()
        for batch in batches:
            server.exchange(batch)
        took = (time.perf_counter() - started) / (len(batches) * width)
        server.close()
        return took

    return run


def start(name: str) -> Sample:
    """Return a sample of the seconds from the start of the process to the first result."""
    command, revision = SERVERS[name]

    def run() -> float:
        started = time.perf_counter()
        server = Server(command, revision)
        server.exchange([server.call()])
        took = time.perf_counter() - started
        server.close()
        return took

    return run


def print_speeds(title: str, series: dict[str, Series], *, is_rate: bool) -> None:
    """Print the speed of every program, also relative to the limit and to the SDK."""
    print(f"\n{title}")
    for name, row in series.items():
        limit, sdk = series["limit"].middle / row.middle, series[SDK].middle / row.middle
        spread = f"({format_seconds(min(row.samples))} .. {format_seconds(max(row.samples))})"
        rate = f"{1 / row.middle:>9,.0f}/s" if is_rate else " " * 11
        seconds = format_seconds(row.middle)
        print(f"  {name:22} {rate} {seconds:>9} {spread:>22}  {limit:5.2f} of limit  {sdk:6.2f} x SDK")


def part(title: str, programs: dict[str, Sample], over_sdk: float, of_limit: float, *, is_rate: bool = True) -> bool:
    """Run and print one part. Returns whether the speed relative to the SDK and to the limit is reached."""
    series = interleave(programs, rounds=ROUNDS)
    print_speeds(title, series, is_rate=is_rate)
    rows = []
    for name, peer in JUDGED.items():
        rows.append(compare(f"{name} to the SDK", series[name], series[peer], 1 / over_sdk))
        rows.append(compare(f"{name} to the limit", series[name], series["limit"], 1 / of_limit))
    return print_rows(f"targets: {over_sdk:g} x SDK, {of_limit:.2g} of limit", rows)


def print_large() -> bool:
    """Measure the round trip of a message just under 16 MiB: at most four times the limit, and linear."""
    sizes = (1 << 20, (1 << 24) - 512)

    def sample(name: str, size: int) -> Sample:
        command, revision = SERVERS[name]

        def run() -> float:
            server = Server(command, revision)
            frame = server.call().replace(b"hello", b"x" * size)
            server.exchange_large(frame)
            started = time.perf_counter()
            for _ in range(3):
                server.exchange_large(frame)
            took = (time.perf_counter() - started) / 3
            server.close()
            return took

        return run

    series = interleave(
        {f"{name}, {size >> 20} MiB": sample(name, size) for name in ("limit", "jackstay") for size in sizes},
        rounds=3,
    )
    limit, jackstay, small = (series[name].middle for name in ("limit, 15 MiB", "jackstay, 15 MiB", "jackstay, 1 MiB"))
    print("\nRound trip of a message just under 16 MiB")
    shown = f"limit {format_seconds(limit)}, jackstay {format_seconds(jackstay)}"
    print(f"  {shown}: {jackstay / limit:.2f} x limit (target: under 4)")
    print(
        f"  jackstay, 1 MiB: {format_seconds(small)}; "
        f"16 times the size takes {jackstay / small:.1f} times as long (target: under 32)"
    )
    return jackstay / limit < 4 and jackstay / small < 32


def print_memory() -> bool:
    """Print the RSS after the start, and its growth from call 10,000 to 40,000."""
    print(f"\nResident memory after the first result (target for jackstay: {MAX_MEMORY:g} MiB)")
    is_small = True
    for name, (command, revision) in SERVERS.items():
        server = Server(command, revision)
        server.exchange([server.call()])
        used = server.rss()
        is_small = is_small and (name not in JUDGED or used <= MAX_MEMORY)
        print(f"  {name:22} {used:6.1f} MiB")
        server.close()
    server = Server(*SERVERS["jackstay"])
    grown = []
    for until in (10_000, 40_000):
        for _ in range((until - 10_000 * bool(grown)) // 50):
            server.exchange([server.call() for _ in range(50)])
        grown.append(server.rss())
    each = (grown[1] - grown[0]) * 1024 / 3
    print(f"  jackstay grows by {each:.1f} KiB per 10,000 calls between call 10,000 and 40,000 (target: under 64)")
    print(f"  jackstay after 10,000 calls: {grown[0]:.1f} MiB (target: 30)")
    server.close()
    return is_small and each < 64 and grown[0] <= 30


def main() -> int:
    """Run and print all measurements. Returns the exit code."""
    # As after an installation; with PYTHONDONTWRITEBYTECODE every start would compile what was edited.
    for sources in (*jackstay.__path__, PROGRAMS):
        compileall.compile_dir(sources, quiet=2)
    print_platform()
    print("peers: " + ", ".join([*ENVIRONMENTS, TYPESCRIPT]))
    counts = {name: (1000, 2000, 100) if name in SLOW else (3000, 30000, 500) for name in SERVERS}
    results = [
        part("One at a time", {name: load(name, "call", 1, counts[name][0]) for name in SERVERS}, 6, 0.85),
        part("64 in flight", {name: load(name, "call", 64, counts[name][1]) for name in SERVERS}, 100, 0.4),
        part(
            "tools/list of 100",
            {name: load(name, "list", 1, counts[name][2]) for name in SERVERS},
            20,
            0.5,
        ),
        part(
            "Cold start to the first result",
            {name: start(name) for name in SERVERS},
            4.5,
            1 / 1.3,
            is_rate=False,
        ),
        print_large(),
        print_memory(),
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
