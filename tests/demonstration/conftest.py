"""Adds `examples` to the path: the demonstration is a program there, not an installed package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "examples"))
