"""Run the demonstration. Exit code 0: all outcomes agree with the ledger; 1: they do not; 130: interrupted.

python examples/demo                          about a minute
python examples/demo --fast                   in a few seconds
python examples/demo --record demo.svg        and record an animated SVG
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from demo.picture import is_consistent
from demo.recording import RecordingHandler, describe, render
from demo.scenario import Harness, ScenarioError, play
from demo.terminal import Screen, screen_for
from jackstay.errors import McpError

FAST = 0.03
# Pictures per second on a terminal.
RATE = 10.0
TITLE = "jackstay: a client whose server is killed, hangs and fails to start"


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the options. Exits with 2 if they are invalid."""
    parser = argparse.ArgumentParser(prog="demo", description="A client and a failing server, with real processes.")
    parser.add_argument("--fast", action="store_true", help="in a few seconds instead of a minute")
    parser.add_argument("--record", metavar="FILE.svg", type=Path, help="record an animated SVG")
    options = parser.parse_args(arguments)
    if options.record is not None and not os.access(options.record.parent, os.W_OK):
        parser.error(f"--record: cannot write to {str(options.record.parent)!r}; create it, or use another directory")
    return options


async def run(pace: float, screen: Screen, recorder: RecordingHandler | None) -> Harness:
    """Run the scenario and show it. Raises: ScenarioError, McpError; CancelledError after a signal."""
    logging.getLogger("jackstay").setLevel(logging.ERROR)  # log lines would disturb the picture
    with tempfile.TemporaryDirectory(prefix="jackstay-demo-") as directory:
        harness = Harness(Path(directory), pace)

        def show() -> None:
            screen.show(harness.log, harness.clock())
            if recorder is not None:
                recorder.show(harness.log, harness.clock())

        playing, showing = asyncio.create_task(play(harness)), asyncio.create_task(keep_showing(show))
        try:
            await asyncio.wait([playing, showing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (playing, showing):
                task.cancel()
            await asyncio.wait([playing, showing])
        if not showing.cancelled():
            showing.result()  # it ends only with an error, such as a closed pipe
        playing.result()
        if recorder is not None:
            recorder.show(harness.log, harness.clock(), must=True)
        return harness


async def keep_showing(show: Callable[[], None]) -> None:
    """Update the picture regularly."""
    while True:
        show()
        await asyncio.sleep(1 / RATE)


async def interruptible(pace: float, screen: Screen, recorder: RecordingHandler | None) -> Harness:
    """Run, and cancel it on the first signal. Later signals are ignored; the shutdown takes limited time."""
    loop, task = asyncio.get_running_loop(), asyncio.create_task(run(pace, screen, recorder))
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, _cancel_once(task))
    try:
        return await task
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def _cancel_once(task: "asyncio.Task[Harness]") -> Callable[[], None]:
    def cancel() -> None:
        if not task.cancelling():
            task.cancel()

    return cancel


def main(arguments: list[str]) -> int:
    """Run the demonstration; `arguments` are those of the command line."""
    options = parse(arguments)
    recorder = None if options.record is None else RecordingHandler()
    screen = screen_for(sys.stdout)
    try:
        with screen:
            harness = asyncio.run(interruptible(FAST if options.fast else 1.0, screen, recorder))
    except asyncio.CancelledError:
        print("Interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The interpreter flushes standard output at exit: redirect it to the null device.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (McpError, ScenarioError) as error:
        print(f"The demonstration failed: {error}", file=sys.stderr)
        return 1
    now = harness.clock()
    screen.print_summary(harness.log, now)
    if recorder is not None:
        svg = render(recorder.frames, TITLE, describe(harness.log, now))
        options.record.write_text(svg, encoding="utf-8")
        print(f"Recorded: {options.record}, {len(svg.encode()) / 1024:.0f} KiB, {len(recorder.frames)} pictures.")
    return 0 if is_consistent(harness.log) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
