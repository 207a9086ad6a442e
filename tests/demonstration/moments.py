"""Chronicles for tests: the same few events, as far as a test wants them."""

from demo.callers import MANNERS
from demo.chronicle import Chronicle
from demo.ledger import Books, Told, compare
from demo.story import SCENES


def beginning() -> Chronicle:
    """Nothing has happened yet. A minute has 60 columns or so."""
    return Chronicle(tuple(manner.label for manner in MANNERS), len(SCENES), 60.0)


def outage() -> Chronicle:
    """At 12 s: one call was answered, one failed, one is unknown, one was sent again, one is open; the client waits."""
    chronicle = beginning()
    chronicle.begin_scene(0.0, SCENES[0].head, SCENES[0].detail)
    chronicle.enter(0.0, "starting", 0)
    chronicle.enter(0.5, "initializing", 0)
    chronicle.enter(1.0, "ready", 0)
    chronicle.pid, chronicle.servers = 4711, 1
    for lane, (end, told) in enumerate(
        [(3.0, Told.OK), (10.0, Told.FAILED), (10.0, Told.UNKNOWN), (11.0, Told.OK)]
    ):
        chronicle.begin(lane, f"pay-{lane}.0", 2.0)
        if lane == 3:
            chronicle.sent_again.add("pay-3.0")
        chronicle.end(lane, told, end)
    chronicle.begin(4, "pay-4.0", 5.0)
    chronicle.begin_scene(9.0, SCENES[1].head, SCENES[1].detail)
    chronicle.enter(10.0, "backoff", 3)
    chronicle.wait = (10.0, 14.0)
    chronicle.say(10.0, "retry 3 in 4.0 s: " + "a long reason " * 20)
    return chronicle


def ending(ran: dict[str, int] | None = None, *, hung: int = 0, left: int = 0) -> Chronicle:
    """At 20 s: all is over, and the books are closed."""
    chronicle = outage()
    chronicle.end(4, Told.OK, 15.0)
    chronicle.enter(16.0, "closed", 0)
    runs = {"pay-0.0": 1, "pay-3.0": 2, "pay-4.0": 1} if ran is None else ran
    chronicle.close(compare(chronicle.told, chronicle.sent_again, runs), hung, left)
    assert isinstance(chronicle.books, Books)
    return chronicle
