"""Paths in the repository."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
# Import package -> its source directory.
SOURCES = {
    "jackstay": ROOT / "packages" / "jackstay" / "src",
    "apcore_mcp": ROOT / "packages" / "jackstay-apcore" / "src",
    "procontext": ROOT / "packages" / "jackstay-procontext" / "src",
}


def import_path(path: Path) -> Path:
    """The path of a source file below its source directory, such as `jackstay/errors.py`."""
    return path.relative_to(next(source for source in SOURCES.values() if path.is_relative_to(source)))


# For programs that tests start.
PYTHONPATH = os.pathsep.join(map(str, SOURCES.values()))
