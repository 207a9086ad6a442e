"""Draw the state machine of the client from its transition table.

Positions of states and arrows are defined here; states, transitions and events come from the table. A state without a
position is an error. Events that lead to the same state from several states are listed once.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jackstay.protocol import Machine
from jackstay.protocol.drawing import edges
from svg_paper import WIDTH, Box, arrow, box, letters, number, paper, paragraph, wrapped

HEIGHT = 656
BOX = (150, 50)
FRAME = Box(20, 20, WIDTH - 40, 436)

# state: the centre and the colour of its box.
STATES = {
    "starting": ((130, 124), "busy"),
    "initializing": ((450, 124), "busy"),
    "ready": ((770, 124), "good"),
    "backoff": ((450, 350), "bad"),
    "closing": ((130, 604), "box"),
    "closed": ((690, 604), "box"),
}


class Way(NamedTuple):
    """The path of an arrow, and the position, width and alignment of its label."""

    path: str
    x: float
    y: float
    width: float
    anchor: str = "start"


WAYS = {
    ("starting", "initializing"): Way("M205 124H373", 290, 112, 170, "middle"),
    ("initializing", "ready"): Way("M525 124H693", 610, 112, 170, "middle"),
    ("ready", "starting"): Way("M770 99V70Q770 54 754 54H146Q130 54 130 70V97", 450, 46, 400, "middle"),
    ("starting", "backoff"): Way("M160 149C165 270 270 335 373 340", 206, 200, 150),
    ("initializing", "backoff"): Way("M450 149V323", 462, 186, 150),
    ("ready", "backoff"): Way("M790 149C800 330 700 345 527 345", 604, 186, 160),
    ("backoff", "starting"): Way("M375 362C180 362 95 280 100 151", 40, 384, 330),
    ("closing", "closed"): Way("M205 604H613", 410, 594, 400, "middle"),
}
# All transitions to these states from other states are drawn as one arrow from the frame.
ENDS = {
    "closing": Way("M130 456V577", 144, 480, 470),
    "closed": Way("M636 456V577", 650, 480, 215),
}
# Labels for events that lead to a state from every state with a transition to it.
SHARED = {"backoff": Way("", 540, 372, 320)}
COUNTS = ("none", "one", "two", "three", "four", "five")


def draw_machine(machine: Machine) -> str:
    """Return the picture. Raises: ValueError if a state or transition has no position."""
    ways = {
        (str(source.value), str(target.value)): _without_repetition(events)
        for (source, target), events in edges(machine).items()
    }
    _check(machine, ways)
    parts = [_frame(), *_start(str(machine.states[0].value))]
    parts += [part for name in STATES for part in _state(name, machine)]
    parts += _ways(ways)
    parts += _ends(ways)
    described = "; ".join(f"{source} to {target}: {', '.join(events)}" for (source, target), events in ways.items())
    return paper(HEIGHT, f"The states of a {machine.name}'s connection", described, parts)


def _check(machine: Machine, ways: Iterable[tuple[str, str]]) -> None:
    for state in machine.states:
        if state.value not in STATES:
            raise ValueError(f"the state {state.value} has no place in STATES of tools/draw_machine.py")
    for source, target in ways:
        if (source, target) not in WAYS and (target not in ENDS or source in ENDS):
            raise ValueError(f"the way from {source} to {target} is not in WAYS of tools/draw_machine.py")


def _without_repetition(events: list[str]) -> list[str]:
    """Remove the conditions of an event that occurs under every condition."""
    plain = {event for event in events if "[" not in event}
    return [event for event in events if event in plain or event.partition(" [")[0] not in plain]


def _frame() -> str:
    x, y, width, height = map(number, FRAME)
    return f'<rect class="line" x="{x}" y="{y}" width="{width}" height="{height}" rx="14" stroke-dasharray="5 5"/>'


def _start(name: str) -> Iterator[str]:
    (x, y), _ = STATES[name]
    yield f'<circle class="tip" cx="32" cy="{y}" r="6"/>'
    yield arrow(f"M36 {y}H{x - BOX[0] / 2 - 2:g}")


def _state(name: str, machine: Machine) -> Iterator[str]:
    (x, y), colour = STATES[name]
    is_final = name == machine.states[-1].value
    drawn = box(Box(x - BOX[0] / 2, y - BOX[1] / 2, *BOX), colour, is_double=is_final)
    # The inspector highlights the state by this attribute.
    yield f'<g data-state="{name}">{drawn}{letters(x, y + 6, name, "name", "middle")}</g>'


def _ways(ways: dict[tuple[str, str], list[str]]) -> Iterator[str]:
    shared = {target: _shared(ways, target) for target in SHARED}
    for pair, events in ways.items():
        if pair not in WAYS:
            continue
        way = WAYS[pair]
        own = [event for event in events if event not in shared.get(pair[1], ())]
        yield arrow(way.path, " ".join(pair))
        lines = _by_condition(own, way)
        # A centred label is above its arrow: `y` is the position of its last line.
        y = way.y - 18 * (len(lines) - 1) if way.anchor == "middle" else way.y
        yield from paragraph(way.x, y, lines, way.anchor)
    for target, place in SHARED.items():
        count = COUNTS[sum(to == target for _, to in ways)]
        text = f"from each of the {count}: {', '.join(shared[target])}"
        yield from paragraph(place.x, place.y, wrapped(text, place.width))


def _shared(ways: dict[tuple[str, str], list[str]], target: str) -> list[str]:
    """Return the events that lead to a state from every state with an arrow to it."""
    lists = [events for (_, to), events in ways.items() if to == target]
    return [event for event in lists[0] if all(event in events for events in lists)]


def _by_condition(events: list[str], way: Way) -> list[str]:
    """Return lines: events without a condition, then those of each condition."""
    grouped: dict[str, list[str]] = {}
    for event in events:
        name, _, condition = event.partition(" [")
        grouped.setdefault(condition.removesuffix("]"), []).append(name)
    lines = []
    for condition, names in grouped.items():
        if condition:
            lines += wrapped(f"{', '.join(names)} [{condition}]", way.width)
        elif way.width < 200 and way.anchor == "start":
            lines += names
        else:
            lines += wrapped(", ".join(names), way.width)
    return lines


def _ends(ways: dict[tuple[str, str], list[str]]) -> Iterator[str]:
    """Return the arrows from the frame: common events first, then those of each state."""
    inside = [name for name in STATES if name not in ENDS]
    for target, way in ENDS.items():
        own = {name: ways.get((name, target), []) for name in inside}
        common = [event for event in own[inside[0]] if all(event in events for events in own.values())]
        lines = [f"from each: {', '.join(common)}"] if common else []
        for name, events in own.items():
            rest = [event for event in events if event not in common]
            text = _by_condition(rest, way._replace(width=10_000, anchor="middle"))
            lines += wrapped(f"from {name}: {'; '.join(text)}", way.width) if text else []
        yield arrow(way.path)
        yield from paragraph(way.x, way.y, lines)
