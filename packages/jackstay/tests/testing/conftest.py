"""Transports start processes, threads and descriptors; no test may leave any behind."""

from chaos.leftovers import _nothing_left

__all__ = ["_nothing_left"]
