"""A film shows at every moment what was drawn at that moment, and brings all it needs."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from demo.film import (
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
    Recorder,
    describe,
    develop,
)

from demonstration.moments import beginning, ending, outage

ROOT = Path(__file__).parent.parent.parent
RECORDED = ROOT / "docs" / "pictures" / "demo.svg"
SVG = "{http://www.w3.org/2000/svg}"
MOST_BYTES = 300_000
STYLES = {short: style for style, short in CLASSES.items()}
Grid = dict[tuple[int, int], Cell]


class Film:
    """A film as a browser sees it: what stands where at a time; `at=None` is where motion is not wanted."""

    def __init__(self, text: str) -> None:
        self.root = ElementTree.fromstring(text)
        style = self.root.find(f"{SVG}style")
        assert style is not None
        self.rules = style.text or ""
        self.length = float(re.search(r"animation:([\d.]+)s step-end infinite", self.rules)[1])  # type: ignore[index]  # fails as it should
        self.rest = {
            name: int(pixels)
            for name, pixels in re.findall(r"#(t\d+)\{transform:translateY\(-?(\d+)px\)", self.rules)
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
        # A share of the length is rounded: half of a step of that may be missing.
        passed = [pixels for share, pixels in self.steps[name] if share <= 100 * at / self.length + 0.005]
        return passed[-1]

    def shown(self, at: float | None) -> Grid:
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
    """Write down what a text or a block covers."""
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


def record() -> Recorder:
    """Pictures of three moments and what lies between them."""
    recorder = Recorder()
    for chronicle, times in ((beginning(), (0.0, 1.0)), (outage(), (12.0, 12.5, 13.0)), (ending(), (20.0,))):
        for now in times:
            recorder.show(chronicle, now)
    return recorder


def test_a_film_shows_what_was_drawn_when_it_was_drawn() -> None:
    frames = record().frames
    assert len(frames) == 6
    film = Film(develop(frames, "title", "description"))
    for place, frame in enumerate(frames):
        assert film.shown(frame[0]) == drawn(frame)
        until = frames[place + 1][0] if place + 1 < len(frames) else film.length
        assert film.shown((frame[0] + until) / 2) == drawn(frame), "it stays until the next"
    assert film.length == frames[-1][0] + HOLD


def test_where_motion_is_not_wanted_the_last_picture_is_shown() -> None:
    frames = record().frames
    film = Film(develop(frames, "title", "description"))
    assert "@media(prefers-reduced-motion:reduce){.s{animation:none!important}}" in film.rules
    assert film.shown(None) == drawn(frames[-1])


def test_a_film_begins_when_its_first_picture_was_drawn() -> None:
    frames = [(at + 100.0, cells) for at, cells in record().frames]
    film = Film(develop(frames, "title", "description"))
    assert film.shown(0.0) == drawn(frames[0])
    assert film.length == 20.0 + HOLD


def test_a_film_of_one_picture_does_not_move() -> None:
    film = Film(develop(record().frames[:1], "title", "description"))
    assert film.steps == {}
    assert film.shown(None) == drawn(record().frames[0])


def test_few_pictures_a_second_are_kept_and_always_the_last() -> None:
    recorder = Recorder()
    for tick in range(100):
        recorder.show(beginning(), tick / 100)
    recorder.show(beginning(), 0.995, must=True)
    assert len(recorder.frames) == 1 + 2 + 1
    assert RATE == 3.0
    assert all(
        len(cells) == SIZE[1] and {len(row) for row in cells} == {SIZE[0]} for _, cells in recorder.frames
    )


def test_the_words_of_a_film_cannot_become_its_code() -> None:
    chronicle = beginning()
    chronicle.say(0.0, "<script>&\"'</text>")
    recorder = Recorder()
    recorder.show(chronicle, 0.0)
    film = Film(develop(recorder.frames, "<b>&", "</desc>&"))
    assert film.root.findtext(f"{SVG}title") == "<b>&"
    assert film.shown(None) == drawn(recorder.frames[0])
    assert film.root.findall(f".//{SVG}script") == []


def test_the_story_is_told_in_words_too() -> None:
    said = describe(ending(), 20.0)
    assert "The server is killed, with calls in flight." in said
    assert "Everybody was told the truth. hung 0" in said


@pytest.mark.parametrize("text", [RECORDED.read_text(encoding="utf-8"), develop(record().frames, "t", "d")])
def test_a_film_needs_nothing_from_outside(text: str) -> None:
    assert len(text.encode()) < MOST_BYTES
    film = Film(text)
    tags = {element.tag.removeprefix(SVG) for element in film.root.iter()}
    assert tags <= {"svg", "g", "title", "desc", "style", "rect", "text"}
    names = {name for element in film.root.iter() for name in element.attrib}
    assert not any("href" in name or name.startswith("on") or name == "style" for name in names)
    assert "@import" not in film.rules
    assert "url(" not in film.rules
    assert "prefers-color-scheme:dark" in film.rules
    assert film.root.attrib["role"] == "img"
    labels = [element.get("id") for element in film.root if element.tag in (f"{SVG}title", f"{SVG}desc")]
    assert film.root.attrib["aria-labelledby"].split() == labels


def test_the_film_in_the_documentation_is_of_a_story_that_held() -> None:
    film = Film(RECORDED.read_text(encoding="utf-8"))
    rows: dict[int, str] = {}
    for (row, column), cell in sorted(film.shown(None).items()):
        rows[row] = rows.get(row, "").ljust(column) + cell.letter
    assert any("Everybody was told the truth. hung 0, processes left 0." in row for row in rows.values())
    assert 40 < film.length < 100, "about a minute"
