"""Draw the layers and their allowed imports, from the map in tests/test_layers.py.

A layer is drawn above those that it may import from; indirect imports have no arrow. Positions, order and arrows are
computed, so the map may change.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from random import Random

from svg_paper import LINE, WIDTH, Box, arrow, box, letters, number, paper, paragraph, wrapped

Map = Mapping[str, tuple[str, ...]]
# The boxes of a row, from left to right; a pair is an arrow that passes through the row.
Slot = str | tuple[str, str]
Layers = list[list[Slot]]

MARGIN = 32
GAP = 20
BETWEEN = 46
SLAB = 46
PASSAGE = 12
# How many initial orders the search for the fewest crossings tries. They are random with a fixed seed, so that the
# picture is reproducible.
INITIAL_ORDERS = 60


def draw_layers(layers: Map, captions: Mapping[str, str]) -> str:
    """Return the picture. `layers` maps each layer to those it may import from; `captions` has a few words for each."""
    imports = _reduced(layers)
    beside = _beside(imports)
    drawn = {layer: tuple(b for b in below if b not in beside) for layer, below in imports.items()}
    drawn = {layer: below for layer, below in drawn.items() if layer not in beside}
    rows = _ordered(_layers(drawn), drawn)
    places, height = _places(rows, captions)
    parts = [*_boxes(places, captions), *_arrows(rows, drawn, places)]
    notes = ["An arrow leads to a layer that may be imported; nothing imports upwards."]
    for layer in sorted(beside):
        users = ", ".join(user for user, below in imports.items() if layer in below)
        notes.append(f"Not shown above: {layer} ({_short(captions.get(layer, ''))}), used by {users}.")
    parts += paragraph(WIDTH / 2, height, notes, "middle", "faint")
    description = "; ".join(f"{layer} imports {', '.join(below)}" for layer, below in imports.items() if below)
    bottom = height + LINE * len(notes) + 6
    return paper(bottom, "The layers of jackstay: imports go downwards only", description, parts)


def _short(caption: str) -> str:
    """Return the first part of a caption."""
    return re.split(r"[,;:(]", caption)[0].strip()


# --- layout -----------------------------------------------------------------------------------------------------------


def _reduced(layers: Map) -> dict[str, tuple[str, ...]]:
    """Remove arrows that are implied by other paths."""

    def reach(layer: str) -> set[str]:
        return {found for below in layers[layer] for found in (below, *reach(below))}

    return {
        layer: tuple(
            below
            for below in belows
            if below in layers and not any(below in reach(other) for other in belows if other != below)
        )
        for layer, belows in layers.items()
    }


def _beside(imports: Map) -> set[str]:
    """Return layers without imports that are not the base layer."""

    def above(layer: str) -> set[str]:
        users = {user for user, below in imports.items() if layer in below}
        return users.union(*(above(user) for user in users))

    grounds = [layer for layer, below in imports.items() if not below]
    ground = max(grounds, key=lambda layer: len(above(layer)))
    return set(grounds) - {ground}


def _layers(drawn: Map) -> Layers:
    """Return rows of layers by their longest path to the base; arrows over several rows pass through those between."""

    def level(layer: str) -> int:
        return 1 + max((level(below) for below in drawn[layer]), default=-1)

    layers: Layers = [[] for _ in range(1 + max(map(level, drawn)))]
    for layer in drawn:
        layers[level(layer)].append(layer)
    for layer, belows in drawn.items():
        for below in belows:
            for between in range(level(below) + 1, level(layer)):
                layers[between].append((layer, below))
    return layers


def _steps(upper: Sequence[Slot], lower: Sequence[Slot], drawn: Map) -> list[tuple[int, int]]:
    """Return the arrows between two adjacent rows, by index."""
    found = []
    for high, slot in enumerate(upper):
        for low, other in enumerate(lower):
            target = other if isinstance(other, str) else other[1]
            if isinstance(slot, str):
                if target in drawn[slot] and (isinstance(other, str) or other[0] == slot):
                    found.append((high, low))
            elif slot in (other, (slot[0], other)):
                found.append((high, low))
    return found


def _badness(layers: Layers, drawn: Map) -> tuple[int, float]:
    """Return how many arrows cross, and how far they lean."""
    crossed, lean = 0, 0.0
    for lower, upper in pairwise(layers):
        steps = _steps(upper, lower, drawn)
        crossed += sum((a - c) * (b - d) < 0 for place, (a, b) in enumerate(steps) for c, d in steps[place + 1 :])
        lean += sum(abs((a + 0.5) / len(upper) - (b + 0.5) / len(lower)) for a, b in steps)
    return crossed, round(lean, 6)


def _ordered(layers: Layers, drawn: Map) -> Layers:
    """Return the rows in the order with the fewest crossings."""
    rng = Random(0)
    found = [_improved([rng.sample(layer, len(layer)) for layer in layers], drawn) for _ in range(INITIAL_ORDERS)]
    return min(found, key=lambda layers: _badness(layers, drawn))


def _improved(layers: Layers, drawn: Map) -> Layers:
    """Swap neighbours as long as that reduces crossings."""
    best, is_better = _badness(layers, drawn), True
    while is_better:
        is_better = False
        for layer in layers:
            for place in range(len(layer) - 1):
                layer[place : place + 2] = reversed(layer[place : place + 2])
                tried = _badness(layers, drawn)
                if tried < best:
                    best, is_better = tried, True
                else:
                    layer[place : place + 2] = reversed(layer[place : place + 2])
    return layers


# --- where it is drawn ------------------------------------------------------------------------------------------------


def _places(layers: Layers, captions: Mapping[str, str]) -> tuple[dict[Slot, Box], float]:
    """Return the position of every box, and the height of the picture."""
    places: dict[Slot, Box] = {}
    y = float(MARGIN)
    for layer in reversed(layers):
        names = [slot for slot in layer if isinstance(slot, str)]
        free = WIDTH - 2 * MARGIN - GAP * (len(layer) - 1) - PASSAGE * (len(layer) - len(names))
        width = free / len(names)
        is_slab = len(layer) == 1
        lines = 0 if is_slab else max(len(wrapped(_short(captions.get(name, "")), width - 20)) for name in names)
        height = SLAB if is_slab else 34 + LINE * lines + (8 if lines else 4)
        x = float(MARGIN)
        for slot in layer:
            own = width if isinstance(slot, str) else PASSAGE
            places[slot] = Box(x, y, own, height)
            x += own + GAP
        y += height + (BETWEEN if len(layer) > 1 else BETWEEN * 0.6)
    return places, y


def _boxes(places: Mapping[Slot, Box], captions: Mapping[str, str]) -> Iterator[str]:
    for slot, place in places.items():
        if not isinstance(slot, str):
            continue
        yield box(place)
        middle, _ = place.middle
        caption = captions.get(slot, "")
        if place.height == SLAB and place.width > WIDTH / 2:
            yield letters(place.x + 24, place.y + 29, slot, "name")
            # Only the first line fits.
            line = wrapped(caption, place.width - 170)[:1]
            yield from paragraph(place.x + 150, place.y + 29, line)
        else:
            yield letters(middle, place.y + 26, slot, "name", "middle")
            lines = wrapped(_short(caption), place.width - 20)
            yield from paragraph(middle, place.y + 26 + LINE + 2, lines, "middle")


def _arrows(layers: Layers, drawn: Map, places: Mapping[Slot, Box]) -> Iterator[str]:
    """Yield the arrows, each with its own port at the edge of a box."""
    for lower, upper in pairwise(layers):
        steps = _steps(upper, lower, drawn)
        for step in steps:
            slot, other = upper[step[0]], lower[step[1]]
            source, target = places[slot], places[other]
            x = _port(source, step, [each for each in steps if each[0] == step[0]])
            # An arrow to a box of full width is vertical.
            is_slab = target.width > WIDTH / 2
            end = x if is_slab else _port(target, step, [each for each in steps if each[1] == step[1]])
            if isinstance(other, tuple):
                yield f'<path class="line" d="{_curve(x, source.bottom, end, target.y)}V{number(target.bottom)}"/>'
            else:
                yield arrow(_curve(x, source.bottom, end, target.y - 2))


def _port(place: Box, step: tuple[int, int], steps: Sequence[tuple[int, int]]) -> float:
    """Return where an arrow touches a box."""
    return place.x + place.width * (steps.index(step) + 1) / (len(steps) + 1)


def _curve(x: float, y: float, end: float, bottom: float) -> str:
    half = number((y + bottom) / 2)
    return f"M{number(x)} {number(y)}C{number(x)} {half} {number(end)} {half} {number(end)} {number(bottom)}"
