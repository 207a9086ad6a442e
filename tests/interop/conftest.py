"""Fixtures for the tests with third-party programs: a test must not leak resources, and none is skipped."""

import os

import pytest

from chaos.leftovers import _nothing_left
from interop.install import stamp_of
from interop.peers import BY_NAME, PEERS

__all__ = ["_nothing_left"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Abort the run if a peer is not installed, instead of skipping its tests."""
    missing = []
    named = os.environ.get("JACKSTAY_PEERS", "").split()  # of `make openapi`, which needs few
    for peer in [BY_NAME[name] for name in named] or PEERS:
        stamp = peer.home / ".installed"
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != stamp_of(peer):
            missing.append(peer.name)
    if missing and not session.config.option.collectonly:
        raise pytest.UsageError(f"not installed: {', '.join(missing)}; run: make interop")
