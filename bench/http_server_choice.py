"""Compare HTTP servers (docs/design/http-server-choice.md).

    python bench/http_server_choice.py        needs granian beside the usual environment

Every server runs the same ASGI app: the minimal one of `http_limit.py`, and Jackstay without sessions.
"""

import os
import sys
from pathlib import Path

from _load import OLD, Connection, HttpServer, seconds_each
from _measure import Sample, format_seconds, interleave, print_platform

PROGRAMS = Path(__file__).resolve().parent / "programs"
SERVERS = {
    "uvicorn": "uvicorn",
    "own": "the HTTP server of Server.run",
    "granian": "granian, embedded",
    "plain": "a plain protocol on httptools",
}
APPS = ("http_limit.py", "http_jackstay.py")
ROUNDS = int(os.environ.get("ROUNDS", "5"))
COUNT = int(os.environ.get("COUNT", "200"))
CONNECTIONS = 32


def load(app: str, server: str, walls: list[float]) -> Sample:
    """Return a sample of the CPU seconds of the server per request; the elapsed time is appended to `walls`."""

    def run() -> float:
        process = HttpServer([sys.executable, str(PROGRAMS / app), "PORT"], server, "json")
        try:
            connections = [Connection(process.port, OLD) for _ in range(CONNECTIONS)]
            call = {"name": "echo", "arguments": {"text": "hello"}}
            requests = [connection.request("tools/call", dict(call)) for connection in connections]
            seconds_each(connections, requests, COUNT // 5)
            before = process.cpu()
            walls.append(seconds_each(connections, requests, COUNT))
            return (process.cpu() - before) / (COUNT * CONNECTIONS)
        finally:
            process.close()

    return run


def main() -> None:
    print_platform()
    for app in APPS:
        walls: dict[str, list[float]] = {server: [] for server in SERVERS}
        series = interleave({server: load(app, server, walls[server]) for server in SERVERS}, rounds=ROUNDS)
        print(f"\n{app}: CPU of the server per request, requests per second, {CONNECTIONS} connections")
        for server, name in SERVERS.items():
            measured = series[server]
            spread = f"({format_seconds(min(measured.samples))} .. {format_seconds(max(measured.samples))})"
            ratio = series["uvicorn"].middle / measured.middle
            cpu, per_second = format_seconds(measured.middle), 1 / sorted(walls[server])[len(walls[server]) // 2]
            print(f"  {name:40} {cpu:>9} {spread:>22} {ratio:5.2f} x uvicorn {per_second:>9,.0f}/s")


if __name__ == "__main__":
    main()
