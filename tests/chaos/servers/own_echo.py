"""A program that echoes frames over its own stdio, and prints to stdout and stderr: `own_echo.py [uvloop]`.

It exits with 0 after the end of its input, when everything is written.
"""

import asyncio
import os
import subprocess
import sys
from functools import partial

from jackstay.testing.transport_suite import RecordingHandler
from jackstay.transport import own_stdio


def report(line: str) -> None:
    if sys.stderr is not None:  # `print` would use stdout instead
        print(line, file=sys.stderr)


def has_capacity_again(handler: RecordingHandler, before: int) -> bool:
    return handler.room_calls > before


async def main() -> None:
    handler = RecordingHandler()
    transport = handler.transport = await own_stdio().open(handler, 100_000_000, 1.0)
    handler.pull()
    print("a print of the server's")
    subprocess.run(["/bin/echo", "a print of a child's"], check=True)
    # Ends at once, or it would consume the input; fails if Python was started without a stdin.
    subprocess.run(["/bin/cat"], check=False, timeout=10, stderr=subprocess.DEVNULL)
    echoed = 0
    while echoed < len(handler.frames) or not handler.ends:
        while echoed < len(handler.frames):
            frame = handler.frames[echoed]
            assert isinstance(frame, bytes)
            if not transport.send(frame, echoed + 1):
                await handler.until(partial(has_capacity_again, handler, handler.room_calls))
                continue
            echoed += 1
        await handler.until(lambda: len(handler.frames) > echoed or handler.ends)  # noqa: B023  waited for here
    await handler.until(lambda: handler.through == echoed)
    report(f"the end: {handler.ends[0][0]}, silent: {handler.ends[0][2]}")
    await transport.close()
    if sys.__stdin__ is not None:
        report(f"blocking afterwards: {os.get_blocking(0)} {os.get_blocking(1)}")
    os.write(1, b"stdout is back\n")


if sys.argv[1:] == ["uvloop"]:
    import uvloop

    uvloop.run(main())
else:
    asyncio.run(main())
