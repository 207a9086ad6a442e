"""Run the official conformance suite against the server and the client (`make conformance`).

python tests/conformance/run.py                       # everything
python tests/conformance/run.py "server 2026-07-28"   # one leg of the table
"""

# The server is `examples/everything.py` on a free port. The client is `client.py`, which the suite starts once for each
# scenario. Server and client legs run concurrently. Results are kept in `.conformance/results`, one directory per leg.

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from conformance.legs import CLIENT_TIMEOUT, LEGS, SUITE, Leg
from conformance.verdicts import Outcome, Verdict, judge, read_outcomes
from interop.install import NotInstalledError, make
from interop.listening import NotServingError, listening
from interop.peers import NODE, ROOT, node

RESULTS = SUITE.under / "results"
# Relative, because the suite splits the command at spaces, and the path of the checkout may contain one.
PYTHON = os.path.relpath(sys.executable, ROOT)
CLIENT = f"{PYTHON} tests/conformance/client.py"
# The client is started 171 times: allow compiled files.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
LEG_SECONDS = 240.0
# Server scenarios have time limits of half a second, and client scenarios start up to 48 processes at once.
LOW_PRIORITY = ("nice", "-n", "5")


@dataclass(frozen=True)
class Done:
    """The result of a leg."""

    leg: Leg
    outcomes: list[Outcome]
    wrong: list[str]
    seconds: float


def everything(port: int) -> tuple[str, ...]:
    """Return the command of the server under test."""
    return sys.executable, "examples/everything.py", "--port", str(port)


class Shutdown:
    """The running suites, so that an interrupt ends them and no further leg starts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self.is_requested = False

    def begin(self, suite: "subprocess.Popen[bytes]") -> None:
        """Add a running suite."""
        with self._lock:
            self._running.add(suite)

    def finish(self, suite: "subprocess.Popen[bytes]", timeout: float) -> int:
        """Wait for a suite and return its exit code. After the timeout, kill it with its children."""
        try:
            return suite.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(suite.pid, signal.SIGKILL)
            return suite.wait()
        finally:
            with self._lock:
                self._running.discard(suite)

    def end_all(self) -> None:
        """Kill every suite with its children."""
        self.is_requested = True
        with self._lock:
            for suite in self._running:
                os.killpg(suite.pid, signal.SIGKILL)


SHUTDOWN = Shutdown()


def run(leg: Leg, subject: tuple[str, ...]) -> Done:
    """Run a leg and check its results."""
    home = RESULTS / leg.id.replace(" ", "-")
    home.mkdir()
    arguments = (node(), SUITE.home / SUITE.program, leg.side, *subject, *leg.options, "-o", home / "out")
    command = arguments if leg.side == "server" else (*LOW_PRIORITY, *arguments)
    started = time.monotonic()
    with (home / "log.txt").open("wb") as log:
        suite = subprocess.Popen(
            [str(argument) for argument in command],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=ENVIRONMENT,
            start_new_session=True,  # so that its children can be killed with it
        )
        SHUTDOWN.begin(suite)
        code = SHUTDOWN.finish(suite, LEG_SECONDS)
    outcomes = read_outcomes(leg.side, home / "out")
    wrong = judge(leg, outcomes)
    # Skipped scenarios may make the suite exit with 1.
    if code != 0 and not wrong and not (leg.has_extensions and code == 1 and leg.options[0] == "--suite"):
        wrong.append(f"the suite exited with {code}; see {home / 'log.txt'}")
    return Done(leg, outcomes, wrong, time.monotonic() - started)


def run_all(legs: list[Leg]) -> list[Done]:
    """Run the legs: the two sides concurrently, the legs of a side in sequence."""
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)

    def run_side(side: str, subject: tuple[str, ...]) -> list[Done]:
        own_legs = (leg for leg in legs if leg.side == side)
        return [run(leg, subject) for leg in own_legs if not SHUTDOWN.is_requested]

    def run_servers() -> list[Done]:
        if all(leg.side != "server" for leg in legs):
            return []
        with listening(everything, RESULTS / "server.log") as url:
            return run_side("server", ("--url", f"{url}/mcp"))

    with ThreadPoolExecutor(2) as pool:
        sides = [pool.submit(run_servers)]
        sides.append(pool.submit(run_side, "client", ("--command", CLIENT, *CLIENT_TIMEOUT)))
        try:
            return [done for side in sides for done in side.result()]
        except BaseException:  # an interrupt, or a server that did not start: end the other side, too
            SHUTDOWN.end_all()
            raise


def report(results: list[Done], seconds: float) -> int:
    """Print the problems, the table and the total; return the exit code."""
    for done in results:
        for problem in done.wrong:
            print(f"{done.leg.id}: {problem}")
    columns = "{:<30} {:>9} {:>7} {:>7} {:>7} {:>7}"
    print(columns.format("leg", "scenarios", "passed", "checks", "wrong", "seconds"))
    for done in results:
        passed = [outcome for outcome in done.outcomes if outcome.verdict is Verdict.PASSED]
        checks = sum(outcome.checks for outcome in passed)
        row = (done.leg.id, len(done.outcomes), len(passed), checks, len(done.wrong), f"{done.seconds:.1f}")
        print(columns.format(*row))
    passed_scenarios = sum(out.verdict is Verdict.PASSED for done in results for out in done.outcomes)
    wrong = sum(len(done.wrong) for done in results)
    print(f"Scenarios that the suite skips are not counted as passed. {seconds:.0f} s.")
    print(f"{passed_scenarios} passed, {wrong} failed")
    return 1 if wrong else 0


def main(names: list[str]) -> int:
    """Install the suite if necessary, and run the named legs, or all. Returns the exit code."""
    unknown = set(names) - {leg.id for leg in LEGS}
    if unknown:
        print(
            f"unknown leg: {', '.join(sorted(unknown))}; valid legs: {', '.join(leg.id for leg in LEGS)}",
            file=sys.stderr,
        )
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # like an interrupt
    started = time.monotonic()
    try:
        NODE.under.mkdir(exist_ok=True)
        for tool in (NODE, SUITE):
            print(make(tool), flush=True)
    except (NotInstalledError, OSError) as error:
        print(f"The suite cannot be installed. {error}", file=sys.stderr)
        return 1
    try:
        results = run_all([leg for leg in LEGS if not names or leg.id in names])
    except NotServingError as error:
        print(f"examples/everything.py {error}", file=sys.stderr)
        return 1
    return report(results, time.monotonic() - started)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
