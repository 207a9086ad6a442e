"""Draw the pictures that are made from tables: docs/pictures/rooms.svg and docs/pictures/client-machine.svg.

`python tools/make_pictures.py` writes them; `--check` writes nothing and fails, naming the picture, if one would change. The
rooms are those of the map in tests/test_rooms.py, and the words beside them those of the tree in CONTRIBUTING.md; the machine is the
table that runs. The third picture, demo.svg, is no drawing: `make demo RECORD=docs/pictures/demo.svg` records it.
"""

import argparse
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

from draw_machine import draw_machine
from draw_rooms import draw_rooms
from jackstay.protocol.drawing import MACHINES

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"


def rooms() -> dict[str, tuple[str, ...]]:
    """The map that the tests hold the code to, without what is private to the package."""
    sys.path.insert(0, str(ROOT / "tests"))
    known = runpy.run_path(str(ROOT / "tests" / "test_rooms.py"))["MAP"]
    private = {
        path.stem.lstrip("_")
        for path in (ROOT / "packages" / "jackstay" / "src" / "jackstay").glob("_[a-z]*.py")
    }
    return {
        room: tuple(below for below in belows if below not in private)
        for room, belows in known.items()
        if room not in private
    }


def words() -> dict[str, str]:
    """What the tree in CONTRIBUTING.md says of each room."""
    tree = re.findall(
        r"^packages/[\w-]+/src/(?:jackstay/)?(\w+)(?:/|\.py) +(.+)$",
        (ROOT / "CONTRIBUTING.md").read_text("utf-8"),
        re.MULTILINE,
    )
    return {name: said.replace("`", "") for name, said in tree}


DRAWN: dict[str, Callable[[], str]] = {
    "rooms.svg": lambda: draw_rooms(rooms(), words()),
    "client-machine.svg": lambda: draw_machine(MACHINES["client"]),
}


def main(arguments: list[str]) -> int:
    """Draw or check; the exit code says whether all is as it should be."""
    parser = argparse.ArgumentParser(description="Draw the pictures that are made from tables.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a picture would change")
    options = parser.parse_args(arguments)
    stale = []
    for name, draw in DRAWN.items():
        path, drawn = PICTURES / name, draw()
        if options.check:
            if not path.exists() or path.read_text(encoding="utf-8") != drawn:
                stale.append(path.relative_to(ROOT))
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(drawn, encoding="utf-8")
    for path in stale:
        print(f"{path} is not what its table says; run `make docs`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
