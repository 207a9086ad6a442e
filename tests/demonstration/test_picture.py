"""The pictures fit every screen and show every outcome."""

from itertools import product

from demo.ledger import Outcome
from demo.log import Mark, RunLog
from demo.picture import ASCII, STATES, UNICODE, Style, draw, is_consistent, summary, text_of
from demo.scenario import STEPS

from demonstration.run_logs import beginning, ending, outage

RUN_LOGS = [(beginning(), 0.0), (outage(), 12.0), (outage(), 500.0), (ending(), 20.0)]


def texts(log: RunLog, now: float, size: tuple[int, int] = (80, 24)) -> list[str]:
    return [text_of(row) for row in draw(log, now, size)]


def test_a_picture_is_never_larger_than_the_screen() -> None:
    sizes = product([1, 20, 40, 60, 79, 80, 81, 120, 300], [1, 9, 10, 20, 23, 24, 25, 60])
    for size, (log, now), glyphs in product(list(sizes), RUN_LOGS, (UNICODE, ASCII)):
        columns, lines = size
        rows = draw(log, now, size, glyphs)
        assert len(rows) <= lines, size
        assert all(len(text_of(row).rstrip()) <= columns for row in rows), size


def test_texts_fit_a_standard_screen() -> None:
    for step in STEPS:
        log = beginning()
        log.begin_step(0.0, step.head, step.detail)
        assert any(step.detail in row for row in texts(log, 0.0))
    assert not any("…" in row for row in texts(ending(), 20.0))


def test_the_current_state_is_in_brackets() -> None:
    for state in STATES:
        log = beginning()
        log.enter(1.0, state, 0)
        (row,) = [row for row in texts(log, 2.0) if f"[{state}]" in row]
        assert all(f" {other} " in row for other in STATES if other != state), state


def test_a_backoff_counts_down() -> None:
    log = outage()
    assert any("retry 3 in 2.0 s ████████████░░░░░░░░░░░░" in row for row in texts(log, 12.0))
    assert any("retry 3 in 0.0 s ░░░" in row for row in texts(log, 15.0))


def test_strips_show_every_outcome_at_its_time() -> None:
    rows = texts(outage(), 12.0)
    states = next(row for row in rows if row.startswith(" client's state"))[17:]
    lanes = [row[17:].rstrip() for row in rows if row.startswith((" pay", " read"))]
    assert states == "▒▒████████░░░"
    assert lanes == ["  ·•", "  ········×", "  ········?", "  ·········»", "     ········", "", ""]


def test_the_worse_of_two_outcomes_in_one_column_is_shown() -> None:
    log = beginning()
    for number, outcome in enumerate((Outcome.UNKNOWN, Outcome.OK, Outcome.FAILED)):
        log.begin(0, f"pay-0.{number}", 1.0)
        log.end(0, outcome, 1.5)
    assert next(row for row in texts(log, 2.0) if row.startswith(" pay"))[17:].rstrip() == " ?"


def test_a_long_run_scrolls() -> None:
    log = outage()
    for now, is_visible in ((12.0, True), (80.0, False)):
        assert any("×" in row for row in texts(log, now) if row.startswith(" pay")) is is_visible


def test_the_counts_are_the_legend() -> None:
    row = next(row for row in texts(outage(), 12.0) if row.startswith(" •"))
    assert row.startswith(" • 1 ok   ")
    assert all(f"{UNICODE.marks[mark]} 1" in row and mark.value in row for mark in list(Mark)[1:])


def test_the_comparison_is_shown_with_the_verdict() -> None:
    log = ending()
    rows = texts(log, 20.0)[-5:]
    assert [row.split()[:5] for row in rows[1:4]] == [
        ["ok", "3", "4", "0", "0"],
        ["failed", "1", "0", "0", "0"],
        ["unknown", "1", "0", "0", "0"],
    ]
    assert rows[-1] == "   All outcomes agree with the ledger. hung 0, processes left 0."
    assert is_consistent(log)


def test_violations_are_shown() -> None:
    for log, text in (
        (ending({"pay-0.0": 2, "pay-3.0": 1, "pay-4.0": 1}), "1 violations: pay-0.0 was ok and ran 2 times"),
        (ending({"pay-0.0": 1, "pay-1.0": 1, "pay-3.0": 1, "pay-4.0": 1}), "pay-1.0 was failed and ran 1"),
        (ending(hung=1), "hung 1"),
        (ending(left=2), "processes left 2"),
    ):
        last = draw(log, 20.0, (120, 30))[-1]
        assert text in text_of(last)
        assert "agree" not in text_of(last)
        assert last[0].style is Style.BAD
        if log.hung or log.left:
            assert not any("is gone" in row for row in texts(log, 20.0))
        assert not is_consistent(log)


def test_a_run_without_a_comparison_has_no_verdict() -> None:
    assert not is_consistent(outage())
    assert not any("agree" in row for row in texts(outage(), 12.0))


def test_the_summary_in_ascii() -> None:
    rows = [text_of(row) for row in summary(ending(), 20.0, 80, ASCII)]
    assert rows[0].startswith(" client's state")
    assert "All outcomes agree" in rows[-1]
    assert all(row.isascii() for row in rows)
