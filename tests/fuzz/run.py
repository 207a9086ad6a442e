"""Fuzz every entry in this directory for a fixed time each, in sequence, with mutations of its corpus.

    python tests/fuzz/run.py --seconds 600 [ENTRY ...]

Inputs are random; `--seed` repeats a run. An input that violates an invariant is shortened and written to `--keep`, and
the exit code is 1. Add it to the CORPUS of its entry.
"""

import argparse
import hashlib
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.test_fuzz import ENTRIES, PIECES, load

Fuzz = Callable[[bytes], None]

# Longer inputs only make a run slower, because the entries set lower limits for their parsers.
MAX_INPUT = 4096
# An entry ends after this many failures, because they mostly have one cause.
MAX_FAILURES = 3


class Outcome(NamedTuple):
    """The result of one entry. `slowest` is the longest time of one input, in seconds."""

    entry: str
    inputs: int
    slowest: float
    failures: tuple[tuple[bytes, str], ...]

    def __str__(self) -> str:
        state = "ok" if not self.failures else f"FAILED ({len(self.failures)})"
        return f"{self.entry:24} {state:12} {self.inputs:>10,} inputs, slowest {self.slowest * 1000:.1f} ms"


def mutate(pool: Sequence[bytes], rng: random.Random) -> bytes:
    """Return an input from the pool with a few changes: bytes, pieces, cuts, repetitions and parts of another input."""
    data = bytearray(rng.choice(pool))
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 4, 16)))
        match rng.randrange(7):
            case 0:
                data[at:end] = rng.randbytes(end - at)
            case 1:
                data[at:at] = rng.choice(PIECES)
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = data[at:end] * rng.choice((1, 2, 20))
            case 4:
                other = rng.choice(pool)
                begin = rng.randrange(len(other) + 1)
                data[at:] = other[begin:]
            case 5 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case _:
                data[at:end] = rng.choice(PIECES)
    return bytes(data[:MAX_INPUT])


def run_entry(
    entry: str,
    fuzz: Fuzz,
    corpus: Sequence[bytes],
    seconds: float,
    rng: random.Random,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Call `fuzz` with inputs until the time is over or there are too many failures."""
    pool = [*corpus, *PIECES, b""]
    failures: dict[str, bytes] = {}
    inputs, slowest, before = 0, 0.0, clock()
    ends_at = before + seconds
    while before < ends_at and len(failures) < MAX_FAILURES:
        data = pool[inputs] if inputs < len(pool) else mutate(pool, rng)
        reason = failure(fuzz, data)
        now = clock()
        inputs, slowest, before = inputs + 1, max(slowest, now - before), now
        if reason and reason not in failures:
            failures[reason] = shorten(fuzz, data, reason)
            before = clock()
    return Outcome(entry, inputs, slowest, tuple((data, reason) for reason, data in failures.items()))


def failure(fuzz: Fuzz, data: bytes) -> str:
    """Return the exception of `fuzz` for this input and its line; empty if there was none."""
    try:
        fuzz(data)
    except Exception as error:  # noqa: BLE001  # any exception violates the invariant
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = "?" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        return f"{type(error).__name__} at {where}"
    return ""


def shorten(fuzz: Fuzz, data: bytes, reason: str) -> bytes:
    """Return a shorter input that fails in the same way."""
    size = len(data) // 2
    while size:
        for at in range(0, len(data), size):
            shorter = data[:at] + data[at + size :]
            if len(shorter) < len(data) and failure(fuzz, shorter) == reason:
                data = shorter
                break
        else:
            size //= 2
    return data


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named entries, or all. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("entries", nargs="*", metavar="ENTRY", help="such as fuzz_sse (default: all)")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each entry")
    parser.add_argument("--seed", default=str(time.time_ns()), help="repeat the run that printed this value")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="the directory for failing inputs")
    options = parser.parse_args(arguments)
    selected = [path for path in ENTRIES if not options.entries or path.stem in options.entries]
    unknown = set(options.entries) - {path.stem for path in selected}
    if unknown:
        parser.error(f"unknown entry {min(unknown)!r}; valid entries: {', '.join(path.stem for path in ENTRIES)}")
    print(f"--seed {options.seed}, {options.seconds:g} s for each of {len(selected)} entries", flush=True)
    outcomes = []
    for path in selected:
        entry = load(path)
        rng = random.Random(f"{options.seed} {path.stem}")
        outcome = run_entry(path.stem, entry.fuzz, getattr(entry, "CORPUS", []), options.seconds, rng)
        outcomes.append(outcome)
        print(outcome, flush=True)
    failed = [outcome for outcome in outcomes if outcome.failures]
    print(f"{len(outcomes)} entries, {sum(outcome.inputs for outcome in outcomes):,} inputs, {len(failed)} failed")
    for outcome in failed:
        for data, reason in outcome.failures:
            options.keep.mkdir(parents=True, exist_ok=True)
            file = options.keep / f"{outcome.entry}-{hashlib.sha256(data).hexdigest()[:16]}"
            file.write_bytes(data)
            print(f"  {outcome.entry}: {reason} with {data[:200]!r} (complete input: {file})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
