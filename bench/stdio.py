"""Servers over stdio, Jackstay and other libraries, under the same load, in one interleaved run.

    python bench/stdio.py [one | many | list | start | large | memory]        or: make bench ONLY=stdio

Exits with 1 if a target is missed by more than the noise of the run.
"""

# The load is raw: prepared frames, written and counted with system calls. Jackstay is `examples/echo.py`, with the
# public decorators. The revision is 2025-11-25; Jackstay is also measured with 2026-07-28.

import os
import sys
import time
from pathlib import Path
from statistics import median

from _measure import Sample, Series, compare, format_seconds, interleave, print_rows, run_parts
from _peers import is_measured, node_of, python_of
from _stdio import NEW, OLD, Server

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
ECHO = HERE.parent / "examples" / "echo.py"
# name -> (command, revision)
SERVERS: dict[str, tuple[list[str], str]] = {
    "limit": ([sys.executable, str(PROGRAMS / "limit_server.py")], OLD),
    "limit, 2026-07-28": ([sys.executable, str(PROGRAMS / "limit_server.py")], NEW),
    "jackstay": ([sys.executable, str(ECHO)], OLD),
    "jackstay, 2026-07-28": ([sys.executable, str(ECHO)], NEW),
}
# name -> (environment, program, revision)
PEERS = {
    "mcp 2.3.0, low level": ("mcp-2.3.0", "server_sdk_2.py", OLD),
    "mcp 2.3.0, 2026-07-28": ("mcp-2.3.0", "server_sdk_2.py", NEW),
    "mcp 2.3.0, MCPServer": ("mcp-2.3.0", "server_sdk_2_high.py", OLD),
    "mcp 2.3.0 on pipes": ("mcp-2.3.0", "server_sdk_2_pipes.py", OLD),
    "mcp 1.30.0, low level": ("mcp-1.30.0", "server_sdk_1.py", OLD),
    "fastmcp 4.1.2": ("fastmcp-4.1.2", "server_fastmcp.py", OLD),
    "fastmcp 3.4.10": ("fastmcp-3.4.10", "server_fastmcp.py", OLD),
}
for peer, (environment, program, revision) in PEERS.items():
    if is_measured(peer):
        SERVERS[peer] = ([python_of(environment), str(PROGRAMS / program)], revision)
TYPESCRIPT_NAME = "TypeScript 1.32.2"
if is_measured(TYPESCRIPT_NAME) and (typescript := node_of(PROGRAMS / "server_typescript.mjs")):
    SERVERS[TYPESCRIPT_NAME] = (typescript, OLD)
SLOW = {name for name in SERVERS if name.startswith(("mcp", "fastmcp"))}
SDK = "mcp 2.3.0, low level"
# Jackstay, and the limit and the official SDK with the same revision.
JUDGED = {"jackstay": ("limit", SDK), "jackstay, 2026-07-28": ("limit, 2026-07-28", "mcp 2.3.0, 2026-07-28")}
OLD_SDK = "mcp 1.30.0, low level"
MAX_MEMORY = 24.0
# Seconds of load before the measurement, for a JIT compiler.
WARM_UP = {TYPESCRIPT_NAME: 3.0}
# The CPU seconds of each server per request, of the part that is running. They vary less on a busy machine.
CPU: dict[str, list[float]] = {}


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
        cpu = server.cpu()
        started = time.perf_counter()
        for batch in batches:
            server.exchange(batch)
        took = (time.perf_counter() - started) / (len(batches) * width)
        CPU.setdefault(name, []).append((server.cpu() - cpu) / (len(batches) * width))
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
        CPU.setdefault(name, []).append(server.cpu())
        server.close()
        return took

    return run


def limit_of(name: str) -> str:
    """Return the limit with the revision of this program."""
    return "limit, 2026-07-28" if SERVERS[name][1] == NEW else "limit"


def print_speeds(title: str, series: dict[str, Series], *, is_rate: bool) -> None:
    """Print the speed of every program, also relative to the limit of its revision and to the SDK."""
    print(f"\n{title}")
    for name, row in series.items():
        limit = series[limit_of(name)].middle / row.middle
        cpu_limit = median(CPU[limit_of(name)]) / median(CPU[name])
        sdk = "".join(
            f"  {series[sdk].middle / row.middle:6.2f} x {sdk[:8]}" for sdk in (SDK, OLD_SDK) if sdk in series
        )
        samples = row.samples + row.control
        spread = f"({format_seconds(min(samples))} .. {format_seconds(max(samples))})"
        rate = f"{1 / row.middle:>9,.0f}/s" if is_rate else " " * 11
        seconds, cpu = format_seconds(row.middle), format_seconds(median(CPU[name]))
        print(
            f"  {name:22} {rate} {seconds:>9} {spread:>22}  {limit:5.2f} of limit"
            f"  CPU {cpu:>9} {cpu_limit:5.2f} of limit{sdk}"
        )


def part(title: str, programs: dict[str, Sample], over_sdk: float, of_limit: float, *, is_rate: bool = True) -> bool:
    """Run and print one part. Returns whether the speed relative to the SDK and to the limit is reached."""
    CPU.clear()
    series = interleave(programs)
    print_speeds(title, series, is_rate=is_rate)
    rows = []
    for name, (limit, peer) in JUDGED.items():
        rows.append(compare(f"{name} to the limit", series[name], series[limit], 1 / of_limit))
        if peer in series:
            rows.append(compare(f"{name} to {peer}", series[name], series[peer], 1 / over_sdk))
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
        print(f"  {name:22} {used:6.1f} MiB, of which mapped files {server.rss('RssFile'):.1f}")
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


def calls(width: int, over_sdk: float, of_limit: float) -> bool:
    """Measure calls, with `width` of them in flight."""
    counts = {name: (1000, 2000) if name in SLOW else (10000, 200000) for name in SERVERS}
    programs = {name: load(name, "call", width, counts[name][width > 1]) for name in SERVERS}
    return part("One at a time" if width == 1 else f"{width} in flight", programs, over_sdk, of_limit)


def lists() -> bool:
    """Measure `tools/list` of 100 tools."""
    programs = {name: load(name, "list", 1, 50 if name in SLOW else 500) for name in SERVERS}
    return part("tools/list of 100", programs, 20, 0.5)


def starts() -> bool:
    """Measure the time from the start of the process to the first result."""
    programs = {name: start(name) for name in SERVERS}
    return part("Cold start to the first result", programs, 4.5, 1 / 1.3, is_rate=False)


def main() -> int:
    """Run and print the measurements. Returns the exit code."""
    # As after an installation with pip, which compiles: otherwise every start would compile what uv has installed.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for command, revision in SERVERS.values():
        Server(command, revision).close()
    return run_parts(
        {
            "one": lambda: calls(1, 6, 0.85),
            "many": lambda: calls(64, 100, 0.4),
            "list": lists,
            "start": starts,
            "large": print_large,
            "memory": print_memory,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
