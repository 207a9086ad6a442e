"""Draw docs/pictures/layers.svg and docs/pictures/client-machine.svg from tables, the latter also for the inspector.

`--check` writes nothing, and fails if a picture would change. The layers are those of tests/test_layers.py, with
captions from CONTRIBUTING.md. `make demo RECORD=docs/pictures/demo.svg` records the third picture.
"""

import argparse
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

from draw_layers import draw_layers
from draw_machine import draw_machine
from jackstay.protocol.drawing import MACHINES

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"


def layers() -> dict[str, tuple[str, ...]]:
    """Return the layers of tests/test_layers.py, without private ones."""
    sys.path.insert(0, str(ROOT / "tests"))
    known = runpy.run_path(str(ROOT / "tests" / "test_layers.py"))["MAP"]
    private = {
        path.stem.lstrip("_") for path in (ROOT / "packages" / "jackstay" / "src" / "jackstay").glob("_[a-z]*.py")
    }
    return {
        layer: tuple(below for below in belows if below not in private)
        for layer, belows in known.items()
        if layer not in private
    }


def words() -> dict[str, str]:
    """Return the caption of each layer from CONTRIBUTING.md."""
    tree = re.findall(
        r"^packages/[\w-]+/src/(?:jackstay/)?(\w+)(?:/|\.py) +(.+)$",
        (ROOT / "CONTRIBUTING.md").read_text("utf-8"),
        re.MULTILINE,
    )
    return {name: caption.replace("`", "") for name, caption in tree}


DRAWN: dict[str, Callable[[], str]] = {
    "layers.svg": lambda: draw_layers(layers(), words()),
    "client-machine.svg": lambda: draw_machine(MACHINES["client"]),
}

# The drawing in the inspector page, whose style sheet has the colours.
MACHINE = ROOT / "packages" / "jackstay" / "src" / "jackstay" / "inspector" / "assets" / "machine.svg"


def machine_of_page() -> str:
    """Return the machine of a client without a style."""
    return re.sub("<style>.*?</style>\n", "", draw_machine(MACHINES["client"]), flags=re.DOTALL)


def main(arguments: list[str]) -> int:
    """Draw or check; return the exit code."""
    parser = argparse.ArgumentParser(description="Draw the pictures that are made from tables.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a picture would change")
    options = parser.parse_args(arguments)
    stale = []
    pictures = {PICTURES / name: draw for name, draw in DRAWN.items()}
    for path, draw in {**pictures, MACHINE: machine_of_page}.items():
        drawn = draw()
        if options.check:
            if not path.exists() or path.read_text(encoding="utf-8") != drawn:
                stale.append(path.relative_to(ROOT))
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(drawn, encoding="utf-8")
    for path in stale:
        print(f"{path} is out of date; run `make docs`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
