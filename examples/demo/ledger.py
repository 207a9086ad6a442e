"""Compare the outcomes that callers received with the ledger of the server."""

from collections import Counter
from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple


class Outcome(Enum):
    """The outcome of a call."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


# How often a call without a retry may have run (minimum, maximum). A retry allows one more run, unless it failed.
ALLOWED = {Outcome.OK: (1, 1), Outcome.FAILED: (0, 0), Outcome.UNKNOWN: (0, 1)}


class Row(NamedTuple):
    """The number of calls of one tool with one outcome, and how often they ran."""

    tool: str
    outcome: Outcome
    calls: int
    ran: int


class Comparison(NamedTuple):
    """The rows, and a description of every violation."""

    rows: tuple[Row, ...]
    violations: tuple[str, ...]

    def row(self, tool: str, outcome: Outcome) -> Row:
        """Return the row of this pair, with zeros if there were no calls."""
        found = (row for row in self.rows if (row.tool, row.outcome) == (tool, outcome))
        return next(found, Row(tool, outcome, 0, 0))


def compare(outcomes: Mapping[str, Outcome], retried: Collection[str], ran: Mapping[str, int]) -> Comparison:
    """Compare the outcome of each nonce with how often it ran. A nonce starts with the name of its tool and a dash."""
    calls: Counter[tuple[str, Outcome]] = Counter()
    runs: Counter[tuple[str, Outcome]] = Counter()
    violations = []
    for nonce, outcome in outcomes.items():
        times = ran.get(nonce, 0)
        key = (nonce.partition("-")[0], outcome)
        calls[key] += 1
        runs[key] += times
        low, high = ALLOWED[outcome]
        if not low <= times <= high + (high > 0 and nonce in retried):
            violations.append(f"{nonce} was {outcome.value} and ran {times} times")
    violations.extend(f"{nonce} ran without an outcome" for nonce in ran if nonce not in outcomes)
    return Comparison(tuple(Row(*key, calls[key], runs[key]) for key in calls), tuple(violations))
