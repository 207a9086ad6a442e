"""Batches: responses are collected in order, and a member without a response does not delay the others."""

from jackstay.protocol.server._batches import Batches


def test_a_batch_is_complete_with_its_last_response() -> None:
    batches = Batches()
    number = batches.open("id")
    batches.expect(number, 0, 1)
    batches.add(number, 1, b"second")
    batches.expect(number, 2, "1")
    assert batches.close(number) is None
    assert batches.resolve("1", b"third") == number
    assert batches.close(number) is None
    assert batches.resolve(1, b"first") == number
    assert batches.close(number) == ([b"first", b"second", b"third"], "id")
    assert not batches.responses


def test_a_member_without_a_response_does_not_delay_the_others() -> None:
    batches = Batches()
    number = batches.open(None)
    batches.expect(number, 0, 1)
    assert batches.close(number) is None
    assert batches.resolve(1, None) == number
    assert batches.close(number) == ([], None)


def test_a_request_outside_a_batch_is_ignored() -> None:
    batches = Batches()
    number = batches.open(None)
    batches.expect(number, 0, 1)
    assert batches.resolve(2, b"") is None
    assert batches.resolve(1, b"") == number
    assert batches.resolve(1, b"") is None


def test_flush_returns_the_available_responses() -> None:
    batches = Batches()
    for id in (1, 2):
        number = batches.open(id)
        batches.add(number, 1, b"%d" % id)
        batches.expect(number, 0, id)
    assert batches.flush() == [([b"1"], 1), ([b"2"], 2)]
    assert not batches.responses
    assert batches.resolve(1, b"") is None
