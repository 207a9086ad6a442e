"""The pictures of a run as one SVG that plays: without scripts, fonts or anything else from outside.

The screen is cut into tiles, a few columns of one row each. What a tile showed stands in it as a strip of pictures, one
below the other, each once; a CSS animation moves the strip, in steps, at the times at which the tile changed. So a cell
that never changes is written once, and a page animates some hundred tiles and not thousands of letters. The resting place
of every strip is its last picture: that is what is seen where motion is not wanted, or not supported.

Above: `__main__`. Below: `picture`, for what is drawn.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from demo.chronicle import Chronicle
from demo.picture import Style, draw, text_of

SIZE = (80, 24)
# Pictures a second: enough for a countdown, and half of the bytes of what a terminal gets.
RATE = 3.0
# How long the last picture stays before it begins again.
HOLD = 8.0
# A cell in pixels, and the letters in it: the usual monospaced fonts are 0.6 of their height wide.
CELL = (9, 19)
FONT_SIZE = 15
BASELINE = 14
MARGIN = 14
# Widths of tiles to try; the one that makes the smallest file is taken.
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
    Style.DOUBT.value: ("#9a6700", "#f2cc60"),
    Style.AGAIN.value: ("#0969da", "#6cb6ff"),
}
CLASSES = {
    Style.PLAIN: "",
    Style.FAINT: "f",
    Style.HEAD: "h",
    Style.GOOD: "g",
    Style.BAD: "b",
    Style.DOUBT: "d",
    Style.AGAIN: "a",
}


class Cell(NamedTuple):
    """One character."""

    letter: str
    style: Style


BLANK = Cell(" ", Style.PLAIN)
# Characters that fill their cell are drawn: in a font they are as high as it likes. The value is how opaque they are.
BLOCKS = {"█": "", "▒": ".6", "░": ".3"}
Cells = tuple[Cell, ...]
# The cells of every row, and when they were drawn.
Frame = tuple[float, tuple[Cells, ...]]


class Recorder:
    """Keeps the pictures of a run, a few a second."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def show(self, chronicle: Chronicle, now: float, *, must: bool = False) -> None:
        """Keep this moment, unless the last one was just now; `must`: keep it all the same."""
        if self.frames and not must and now - self.frames[-1][0] < 1 / RATE:
            return
        rows = draw(chronicle, now, SIZE)
        filled = [*rows, *([] for _ in range(SIZE[1] - len(rows)))]
        self.frames.append((now, tuple(_cells([(span.text, span.style) for span in row]) for row in filled)))


def _cells(spans: Sequence[tuple[str, Style]]) -> Cells:
    found = [Cell(letter, style) if letter != " " else BLANK for text, style in spans for letter in text]
    return tuple([*found, *[BLANK] * SIZE[0]][: SIZE[0]])


def describe(chronicle: Chronicle, now: float) -> str:
    """The story in words, for who cannot see it: its lines, and its last picture."""
    heads = [line.text for line in chronicle.lines if line.is_head]
    last = [text_of(row).strip() for row in draw(chronicle, now, SIZE)[-6:]]
    return " ".join(" ".join(part.split()) for part in (*heads, *last) if part)


def develop(frames: Sequence[Frame], title: str, description: str) -> str:
    """The whole film. `frames` are in order, and at least one."""
    return min((_develop(frames, title, description, tile) for tile in TILES), key=len)


def _develop(frames: Sequence[Frame], title: str, description: str, tile: int) -> str:
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
    """The colours of both schemes, the letters, and how strips move."""

    def rules(scheme: int) -> str:
        named = {style.value: CLASSES[style] for style in Style}
        said = f".paper{{fill:{COLOURS['paper'][scheme]};stroke:{COLOURS['frame'][scheme]}}}"
        for name, short in named.items():
            selector = f".{short}" if short else "text"
            said += f"{selector}{{fill:{COLOURS[name][scheme]}}}"
        return said

    return (
        f'text{{font:{FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}}\n'
        f"{rules(0)}\n.h{{font-weight:bold}}\n"
        f"@media(prefers-color-scheme:dark){{{rules(1)}}}\n"
        f".s{{animation:{length:.2f}s step-end infinite}}\n"
        f"@media(prefers-reduced-motion:reduce){{.s{{animation:none!important}}}}\n"
    )


def _tile(
    name: str, strip: Sequence[tuple[float, Cells]], length: float, place: tuple[int, int]
) -> tuple[str, str]:
    """The rule that moves a tile, empty where nothing does, and what stands in it."""
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
    # A letter may reach a little over its cell: the window has two pixels more on both sides.
    window = f'x="{x - 2}" y="{y}" width="{len(strip[0][1]) * CELL[0] + 4}" height="{CELL[1]}"'
    return rule, f'<svg {window}><g class="s" id="{name}">{drawn}</g></svg>\n'


def _texts(cells: Cells, x: int, y: int) -> Iterator[str]:
    """A picture: a text for each run of one style. `textLength` keeps columns where a font has another width."""
    for start, run, style in _runs(cells):
        kind = f' class="{CLASSES[style]}"' if CLASSES[style] else ""
        left = x + start * CELL[0]
        if run[0] in BLOCKS:
            opacity = f' opacity="{BLOCKS[run[0]]}"' if BLOCKS[run[0]] else ""
            # A little wider than its cells: no seam is seen between two tiles.
            size = f'width="{len(run) * CELL[0]}.6" height="{CELL[1] - 6}"'
            yield f'<rect x="{left}" y="{y + 3}" {size}{opacity}{kind}/>'
        else:
            length = f' textLength="{len(run) * CELL[0]}"' if len(run) > 1 else ""
            yield f'<text x="{left}" y="{y + BASELINE}"{length}{kind}>{escape(run, quote=False)}</text>'


def _runs(cells: Cells) -> Iterator[tuple[int, str, Style]]:
    """(column, letters, style) of what is not blank; a single blank between two words is part of the run."""
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
    """What may stand together in one run; None is blank."""
    if cell == BLANK:
        return None
    return cell.style, cell.letter if cell.letter in BLOCKS else ""
