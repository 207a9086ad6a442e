"""The legs of the official conformance suite, with the number of scenarios of each.

The number is pinned, because a suite that runs nothing passes. It changes only with the version in `package.json`.
"""

from dataclasses import dataclass
from pathlib import Path

from interop.peers import ROOT, Peer

SUITE = Peer(
    "suite",
    "npm",
    ("@modelcontextprotocol/conformance@0.2.0-alpha.12",),
    "tool",
    "node_modules/@modelcontextprotocol/conformance/dist/index.js",
    lock=Path(__file__).parent / "package-lock.json",
    under=ROOT / ".conformance",
)

# All client scenarios of a leg start at once, on as many cores as there are.
CLIENT_TIMEOUT = ("--timeout", "90000")


# Scenarios for which the suite has no checks.
SKIPPED = frozenset({"tasks-status-notifications"})


@dataclass(frozen=True)
class Leg:
    """One run of the suite. `side` is the side under test; `count` is the expected number of scenarios."""

    side: str
    name: str
    options: tuple[str, ...]
    count: int
    # True: the leg includes scenarios of extensions, some of which the suite skips.
    has_extensions: bool = False

    @property
    def id(self) -> str:
        """The name in the output, and of the result directory."""
        return f"{self.side} {self.name}"


def _revision(side: str, revision: str, count: int) -> Leg:
    return Leg(side, revision, ("--suite", "all", "--spec-version", revision), count)


# The requirements of the revision at its release: a frozen list in the suite, with its own exit code.
def _required(side: str, revision: str, count: int) -> Leg:
    return Leg(side, f"required by {revision}", ("--requirements", revision), count, has_extensions=True)


LEGS = (
    _revision("server", "2025-03-26", 1),
    _revision("server", "2025-06-18", 27),
    _revision("server", "2025-11-25", 33),
    _revision("server", "2026-07-28", 40),
    _required("server", "2025-11-25", 33),
    _required("server", "2026-07-28", 50),
    # Each scenario with its own revision, including those of extensions.
    Leg("server", "all", ("--suite", "all"), 65, has_extensions=True),
    _revision("client", "2025-03-26", 2),
    _revision("client", "2025-06-18", 5),
    _revision("client", "2025-11-25", 19),
    _revision("client", "2026-07-28", 33),
    _required("client", "2025-11-25", 25),
    _required("client", "2026-07-28", 39),
    Leg("client", "all", ("--suite", "all"), 48, has_extensions=True),
)
