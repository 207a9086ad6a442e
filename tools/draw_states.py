"""Draw a Mermaid state diagram as SVG, so that the documentation site needs no script.

Every state is a column and every transition a row with its events, so that long labels cannot overlap. Only the subset
of Mermaid that `jackstay.protocol.drawing` writes is supported. Colours are left to the page.
"""

import re
import textwrap
from html import escape
from typing import NamedTuple

# Sizes in pixels. The width of a character is an estimate, because there is no font without a browser.
CHARACTER = 6.5
COLUMN = 119
BOX = (106, 30)
LINE = 16
GAP = 20
MARGIN = 8
# A label may be wider than its arrow up to this width; then it is wrapped.
LABEL_WIDTH = 380

ARROW = re.compile(r"^\s*(\S+) --> (\S+?)(?:: (.*))?$")


class DrawingError(Exception):
    """This diagram is not supported; the message names the line."""


class Arrow(NamedTuple):
    """A transition and its events."""

    source: str
    target: str
    events: tuple[str, ...]


class Diagram(NamedTuple):
    """A machine as it is drawn."""

    states: tuple[str, ...]
    arrows: tuple[Arrow, ...]
    starts: frozenset[str]
    finals: frozenset[str]


def read(text: str) -> Diagram:
    """Parse a `stateDiagram-v2`; states are in the order of their first use.

    Raises: DrawingError for anything else.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() != "stateDiagram-v2":
        raise DrawingError(f"only state diagrams can be drawn, not {lines[0] if lines else 'nothing'!r}")
    states: list[str] = []
    arrows: list[Arrow] = []
    starts: set[str] = set()
    finals: set[str] = set()
    for line in lines[1:]:
        found = ARROW.match(line)
        if found is None:
            raise DrawingError(f"not an arrow: {line.strip()!r}")
        source, target, label = found.groups()
        states.extend(name for name in (source, target) if name != "[*]" and name not in states)
        if source == "[*]":
            starts.add(target)
        elif target == "[*]":
            finals.add(source)
        else:
            arrows.append(Arrow(source, target, split_events(label or "")))
    return Diagram(tuple(states), tuple(arrows), frozenset(starts), frozenset(finals))


def split_events(label: str) -> tuple[str, ...]:
    """Split a label at commas, except inside a condition in brackets."""
    return tuple(part.strip() for part in re.split(r",(?![^\[]*\])", label) if part.strip())


def in_order(diagram: Diagram, states: tuple[str, ...]) -> Diagram:
    """Return the diagram with its columns in this order, and its arrows sorted."""
    place = {name: number for number, name in enumerate(states)}
    if set(place) != set(diagram.states):
        raise DrawingError(f"these are not its states: {sorted(place)}, but {sorted(diagram.states)}")
    arrows = sorted(
        diagram.arrows,
        key=lambda arrow: (place[arrow.source], abs(place[arrow.target] - place[arrow.source]), arrow.target),
    )
    return diagram._replace(states=states, arrows=tuple(arrows))


def draw(diagram: Diagram, name: str) -> str:
    """Return the diagram as one `svg` element without empty lines, for a Markdown page."""
    width = COLUMN * len(diagram.states) + 2 * MARGIN
    centre = {state: MARGIN + COLUMN * (number + 0.5) for number, state in enumerate(diagram.states)}
    rows: list[str] = []
    top: float = MARGIN + BOX[1] + GAP
    for arrow in diagram.arrows:
        drawn, height = draw_arrow(arrow, centre, top, width)
        rows.append(drawn)
        top += height
    bottom = int(top) + GAP // 2
    lifelines = "".join(
        f'<line class="lifeline" x1="{x:.0f}" y1="{MARGIN + BOX[1]}" x2="{x:.0f}" y2="{bottom}"/>\n'
        for x in centre.values()
    )
    boxes = "".join(
        draw_box(state, x, y, state in diagram.starts, state in diagram.finals)
        for y in (MARGIN, bottom)
        for state, x in centre.items()
    )
    description = "; ".join(f"{arrow.source} to {arrow.target}: {', '.join(arrow.events)}" for arrow in diagram.arrows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="machine" viewBox="0 0 {width} {bottom + BOX[1] + MARGIN}" '
        f'width="{width}" role="img" aria-labelledby="{name}-title {name}-description">\n'
        f'<title id="{name}-title">The state machine: {escape(name)}</title>\n'
        f'<desc id="{name}-description">{escape(description)}</desc>\n'
        f'<defs><marker id="{name}-tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        f'orient="auto">'
        '<path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>\n'
        + lifelines
        + "".join(rows).replace("url(#tip)", f"url(#{name}-tip)")
        + boxes
        + "</svg>\n"
    )


def draw_arrow(arrow: Arrow, centre: dict[str, float], top: float, width: float) -> tuple[str, float]:
    """Return one arrow with its label, and the height of both."""
    begin, end = centre[arrow.source], centre[arrow.target]
    span = abs(end - begin)
    lines = wrap(arrow.events, max(span, LABEL_WIDTH))
    widest = max(map(len, lines), default=0) * CHARACTER
    middle = min(max((begin + end) / 2, MARGIN + widest / 2), width - MARGIN - widest / 2)
    label = "".join(
        f'<text class="event" x="{middle:.0f}" y="{top + LINE * (number + 1) - 4:.0f}">{escape(line)}</text>\n'
        for number, line in enumerate(lines)
    )
    y = top + LINE * len(lines) + 5
    line = f'<line class="way" x1="{begin:.0f}" y1="{y:.0f}" x2="{end:.0f}" y2="{y:.0f}" marker-end="url(#tip)"/>\n'
    foot = f'<circle class="tip" cx="{begin:.0f}" cy="{y:.0f}" r="3"/>\n'
    return line + foot + label, LINE * len(lines) + 5 + GAP


def wrap(events: tuple[str, ...], width: float) -> list[str]:
    """Return the events as lines of at most this width."""
    most = int(width / CHARACTER)
    lines: list[str] = []
    for number, event in enumerate(events):
        text = event if number == len(events) - 1 else f"{event},"
        if lines and len(lines[-1]) + 1 + len(text) <= most:
            lines[-1] += f" {text}"
        else:
            lines.extend(textwrap.wrap(text, most))
    return lines


def draw_box(state: str, x: float, y: float, is_start: bool, is_final: bool) -> str:
    """Return a state: with a dot if it is initial, with a double frame if it is final."""
    wide, high = BOX
    left = x - wide / 2
    parts = [f'<rect class="state" x="{left:.0f}" y="{y:.0f}" width="{wide}" height="{high}" rx="8"/>\n']
    if is_final:
        parts.append(
            f'<rect class="state" x="{left + 3:.0f}" y="{y + 3:.0f}" width="{wide - 6}" height="{high - 6}" rx="5"/>\n'
        )
    if is_start:
        parts.append(f'<circle class="tip" cx="{left + 10:.0f}" cy="{y + high / 2:.0f}" r="4"/>\n')
    parts.append(f'<text class="name" x="{x:.0f}" y="{y + high / 2 + 5:.0f}">{escape(state)}</text>\n')
    return "".join(parts)
