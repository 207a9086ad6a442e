"""The animated SVG shows what was drawn at each time, without external resources."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from demo.recording import (
    BLANK,
    BLOCKS,
    CELL,
    CLASSES,
    HOLD,
    MARGIN,
    RATE,
    SIZE,
    Cell,
    Frame,
    RecordingHandler,
    describe,
    render,
)

from demonstration.run_logs import beginning, ending, outage

ROOT = Path(__file__).parent.parent.parent
RECORDED = ROOT / "docs" / "pictures" / "demo.svg"
SVG = "{http://www.w3.org/2000/svg}"
MAX_BYTES = 300_000
STYLES = {short: style for style, short in CLASSES.items()}
Grid = dict[tuple[int, int], Cell]


class Animation:
    """An SVG as a browser shows it at a time; `at=None` is reduced motion."""

    def __init__(self, text: str) -> None:
        self.root = ElementTree.fromstring(text)
        style = self.root.find(f"{SVG}style")
        assert style is not None
        self.rules = style.text or ""
        self.length = float(re.search(r"animation:([\d.]+)s step-end infinite", self.rules)[1])  # type: ignore[index]
        self.rest = {
            name: int(pixels) for name, pixels in re.findall(r"#(t\d+)\{transform:translateY\(-?(\d+)px\)", self.rules)
        }
        self.steps = {
            name: self._steps(steps) for name, steps in re.findall(r"@keyframes (t\d+)\{(.*)\}\n", self.rules)
        }

    @staticmethod
    def _steps(text: str) -> list[tuple[float, int]]:
        found = re.findall(r"([\d.]+)%\{transform:(?:none|translateY\(-(\d+)px\))\}", text)
        return [(float(share), int(pixels or 0)) for share, pixels in found]

    def offset(self, name: str, at: float | None) -> int:
        if at is None:
            return self.rest[name]
        # The percentages are rounded.
        passed = [pixels for share, pixels in self.steps[name] if share <= 100 * at / self.length + 0.005]
        return passed[-1]

    def grid_at(self, at: float | None) -> Grid:
        grid: Grid = {}
        for child in self.root:
            if child.tag == f"{SVG}svg":
                strip = child[0]
                offset = self.offset(strip.attrib["id"], at)
                for item in strip:
                    x, y = int(item.attrib["x"]), int(item.attrib["y"]) - offset
                    if 0 <= y < CELL[1]:
                        put(grid, item, int(child.attrib["x"]) + x, int(child.attrib["y"]) + y)
            elif child.tag in (f"{SVG}text", f"{SVG}rect") and child.get("class") != "paper":
                put(grid, child, int(child.attrib["x"]), int(child.attrib["y"]))
        return grid


def put(grid: Grid, item: ElementTree.Element, x: int, y: int) -> None:
    """Add an SVG element to the grid."""
    column, row = (x - MARGIN) // CELL[0], (y - MARGIN) // CELL[1]
    style = STYLES[item.get("class", "")]
    if item.tag == f"{SVG}rect":
        letter = next(letter for letter, opacity in BLOCKS.items() if opacity == item.get("opacity", ""))
        letters = letter * (int(float(item.attrib["width"])) // CELL[0])
    else:
        letters = item.text or ""
        assert len(letters) == 1 or int(item.attrib["textLength"]) == len(letters) * CELL[0]
    for place, letter in enumerate(letters):
        if letter != " ":
            assert (row, column + place) not in grid, "two letters in one cell"
            grid[row, column + place] = Cell(letter, style)


def drawn(frame: Frame) -> Grid:
    cells = frame[1]
    return {(r, c): cell for r, row in enumerate(cells) for c, cell in enumerate(row) if cell != BLANK}


def record() -> RecordingHandler:
    """Record pictures of three logs."""
    recorder = RecordingHandler()
    for log, times in ((beginning(), (0.0, 1.0)), (outage(), (12.0, 12.5, 13.0)), (ending(), (20.0,))):
        for now in times:
            recorder.show(log, now)
    return recorder


def test_every_picture_is_shown_at_its_time() -> None:
    frames = record().frames
    assert len(frames) == 6
    animation = Animation(render(frames, "title", "description"))
    for index, frame in enumerate(frames):
        assert animation.grid_at(frame[0]) == drawn(frame)
        next_at = frames[index + 1][0] if index + 1 < len(frames) else animation.length
        assert animation.grid_at((frame[0] + next_at) / 2) == drawn(frame), "it stays until the next picture"
    assert animation.length == frames[-1][0] + HOLD


def test_reduced_motion_shows_the_last_picture() -> None:
    frames = record().frames
    animation = Animation(render(frames, "title", "description"))
    assert "@media(prefers-reduced-motion:reduce){.s{animation:none!important}}" in animation.rules
    assert animation.grid_at(None) == drawn(frames[-1])


def test_the_animation_starts_with_the_first_picture() -> None:
    frames = [(at + 100.0, cells) for at, cells in record().frames]
    animation = Animation(render(frames, "title", "description"))
    assert animation.grid_at(0.0) == drawn(frames[0])
    assert animation.length == 20.0 + HOLD


def test_one_picture_is_not_animated() -> None:
    animation = Animation(render(record().frames[:1], "title", "description"))
    assert animation.steps == {}
    assert animation.grid_at(None) == drawn(record().frames[0])


def test_few_pictures_per_second_and_the_last_are_kept() -> None:
    recorder = RecordingHandler()
    for tick in range(100):
        recorder.show(beginning(), tick / 100)
    recorder.show(beginning(), 0.995, must=True)
    assert len(recorder.frames) == 1 + 2 + 1
    assert RATE == 3.0
    assert all(len(cells) == SIZE[1] and {len(row) for row in cells} == {SIZE[0]} for _, cells in recorder.frames)


def test_text_is_escaped() -> None:
    log = beginning()
    log.add_line(0.0, "<script>&\"'</text>")
    recorder = RecordingHandler()
    recorder.show(log, 0.0)
    animation = Animation(render(recorder.frames, "<b>&", "</desc>&"))
    assert animation.root.findtext(f"{SVG}title") == "<b>&"
    assert animation.grid_at(None) == drawn(recorder.frames[0])
    assert animation.root.findall(f".//{SVG}script") == []


def test_description() -> None:
    text = describe(ending(), 20.0)
    assert "The server is killed, with calls in flight." in text
    assert "All outcomes agree with the ledger. hung 0" in text


@pytest.mark.parametrize("text", [RECORDED.read_text(encoding="utf-8"), render(record().frames, "t", "d")])
def test_no_external_resources(text: str) -> None:
    assert len(text.encode()) < MAX_BYTES
    animation = Animation(text)
    tags = {element.tag.removeprefix(SVG) for element in animation.root.iter()}
    assert tags <= {"svg", "g", "title", "desc", "style", "rect", "text"}
    names = {name for element in animation.root.iter() for name in element.attrib}
    assert not any("href" in name or name.startswith("on") or name == "style" for name in names)
    assert "@import" not in animation.rules
    assert "url(" not in animation.rules
    assert "prefers-color-scheme:dark" in animation.rules
    assert animation.root.attrib["role"] == "img"
    labels = [element.get("id") for element in animation.root if element.tag in (f"{SVG}title", f"{SVG}desc")]
    assert animation.root.attrib["aria-labelledby"].split() == labels


def test_the_animation_in_the_documentation() -> None:
    animation = Animation(RECORDED.read_text(encoding="utf-8"))
    rows: dict[int, str] = {}
    for (row, column), cell in sorted(animation.grid_at(None).items()):
        rows[row] = rows.get(row, "").ljust(column) + cell.letter
    assert any("All outcomes agree with the ledger. hung 0, processes left 0." in row for row in rows.values())
    assert 40 < animation.length < 100, "about a minute"
