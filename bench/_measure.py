"""Measurement for all benchmarks: interleaved, in random order, in rounds, each program twice.

Only ratios of medians are compared. Each program also runs as its own control; the difference is the noise of the run.
A target counts as missed only if the difference is larger than the noise.
"""

import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import NamedTuple

Sample = Callable[[], float]

# Each program runs twice per round, and once before the first. ROUNDS in the environment: more for less noise, 1 for a
# quick check.
ROUNDS = int(os.environ.get("ROUNDS", "3"))


class Series(NamedTuple):
    """The samples of one program, and those of the same program run again as a control."""

    name: str
    samples: list[float]
    control: list[float]

    @property
    def middle(self) -> float:
        return median(self.samples + self.control)

    @property
    def noise(self) -> float:
        """The relative difference of the two medians: 0.1 is ten percent."""
        first, second = median(self.samples), median(self.control)
        return max(first, second) / min(first, second) - 1


class Row(NamedTuple):
    """One comparison: `measured` may take at most `target` times as long as `base`."""

    name: str
    measured: Series
    base: Series
    target: float
    ratio: float
    noise: float

    @property
    def is_met(self) -> bool:
        return self.ratio <= self.target

    @property
    def is_missed(self) -> bool:
        """True if the target is missed by more than the noise of the run."""
        return self.ratio / (1 + self.noise) > self.target


def cpu_time(function: Callable[[], object], number: int) -> Sample:
    """Return a sample of CPU seconds per call, over `number` calls. Other processes affect CPU time least."""

    def sample() -> float:
        started = time.process_time()
        for _ in range(number):
            function()
        return (time.process_time() - started) / number

    return sample


def import_time(statement: str) -> Sample:
    """Return a sample of the seconds of a statement in a new interpreter, without the start of the interpreter."""
    program = f"import time; started = time.perf_counter(); exec({statement!r}); print(time.perf_counter() - started)"

    def sample() -> float:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return float(done.stdout)

    return sample


def interleave(programs: dict[str, Sample], rounds: int = ROUNDS, seed: int = 0) -> dict[str, Series]:
    """Run every program twice per round, in random order, after a warm-up round that is not counted."""
    shuffle = random.Random(seed).shuffle
    series = {name: Series(name, [], []) for name in programs}
    for sample in programs.values():
        sample()
    for _ in range(rounds):
        turns = [(name, is_control) for name in programs for is_control in (False, True)]
        shuffle(turns)
        for name, is_control in turns:
            values = series[name].control if is_control else series[name].samples
            values.append(programs[name]())
    return series


def compare(name: str, measured: Series, base: Series, target: float) -> Row:
    """Compare the medians of `measured` and `base`."""
    return Row(name, measured, base, target, measured.middle / base.middle, max(measured.noise, base.noise))


def format_seconds(seconds: float) -> str:
    """Format a duration with three digits, such as `640 ns` or `1.42 ms`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def run_parts(parts: dict[str, Callable[[], bool]]) -> int:
    """Run the parts that are named on the command line, or all of them. Returns the exit code."""
    names = sys.argv[1:] or list(parts)
    if unknown := [name for name in names if name not in parts]:
        raise SystemExit(f"unknown part {unknown[0]!r}; valid parts: {', '.join(parts)}")
    print_platform()
    results = [parts[name]() for name in names]  # all of them run, whatever the first returns
    return 0 if all(results) else 1


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of all threads of a process, which the kernel counts in nanoseconds (not in `stat`)."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9


def print_platform() -> None:
    """Print the Python version, the machine and its load."""
    versions = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    date = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    print(f"{versions}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {date} UTC")


def print_rows(title: str, rows: Iterable[Row]) -> bool:
    """Print a table and return True if no row missed its target."""
    print(f"\n{title}")
    print(
        f"  {'':38} {'measured':>9} {'(min .. max)':>21} {'base':>9} {'(min .. max)':>21} {'ratio':>6} "
        f"{'target':>7} noise"
    )
    is_good = True
    for row in rows:
        verdict = "ok" if row.is_met else "MISSED" if row.is_missed else "within noise of the target"
        is_good = is_good and not row.is_missed
        print(
            f"  {row.name:38} {_spread(row.measured)} {_spread(row.base)} "
            f"{row.ratio:>6.2f} {'<= ' + format(row.target, 'g'):>7} {row.noise:>5.0%} {verdict}"
        )
    return is_good


def _spread(series: Series) -> str:
    samples = series.samples + series.control
    spread = f"({format_seconds(min(samples))} .. {format_seconds(max(samples))})"
    return f"{format_seconds(series.middle):>9} {spread:>21}"
