"""The demonstration is a program in `examples`, not a package of ours: it is found by its folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "examples"))
