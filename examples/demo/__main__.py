"""Play the story, show it, and record it where that is asked for.

    python examples/demo                          about a minute
    python examples/demo --fast                   the same in a few seconds
    python examples/demo --record demo.svg        and keep it as an SVG that plays

The exit code is 0 where everybody was told the truth, 1 where somebody was not, 130 after Ctrl-C.
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

from demo.film import Recorder, describe, develop
from demo.picture import is_held
from demo.story import Stage, StoryError, play
from demo.terminal import Screen, screen_for
from jackstay.errors import McpError

FAST = 0.03
# Pictures a second on a terminal.
RATE = 10.0
TITLE = "jackstay: a client that holds while its server is killed, hangs and fails to start"


def parse(words: list[str]) -> argparse.Namespace:
    """The options. Ends the program with 2 where they are not understood."""
    parser = argparse.ArgumentParser(
        prog="demo", description="A client that holds, shown with real processes."
    )
    parser.add_argument("--fast", action="store_true", help="in a few seconds instead of a minute")
    parser.add_argument("--record", metavar="FILE.svg", type=Path, help="keep it as an SVG that plays")
    options = parser.parse_args(words)
    if options.record is not None and not os.access(options.record.parent, os.W_OK):
        parser.error(f"--record: nothing can be written to {options.record.parent}; make it, or name another")
    return options


async def run(pace: float, screen: Screen, recorder: Recorder | None) -> Stage:
    """The story, shown while it happens. Raises: what it could not go on for; CancelledError after a signal."""
    logging.getLogger("jackstay").setLevel(
        logging.ERROR
    )  # losses are on the screen, which log lines would tear
    with tempfile.TemporaryDirectory(prefix="jackstay-demo-") as directory:
        stage = Stage(Path(directory), pace)

        def show() -> None:
            screen.show(stage.chronicle, stage.clock())
            if recorder is not None:
                recorder.show(stage.chronicle, stage.clock())

        playing, showing = asyncio.create_task(play(stage)), asyncio.create_task(keep_showing(show))
        try:
            await asyncio.wait([playing, showing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (playing, showing):
                task.cancel()
            await asyncio.wait([playing, showing])
        if not showing.cancelled():
            showing.result()  # it ends by itself only with an error: whoever looked has gone
        playing.result()
        if recorder is not None:
            recorder.show(stage.chronicle, stage.clock(), must=True)
        return stage


async def keep_showing(show: Callable[[], None]) -> None:
    """A picture, again and again."""
    while True:
        show()
        await asyncio.sleep(1 / RATE)


async def interruptible(pace: float, screen: Screen, recorder: Recorder | None) -> Stage:
    """The same, ended by a signal as if it were cancelled; more of them while it ends change nothing: the end is bounded."""
    loop, task = asyncio.get_running_loop(), asyncio.create_task(run(pace, screen, recorder))
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, _cancel_once(task))
    try:
        return await task
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def _cancel_once(task: "asyncio.Task[Stage]") -> Callable[[], None]:
    def cancel() -> None:
        if not task.cancelling():
            task.cancel()

    return cancel


def main(words: list[str]) -> int:
    """Run it; `words` are the arguments of the command line."""
    options = parse(words)
    recorder = None if options.record is None else Recorder()
    screen = screen_for(sys.stdout)
    try:
        with screen:
            stage = asyncio.run(interruptible(FAST if options.fast else 1.0, screen, recorder))
    except asyncio.CancelledError:
        print("Ended before its end.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read has gone. What is still to be flushed at exit must go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (McpError, StoryError) as error:
        print(f"The story could not go on: {error}", file=sys.stderr)
        return 1
    now = stage.clock()
    screen.leave_behind(stage.chronicle, now)
    if recorder is not None:
        film = develop(recorder.frames, TITLE, describe(stage.chronicle, now))
        options.record.write_text(film, encoding="utf-8")
        print(
            f"Recorded: {options.record}, {len(film.encode()) / 1024:.0f} KiB, {len(recorder.frames)} pictures."
        )
    return 0 if is_held(stage.chronicle) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
