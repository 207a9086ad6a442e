"""What the callers were told beside what the server wrote down: the rule that decides whether a client told the truth.

Functions of counts to rows; nothing is read or drawn here. Above: `story`, `picture`. Below: nothing.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple


class Told(Enum):
    """What a caller hears at the end of his call. There is no fourth."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


# How often a call may have run that was never sent again. Being sent again, which its caller asked for, allows one more
# wherever it may have run at all.
ALLOWED = {Told.OK: (1, 1), Told.FAILED: (0, 0), Told.UNKNOWN: (0, 1)}


class Row(NamedTuple):
    """One tool and one kind of outcome: how many were told so, and how often these ran in all."""

    tool: str
    told: Told
    calls: int
    ran: int


class Books(NamedTuple):
    """The rows, and every untruth in words; a client that holds has none."""

    rows: tuple[Row, ...]
    untruths: tuple[str, ...]

    def row(self, tool: str, told: Told) -> Row:
        """The row of that pair; of zeros where there were none."""
        found = (row for row in self.rows if (row.tool, row.told) == (tool, told))
        return next(found, Row(tool, told, 0, 0))


def compare(told: Mapping[str, Told], sent_again: Collection[str], ran: Mapping[str, int]) -> Books:
    """Hold what was told, by nonce, against how often it ran. A nonce begins with the name of its tool and a dash."""
    calls: Counter[tuple[str, Told]] = Counter()
    runs: Counter[tuple[str, Told]] = Counter()
    untruths = []
    for nonce, outcome in told.items():
        times = ran.get(nonce, 0)
        key = (nonce.partition("-")[0], outcome)
        calls[key] += 1
        runs[key] += times
        least, most = ALLOWED[outcome]
        if not least <= times <= most + (most > 0 and nonce in sent_again):
            untruths.append(f"{nonce} was told {outcome.value} and ran {times} times")
    untruths.extend(f"{nonce} ran, and nobody was told" for nonce in ran if nonce not in told)
    return Books(tuple(Row(*key, calls[key], runs[key]) for key in calls), tuple(untruths))
