"""A server over our own stdio that echoes every frame, prints where it must not, and says on stderr what it found.

`own_echo.py [loop]` with `uvloop` as its loop where asked. Exits 0 after the end of its input, with everything written.
"""

import asyncio
import os
import subprocess
import sys
from functools import partial

from jackstay.testing.transport_suite import Recorder
from jackstay.transport import own_stdio


def say(words: str) -> None:
    if sys.stderr is not None:  # then `print` would take stdout for it
        print(words, file=sys.stderr)


def has_more_rooms(owner: Recorder, before: int) -> bool:
    return owner.rooms > before


async def main() -> None:
    owner = Recorder()
    transport = owner.transport = await own_stdio().open(owner, 100_000_000, 1.0)
    owner.pull()
    print("a print of the server's")
    subprocess.run(["/bin/echo", "a print of a child's"], check=True)
    # Ends at once, or it would steal our input; fails where Python was started without a stdin.
    subprocess.run(["/bin/cat"], check=False, timeout=10, stderr=subprocess.DEVNULL)
    echoed = 0
    while echoed < len(owner.frames) or not owner.ends:
        while echoed < len(owner.frames):
            frame = owner.frames[echoed]
            assert isinstance(frame, bytes)
            if not transport.send(frame, echoed + 1):
                await owner.until(partial(has_more_rooms, owner, owner.rooms))
                continue
            echoed += 1
        await owner.until(lambda: len(owner.frames) > echoed or owner.ends)  # noqa: B023  waited for here
    await owner.until(lambda: owner.through == echoed)
    say(f"the end: {owner.ends[0][0]}, silent: {owner.ends[0][2]}")
    await transport.close()
    if sys.__stdin__ is not None:
        say(f"blocking afterwards: {os.get_blocking(0)} {os.get_blocking(1)}")
    os.write(1, b"stdout is back\n")


if sys.argv[1:] == ["uvloop"]:
    import uvloop

    uvloop.run(main())
else:
    asyncio.run(main())
