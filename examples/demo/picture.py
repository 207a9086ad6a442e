"""Draws the log at a given time as rows of styled characters, for 80 x 24 and larger.

On a smaller screen the lower rows are missing. This module does not depend on terminals or SVG.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from demo.ledger import Comparison, Outcome
from demo.log import Lane, Mark, RunLog
from jackstay.protocol.drawing import MACHINES

STATES = tuple(str(state.value) for state in MACHINES["client"].states)

MIN_WIDTH, MAX_WIDTH = 40, 120
MIN_HEIGHT, MAX_HEIGHT = 10, 30
LABEL_WIDTH = 17
BAR_WIDTH = 24


class Style(Enum):
    """The meaning of a span."""

    PLAIN = "plain"
    FAINT = "faint"
    HEAD = "head"
    GOOD = "good"
    BAD = "bad"
    WARNING = "doubt"
    RETRIED = "again"


class Span(NamedTuple):
    """Characters of one style."""

    text: str
    style: Style = Style.PLAIN


class Glyphs(NamedTuple):
    """The characters of a picture that are not letters."""

    marks: dict[Mark, str]
    states: dict[str, str]
    arrow: str
    full: str
    empty: str
    more: str


UNICODE = Glyphs(
    marks={Mark.WAITING: "·", Mark.OK: "•", Mark.RETRIED: "»", Mark.FAILED: "×", Mark.UNKNOWN: "?"},
    states={"ready": "█", "initializing": "▒", "starting": "▒", "backoff": "░", "closing": "▒"},
    arrow="→",
    full="█",
    empty="░",
    more="…",
)
# For output without Unicode.
ASCII = Glyphs(
    marks={Mark.WAITING: ".", Mark.OK: "o", Mark.RETRIED: ">", Mark.FAILED: "x", Mark.UNKNOWN: "?"},
    states={"ready": "#", "initializing": "+", "starting": "+", "backoff": "-", "closing": "+"},
    arrow="->",
    full="#",
    empty="-",
    more="...",
)

MARK_STYLES = {
    Mark.WAITING: Style.FAINT,
    Mark.OK: Style.GOOD,
    Mark.RETRIED: Style.RETRIED,
    Mark.FAILED: Style.BAD,
    Mark.UNKNOWN: Style.WARNING,
}
STATE_STYLES = {
    "ready": Style.GOOD,
    "initializing": Style.RETRIED,
    "starting": Style.RETRIED,
    "backoff": Style.BAD,
    "closing": Style.RETRIED,
}
# Of several states in one column, the later one in this list is shown.
STATE_PRIORITY = ("closed", "new", "ready", "closing", "initializing", "starting", "backoff")

Row = list[Span]


def draw(log: RunLog, now: float, size: tuple[int, int], glyphs: Glyphs = UNICODE) -> list[Row]:
    """Return the rows of the picture, at most `size` (columns, lines)."""
    width = min(max(size[0], MIN_WIDTH), MAX_WIDTH)
    height = min(max(size[1], MIN_HEIGHT), MAX_HEIGHT)
    top: list[Row] = [_title(now, width), [], *_step_rows(log)]
    machine = [_machine(log, width, glyphs), _state_details(log, now, glyphs)]
    strips = _strips(log, now, width, glyphs)
    counts = _counts(log, width, glyphs)
    foot = _comparison_rows(log)
    # By priority: the essential rows, then the gaps, then the lines of the log.
    essential = [*top, *machine, *strips, *counts, *foot]
    free = height - len(essential)
    gaps = 4 if free >= 4 else 0
    lines = [] if foot else _lines(log, free - gaps)
    gap: list[Row] = [[]] if gaps else []
    rows = [*top, *gap, *machine, *gap, *strips, *gap, *counts, *gap, *foot, *lines]
    return [_cut(row, size[0], glyphs) for row in rows[: size[1]]]


def summary(log: RunLog, now: float, width: int, glyphs: Glyphs = UNICODE) -> list[Row]:
    """Return the final rows: strips, counts and comparison."""
    rows = [
        *_strips(log, now, width, glyphs),
        *_counts(log, width, glyphs),
        [],
        *_comparison_rows(log),
    ]
    return [_cut(row, width, glyphs) for row in rows]


def text_of(row: Row) -> str:
    """Return the characters of a row."""
    return "".join(span.text for span in row)


def _title(now: float, width: int) -> Row:
    name, about = "jackstay", "  a resilient client"
    seconds = f"{now:.0f} s"
    gap = " " * max(1, width - 2 - len(name) - len(about) - len(seconds))
    return [Span(" "), Span(name, Style.HEAD), Span(about), Span(gap), Span(seconds, Style.FAINT)]


def _step_rows(log: RunLog) -> list[Row]:
    number = f" {log.step}/{log.steps} " if log.step else "     "
    return [
        [Span(number, Style.FAINT), Span(log.head, Style.HEAD)],
        [Span("     "), Span(log.detail)],
    ]


def _machine(log: RunLog, width: int, glyphs: Glyphs) -> Row:
    """The states in a row, the current one in brackets."""
    row = [Span(" ")]
    for number, state in enumerate(STATES):
        is_present = state == log.state
        if number:
            row.append(Span(f" {glyphs.arrow} " if width > 72 else " ", Style.FAINT))
        if is_present:
            row.append(Span(f"[{state}]", STATE_STYLES.get(state, Style.HEAD)))
        else:
            row.append(Span(f" {state} ", Style.FAINT))
    return row


def _state_details(log: RunLog, now: float, glyphs: Glyphs) -> Row:
    """Details of the current state."""
    if log.state == "backoff" and log.wait is not None:
        begin, end = log.wait
        left = max(0.0, end - now)
        share = left / (end - begin) if end > begin else 0.0
        full = round(share * BAR_WIDTH)
        bar = glyphs.full * full + glyphs.empty * (BAR_WIDTH - full)
        return [Span(f"  retry {log.attempt} in {left:3.1f} s "), Span(bar, Style.BAD)]
    if log.state in ("starting", "initializing"):
        return [Span("  starting a server and negotiating the protocol")]
    if log.state == "ready":
        count = len(log.open_calls)
        text = f"  server {log.servers}, pid {log.pid}; {count} call{'' if count == 1 else 's'} open"
        return [Span(text)]
    if log.comparison is not None and not log.hung and not log.left:
        return [Span("  every call has ended, every process is gone")]
    return []


class Scale(NamedTuple):
    """The visible columns of a strip, and the seconds per column."""

    first: int
    end: int
    step: float

    def column(self, at: float) -> int:
        """Return the column of a time, visible or not."""
        return int(at / self.step)

    def columns(self, since: float, until: float) -> range:
        """Return the visible columns of a period."""
        return range(max(self.first, self.column(since)), min(self.end, self.column(until) + 1))


def _strips(log: RunLog, now: float, width: int, glyphs: Glyphs) -> list[Row]:
    """One row for the server and each caller. A run that is longer than expected scrolls."""
    columns = width - LABEL_WIDTH - 2
    step = log.seconds / columns
    end = int(now / step) + 1
    scale = Scale(max(0, end - columns), end, step)
    states = (
        Span(glyphs.states.get(state, " "), STATE_STYLES.get(state, Style.FAINT)) for state in _states(log, now, scale)
    )
    rows = [[Span(_label("client's state")), *_merged(states)]]
    for lane in log.lanes:
        marks = _marks(lane, now, scale)
        spans = (Span(glyphs.marks[mark], MARK_STYLES[mark]) if mark else Span(" ") for mark in marks)
        rows.append([Span(_label(lane.label)), *_merged(spans)])
    return rows


def _label(text: str) -> str:
    return f" {text:<{LABEL_WIDTH - 1}}"


def _states(log: RunLog, now: float, scale: Scale) -> list[str]:
    ends = [*(span.since for span in log.states[1:]), now]
    found = [STATE_PRIORITY[0]] * (scale.end - scale.first)
    for span, end in zip(log.states, ends, strict=True):
        for column in scale.columns(span.since, end):
            place = column - scale.first
            found[place] = max(found[place], span.state, key=STATE_PRIORITY.index)
    return found


def _marks(lane: Lane, now: float, scale: Scale) -> list[Mark | None]:
    order = (None, *Mark)
    found: list[Mark | None] = [None] * (scale.end - scale.first)
    calls = lane.calls if lane.open is None else [*lane.calls, (lane.open.since, now, Mark.WAITING)]
    for begin, end, mark in calls:
        for column in scale.columns(begin, end):
            place = column - scale.first
            shown = mark if column == scale.column(end) else Mark.WAITING
            found[place] = max(found[place], shown, key=order.index)
    return found


def _merged(spans: Iterable[Span]) -> Row:
    """Merge neighbours of the same style."""
    row: Row = []
    for span in spans:
        if row and row[-1].style is span.style:
            row[-1] = Span(row[-1].text + span.text, span.style)
        else:
            row.append(span)
    return row


def _counts(log: RunLog, width: int, glyphs: Glyphs) -> list[Row]:
    """The legend of the strips with the number of each outcome."""
    rows: list[Row] = [[Span(" ")]]
    for mark in (Mark.OK, Mark.RETRIED, Mark.FAILED, Mark.UNKNOWN):
        spans = [
            Span(f"{glyphs.marks[mark]} {log.counts[mark]}", MARK_STYLES[mark]),
            Span(f" {mark.value}   "),
        ]
        if len(text_of(rows[-1])) + len(text_of(spans).rstrip()) > width:
            rows.append([Span(" ")])
        rows[-1] += spans
    return rows


def _lines(log: RunLog, count: int) -> list[Row]:
    """The newest lines, oldest first."""
    lines = [line for line in log.lines if not line.is_head]
    shown = lines[-count:] if count > 0 else []
    return [[Span(f" {line.at:5.1f} s  ", Style.FAINT), Span(line.text)] for line in shown]


def _comparison_rows(log: RunLog) -> list[Row]:
    """Outcomes compared with the ledger, at the end of the run."""
    comparison = log.comparison
    if comparison is None:
        return []
    rows: list[Row] = [[Span(f"   {'outcome':<9}{'pay':>7}{'ran':>7}{'read':>10}{'ran':>7}", Style.FAINT)]]
    meaning = {
        Outcome.OK: ("once; retried, at most twice", Style.GOOD),
        Outcome.FAILED: ("never", Style.BAD),
        Outcome.UNKNOWN: ("at most once", Style.WARNING),
    }
    for outcome, (text, style) in meaning.items():
        pay, read = comparison.row("pay", outcome), comparison.row("read", outcome)
        figures = f"{pay.calls:7}{pay.ran:7}{read.calls:10}{read.ran:7}"
        rows.append([Span(f"   {outcome.value:<9}", style), Span(figures), Span(f"   {text}", Style.FAINT)])
    return [*rows, verdict(log, comparison)]


def verdict(log: RunLog, comparison: Comparison) -> Row:
    """The last line: whether all outcomes agree with the ledger."""
    left = f"hung {log.hung}, processes left {log.left}"
    if is_consistent(log):
        return [Span("   All outcomes agree with the ledger. ", Style.HEAD), Span(f"{left}.")]
    text = "; ".join(comparison.violations[:3]) or "some calls or processes did not end"
    return [Span(f"   {len(comparison.violations)} violations: {text}; {left}", Style.BAD)]


def is_consistent(log: RunLog) -> bool:
    """True if there are no violations, no hung calls and no processes left."""
    comparison = log.comparison
    return comparison is not None and not comparison.violations and not log.hung and not log.left


def _cut(row: Row, width: int, glyphs: Glyphs) -> Row:
    """Truncate a row to `width`, with an ellipsis."""
    if len(text_of(row).rstrip()) <= width:
        free, sign = width, ""
    else:
        sign = glyphs.more[:width]
        free = width - len(sign)
    kept: Row = []
    for span in row:
        if free <= 0:
            break
        kept.append(Span(span.text[:free], span.style))
        free -= len(span.text)
    return [*kept, Span(sign, Style.FAINT)] if sign else kept
