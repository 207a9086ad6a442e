"""The inbox of notifications: order, replacement of older ones of the same kind, and limits."""

import msgspec
import pytest

from jackstay.protocol.client import Inbox
from jackstay.protocol.client._inbox import CAPACITY

LOG = "notifications/message"
UPDATED = "notifications/resources/updated"
PROGRESS = "notifications/progress"
OTHER = "notifications/vendor/thing"


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def drain(inbox: Inbox) -> list[tuple[str, bytes]]:
    out = []
    while (notice := inbox.pop()) is not None:
        out.append((notice.method, notice.params))
    return out


def test_notifications_keep_their_order() -> None:
    inbox = Inbox()
    for number in range(5):
        inbox.put(OTHER, raw(str(number)))
    assert [params for _, params in drain(inbox)] == [b"0", b"1", b"2", b"3", b"4"]
    assert inbox.pop() is None


def test_only_the_newest_of_a_kind_is_kept(subtests: pytest.Subtests) -> None:
    cases = [
        # One list_changed of each kind; the newest is last.
        (
            [
                ("notifications/tools/list_changed", None),
                (OTHER, "1"),
                ("notifications/tools/list_changed", None),
            ],
            [(OTHER, b"1"), ("notifications/tools/list_changed", b"")],
        ),
        (
            [("notifications/tools/list_changed", None), ("notifications/prompts/list_changed", None)],
            [("notifications/tools/list_changed", b""), ("notifications/prompts/list_changed", b"")],
        ),
        # One update of each resource.
        (
            [(UPDATED, '{"uri":"a"}'), (UPDATED, '{"uri":"b"}'), (UPDATED, '{"uri":"a"}')],
            [(UPDATED, b'{"uri":"b"}'), (UPDATED, b'{"uri":"a"}')],
        ),
        # The newest progress of each token; 1 and "1" are two.
        (
            [
                (PROGRESS, '{"progressToken":1,"progress":1}'),
                (PROGRESS, '{"progressToken":"1","progress":1}'),
                (PROGRESS, '{"progressToken":1,"progress":2}'),
            ],
            [
                (PROGRESS, b'{"progressToken":"1","progress":1}'),
                (PROGRESS, b'{"progressToken":1,"progress":2}'),
            ],
        ),
        # Params that cannot be decoded are kept and never merged.
        (
            [(UPDATED, "5"), (UPDATED, "5"), (PROGRESS, "[]")],
            [(UPDATED, b"5"), (UPDATED, b"5"), (PROGRESS, b"[]")],
        ),
        # Log messages are all kept.
        ([(LOG, "1"), (LOG, "1")], [(LOG, b"1"), (LOG, b"1")]),
    ]
    for puts, left in cases:
        with subtests.test(puts=puts, left=left):
            inbox = Inbox()
            for method, params in puts:
                inbox.put(method, None if params is None else raw(params))
            assert drain(inbox) == left
            assert inbox.dropped == 0


def test_a_full_inbox_drops_the_oldest_log_message_and_then_the_oldest_notification() -> None:
    inbox = Inbox(3)
    for method, params in ((OTHER, "1"), (LOG, "2"), (OTHER, "3")):
        inbox.put(method, raw(params))
    inbox.put(OTHER, raw("4"))
    assert inbox.dropped == 1
    inbox.put(OTHER, raw("5"))
    assert inbox.dropped == 2
    assert [params for _, params in drain(inbox)] == [b"3", b"4", b"5"]


def test_a_popped_log_message_is_not_dropped_again() -> None:
    inbox = Inbox(2)
    inbox.put(LOG, raw("1"))
    assert inbox.pop() is not None
    inbox.put(OTHER, raw("2"))
    inbox.put(LOG, raw("3"))
    inbox.put(OTHER, raw("4"))
    assert [params for _, params in drain(inbox)] == [b"2", b"4"]


def test_a_replacement_drops_nothing() -> None:
    inbox = Inbox(1)
    inbox.put(UPDATED, raw('{"uri":"a"}'))
    inbox.put(UPDATED, raw('{"uri":"a","n":2}'))
    assert inbox.dropped == 0
    assert len(inbox) == 1


def test_the_capacity_and_repr() -> None:
    inbox = Inbox()
    for number in range(CAPACITY + 5):
        inbox.put(OTHER, raw(str(number)))
    assert CAPACITY == 1024
    assert len(inbox) == CAPACITY
    assert repr(inbox) == "<Inbox 1024 waiting, 5 dropped>"


def test_params_are_copied_out_of_their_frame() -> None:
    frame = bytearray(b'{"a":1}')
    inbox = Inbox()
    inbox.put(OTHER, msgspec.Raw(memoryview(frame)))
    frame[:] = b"xxxxxxx"
    assert drain(inbox) == [(OTHER, b'{"a":1}')]


def test_the_bytes_are_bounded_and_a_single_notification_of_any_size_is_kept() -> None:
    inbox = Inbox(max_bytes=100)
    for letter in "abc":
        inbox.put(OTHER, raw(letter * 40))
    assert [params[:1] for _, params in drain(inbox)] == [b"b", b"c"]
    assert inbox.dropped == 1
    inbox.put(OTHER, raw("d"))
    inbox.put(OTHER, raw("e" * 1000))
    assert [params[:1] for _, params in drain(inbox)] == [b"e"]
    for _ in range(10):  # popped, dropped and replaced ones do not count
        inbox.put(UPDATED, raw('{"uri":"x","more":"%s"}' % ("y" * 60)))
    inbox.put(OTHER, raw("f"))
    assert (len(inbox), inbox.dropped) == (2, 2)


def test_popped_log_messages_leave_nothing_behind() -> None:
    inbox = Inbox(2)
    for _ in range(1000):
        inbox.put(LOG, raw("{}"))
        inbox.pop()
    assert not inbox._logs
    inbox.put(LOG, raw("1"))
    inbox.put(OTHER, raw("2"))
    inbox.put(OTHER, raw("3"))
    assert [params for _, params in drain(inbox)] == [b"2", b"3"]
