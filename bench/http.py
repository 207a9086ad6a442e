"""Servers and clients over HTTP, Jackstay and other libraries, under the same load, in one interleaved run.

    python bench/http.py        or: make bench ONLY=http; with PEERS=0 only the limit and Jackstay, and only calls

Exits with 1 if a target is missed by more than the noise of the run.
"""

# Servers: 32 keep-alive connections with one request in flight each. "Limit" is a minimal ASGI app on uvicorn with h11,
# and with httptools and uvloop; the other libraries run on the same uvicorn, and Jackstay as `server.run()` serves it
# with the same parser and event loop. The CPU seconds of the server per call are compared.

import os
import subprocess
import sys
import time
from pathlib import Path

from _load import NEW, OLD, Connection, HttpServer, seconds_each
from _measure import Sample, Series, compare, format_seconds, interleave, print_platform, print_rows
from _peers import ENVIRONMENTS, TYPESCRIPT, node_of, python_of

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
ROUNDS = int(os.environ.get("ROUNDS", "5"))
CONNECTIONS = 32


def python(program: str, environment: str | None = None) -> list[str]:
    return [python_of(environment), str(PROGRAMS / program), "PORT"]


# name -> (command, revision)
SERVERS: dict[str, tuple[list[str], str]] = {
    "limit": (python("http_limit.py"), OLD),
    "jackstay": (python("http_jackstay.py"), OLD),
    "jackstay, 2026-07-28": (python("http_jackstay.py"), NEW),
    "jackstay, sessions": (python("http_jackstay.py"), OLD),
}
HAS_PEERS = os.environ.get("PEERS") != "0"
if HAS_PEERS:
    SERVERS |= {
        "mcp 2.3.0, low level": (python("http_sdk_2.py", "mcp-2.3.0"), OLD),
        "mcp 2.3.0, 2026-07-28": (python("http_sdk_2.py", "mcp-2.3.0"), NEW),
        "mcp 1.30.0, low level": (python("http_sdk_1.py", "mcp-1.30.0"), OLD),
        "fastmcp 4.1.2": (python("http_fastmcp.py", "fastmcp-4.1.2"), OLD),
        "fastmcp 3.4.10": (python("http_fastmcp.py", "fastmcp-3.4.10"), OLD),
    }
    if TYPESCRIPT_SERVER := node_of(PROGRAMS / "http_typescript.mjs"):
        SERVERS["TypeScript 1.32.2"] = ([*TYPESCRIPT_SERVER, "PORT"], OLD)
SDK = "mcp 2.3.0, low level"
JUDGED = {"jackstay": SDK, "jackstay, 2026-07-28": "mcp 2.3.0, 2026-07-28", "jackstay, sessions": SDK}
# Sessions are off by default in Jackstay, and on in the other libraries.
SESSIONS = {"jackstay, sessions": ("--sessions",)}
SLOW = {name for name in SERVERS if name.startswith(("mcp", "fastmcp"))}

CALL = ("tools/call", {"name": "echo", "arguments": {"text": "hello"}})
LIST = ("tools/list", {})


def load(name: str, parser: str, response_format: str, kind: str) -> Sample:
    """Return a sample of the CPU seconds of the server per request; TypeScript has a longer warm-up."""
    command, revision = SERVERS[name]
    method, params = LIST if kind == "list" else CALL
    arguments = [parser, response_format, *SESSIONS.get(name, ()), *(["--tools", "100"] if kind == "list" else [])]
    count = (20 if name in SLOW else 60) if kind == "list" else (50 if name in SLOW else 300)
    warm_seconds = 10.0 if name.startswith("TypeScript") else 0.0

    def run() -> float:
        server = HttpServer(command, *arguments)
        try:
            connections = [Connection(server.port, revision) for _ in range(CONNECTIONS)]
            requests = [connection.request(method, dict(params)) for connection in connections]
            checked = connections[0].exchange(requests[0])
            if (b"hello" if kind == "call" else b"tool_099") not in checked:
                raise SystemExit(f"{name} returned an unexpected response: {checked[:600]!r}")
            warm_at = time.perf_counter() + warm_seconds
            seconds_each(connections, requests, count // 5)
            while time.perf_counter() < warm_at:
                seconds_each(connections, requests, count // 5)
            before = server.cpu()
            seconds_each(connections, requests, count)
            return (server.cpu() - before) / (count * CONNECTIONS)
        finally:
            server.close()

    return run


def print_speeds(title: str, series: dict[str, Series]) -> None:
    """Print the CPU time of every program, also relative to the limit and to the SDK."""
    print(f"\n{title}: CPU of the server per request")
    for name, measured in series.items():
        limit = series["limit"].middle / measured.middle
        sdk = f"  {series[SDK].middle / measured.middle:6.2f} x SDK" if SDK in series else ""
        spread = f"({format_seconds(min(measured.samples))} .. {format_seconds(max(measured.samples))})"
        seconds = format_seconds(measured.middle)
        print(f"  {name:22} {seconds:>9} {spread:>22}  {limit:5.2f} of limit{sdk}")


def part(parser: str, response_format: str, kind: str, over_sdk: float, of_limit: float) -> bool:
    """Run and print one part. Returns whether the speed relative to the SDK and to the limit is reached."""
    names = [
        name for name in SERVERS if not name.startswith("TypeScript") or (parser == "httptools" and kind == "call")
    ]
    series = interleave({name: load(name, parser, response_format, kind) for name in names}, rounds=ROUNDS)
    title = {"call": f"HTTP {response_format.upper()}, {CONNECTIONS} connections", "list": "tools/list of 100"}[kind]
    print_speeds(f"{title}, {parser}", series)
    rows = []
    for name, peer in JUDGED.items():
        if peer in series:
            rows.append(compare(f"{name} to the SDK", series[name], series[peer], 1 / over_sdk))
        if of_limit:
            # The limit has neither sessions nor the checks of 2026-07-28.
            share = of_limit if name == "jackstay" else min(of_limit, 0.4)
            rows.append(compare(f"{name} to the limit", series[name], series["limit"], 1 / share))
    return print_rows(f"targets: {over_sdk:g} x SDK, {of_limit:.2g} of limit", rows)


def print_sessions() -> bool:
    """Print the memory of a session without an open stream; return whether the target is met."""
    print("\nIdle sessions")
    is_good = True
    for name in ("jackstay, sessions", SDK):
        command, revision = SERVERS[name]
        server = HttpServer(command, "httptools", "json", *SESSIONS.get(name, ()))
        for _ in range(50):
            Connection(server.port, revision).socket.close()
        before = server.rss()
        for _ in range(2000):
            Connection(server.port, revision).socket.close()
        each = (server.rss() - before) / 2000
        server.close()
        print(f"  {name:22} {each:6.1f} KiB per session")
        is_good = is_good and (name == SDK or each <= 6)
    print("  target: at most 6 KiB")
    return is_good


# --- growth -----------------------------------------------------------------------------------------------------------

# Each cost may grow by this factor from 100 items to the largest number: caches hold less of them, and the garbage
# collector visits more. A cost in proportion to the number would be 100 times and more.
MAX_GROWTH = 3.0


def growth() -> bool:
    """Print the CPU time per item for growing numbers of sessions and subscribers; return whether it stays flat."""
    is_good = True
    for mode, sizes, columns in (
        ("sessions", (1, 100, 1_000, 10_000, 50_000), ("open one more", "a call", "KiB each")),
        ("subscribers", (1, 100, 1_000, 10_000), ("notify a GET stream", "notify a subscriptions/listen")),
    ):
        print(f"\nGrowth, CPU of the server: {mode}")
        print(f"  {'number':>8} " + " ".join(f"{column:>30}" for column in columns))
        table: dict[int, list[float]] = {}
        for size in sizes:
            command = [sys.executable, str(PROGRAMS / "scale_http.py"), mode, str(size)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
            if done.returncode:
                raise SystemExit(f"{command} failed:\n{done.stderr[-2000:]}")
            table[size] = [float(number) for number in done.stdout.split()]
            cells = [format_seconds(value) for value in table[size][:2]] + [f"{k:.1f}" for k in table[size][2:]]
            print(f"  {size:>8,} " + " ".join(f"{cell:>30}" for cell in cells))
        worst = max(last / first for first, last in zip(table[100][:2], table[sizes[-1]][:2], strict=True))
        is_good = is_good and worst <= MAX_GROWTH
        print(f"  from 100 to {sizes[-1]:,}: x {worst:.2f}, target <= {MAX_GROWTH:g}")
    return is_good


# --- clients ----------------------------------------------------------------------------------------------------------

CLIENTS = {
    "jackstay": ("client_jackstay.py", None, 10000),
    "mcp 2.3.0": ("client_sdk_http.py", "mcp-2.3.0", 2000),
    "mcp 1.30.0": ("client_sdk_http.py", "mcp-1.30.0", 2000),
    "fastmcp 4.1.2": ("client_fastmcp.py", "fastmcp-4.1.2", 2000),
    "fastmcp 3.4.10": ("client_fastmcp.py", "fastmcp-3.4.10", 2000),
    "TypeScript 1.32.2": ("client_typescript.mjs", None, 5000),
}


def clients() -> bool:
    """Compare the CPU seconds of clients per call, with 32 calls in flight to the minimal ASGI app."""
    server = HttpServer(python("http_limit.py"), "httptools", "json")

    def sample(command: list[str], calls: int) -> Sample:
        def run() -> float:
            arguments = [*command, str(calls), str(CONNECTIONS), f"http://127.0.0.1:{server.port}/mcp"]
            done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=300)
            if done.returncode:
                raise SystemExit(f"{arguments} failed:\n{done.stderr[-2000:]}")
            return float(done.stdout.split()[1])

        return run

    programs = {}
    for name, (program, environment, calls) in CLIENTS.items():
        path = PROGRAMS / program
        command = node_of(path) if program.endswith(".mjs") else [python_of(environment), str(path)]
        if command:
            programs[name] = sample(command, calls)
    try:
        series = interleave(programs, rounds=ROUNDS)
    finally:
        server.close()
    print(f"\nClients over HTTP, {CONNECTIONS} in flight: CPU of the client per call")
    for name, measured in series.items():
        sdk = series["mcp 2.3.0"].middle / measured.middle
        spread = f"({format_seconds(min(measured.samples))} .. {format_seconds(max(measured.samples))})"
        print(f"  {name:22} {format_seconds(measured.middle):>9} {spread:>22}  {sdk:6.2f} x SDK")
    row = compare("jackstay to the SDK", series["jackstay"], series["mcp 2.3.0"], 1 / 1.5)
    return print_rows("target: at least 1.5 x the official SDK 2.3", [row])


def main() -> int:
    """Run and print all measurements. Returns the exit code."""
    print_platform()
    if not HAS_PEERS:
        results = [part("httptools", "json", "call", 4, 0.6), part("httptools", "sse", "call", 3.5, 0.55)]
        return 0 if all(results) else 1
    print("peers: " + ", ".join([*ENVIRONMENTS, TYPESCRIPT]))
    results = [
        part("h11", "json", "call", 2, 0.4),
        part("httptools", "json", "call", 4, 0.6),
        part("h11", "sse", "call", 3.5, 0),
        part("httptools", "sse", "call", 3.5, 0.55),
        part("httptools", "json", "list", 20, 0.6),
        print_sessions(),
        growth(),
        clients(),
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
