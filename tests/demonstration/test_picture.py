"""A moment fits every screen, shows what happened, and hides no untruth."""

import pytest
from demo.chronicle import Chronicle, Mark
from demo.ledger import Told
from demo.picture import ASCII, STATES, UNICODE, Style, draw, is_held, summary, text_of
from demo.story import SCENES

from demonstration.moments import beginning, ending, outage

MOMENTS = [(beginning(), 0.0), (outage(), 12.0), (outage(), 500.0), (ending(), 20.0)]


def texts(chronicle: Chronicle, now: float, size: tuple[int, int] = (80, 24)) -> list[str]:
    return [text_of(row) for row in draw(chronicle, now, size)]


@pytest.mark.parametrize("columns", [1, 20, 40, 60, 79, 80, 81, 120, 300])
@pytest.mark.parametrize("lines", [1, 9, 10, 20, 23, 24, 25, 60])
def test_a_picture_is_never_larger_than_the_screen(columns: int, lines: int) -> None:
    for chronicle, now in MOMENTS:
        for glyphs in (UNICODE, ASCII):
            rows = draw(chronicle, now, (columns, lines), glyphs)
            assert len(rows) <= lines
            assert all(len(text_of(row).rstrip()) <= columns for row in rows)


def test_what_is_said_fits_the_usual_screen() -> None:
    for scene in SCENES:
        chronicle = beginning()
        chronicle.begin_scene(0.0, scene.head, scene.detail)
        assert any(scene.detail in row for row in texts(chronicle, 0.0))
    assert not any("…" in row for row in texts(ending(), 20.0))


@pytest.mark.parametrize("state", STATES)
def test_the_present_state_stands_in_brackets(state: str) -> None:
    chronicle = beginning()
    chronicle.enter(1.0, state, 0)
    (shown,) = [row for row in texts(chronicle, 2.0) if f"[{state}]" in row]
    assert all(f" {other} " in shown for other in STATES if other != state)


def test_a_backoff_counts_down() -> None:
    chronicle = outage()
    assert any("retry 3 in 2.0 s ████████████░░░░░░░░░░░░" in row for row in texts(chronicle, 12.0))
    assert any("retry 3 in 0.0 s ░░░" in row for row in texts(chronicle, 15.0))


def test_the_strips_show_every_outcome_where_it_fell() -> None:
    rows = texts(outage(), 12.0)
    states = next(row for row in rows if row.startswith(" client's state"))[17:]
    lanes = [row[17:].rstrip() for row in rows if row.startswith((" pay", " look"))]
    assert states == "▒▒████████░░░"
    assert lanes == ["  ·•", "  ········×", "  ········?", "  ·········»", "     ········", "", ""]


def test_of_two_outcomes_in_one_column_the_worse_is_shown() -> None:
    chronicle = beginning()
    for number, told in enumerate((Told.UNKNOWN, Told.OK, Told.FAILED)):
        chronicle.begin(0, f"pay-0.{number}", 1.0)
        chronicle.end(0, told, 1.5)
    assert next(row for row in texts(chronicle, 2.0) if row.startswith(" pay"))[17:].rstrip() == " ?"


def test_a_story_that_is_longer_than_its_strip_moves_on() -> None:
    chronicle = outage()
    for now, shown in ((12.0, True), (80.0, False)):
        assert any("×" in row for row in texts(chronicle, now) if row.startswith(" pay")) is shown


def test_the_counts_are_the_legend() -> None:
    row = next(row for row in texts(outage(), 12.0) if row.startswith(" •"))
    assert row.startswith(" • 1 ok   ")
    assert all(f"{UNICODE.marks[mark]} 1" in row and mark.value in row for mark in list(Mark)[1:])


def test_the_books_are_shown_with_their_verdict() -> None:
    chronicle = ending()
    shown = texts(chronicle, 20.0)[-5:]
    assert [row.split()[:5] for row in shown[1:4]] == [
        ["ok", "3", "4", "0", "0"],
        ["failed", "1", "0", "0", "0"],
        ["unknown", "1", "0", "0", "0"],
    ]
    assert shown[-1] == "   Everybody was told the truth. hung 0, processes left 0."
    assert is_held(chronicle)


@pytest.mark.parametrize(
    ("chronicle", "said"),
    [
        (
            ending({"pay-0.0": 2, "pay-3.0": 1, "pay-4.0": 1}),
            "1 untruths: pay-0.0 was told ok and ran 2 times",
        ),
        (
            ending({"pay-0.0": 1, "pay-1.0": 1, "pay-3.0": 1, "pay-4.0": 1}),
            "pay-1.0 was told failed and ran 1",
        ),
        (ending(hung=1), "hung 1"),
        (ending(left=2), "processes left 2"),
    ],
)
def test_an_untruth_is_said_and_not_held(chronicle: Chronicle, said: str) -> None:
    last = draw(chronicle, 20.0, (120, 30))[-1]
    assert said in text_of(last)
    assert "truth." not in text_of(last)
    assert last[0].style is Style.BAD
    if chronicle.hung or chronicle.left:
        assert not any("is gone" in row for row in texts(chronicle, 20.0))
    assert not is_held(chronicle)


def test_a_story_without_books_has_no_verdict() -> None:
    assert not is_held(outage())
    assert not any("told the truth" in row for row in texts(outage(), 12.0))


def test_the_summary_has_strips_counts_and_books_in_characters_of_ascii() -> None:
    rows = [text_of(row) for row in summary(ending(), 20.0, 80, ASCII)]
    assert rows[0].startswith(" client's state")
    assert "Everybody was told the truth" in rows[-1]
    assert all(row.isascii() for row in rows)
