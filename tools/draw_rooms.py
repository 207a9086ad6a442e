"""The picture of the rooms: who stands on whom, drawn from the map that the tests hold the code to.

A room is drawn above all that it may import from; what it reaches through another room has no arrow of its own. A room
alone in its layer is as wide as the page, for everything above stands on it. A room that stands on nothing but is not the ground
stands beside the picture, with the names of those who use it. The layers, the order in them and the arrows are computed: the map may change.

Takes the map and a line for each room. Knows no file. Above: `make_pictures`. Below: `svg_paper`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from random import Random

from svg_paper import LINE, WIDTH, Box, arrow, box, letters, number, paper, paragraph, wrapped

Map = Mapping[str, tuple[str, ...]]
# Rooms in a layer, from left to right; a pair is an arrow that passes through on its way further down.
Slot = str | tuple[str, str]
Layers = list[list[Slot]]

MARGIN = 32
GAP = 20
BETWEEN = 46
SLAB = 46
PASSAGE = 12
# How many orders the search for the fewest crossings begins with. Drawn by lot, always the same: a picture must not change by itself.
BEGINNINGS = 60


def draw_rooms(rooms: Map, said: Mapping[str, str]) -> str:
    """The picture. `rooms` maps each room to those it may import from; `said` is a few words for each."""
    standing = _reduced(rooms)
    beside = _beside(standing)
    drawn = {room: tuple(b for b in below if b not in beside) for room, below in standing.items()}
    drawn = {room: below for room, below in drawn.items() if room not in beside}
    layers = _ordered(_layers(drawn), drawn)
    places, height = _places(layers, said)
    parts = [*_boxes(places, said), *_arrows(layers, drawn, places)]
    notes = ["An arrow leads to what a room stands on, and may import; nothing imports upwards."]
    for room in sorted(beside):
        users = ", ".join(user for user, below in standing.items() if room in below)
        notes.append(f"Beside these, {room} ({_short(said.get(room, ''))}), used by {users}.")
    parts += paragraph(WIDTH / 2, height, notes, "middle", "faint")
    description = "; ".join(
        f"{room} stands on {', '.join(below)}" for room, below in standing.items() if below
    )
    bottom = height + LINE * len(notes) + 6
    return paper(bottom, "The rooms of jackstay: imports go downwards only", description, parts)


def _short(words: str) -> str:
    """The first of several things that are said of a room."""
    return re.split(r"[,;:(]", words)[0].strip()


# --- what is drawn ----------------------------------------------------------------------------------------------------


def _reduced(rooms: Map) -> dict[str, tuple[str, ...]]:
    """The same order with the fewest arrows: without those that another way implies."""

    def reach(room: str) -> set[str]:
        return {found for below in rooms[room] for found in (below, *reach(below))}

    return {
        room: tuple(
            below
            for below in belows
            if below in rooms and not any(below in reach(other) for other in belows if other != below)
        )
        for room, belows in rooms.items()
    }


def _beside(standing: Map) -> set[str]:
    """Rooms on nothing that are not the ground: the ground carries most."""

    def above(room: str) -> set[str]:
        users = {user for user, below in standing.items() if room in below}
        return users.union(*(above(user) for user in users))

    grounds = [room for room, below in standing.items() if not below]
    ground = max(grounds, key=lambda room: len(above(room)))
    return set(grounds) - {ground}


def _layers(drawn: Map) -> Layers:
    """Rooms by the longest way down, the ground first; an arrow over several layers passes through those between."""

    def level(room: str) -> int:
        return 1 + max((level(below) for below in drawn[room]), default=-1)

    layers: Layers = [[] for _ in range(1 + max(map(level, drawn)))]
    for room in drawn:
        layers[level(room)].append(room)
    for room, belows in drawn.items():
        for below in belows:
            for between in range(level(below) + 1, level(room)):
                layers[between].append((room, below))
    return layers


def _steps(upper: Sequence[Slot], lower: Sequence[Slot], drawn: Map) -> list[tuple[int, int]]:
    """The arrows between two layers that touch, by place: (in the upper, in the lower)."""
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
    """How many arrows cross, and how far they lean."""
    crossed, lean = 0, 0.0
    for lower, upper in pairwise(layers):
        steps = _steps(upper, lower, drawn)
        crossed += sum(
            (a - c) * (b - d) < 0 for place, (a, b) in enumerate(steps) for c, d in steps[place + 1 :]
        )
        lean += sum(abs((a + 0.5) / len(upper) - (b + 0.5) / len(lower)) for a, b in steps)
    return crossed, round(lean, 6)


def _ordered(layers: Layers, drawn: Map) -> Layers:
    """The layers with their rooms in the order in which the fewest arrows cross."""
    lots = Random(0)
    found = [
        _improved([lots.sample(layer, len(layer)) for layer in layers], drawn) for _ in range(BEGINNINGS)
    ]
    return min(found, key=lambda layers: _badness(layers, drawn))


def _improved(layers: Layers, drawn: Map) -> Layers:
    """Neighbours change places for as long as that helps."""
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


def _places(layers: Layers, said: Mapping[str, str]) -> tuple[dict[Slot, Box], float]:
    """Where everything stands, and how high the picture is."""
    places: dict[Slot, Box] = {}
    y = float(MARGIN)
    for layer in reversed(layers):
        rooms = [slot for slot in layer if isinstance(slot, str)]
        free = WIDTH - 2 * MARGIN - GAP * (len(layer) - 1) - PASSAGE * (len(layer) - len(rooms))
        width = free / len(rooms)
        is_slab = len(layer) == 1
        lines = 0 if is_slab else max(len(wrapped(_short(said.get(room, "")), width - 20)) for room in rooms)
        height = SLAB if is_slab else 34 + LINE * lines + (8 if lines else 4)
        x = float(MARGIN)
        for slot in layer:
            own = width if isinstance(slot, str) else PASSAGE
            places[slot] = Box(x, y, own, height)
            x += own + GAP
        y += height + (BETWEEN if len(layer) > 1 else BETWEEN * 0.6)
    return places, y


def _boxes(places: Mapping[Slot, Box], said: Mapping[str, str]) -> Iterator[str]:
    for slot, place in places.items():
        if not isinstance(slot, str):
            continue
        yield box(place)
        middle, _ = place.middle
        words = said.get(slot, "")
        if place.height == SLAB and place.width > WIDTH / 2:
            yield letters(place.x + 24, place.y + 29, slot, "name")
            # As much of it as there is room for.
            line = wrapped(words, place.width - 170)[:1]
            yield from paragraph(place.x + 150, place.y + 29, line)
        else:
            yield letters(middle, place.y + 26, slot, "name", "middle")
            lines = wrapped(_short(words), place.width - 20)
            yield from paragraph(middle, place.y + 26 + LINE + 2, lines, "middle")


def _arrows(layers: Layers, drawn: Map, places: Mapping[Slot, Box]) -> Iterator[str]:
    """From the lower edge of who stands to the upper edge of what he stands on; several at one edge have a place each."""
    for lower, upper in pairwise(layers):
        steps = _steps(upper, lower, drawn)
        for step in steps:
            slot, other = upper[step[0]], lower[step[1]]
            source, target = places[slot], places[other]
            x = _port(source, step, [each for each in steps if each[0] == step[0]])
            # On a room as wide as the page one stands wherever one is.
            is_slab = target.width > WIDTH / 2
            end = x if is_slab else _port(target, step, [each for each in steps if each[1] == step[1]])
            if isinstance(other, tuple):
                yield f'<path class="line" d="{_curve(x, source.bottom, end, target.y)}V{number(target.bottom)}"/>'
            else:
                yield arrow(_curve(x, source.bottom, end, target.y - 2))


def _port(place: Box, step: tuple[int, int], steps: Sequence[tuple[int, int]]) -> float:
    """Where an arrow touches a box, among all that do on that side."""
    return place.x + place.width * (steps.index(step) + 1) / (len(steps) + 1)


def _curve(x: float, y: float, end: float, bottom: float) -> str:
    half = number((y + bottom) / 2)
    return f"M{number(x)} {number(y)}C{number(x)} {half} {number(end)} {half} {number(end)} {number(bottom)}"
