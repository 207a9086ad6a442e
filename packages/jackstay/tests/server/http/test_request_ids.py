"""The ids of requests to clients."""

import itertools

from jackstay.server.http import _request_ids as ids_file
from jackstay.server.http._request_ids import RequestIds


def test_ids_increase_and_differ_between_workers() -> None:
    first, second = RequestIds(), RequestIds()
    ids = [next(first) for _ in range(100)]
    assert ids == sorted(set(ids))
    assert not {next(second) for _ in range(100)}.intersection(ids)
    assert "worker" in repr(first)


def test_every_id_is_an_integer_that_clients_can_represent() -> None:
    """RFC 8259, section 6: up to 2**53 - 1."""
    ids = RequestIds()
    ids._worker = (1 << ids_file.WORKER_BITS) - 1
    ids._count = itertools.count((1 << ids_file.COUNT_BITS) - 1)
    assert next(iter(ids)) == 2**53 - 1
    assert next(ids) == ids._worker << ids_file.COUNT_BITS, "the count starts again"
