"""How a moment looks: rows of styled characters, made for 80 x 24 and larger; on a smaller screen the lower rows are missing.

A function of the chronicle and the time. It knows neither terminals nor SVG, only which spans of a row mean what.

Above: `terminal`, `film`. Below: `chronicle`; the client's machine, for the names of its states.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from demo.chronicle import Chronicle, Lane, Mark
from demo.ledger import Books, Told
from jackstay.protocol.drawing import MACHINES

STATES = tuple(str(state.value) for state in MACHINES["client"].states)

LEAST_WIDTH, MOST_WIDTH = 40, 120
LEAST_HEIGHT, MOST_HEIGHT = 10, 30
LABEL_WIDTH = 17
BAR_WIDTH = 24


class Style(Enum):
    """What a span means."""

    PLAIN = "plain"
    FAINT = "faint"
    HEAD = "head"
    GOOD = "good"
    BAD = "bad"
    DOUBT = "doubt"
    AGAIN = "again"


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
    marks={Mark.WAITING: "·", Mark.OK: "•", Mark.SENT_AGAIN: "»", Mark.FAILED: "×", Mark.UNKNOWN: "?"},
    states={"ready": "█", "initializing": "▒", "starting": "▒", "backoff": "░", "closing": "▒"},
    arrow="→",
    full="█",
    empty="░",
    more="…",
)
# Where the output cannot say more.
ASCII = Glyphs(
    marks={Mark.WAITING: ".", Mark.OK: "o", Mark.SENT_AGAIN: ">", Mark.FAILED: "x", Mark.UNKNOWN: "?"},
    states={"ready": "#", "initializing": "+", "starting": "+", "backoff": "-", "closing": "+"},
    arrow="->",
    full="#",
    empty="-",
    more="...",
)

MARK_STYLES = {
    Mark.WAITING: Style.FAINT,
    Mark.OK: Style.GOOD,
    Mark.SENT_AGAIN: Style.AGAIN,
    Mark.FAILED: Style.BAD,
    Mark.UNKNOWN: Style.DOUBT,
}
STATE_STYLES = {
    "ready": Style.GOOD,
    "initializing": Style.AGAIN,
    "starting": Style.AGAIN,
    "backoff": Style.BAD,
    "closing": Style.AGAIN,
}
# Of several states in one column of a strip the one that tells most: the later in this list.
TELLING = ("closed", "new", "ready", "closing", "initializing", "starting", "backoff")

Row = list[Span]


def draw(chronicle: Chronicle, now: float, size: tuple[int, int], glyphs: Glyphs = UNICODE) -> list[Row]:
    """The moment, in at most `size` (columns, lines): every row fits, and there are never more rows."""
    width = min(max(size[0], LEAST_WIDTH), MOST_WIDTH)
    height = min(max(size[1], LEAST_HEIGHT), MOST_HEIGHT)
    top: list[Row] = [_title(now, width), [], *_narration(chronicle)]
    machine = [_machine(chronicle, width, glyphs), _standing(chronicle, now, glyphs)]
    strips = _strips(chronicle, now, width, glyphs)
    counts = _counts(chronicle, width, glyphs)
    foot = _books(chronicle)
    # What is there in a small window, by worth: the rows above all, then the distances, then the lines.
    essential = [*top, *machine, *strips, *counts, *foot]
    room = height - len(essential)
    gaps = 4 if room >= 4 else 0
    lines = [] if foot else _lines(chronicle, room - gaps)
    gap: list[Row] = [[]] if gaps else []
    rows = [*top, *gap, *machine, *gap, *strips, *gap, *counts, *gap, *foot, *lines]
    return [_cut(row, size[0], glyphs) for row in rows[: size[1]]]


def summary(chronicle: Chronicle, now: float, width: int, glyphs: Glyphs = UNICODE) -> list[Row]:
    """What stays when the story is over: the strips, the counts and the books."""
    rows = [
        *_strips(chronicle, now, width, glyphs),
        *_counts(chronicle, width, glyphs),
        [],
        *_books(chronicle),
    ]
    return [_cut(row, width, glyphs) for row in rows]


def text_of(row: Row) -> str:
    """The characters of a row alone."""
    return "".join(span.text for span in row)


def _title(now: float, width: int) -> Row:
    name, about = "jackstay", "  a client that holds"
    seconds = f"{now:.0f} s"
    gap = " " * max(1, width - 2 - len(name) - len(about) - len(seconds))
    return [Span(" "), Span(name, Style.HEAD), Span(about), Span(gap), Span(seconds, Style.FAINT)]


def _narration(chronicle: Chronicle) -> list[Row]:
    number = f" {chronicle.scene}/{chronicle.scenes} " if chronicle.scene else "     "
    return [
        [Span(number, Style.FAINT), Span(chronicle.head, Style.HEAD)],
        [Span("     "), Span(chronicle.detail)],
    ]


def _machine(chronicle: Chronicle, width: int, glyphs: Glyphs) -> Row:
    """The states in a row, the present one in brackets."""
    row = [Span(" ")]
    for number, state in enumerate(STATES):
        is_present = state == chronicle.state
        if number:
            row.append(Span(f" {glyphs.arrow} " if width > 72 else " ", Style.FAINT))
        if is_present:
            row.append(Span(f"[{state}]", STATE_STYLES.get(state, Style.HEAD)))
        else:
            row.append(Span(f" {state} ", Style.FAINT))
    return row


def _standing(chronicle: Chronicle, now: float, glyphs: Glyphs) -> Row:
    """What the present state means just now."""
    if chronicle.state == "backoff" and chronicle.wait is not None:
        begin, end = chronicle.wait
        left = max(0.0, end - now)
        share = left / (end - begin) if end > begin else 0.0
        full = round(share * BAR_WIDTH)
        bar = glyphs.full * full + glyphs.empty * (BAR_WIDTH - full)
        return [Span(f"  retry {chronicle.attempt} in {left:3.1f} s "), Span(bar, Style.BAD)]
    if chronicle.state in ("starting", "initializing"):
        return [Span("  a server is started, and asked what it speaks")]
    if chronicle.state == "ready":
        count = len(chronicle.open_calls)
        said = (
            f"  server {chronicle.servers}, pid {chronicle.pid}; {count} call{'' if count == 1 else 's'} open"
        )
        return [Span(said)]
    if chronicle.books is not None and not chronicle.hung and not chronicle.left:
        return [Span("  every call has ended, every process is gone")]
    return []


class Scale(NamedTuple):
    """Which columns of a strip there are, and how many seconds each stands for."""

    first: int
    end: int
    step: float

    def column(self, at: float) -> int:
        """The column of that time, whether it is shown or not."""
        return int(at / self.step)

    def columns(self, since: float, until: float) -> range:
        """The columns that are shown of a time, the last included."""
        return range(max(self.first, self.column(since)), min(self.end, self.column(until) + 1))


def _strips(chronicle: Chronicle, now: float, width: int, glyphs: Glyphs) -> list[Row]:
    """The server and every caller, a column a moment: the whole story fits, and what is longer moves on."""
    columns = width - LABEL_WIDTH - 2
    step = chronicle.seconds / columns
    end = int(now / step) + 1
    scale = Scale(max(0, end - columns), end, step)
    states = (
        Span(glyphs.states.get(state, " "), STATE_STYLES.get(state, Style.FAINT))
        for state in _states(chronicle, now, scale)
    )
    rows = [[Span(_label("client's state")), *_merged(states)]]
    for lane in chronicle.lanes:
        marks = _marks(lane, now, scale)
        spans = (Span(glyphs.marks[mark], MARK_STYLES[mark]) if mark else Span(" ") for mark in marks)
        rows.append([Span(_label(lane.label)), *_merged(spans)])
    return rows


def _label(text: str) -> str:
    return f" {text:<{LABEL_WIDTH - 1}}"


def _states(chronicle: Chronicle, now: float, scale: Scale) -> list[str]:
    ends = [*(stay.since for stay in chronicle.states[1:]), now]
    found = [TELLING[0]] * (scale.end - scale.first)
    for stay, end in zip(chronicle.states, ends, strict=True):
        for column in scale.columns(stay.since, end):
            place = column - scale.first
            found[place] = max(found[place], stay.state, key=TELLING.index)
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
    """Neighbours of one style as one span."""
    row: Row = []
    for span in spans:
        if row and row[-1].style is span.style:
            row[-1] = Span(row[-1].text + span.text, span.style)
        else:
            row.append(span)
    return row


def _counts(chronicle: Chronicle, width: int, glyphs: Glyphs) -> list[Row]:
    """Every kind of outcome with its mark: the legend of the strips, and how many there were."""
    rows: list[Row] = [[Span(" ")]]
    for mark in (Mark.OK, Mark.SENT_AGAIN, Mark.FAILED, Mark.UNKNOWN):
        spans = [
            Span(f"{glyphs.marks[mark]} {chronicle.counts[mark]}", MARK_STYLES[mark]),
            Span(f" {mark.value}   "),
        ]
        if len(text_of(rows[-1])) + len(text_of(spans).rstrip()) > width:
            rows.append([Span(" ")])
        rows[-1] += spans
    return rows


def _lines(chronicle: Chronicle, most: int) -> list[Row]:
    """The newest lines, oldest first."""
    lines = [line for line in chronicle.lines if not line.is_head]
    shown = lines[-most:] if most > 0 else []
    return [[Span(f" {line.at:5.1f} s  ", Style.FAINT), Span(line.text)] for line in shown]


def _books(chronicle: Chronicle) -> list[Row]:
    """What was told beside what ran, once that is known."""
    books = chronicle.books
    if books is None:
        return []
    rows: list[Row] = [[Span(f"   {'told':<9}{'pay':>7}{'ran':>7}{'look':>10}{'ran':>7}", Style.FAINT)]]
    meaning = {
        Told.OK: ("once; sent again, at most twice", Style.GOOD),
        Told.FAILED: ("never", Style.BAD),
        Told.UNKNOWN: ("at most once", Style.DOUBT),
    }
    for told, (said, style) in meaning.items():
        pay, look = books.row("pay", told), books.row("look", told)
        figures = f"{pay.calls:7}{pay.ran:7}{look.calls:10}{look.ran:7}"
        rows.append([Span(f"   {told.value:<9}", style), Span(figures), Span(f"   {said}", Style.FAINT)])
    return [*rows, verdict(chronicle, books)]


def verdict(chronicle: Chronicle, books: Books) -> Row:
    """The last line: whether everybody was told the truth."""
    left = f"hung {chronicle.hung}, processes left {chronicle.left}"
    if is_held(chronicle):
        return [Span("   Everybody was told the truth. ", Style.HEAD), Span(f"{left}.")]
    untrue = "; ".join(books.untruths[:3]) or "not everything ended"
    return [Span(f"   {len(books.untruths)} untruths: {untrue}; {left}", Style.BAD)]


def is_held(chronicle: Chronicle) -> bool:
    """True where the books agree, nobody hangs and nothing is left."""
    books = chronicle.books
    return books is not None and not books.untruths and not chronicle.hung and not chronicle.left


def _cut(row: Row, width: int, glyphs: Glyphs) -> Row:
    """The row, no longer than `width`; what is cut off leaves a sign."""
    if len(text_of(row).rstrip()) <= width:
        room, sign = width, ""
    else:
        sign = glyphs.more[:width]
        room = width - len(sign)
    kept: Row = []
    for span in row:
        if room <= 0:
            break
        kept.append(Span(span.text[:room], span.style))
        room -= len(span.text)
    return [*kept, Span(sign, Style.FAINT)] if sign else kept
