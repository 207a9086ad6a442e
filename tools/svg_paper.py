"""Elements of the pictures in docs/pictures: background, boxes, arrows and text, for light and dark pages.

A picture has its own background, because a page may be dark while the system is light. Without access to fonts, the
width of text is estimated generously.
"""

import textwrap
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH = 900
NAME_SIZE, TEXT_SIZE = 18, 14
LINE = 18
# The width of a letter of running text, in pixels.
LETTER = 7.0

# class: (property, on light, on dark)
COLOURS = {
    "paper": ("fill:{};stroke:{}", ("#fbfbf9", "#d0d3d9"), ("#14171c", "#3a3f47")),
    "box": ("fill:{};stroke:{}", ("#eef1f5", "#8d96a3"), ("#232830", "#6b7480")),
    "good": ("fill:{};stroke:{}", ("#dcf3e2", "#1a7f37"), ("#16331f", "#4ac26b")),
    "bad": ("fill:{};stroke:{}", ("#fde5e3", "#c62828"), ("#3d1b1b", "#ff7b72")),
    "busy": ("fill:{};stroke:{}", ("#dfecfb", "#0969da"), ("#152a44", "#6cb6ff")),
    "name": ("fill:{}", ("#0b0d10",), ("#ffffff",)),
    "text": ("fill:{}", ("#3c424b",), ("#c5cad2",)),
    "faint": ("fill:{}", ("#6a717c",), ("#8f97a3",)),
    "line": ("fill:none;stroke:{}", ("#6a717c",), ("#8f97a3",)),
    "tip": ("fill:{}", ("#6a717c",), ("#8f97a3",)),
}


class Box(NamedTuple):
    """A rectangle by its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        """Its centre."""
        return self.x + self.width / 2, self.y + self.height / 2

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.y + self.height

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.x + self.width


def paper(height: float, title: str, description: str, drawn: Sequence[str]) -> str:
    """Return the whole picture."""

    def rules(scheme: int) -> str:
        return "".join(f".{name}{{{row[0].format(*row[1 + scheme])}}}" for name, row in COLOURS.items())

    style = (
        'text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}'
        f".name{{font-size:{NAME_SIZE}px;font-weight:600}}.text,.faint{{font-size:{TEXT_SIZE}px}}"
        f".line{{stroke-width:1.6}}{rules(0)}\n@media(prefers-color-scheme:dark){{{rules(1)}}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {number(height)}" width="{WIDTH}" '
        f'height="{number(height)}" role="img" aria-labelledby="title description">\n'
        f'<title id="title">{escape(title)}</title>\n<desc id="description">{escape(description)}</desc>\n'
        f"<style>{style}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="tip" d="M0 0.8 10 5 0 9.2z"/></marker></defs>\n'
        f'<rect class="paper" x=".5" y=".5" width="{WIDTH - 1}" height="{number(height - 1)}" rx="10"/>\n'
        + "".join(f"{part}\n" for part in drawn)
        + "</svg>\n"
    )


def number(value: float) -> str:
    """Return a coordinate in short form."""
    return f"{value:.1f}".removesuffix(".0")


def box(place: Box, kind: str = "box", *, is_double: bool = False) -> str:
    """Return a rectangle with round corners; `is_double` draws its edge twice."""
    drawn = _rectangle(place, kind)
    if is_double:
        inner = Box(place.x + 4, place.y + 4, place.width - 8, place.height - 8)
        drawn += _rectangle(inner, kind)
    return drawn


def _rectangle(place: Box, kind: str) -> str:
    x, y, width, height = map(number, place)
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="8" stroke-width="1.6"/>'


def arrow(path: str, way: str = "") -> str:
    """Return a line with an arrow head. `way` names what it connects, for scripts."""
    name = f' data-way="{way}"' if way else ""
    return f'<path class="line" d="{path}" marker-end="url(#tip)"{name}/>'


def letters(x: float, y: float, text: str, kind: str = "text", anchor: str = "start") -> str:
    """Return a line of text; `y` is the baseline."""
    place = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{kind}" x="{number(x)}" y="{number(y)}"{place}>{escape(text, quote=False)}</text>'


def paragraph(x: float, y: float, lines: Sequence[str], anchor: str = "start", kind: str = "text") -> list[str]:
    """Return lines of text below each other, the first at `y`."""
    return [letters(x, y + LINE * row, line, kind, anchor) for row, line in enumerate(lines)]


def wrapped(text: str, width: float) -> list[str]:
    """Wrap text to a width in pixels."""
    return textwrap.wrap(text, max(8, int(width / LETTER)), break_long_words=False)
