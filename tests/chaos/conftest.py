"""Every test here starts real processes; none may leave processes or descriptors behind."""

from chaos.leftovers import _nothing_left

__all__ = ["_nothing_left"]
