"""Where things are in the repository, for tests in any of its directories."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
# Each import package and the directory that has it.
SOURCES = {
    "jackstay": ROOT / "packages" / "jackstay" / "src",
    "apcore_mcp": ROOT / "packages" / "jackstay-apcore" / "src",
    "procontext": ROOT / "packages" / "jackstay-procontext" / "src",
}


def import_path(path: Path) -> Path:
    """A source file as Python finds it: relative to the directory that is on the path, such as `jackstay/errors.py`."""
    return path.relative_to(next(source for source in SOURCES.values() if path.is_relative_to(source)))


# For programs that tests start.
PYTHONPATH = os.pathsep.join(map(str, SOURCES.values()))
