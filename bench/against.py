"""The plain server over stdio against that of another commit, in one interleaved run: CPU per call, memory, start.

`git archive COMMIT | tar x -C /tmp/base && python bench/against.py /tmp/base`. The other tree needs the same layout.
Exits with 1 if this tree needs more CPU, by more than the noise of the run. Not a part of `make bench`.
"""

import compileall
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from _measure import Series, compare, interleave, print_platform, print_rows
from _stdio import NEW, OLD, Server

ROUNDS = int(os.environ.get("ROUNDS", "15"))
CALLS = 640
IN_FLIGHT = 64


def start(tree: Path, revision: str) -> Server:
    os.environ["PYTHONPATH"] = str(tree / "packages/jackstay/src")
    server = Server([sys.executable, str(tree / "examples/echo.py")], revision)
    for _ in range(20):
        server.exchange([server.call() for _ in range(IN_FLIGHT)])
    return server


def calls(server: Server, in_flight: int) -> Callable[[], float]:
    def sample() -> float:
        before = server.cpu()
        for _ in range(CALLS // in_flight):
            server.exchange([server.call() for _ in range(in_flight)])
        return (server.cpu() - before) / CALLS

    return sample


def first_answer(tree: Path) -> Callable[[], float]:
    def sample() -> float:
        os.environ["PYTHONPATH"] = str(tree / "packages/jackstay/src")
        server = Server([sys.executable, str(tree / "examples/echo.py")], OLD)
        used = server.cpu()
        server.close()
        return used

    return sample


def main() -> int:
    trees = {"before": Path(sys.argv[1]).resolve(), "now": Path(__file__).resolve().parent.parent}
    for tree in trees.values():
        compileall.compile_dir(tree / "packages/jackstay/src", quiet=2)
    print_platform()
    servers = {(name, era): start(tree, era) for name, tree in trees.items() for era in (OLD, NEW)}
    rows = []
    try:
        for title, era, in_flight in (
            (f"CPU per call, {OLD}, one at a time", OLD, 1),
            (f"CPU per call, {OLD}, 64 in flight", OLD, IN_FLIGHT),
            (f"CPU per call, {NEW}, 64 in flight", NEW, IN_FLIGHT),
        ):
            found: dict[str, Series] = interleave(
                {name: calls(servers[name, era], in_flight) for name in trees}, rounds=ROUNDS
            )
            rows.append(compare(title, found["now"], found["before"], 1.0))
        found = interleave({name: first_answer(tree) for name, tree in trees.items()}, rounds=max(3, ROUNDS // 3))
        rows.append(compare("CPU until the first answer", found["now"], found["before"], 1.0))
        memory = {name: servers[name, OLD].rss() for name in trees}
    finally:
        for server in servers.values():
            server.close()
    is_good = print_rows("The plain server, now and before", rows)
    print(f"memory after the load: {memory['before']:.2f} MiB before, {memory['now']:.2f} MiB now")
    print(time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "UTC, load", os.getloadavg()[0])
    return 0 if is_good else 1


sys.exit(main())
