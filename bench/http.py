"""Servers and clients over HTTP, Jackstay and other libraries, under the same load, in one interleaved run.

    python bench/http.py [json | sse | list | h11 | sessions | growth | clients]        or: make bench ONLY=http

Exits with 1 if a target is missed by more than the noise of the run.
"""

# Servers: 32 keep-alive connections with one request in flight each. "Limit" is a minimal ASGI app on uvicorn with h11,
# and with httptools and uvloop; the other libraries run on the same uvicorn, and Jackstay as `server.run()` serves it
# with the same parser and event loop. The CPU seconds of the server per call are compared.

import subprocess
import sys
import time
from pathlib import Path

from _load import NEW, OLD, Connection, HttpServer, seconds_each
from _measure import Sample, Series, compare, format_seconds, interleave, print_rows, run_parts
from _peers import is_measured, node_of, python_of

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
CONNECTIONS = 32


def python(program: str, environment: str | None = None) -> list[str]:
    return [python_of(environment), str(PROGRAMS / program), "PORT"]


# name -> (command, revision)
SERVERS: dict[str, tuple[list[str], str]] = {
    "limit": (python("http_limit.py"), OLD),
    "limit, 2026-07-28": (python("http_limit.py"), NEW),
    "jackstay": (python("http_jackstay.py"), OLD),
    "jackstay, 2026-07-28": (python("http_jackstay.py"), NEW),
    "jackstay, sessions": (python("http_jackstay.py"), OLD),
}
# name -> (program, environment, revision)
PEERS = {
    "mcp 2.3.0, low level": ("http_sdk_2.py", "mcp-2.3.0", OLD),
    "mcp 2.3.0, 2026-07-28": ("http_sdk_2.py", "mcp-2.3.0", NEW),
    "mcp 1.30.0, low level": ("http_sdk_1.py", "mcp-1.30.0", OLD),
    "fastmcp 4.1.2": ("http_fastmcp.py", "fastmcp-4.1.2", OLD),
    "fastmcp 3.4.10": ("http_fastmcp.py", "fastmcp-3.4.10", OLD),
}
for peer, (program, environment, revision) in PEERS.items():
    if is_measured(peer):
        SERVERS[peer] = (python(program, environment), revision)
TYPESCRIPT_NAME = "TypeScript 1.32.2"
if is_measured(TYPESCRIPT_NAME) and (typescript := node_of(PROGRAMS / "http_typescript.mjs")):
    SERVERS[TYPESCRIPT_NAME] = ([*typescript, "PORT"], OLD)
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
    warm_seconds = 3.0 if name.startswith("TypeScript") else 0.0

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


def limit_of(name: str) -> str:
    """Return the limit with the revision of this program."""
    return "limit, 2026-07-28" if SERVERS[name][1] == NEW else "limit"


def print_speeds(title: str, series: dict[str, Series]) -> None:
    """Print the CPU time of every program, also relative to the limit and to the SDK."""
    print(f"\n{title}: CPU of the server per request")
    for name, measured in series.items():
        limit = series[limit_of(name)].middle / measured.middle
        sdk = f"  {series[SDK].middle / measured.middle:6.2f} x SDK" if SDK in series else ""
        spread = f"({format_seconds(min(measured.samples))} .. {format_seconds(max(measured.samples))})"
        seconds = format_seconds(measured.middle)
        print(f"  {name:22} {seconds:>9} {spread:>22}  {limit:5.2f} of limit{sdk}")


def part(parser: str, response_format: str, kind: str, over_sdk: float, of_limit: float) -> bool:
    """Run and print one part. Returns whether the speed relative to the SDK and to the limit is reached."""
    names = [
        name for name in SERVERS if not name.startswith("TypeScript") or (parser == "httptools" and kind == "call")
    ]
    if parser == "h11":  # only what the targets compare
        names = [name for name in names if name.startswith(("limit", "jackstay")) or name in JUDGED.values()]
    series = interleave({name: load(name, parser, response_format, kind) for name in names})
    title = {"call": f"HTTP {response_format.upper()}, {CONNECTIONS} connections", "list": "tools/list of 100"}[kind]
    print_speeds(f"{title}, {parser}", series)
    rows = []
    for name, peer in JUDGED.items():
        if peer in series:
            rows.append(compare(f"{name} to the SDK", series[name], series[peer], 1 / over_sdk))
        if of_limit:
            # The limit has no sessions, and checks no headers, which 2026-07-28 requires.
            share = of_limit if name == "jackstay" else min(of_limit, 0.4)
            rows.append(compare(f"{name} to the limit", series[name], series[limit_of(name)], 1 / share))
    return print_rows(f"targets: {over_sdk:g} x SDK, {of_limit:.2g} of limit", rows)


def print_sessions() -> bool:
    """Print the memory of a session without an open stream; return whether the target is met."""
    print("\nIdle sessions")
    is_good = True
    for name in ("jackstay, sessions", SDK):
        if name not in SERVERS:
            continue
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
        if not is_measured(name):
            continue
        command = node_of(path) if program.endswith(".mjs") else [python_of(environment), str(path)]
        if command:
            programs[name] = sample(command, calls)
    try:
        series = interleave(programs)
    finally:
        server.close()
    print(f"\nClients over HTTP, {CONNECTIONS} in flight: CPU of the client per call")
    for name, measured in series.items():
        sdk = f"  {series['mcp 2.3.0'].middle / measured.middle:6.2f} x SDK" if "mcp 2.3.0" in series else ""
        spread = f"({format_seconds(min(measured.samples))} .. {format_seconds(max(measured.samples))})"
        print(f"  {name:22} {format_seconds(measured.middle):>9} {spread:>22}{sdk}")
    if "mcp 2.3.0" not in series:
        return True
    row = compare("jackstay to the SDK", series["jackstay"], series["mcp 2.3.0"], 1 / 10)
    return print_rows("target: at least 10 x the official SDK 2.3", [row])


if __name__ == "__main__":
    sys.exit(
        run_parts(
            {
                "json": lambda: part("httptools", "json", "call", 4, 0.6),
                "sse": lambda: part("httptools", "sse", "call", 3.5, 0.55),
                "list": lambda: part("httptools", "json", "list", 20, 0.6),
                "h11": lambda: all([part("h11", "json", "call", 2, 0.4), part("h11", "sse", "call", 3.5, 0)]),
                "sessions": print_sessions,
                "growth": growth,
                "clients": clients,
            }
        )
    )
