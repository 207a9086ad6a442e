"""The chosen event loop runs in this process and in the Python processes that tests start."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

import loops
from jackstay.transport._stdio import child_environment

CHOSEN = os.environ.get("JACKSTAY_LOOP") or "asyncio"
SHOW = """
import sys
was_loaded = "asyncio" in sys.modules
import asyncio

async def main():
    return type(asyncio.get_running_loop()).__module__

with asyncio.Runner() as runner:
    found = {asyncio.run(main()), runner.run(main())}
loop = asyncio.new_event_loop()
found.add(type(loop).__module__)
loop.close()
print(was_loaded, *found)
"""


async def _module() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_every_loop_of_this_process_is_of_the_kind_that_was_chosen() -> None:
    with asyncio.Runner() as runner:
        found = {asyncio.run(_module()), runner.run(_module())}
    loop = asyncio.new_event_loop()
    found.add(type(loop).__module__)
    loop.close()
    assert {name.partition(".")[0] for name in found} == {CHOSEN}


@pytest.mark.parametrize("loop", loops.NAMES)
def test_every_loop_of_a_child_is_of_the_kind_that_was_chosen_and_asyncio_is_not_loaded_for_it(
    loop: str, tmp_path: Path
) -> None:
    loops.install()
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        env={**os.environ, "JACKSTAY_LOOP": loop, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    was_loaded, module = done.stdout.split()
    assert (was_loaded, module.partition(".")[0]) == ("False", loop)


def test_a_child_process_inherits_the_choice_of_the_loop() -> None:
    given = child_environment({"JACKSTAY_LOOP": CHOSEN, "SECRET": "x"}, None, False)
    assert given == ({"JACKSTAY_LOOP": "uvloop"} if CHOSEN == "uvloop" else {})
