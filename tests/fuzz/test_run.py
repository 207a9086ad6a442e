"""The fuzz runner: it runs for a limited time, is reproducible, and finds known failures."""

import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from fuzz import run
from fuzz.run import MAX_FAILURES, MAX_INPUT, failure, main, mutate, run_entry, shorten


class Clock:
    """A clock that advances by a tenth of a second with each call."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.1
        return self.now


def reject_nul(data: bytes) -> None:
    """Fail for a NUL, and on another line for a DEL."""
    if b"\0" in data:
        raise ValueError("NUL")
    assert b"\x7f" not in data


def test_an_entry_runs_for_its_time() -> None:
    clock = Clock()
    outcome = run_entry("x", lambda data: None, [b"seed"], 60, random.Random(1), clock=clock)
    assert outcome.inputs == 600
    assert clock.now == pytest.approx(60.1)
    assert outcome.failures == ()
    assert str(outcome).split()[:3] == ["x", "ok", "600"]


def test_failures_are_found_shortened_and_counted_once_per_line() -> None:
    outcome = run_entry("x", reject_nul, [b"seed"], 600, random.Random(1), clock=Clock())
    found = dict(outcome.failures)
    assert set(found) == {b"\0", b"\x7f"}
    assert found[b"\0"].startswith("ValueError at test_run.py:")
    assert found[b"\x7f"].startswith("AssertionError at test_run.py:")
    assert "FAILED (2)" in str(outcome)


def test_an_entry_ends_after_too_many_failures() -> None:
    kinds = iter([KeyError, ValueError, TypeError, IndexError, OSError, AttributeError])

    def fuzz(data: bytes) -> None:
        raise next(kinds)

    outcome = run_entry("x", fuzz, [], 600, random.Random(1), clock=Clock())
    assert len(outcome.failures) == MAX_FAILURES


def test_shortening_keeps_the_failure() -> None:
    reason = failure(reject_nul, b"aaaa\0bbbb\x7f")
    assert shorten(reject_nul, b"aaaa\0bbbb\x7f", reason) == b"\0"
    assert failure(reject_nul, b"fine") == ""


def test_inputs_are_reproducible_and_limited() -> None:
    pool = [b"one", b"two" * 2000]
    made = [mutate(pool, random.Random(n)) for n in range(500)]
    assert made == [mutate(pool, random.Random(n)) for n in range(500)]
    assert max(map(len, made)) <= MAX_INPUT
    assert len(set(made)) > 400


def test_summary_lists_failures_and_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = {"fuzz_good": lambda data: None, "fuzz_bad": reject_nul}
    monkeypatch.setattr(run, "ENTRIES", [Path(name) for name in entries])
    monkeypatch.setattr(run, "load", lambda path: SimpleNamespace(fuzz=entries[path.stem], CORPUS=[b"\0\0"]))
    assert main(["--seconds", "0.05", "--seed", "1", "--keep", str(tmp_path / "kept")]) == 1
    shown = capsys.readouterr().out
    assert "--seed 1, 0.05 s for each of 2 entries" in shown
    assert "2 entries" in shown
    assert "1 failed" in shown
    assert "fuzz_bad: ValueError at" in shown
    assert [file.read_bytes() for file in (tmp_path / "kept").iterdir()] != []
    assert main(["--seconds", "0.05", "fuzz_good"]) == 0
    with pytest.raises(SystemExit):
        main(["fuzz_absent"])
    assert "unknown entry 'fuzz_absent'; valid entries: fuzz_good, fuzz_bad" in capsys.readouterr().err
