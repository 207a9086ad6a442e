"""Arrays of requests: their answers wait for each other, in order, and a member without one holds nothing up."""

from jackstay.protocol.server._batches import Batches


def test_an_array_goes_out_when_every_member_has_its_answer() -> None:
    batches = Batches()
    number = batches.open("about")
    batches.expect(number, 0, 1)
    batches.put(number, 1, b"second")
    batches.expect(number, 2, "1")
    assert batches.close(number) is None
    assert batches.settle("1", b"third") == number
    assert batches.close(number) is None
    assert batches.settle(1, b"first") == number
    assert batches.close(number) == ([b"first", b"second", b"third"], "about")
    assert not batches.answers


def test_a_member_without_an_answer_holds_nothing_up() -> None:
    batches = Batches()
    number = batches.open(None)
    batches.expect(number, 0, 1)
    assert batches.close(number) is None
    assert batches.settle(1, None) == number
    assert batches.close(number) == ([], None)


def test_a_request_outside_of_arrays_is_left_alone() -> None:
    batches = Batches()
    number = batches.open(None)
    batches.expect(number, 0, 1)
    assert batches.settle(2, b"") is None
    assert batches.settle(1, b"") == number
    assert batches.settle(1, b"") is None


def test_flushing_gives_what_is_there_of_every_array() -> None:
    batches = Batches()
    for about in (1, 2):
        number = batches.open(about)
        batches.put(number, 1, b"%d" % about)
        batches.expect(number, 0, about)
    assert batches.flush() == [([b"1"], 1), ([b"2"], 2)]
    assert not batches.answers
    assert batches.settle(1, b"") is None


def test_a_copy_goes_its_own_way_and_numbers_do_not_count() -> None:
    first, second = Batches(), Batches()
    second.flush()
    second.close(second.open(None))  # so that the numbers differ
    for batches in (first, second):
        number = batches.open(1)
        batches.put(number, 0, b"x")
        batches.expect(number, 1, 1)
    assert first.snapshot() == second.snapshot()
    twin = first.copy()
    assert repr(twin) == repr(first) == "<Batches waiting={1: 2}>"
    twin.settle(1, b"y")
    assert twin.snapshot() != first.snapshot() == second.snapshot()
    assert not Batches().copy().answers
