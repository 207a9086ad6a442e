"""`composed.py` with a search in place of the list of tools. As a program: stdio."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from peers.composed import make_searched

if __name__ == "__main__":
    sys.exit(make_searched().run())
