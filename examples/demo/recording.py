"""Renders the pictures of a run as one animated SVG, without scripts, fonts or external resources.

The screen is divided into tiles. A tile contains each of its pictures once, one below the other, and a CSS animation
moves them in steps. With reduced motion, the last picture is shown.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from demo.log import RunLog
from demo.picture import Style, draw, text_of

SIZE = (80, 24)
# Pictures per second: enough for a countdown, with less data than on a terminal.
RATE = 3.0
# How long the last picture stays before the animation repeats.
HOLD = 8.0
# A cell in pixels. Common monospaced fonts are 0.6 times as wide as high.
CELL = (9, 19)
FONT_SIZE = 15
BASELINE = 14
MARGIN = 14
# Widths of tiles to try; the smallest file is used.
TILES = (5, 8, 10, 16, 20)

# Name of the style: on light, on dark.
COLOURS = {
    "paper": ("#fbfbf9", "#14171c"),
    "frame": ("#d0d3d9", "#3a3f47"),
    Style.PLAIN.value: ("#2b2f36", "#d5d9df"),
    Style.FAINT.value: ("#737a85", "#828a96"),
    Style.HEAD.value: ("#0b0d10", "#ffffff"),
    Style.GOOD.value: ("#1a7f37", "#4ac26b"),
    Style.BAD.value: ("#c62828", "#ff7b72"),
    Style.WARNING.value: ("#9a6700", "#f2cc60"),
    Style.RETRIED.value: ("#0969da", "#6cb6ff"),
}
CLASSES = {
    Style.PLAIN: "",
    Style.FAINT: "f",
    Style.HEAD: "h",
    Style.GOOD: "g",
    Style.BAD: "b",
    Style.WARNING: "d",
    Style.RETRIED: "a",
}


class Cell(NamedTuple):
    """One character."""

    letter: str
    style: Style


BLANK = Cell(" ", Style.PLAIN)
# Characters that fill their cell are drawn as rectangles with this opacity, because fonts differ in their height.
BLOCKS = {"█": "", "▒": ".6", "░": ".3"}
Cells = tuple[Cell, ...]
# The cells of every row, and when they were drawn.
Frame = tuple[float, tuple[Cells, ...]]


class RecordingHandler:
    """Keeps the pictures of a run, a few per second."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def show(self, log: RunLog, now: float, *, must: bool = False) -> None:
        """Keep a picture, unless the last one is too recent. `must` keeps it in any case."""
        if self.frames and not must and now - self.frames[-1][0] < 1 / RATE:
            return
        rows = draw(log, now, SIZE)
        filled = [*rows, *([] for _ in range(SIZE[1] - len(rows)))]
        self.frames.append((now, tuple(_cells([(span.text, span.style) for span in row]) for row in filled)))


def _cells(spans: Sequence[tuple[str, Style]]) -> Cells:
    found = [Cell(letter, style) if letter != " " else BLANK for text, style in spans for letter in text]
    return tuple([*found, *[BLANK] * SIZE[0]][: SIZE[0]])


def describe(log: RunLog, now: float) -> str:
    """Return a description of the run, for accessibility."""
    heads = [line.text for line in log.lines if line.is_head]
    last = [text_of(row).strip() for row in draw(log, now, SIZE)[-6:]]
    return " ".join(" ".join(part.split()) for part in (*heads, *last) if part)


def render(frames: Sequence[Frame], title: str, description: str) -> str:
    """Return the SVG. `frames` are in order and not empty."""
    return min((_render(frames, title, description, tile) for tile in TILES), key=len)


def _render(frames: Sequence[Frame], title: str, description: str, tile: int) -> str:
    begin = frames[0][0]
    length = frames[-1][0] - begin + HOLD
    width, height = SIZE[0] * CELL[0] + 2 * MARGIN, SIZE[1] * CELL[1] + 2 * MARGIN
    rules: list[str] = []
    tiles: list[str] = []
    for row in range(SIZE[1]):
        for column in range(0, SIZE[0], tile):
            strip = [(at - begin, cells[row][column : column + tile]) for at, cells in frames]
            name = f"t{len(tiles)}"
            rule, drawn = _tile(name, strip, length, (MARGIN + column * CELL[0], MARGIN + row * CELL[1]))
            rules.append(rule)
            tiles.append(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-labelledby="title description">\n'
        f'<title id="title">{escape(title)}</title>\n<desc id="description">{escape(description)}</desc>\n'
        f"<style>\n{_style(length)}{''.join(filter(None, rules))}</style>\n"
        f'<rect class="paper" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>\n'
        f"{''.join(filter(None, tiles))}</svg>\n"
    )


def _style(length: float) -> str:
    """Return the CSS: colours of both schemes, fonts, animation."""

    def rules(scheme: int) -> str:
        named = {style.value: CLASSES[style] for style in Style}
        css = f".paper{{fill:{COLOURS['paper'][scheme]};stroke:{COLOURS['frame'][scheme]}}}"
        for name, short in named.items():
            selector = f".{short}" if short else "text"
            css += f"{selector}{{fill:{COLOURS[name][scheme]}}}"
        return css

    return (
        f'text{{font:{FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}}\n'
        f"{rules(0)}\n.h{{font-weight:bold}}\n"
        f"@media(prefers-color-scheme:dark){{{rules(1)}}}\n"
        f".s{{animation:{length:.2f}s step-end infinite}}\n"
        f"@media(prefers-reduced-motion:reduce){{.s{{animation:none!important}}}}\n"
    )


def _tile(name: str, strip: Sequence[tuple[float, Cells]], length: float, place: tuple[int, int]) -> tuple[str, str]:
    """Return the CSS rule of a tile (empty if it does not change) and its content."""
    pictures: dict[Cells, int] = {}
    changes: list[tuple[float, int]] = []
    for at, cells in strip:
        number = pictures.setdefault(cells, len(pictures))
        if not changes or changes[-1][1] != number:
            changes.append((at, number))
    x, y = place
    if len(pictures) == 1:
        return "", "".join(_texts(strip[0][1], x, y)) + "\n" if set(strip[0][1]) != {BLANK} else ""
    drawn = "".join(text for cells, number in pictures.items() for text in _texts(cells, 2, number * CELL[1]))
    steps = "".join(
        f"{100 * at / length:.2f}%{{transform:translateY({-number * CELL[1]}px)}}" for at, number in changes
    ).replace("translateY(0px)", "none")
    rest = changes[-1][1] * CELL[1]
    rule = f"#{name}{{transform:translateY(-{rest}px);animation-name:{name}}}@keyframes {name}{{{steps}}}\n"
    # A letter may exceed its cell a little: the window has two more pixels on both sides.
    window = f'x="{x - 2}" y="{y}" width="{len(strip[0][1]) * CELL[0] + 4}" height="{CELL[1]}"'
    return rule, f'<svg {window}><g class="s" id="{name}">{drawn}</g></svg>\n'


def _texts(cells: Cells, x: int, y: int) -> Iterator[str]:
    """Yield one element for each run of a style. `textLength` keeps the columns if a font has another width."""
    for start, run, style in _runs(cells):
        kind = f' class="{CLASSES[style]}"' if CLASSES[style] else ""
        left = x + start * CELL[0]
        if run[0] in BLOCKS:
            opacity = f' opacity="{BLOCKS[run[0]]}"' if BLOCKS[run[0]] else ""
            # Slightly wider than its cells, to avoid a seam between two tiles.
            size = f'width="{len(run) * CELL[0]}.6" height="{CELL[1] - 6}"'
            yield f'<rect x="{left}" y="{y + 3}" {size}{opacity}{kind}/>'
        else:
            length = f' textLength="{len(run) * CELL[0]}"' if len(run) > 1 else ""
            yield f'<text x="{left}" y="{y + BASELINE}"{length}{kind}>{escape(run, quote=False)}</text>'


def _runs(cells: Cells) -> Iterator[tuple[int, str, Style]]:
    """Yield (column, letters, style) of runs that are not blank. A single blank between words is part of a run."""
    start = 0
    while start < len(cells):
        kind, end = _kind(cells[start]), start
        for place in range(start + 1, len(cells) if kind else start):
            if _kind(cells[place]) == kind:
                end = place
            elif cells[place] != BLANK or place - end > 1 or cells[start].letter in BLOCKS:
                break
        if kind:
            yield start, "".join(cell.letter for cell in cells[start : end + 1]), cells[start].style
        start = end + 1


def _kind(cell: Cell) -> tuple[Style, str] | None:
    """Return what cells of one run have in common; None for a blank."""
    if cell == BLANK:
        return None
    return cell.style, cell.letter if cell.letter in BLOCKS else ""
