"""The suite for backends: the backend in memory passes, and a backend that shares nothing does not."""

import pytest

from jackstay.server import Backend, MemoryBackend
from jackstay.testing import backend_suite


class TestMemoryBackend(backend_suite.BackendSuite):
    def make(self) -> tuple[Backend, Backend]:
        backend = MemoryBackend()
        return backend, backend


class TwoBackends(backend_suite.BackendSuite):
    """Two backends without common data."""

    def make(self) -> tuple[Backend, Backend]:
        return MemoryBackend(), MemoryBackend()


def test_backends_that_share_nothing_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = TwoBackends()
    with pytest.raises(AssertionError):
        suite.test_a_session_of_one_worker_is_known_to_the_other()
    with pytest.raises(AssertionError):
        suite.test_events_of_one_worker_are_replayed_by_the_other()
    with pytest.raises(NotImplementedError):
        backend_suite.BackendSuite().test_a_backend_can_be_opened_again()
    monkeypatch.setattr("jackstay.testing._guarded.GUARD_SECONDS", 0.1)
    with pytest.raises(TimeoutError):
        suite.test_changes_reach_every_worker_in_order()
