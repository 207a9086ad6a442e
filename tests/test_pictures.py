"""The pictures in docs/pictures are what the generator makes of the tables, and read on light and dark pages."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from jackstay.protocol import Cell
from jackstay.protocol.drawing import MACHINES, edges

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import draw_layers  # noqa: E402
import draw_machine  # noqa: E402  # tools, not packages: found by their folder
import make_pictures  # noqa: E402

CLIENT = MACHINES["client"]
LAYERS = make_pictures.layers()
DRAW = dict(make_pictures.DRAWN)
SVG = "{http://www.w3.org/2000/svg}"

# The map of the architecture when it was decided, and one that is larger than any we shall have.
SMALL: dict[str, tuple[str, ...]] = {
    "errors": (),
    "protocol": ("errors",),
    "transport": ("errors", "protocol"),
    "client": ("errors", "protocol", "transport"),
    "server": ("errors", "protocol", "transport"),
    "extras": (),
    "products": ("errors", "protocol", "transport", "server", "extras"),
}
LARGE = {
    **SMALL,
    **{f"layer_{number}": ("errors", "client", *(("server",) if number % 2 else ())) for number in range(9)},
    "top": ("layer_1", "layer_2", "transport"),
}


def texts(drawing: str) -> list[str]:
    return ["".join(text.itertext()) for text in ElementTree.fromstring(drawing).iter(f"{SVG}text")]


def arrows(drawing: str) -> int:
    return drawing.count("marker-end")


DRAW["small"] = lambda: draw_layers.draw_layers(SMALL, {})
DRAW["large"] = lambda: draw_layers.draw_layers(LARGE, {})


@cache
def drawn(name: str) -> str:
    return DRAW[name]()


@pytest.mark.parametrize("name", make_pictures.DRAWN)
def test_a_picture_in_the_documentation_matches_its_table(name: str) -> None:
    """Run `make docs` where this fails: a table or the tree in CONTRIBUTING.md has changed."""
    assert (make_pictures.PICTURES / name).read_text(encoding="utf-8") == drawn(name)


def test_the_drawing_in_the_inspector_matches_its_table() -> None:
    drawing = make_pictures.machine_of_page()
    assert make_pictures.MACHINE.read_text(encoding="utf-8") == drawing
    assert "<style" not in drawing


def test_every_picture_in_the_documentation_is_made_or_recorded() -> None:
    screenshots = {f"inspector-{name}.png" for name in ("tools", "messages", "connection", "choices")}
    expected = {*make_pictures.DRAWN, "demo.svg", *screenshots}
    assert {path.name for path in make_pictures.PICTURES.iterdir()} == expected


@pytest.mark.parametrize("name", DRAW)
def test_a_picture_needs_nothing_from_outside_and_reads_on_light_and_dark(name: str) -> None:
    drawing = drawn(name)
    root = ElementTree.fromstring(drawing)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        *("svg", "title", "desc", "style", "defs", "marker", "path", "rect", "circle", "text", "g")
    }
    assert not any("href" in name for element in root.iter() for name in element.attrib)
    assert "prefers-color-scheme:dark" in drawing
    assert root.findtext(f"{SVG}title")
    assert root.findtext(f"{SVG}desc")
    used = {element.get("class") for element in root.iter()} - {None}
    assert used <= set(re.findall(r"\.([a-z]+)\{fill", drawing)), "every colour is known in both schemes"


@pytest.mark.parametrize("name", DRAW)
def test_nothing_is_drawn_beside_the_paper(name: str) -> None:
    """Letters are measured as wide as the widest of the usual fonts has them, on average."""
    root = ElementTree.fromstring(drawn(name))
    height = float(root.attrib["height"])
    for element in root.iter(f"{SVG}text"):
        x, y, text = float(element.attrib["x"]), float(element.attrib["y"]), element.text or ""
        width = len(text) * (11 if element.get("class") == "name" else 7.2)
        left = x - width / 2 if element.get("text-anchor") == "middle" else x
        assert left >= 0, text
        assert left + width <= 900, text
        assert 0 < y < height, text
    for element in root.iter(f"{SVG}rect"):
        assert float(element.attrib["x"]) + float(element.attrib["width"]) <= 900
        assert float(element.attrib["y"]) + float(element.attrib["height"]) <= height


# --- layers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [LAYERS, SMALL, LARGE])
def test_every_layer_stands_above_all_that_it_may_import(layers: dict[str, tuple[str, ...]]) -> None:
    root = ElementTree.fromstring(draw_layers.draw_layers(layers, {}))
    places = {
        element.text: float(element.attrib["y"])
        for element in root.iter(f"{SVG}text")
        if element.get("class") == "name"
    }
    notes = " ".join(element.text or "" for element in root.iter(f"{SVG}text") if element.get("class") == "faint")
    for layer, belows in layers.items():
        if layer not in places:
            assert belows == ()
            assert f"Not shown above: {layer} " in notes
            continue
        for below in belows:
            assert below in notes if below not in places else places[layer] < places[below]


def test_what_another_way_implies_has_no_arrow() -> None:
    """protocol, transport, client, server and the products: one arrow each; `extras` stands beside."""
    drawing = draw_layers.draw_layers(SMALL, {"client": "reconnects, always", "errors": "one tree, always"})
    assert arrows(drawing) == 5
    assert "Not shown above: extras (), used by products." in texts(drawing)
    assert "reconnects" in texts(drawing), "a box has the first words"
    assert "one tree, always" in texts(drawing), "on a slab all of them"


def test_a_map_that_changes_changes_the_picture() -> None:
    changed = {**SMALL, "products": ("errors", "protocol", "transport", "client", "server", "extras")}
    assert arrows(draw_layers.draw_layers(changed, {})) == 6
    assert draw_layers.draw_layers(SMALL, {}) == draw_layers.draw_layers(SMALL, {}), "and nothing else does"


def test_arrows_do_not_cross_where_they_need_not() -> None:
    layers = {
        "ground": (),
        "a": ("ground",),
        "b": ("ground",),
        "c": ("ground",),
        "x": ("c",),
        "y": ("a",),
        "z": ("b",),
    }
    rows = draw_layers._ordered(draw_layers._layers(layers), layers)
    assert draw_layers._badness(rows, layers)[0] == 0
    assert draw_layers._badness(draw_layers._layers(layers), layers)[0] > 0, "the order of the map is not that good"


def test_private_files_are_no_layers_and_every_layer_has_its_words() -> None:
    assert "lazy" not in LAYERS
    assert "version" not in LAYERS
    assert {"errors", "client", "procontext"} <= LAYERS.keys()
    assert make_pictures.words()["client"] == "a client that reconnects"


# --- the machine ------------------------------------------------------------------------------------------------------


def test_every_state_and_every_event_that_leads_somewhere_is_in_the_picture() -> None:
    text = " ".join(texts(drawn("client-machine.svg")))
    assert all(str(state.value) in text for state in CLIENT.states)
    for events in edges(CLIENT).values():
        for event in events:
            assert event.partition(" [")[0] in text.replace("] ", " "), event


def test_every_way_has_its_arrow() -> None:
    """Those to the end are two, from the frame; and one leads to the start."""
    inner = [pair for pair in edges(CLIENT) if (pair[0].value, pair[1].value) in draw_machine.WAYS]
    assert arrows(drawn("client-machine.svg")) == len(inner) + 2 + 1


def test_an_event_that_applies_to_every_state_is_drawn_once() -> None:
    text = " ".join(texts(drawn("client-machine.svg")))
    assert text.count("too many invalid frames") == 1
    assert "from each: stop requested" in text


def test_an_event_whose_condition_does_not_matter_has_no_condition() -> None:
    assert draw_machine._without_repetition(["went [a]", "went", "came [b]"]) == ["went", "came [b]"]


def test_a_table_with_more_than_there_is_a_place_for_is_refused() -> None:
    with pytest.raises(ValueError, match="the state fresh has no place"):
        draw_machine.draw_machine(MACHINES["server"])
    back = Cell((), CLIENT.states[1])
    rows = {**CLIENT.rows, "reaped": (back,) * len(CLIENT.states)}
    with pytest.raises(ValueError, match="the way from ready to initializing is not in WAYS"):
        draw_machine.draw_machine(msgspec.structs.replace(CLIENT, rows=rows))


# --- the command ------------------------------------------------------------------------------------------------------


def test_an_outdated_picture_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(make_pictures, "ROOT", tmp_path)
    monkeypatch.setattr(make_pictures, "PICTURES", tmp_path / "pictures")
    monkeypatch.setattr(make_pictures, "DRAWN", {"one.svg": lambda: "one", "two.svg": lambda: "two"})
    assert make_pictures.main(["--check"]) == 1
    assert make_pictures.main([]) == 0
    assert make_pictures.main(["--check"]) == 0
    (tmp_path / "pictures" / "two.svg").write_text("three")
    capsys.readouterr()
    assert make_pictures.main(["--check"]) == 1
    assert capsys.readouterr().err == "pictures/two.svg is out of date; run `make docs`\n"


def test_the_tool_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "make_pictures.py"), "--help"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "--check" in done.stdout
