"""Matching: from the name that somebody typed to the libraries it may mean. In memory, without I/O."""

from procontext.resolve._index import Index, most_edits
from procontext.resolve._names import canonical, normalise, squashed

__all__ = ["Index", "canonical", "most_edits", "normalise", "squashed"]
