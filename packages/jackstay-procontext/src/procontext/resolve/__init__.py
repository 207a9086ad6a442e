"""Matching of names to libraries, in memory and without I/O."""

from procontext.resolve._index import Index, max_edits
from procontext.resolve._names import canonical, normalise, strip_separators
from procontext.resolve._versions import allows, best_version, numbers, requested_version, wanted_numbers

__all__ = [
    "Index",
    "allows",
    "best_version",
    "canonical",
    "max_edits",
    "normalise",
    "numbers",
    "requested_version",
    "strip_separators",
    "wanted_numbers",
]
