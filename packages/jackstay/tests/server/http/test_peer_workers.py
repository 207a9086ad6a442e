"""The number of a worker, the ids of its requests to clients, and the workers that are alive."""

import itertools

from jackstay.server import MemoryChanges
from jackstay.server.http import _peer_workers as workers_file
from jackstay.server.http._peer_workers import PeerWorkers


def test_ids_increase_and_differ_between_workers() -> None:
    first, second = PeerWorkers(), PeerWorkers()
    ids = [next(first) for _ in range(100)]
    assert ids == sorted(set(ids))
    assert not {next(second) for _ in range(100)}.intersection(ids)
    assert first.name in repr(first)


def test_every_id_is_an_integer_that_clients_can_represent() -> None:
    """RFC 8259, section 6: up to 2**53 - 1."""
    ids = PeerWorkers()
    ids._number = (1 << workers_file.WORKER_BITS) - 1
    ids._count = itertools.count((1 << workers_file.COUNT_BITS) - 1)
    assert next(iter(ids)) == 2**53 - 1
    assert next(ids) == ids.number << workers_file.COUNT_BITS, "the count starts again"


async def test_a_worker_is_gone_after_it_was_silent_while_this_one_watched() -> None:
    workers = PeerWorkers()
    assert not await workers.is_gone("a", 1000), "nothing was watched"
    workers.watch(100)
    workers.watch(105)
    workers.received("b", 108)
    assert [await workers.is_gone("a", now) for now in (109, 109.1)] == [False, True]
    assert [await workers.is_gone("b", now) for now in (117, 117.1)] == [False, True]
    assert not await workers.is_gone(workers.name, 1000)


async def test_a_bus_with_mailboxes_knows_which_workers_are_alive() -> None:
    workers = PeerWorkers()
    workers.mailboxes = bus = MemoryChanges()
    bus.join("a")
    assert [await workers.is_gone(name, 0) for name in ("a", "b", workers.name)] == [False, True, False]


def test_the_sender_of_a_request_is_part_of_its_id() -> None:
    workers = PeerWorkers()
    assert workers.sender_of(next(workers)) == workers.name
    assert [workers.sender_of(id) for id in ("1", None, -1)] == [None, None, None]


def test_a_bounded_number_of_workers_is_remembered() -> None:
    workers = PeerWorkers()
    for number in range(workers_file.MAX_REMEMBERED + 1):
        workers.received(str(number), number)
    workers.received("1", 0)
    assert len(workers._alive) == workers_file.MAX_REMEMBERED
    assert "0" not in workers._alive
