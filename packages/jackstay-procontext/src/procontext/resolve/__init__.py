"""Matching of names to libraries, in memory and without I/O."""

from procontext.resolve._index import Index, max_edits
from procontext.resolve._names import canonical, normalise, strip_separators

__all__ = ["Index", "canonical", "max_edits", "normalise", "strip_separators"]
