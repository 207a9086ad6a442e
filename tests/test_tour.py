"""docs/tour.md follows one `tools/call` through the files that it really passes, in their order."""

import asyncio
import json
import re
import sys
from pathlib import Path
from types import FrameType

import pytest

from jackstay import connect, stdio
from scripted.places import PYTHONPATH, SOURCES, TESTS

ROOT = Path(__file__).parent.parent
TOUR = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
SOURCE = SOURCES["jackstay"] / "jackstay"

# Files of the tour that are tables, or that other calls pass.
ASIDE = {
    "protocol/client/_actions.py",
    "protocol/client/_table.py",
    "protocol/client/_exchange.py",
    "protocol/server/_actions.py",
    "protocol/server/_peer_requests.py",
    "protocol/server/_table.py",
    "transport/_stdio.py",
    "server/_driver.py",
    "server/_pool.py",
}

# Serves one tool, and writes the files that were passed. TOOL is written for each call of the tool itself.
TOOL = ""
SERVER = """
import json, sys
from jackstay import Server
from test_tour import record
server = Server("echo")

@server.tool
async def echo(text: str) -> str:
    passed.append("")
    return text

passed = []
with record(passed):
    server.run()
open(sys.argv[1], "w").write(json.dumps(passed))
"""


class record:  # noqa: N801  # used as a function
    """Writes down the files of jackstay whose functions are called, in order, without repeats."""

    def __init__(self, passed: list[str]) -> None:
        self._passed = passed

    def __enter__(self) -> None:
        sys.setprofile(self._see)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(SOURCE)):
            path = name.removeprefix(f"{SOURCE}/")
            if self._passed[-1:] != [path]:
                self._passed.append(path)


def steps(heading: str) -> list[str]:
    """The files that a section of the tour links, in its order."""
    section = TOUR.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    linked = re.findall(r"\]\(\.\./packages/jackstay/src/jackstay/([^)]+)\)", section)
    assert linked
    return [path for path in linked if path not in ASIDE]


def missed(linked: list[str], passed: list[str]) -> list[str]:
    """What is left of the linked files when they are looked for one after the other."""
    left = iter(passed)
    return [path for path in linked if path not in left]


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[str]]:
    """What the client and what the server passed in one call."""
    written = tmp_path_factory.mktemp("tour") / "passed.json"
    passed: list[str] = []

    async def make() -> None:
        paths = {"PYTHONPATH": f"{PYTHONPATH}:{TESTS}"}
        async with connect(stdio(sys.executable, "-c", SERVER, str(written), env=paths)) as client:
            for _ in range(2):  # the first leads the server out of its first state, and creates what the others use
                await client.tools.call("echo", {"text": "hi"})
            with record(passed):
                assert (await client.tools.call("echo", {"text": "hi"})).text == "hi"

    asyncio.run(make())
    return passed, warm_call(json.loads(written.read_bytes()))


def warm_call(passed: list[str]) -> list[str]:
    """What one call passed: from the reading of the third request to the tool, and from the tool to its response."""
    _, _, second, *_ = parts = " ".join(path or "|" for path in passed).split("|")
    assert len(parts) == 4, "three calls"
    files = second.split()
    read = files.index("transport/_own_stdio.py")
    return files[read:] + files[:read]


def test_the_tour_goes_out_of_the_client_and_back_as_a_call_does(call: tuple[list[str], list[str]]) -> None:
    assert missed(steps("Out of the client") + steps("Back into the client"), call[0]) == []


def test_the_tour_goes_through_the_server_as_a_call_does(call: tuple[list[str], list[str]]) -> None:
    assert missed(steps("Through the server"), call[1]) == []


def test_a_step_in_the_wrong_place_is_found() -> None:
    assert missed(["a", "c"], ["a", "b", "c"]) == []
    assert missed(["c", "a"], ["a", "b", "c"]) == ["a"]
    assert missed(["d"], ["a", "b", "c"]) == ["d"]
