"""Run logs for tests."""

from demo.callers import CALL_STYLES
from demo.ledger import Comparison, Outcome, compare
from demo.log import RunLog
from demo.scenario import STEPS


def beginning() -> RunLog:
    """An empty log of a run of one minute."""
    return RunLog(tuple(style.label for style in CALL_STYLES), len(STEPS), 60.0)


def outage() -> RunLog:
    """At 12 s: one call ok, one failed, one unknown, one retried, one open; the client is in backoff."""
    log = beginning()
    log.begin_step(0.0, STEPS[0].head, STEPS[0].detail)
    log.enter(0.0, "starting", 0)
    log.enter(0.5, "initializing", 0)
    log.enter(1.0, "ready", 0)
    log.pid, log.servers = 4711, 1
    rows = [(3.0, Outcome.OK), (10.0, Outcome.FAILED), (10.0, Outcome.UNKNOWN), (11.0, Outcome.OK)]
    for lane, (end, outcome) in enumerate(rows):
        log.begin(lane, f"pay-{lane}.0", 2.0)
        if lane == 3:
            log.retried.add("pay-3.0")
        log.end(lane, outcome, end)
    log.begin(4, "pay-4.0", 5.0)
    log.begin_step(9.0, STEPS[1].head, STEPS[1].detail)
    log.enter(10.0, "backoff", 3)
    log.wait = (10.0, 14.0)
    log.add_line(10.0, "retry 3 in 4.0 s: " + "a long reason " * 20)
    return log


def ending(ran: dict[str, int] | None = None, *, hung: int = 0, left: int = 0) -> RunLog:
    """At 20 s: the run is over and compared with the ledger."""
    log = outage()
    log.end(4, Outcome.OK, 15.0)
    log.enter(16.0, "closed", 0)
    runs = {"pay-0.0": 1, "pay-3.0": 2, "pay-4.0": 1} if ran is None else ran
    log.close(compare(log.outcomes, log.retried, runs), hung, left)
    assert isinstance(log.comparison, Comparison)
    return log
