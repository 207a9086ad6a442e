"""The documentation server over stdio, with registries of three sizes; under load; and the names that it knows.

    python bench/procontext.py        or: make bench ONLY=procontext

Exits with 1 if the best of all rounds misses a target, or if too few names are known.
"""

# `make search-quality` measures search.
# The registries repeat the bundled one with other names. Measured are the time from the start of the process to the
# response to `initialize`, the time of a call, and the size of the installed files. `public` is the public procontext
# 0.2.3 on the machine on which the targets were set.

import json
import os
import random
import string
import subprocess
import sys
import tempfile
import time
from importlib.metadata import distribution
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from packaging.requirements import Requirement

from _measure import format_seconds, print_platform

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = int(os.environ.get("ROUNDS", "5"))
CALLS = 50
SIZES = (1_000, 10_000, 100_000)


class Target(NamedTuple):
    """The maximum of a measurement, in seconds or MB, and the value of the public procontext."""

    name: str
    limit: float
    public: float


TARGETS = {
    ("start", 1_000): Target("start to initialize, 1k", 0.35, 1.6),
    ("start", 10_000): Target("start to initialize, 10k", 0.4, 2.6),
    ("start", 100_000): Target("start to initialize, 100k", 1.5, 19.3),
    ("exact", 1_000): Target("resolve, exact, 1k", 0.0003, 0.011),
    ("fuzzy", 1_000): Target("resolve, fuzzy, 1k", 0.001, 0.012),
    ("fuzzy", 10_000): Target("resolve, fuzzy, 10k", 0.003, 0.031),
    ("fuzzy", 100_000): Target("resolve, fuzzy, 100k", 0.015, 0.126),
    ("page", 1_000): Target("1 MB page, 50 lines of it", 0.001, 0.010),
    ("memory", 1_000): Target("memory, 1k (MB)", 60, 132),
    ("memory", 100_000): Target("memory, 100k (MB)", 300, 593),
    ("installed", 0): Target("installed (MB)", 60, 255),
}


def make_registry(size: int, file: Path) -> None:
    """Write a registry of this size: the bundled rows, then the same rows with other names."""
    bundled = json.loads(
        (ROOT / "packages/jackstay-procontext/src/procontext/registry/known-libraries.json").read_bytes()
    )["libraries"]
    rng = random.Random(size)
    rows = bundled[:size]
    while len(rows) < size:
        row = bundled[len(rows) % len(bundled)]
        suffix = "".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 8))) + str(len(rows))
        packages = {registry: [f"{name}-{suffix}" for name in names] for registry, names in row["packages"].items()}
        rows.append(
            {
                **row,
                "id": f"{row['id']}-{suffix}",
                "name": f"{row['name']} {suffix}",
                "packages": packages,
                "aliases": [],
            }
        )
    file.write_text(json.dumps({"version": "1", "libraries": rows}))


class Server:
    """`procontext` over stdio, with one request at a time."""

    def __init__(self, folder: Path, registry: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PROCONTEXT__")}
        environment["PROCONTEXT_CONFIG"] = str(folder / "settings.yaml")
        directories = {f"XDG_{kind}_HOME": str(folder / kind) for kind in ("CACHE", "DATA", "CONFIG")}
        started = time.perf_counter()
        self.child = subprocess.Popen(
            [sys.executable, "-m", "procontext"],
            cwd=folder,
            env={
                **environment,
                **directories,
                "PROCONTEXT__REGISTRY__PATH": str(registry),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        self.request("initialize", **params)
        self.start = time.perf_counter() - started
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def write(self, message: dict[str, Any]) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps(message).encode() + b"\n")
        self.child.stdin.flush()

    def request(self, method: str, **params: Any) -> bytes:
        assert self.child.stdout is not None
        self.write({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return self.child.stdout.readline()

    def seconds(self, name: str, **arguments: Any) -> float:
        """Return the median seconds of a call.

        The first call, which may wait for the registry, is not counted.
        """
        answer = self.request("tools/call", name=name, arguments=arguments)
        assert b'"isError":true' not in answer, answer[:500]
        durations = []
        for _ in range(CALLS):
            started = time.perf_counter()
            self.request("tools/call", name=name, arguments=arguments)
            durations.append(time.perf_counter() - started)
        return median(durations)

    def megabytes(self) -> float:
        lines = Path(f"/proc/{self.child.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    def end(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.close()
        self.child.wait(60)


def measure(folder: Path, size: int) -> dict[str, float]:
    """Start one process, and return one sample of each measurement."""
    server = Server(folder, folder / f"{size}.json")
    try:
        found = {
            "start": server.start,
            "exact": server.seconds("resolve_library", query="langchain-openai>=0.3"),
            "fuzzy": server.seconds("resolve_library", query="langchian-opnai"),
        }
        if size == SIZES[0]:
            url = "https://folder.procontext.invalid/large/page.md"
            found["page"] = server.seconds("read_page", url=url, offset=9000, limit=50)
        found["memory"] = server.megabytes()
        return found
    finally:
        server.end()


def installed() -> tuple[float, int]:
    """Return the size in MB of the package and its dependencies, and how many distributions they are."""
    sizes: dict[str, int] = {}
    wanted = [("jackstay-procontext", frozenset[str]())]
    while wanted:
        name, extras = wanted.pop()
        found = distribution(name)
        if name not in sizes:
            own = ROOT / "packages" / name / "src"  # installed from this tree, not as files
            files = [*own.rglob("*.*")] if own.exists() else map(found.locate_file, found.files or ())
            sizes[name] = sum(Path(str(file)).stat().st_size for file in files if Path(str(file)).is_file())
        for line in found.requires or ():
            need = Requirement(line)
            if any(need.marker is None or need.marker.evaluate({"extra": extra}) for extra in (*extras, "")):
                dependency = (need.name.lower(), frozenset(need.extras))
                if dependency[0] not in sizes or dependency[1]:
                    wanted.append(dependency)
    return sum(sizes.values()) / 1_048_576, len(sizes)


def main() -> int:
    """Measure in rounds, and compare the best samples with the targets. Returns the exit code."""
    print_platform()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "docs").mkdir()
        page = "\n".join(f"## Part {n}" if n % 50 == 0 else f"Line {n} " + "of text " * 7 for n in range(16_000))
        (folder / "docs" / "page.md").write_text(page)
        (folder / "settings.yaml").write_text("sources: [{id: large, path: ./docs}]\nfetcher: {offline: true}\n")
        for size in SIZES:
            make_registry(size, folder / f"{size}.json")
        samples: dict[tuple[str, int], list[float]] = {}
        for _ in range(ROUNDS):
            for size in SIZES:
                for measurement, value in measure(folder, size).items():
                    samples.setdefault((measurement, size), []).append(value)
    megabytes, distributions = installed()
    samples["installed", 0] = [megabytes]
    is_good = True
    print(f"\n  {'':28} {'best':>9} {'median':>9} {'target':>9} {'public':>9}")
    for key, target in TARGETS.items():
        best, middle = min(samples[key]), median(samples[key])
        show = (lambda value: f"{value:.0f} MB") if key[0] in ("memory", "installed") else format_seconds
        is_good = is_good and best <= target.limit
        verdict = "ok" if best <= target.limit else "MISSED"
        cells = " ".join(f"{show(value):>9}" for value in (best, middle, target.limit, target.public))
        print(f"  {target.name:28} {cells} {verdict}")
    print(f"  {distributions} distributions\n")
    for program in ("load.py", "names.py"):
        # As processes: in this one, `procontext` and `http` are files of this folder.
        command = [sys.executable, str(ROOT / "tests" / "search_quality" / program)]
        is_good &= subprocess.run(command, check=False).returncode == 0
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
