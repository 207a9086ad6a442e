"""The migration guides: the code before and after a migration prints the same (docs/migration).

A block `python before=PEER,PEER` is run with the interpreter of each peer, the next block `python after` with this one.
Blocks titled `server` are run as servers, and our client must get the same results from both.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.listening import listening
from interop.peers import BY_NAME, ROOT

PAGES = ROOT / "docs" / "migration"
FENCE = re.compile(r"^```python (before|after)(?:=([\w,]+))?( server)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CLIENT_PROGRAM = """
import asyncio, sys
from jackstay import connect, stdio

async def main():
    async with connect(stdio(*sys.argv[1:])) as client:
        for tool in await client.tools.list():
            schema = tool.input_schema
            print(tool.name, tool.description, sorted(schema["properties"]), schema.get("required"))
        for name, arguments in (
            ("price", {"item": "rope", "count": 2}), ("price", {"item": "mast"}), ("deliver", {"item": "knot"})
        ):
            result = await client.tools.call(name, arguments, raise_on_error=False)
            text = result.error_text.removeprefix("Error executing tool price: ") or result.text  # see the page
            print(bool(result.is_error), text, None if result.is_error else result.structured_content)
        print((await client.tools.call("price", {"item": "rope", "count": 0}, raise_on_error=False)).is_error)
        for uri in ("shop://items", "shop://items/rope"):
            print((await client.resources.read(uri)).contents[0].text)
        print((await client.prompts.get("advise", {"item": "rope"})).messages[0].content.text)
        print(client.instructions)

asyncio.run(main())
"""


EXAMPLES = ROOT / "examples" / "migration"


def pairs() -> Iterator[pytest.param]:
    """Yield (peer, whether it is a server, the block before, the block after)."""
    for page in sorted(PAGES.glob("*.md")):
        pending: list[tuple[str, str]] = []
        for found in FENCE.finditer(page.read_text(encoding="utf-8")):
            if found[1] == "before":
                pending += [(peer, found[4]) for peer in found[2].split(",")]
                continue
            for number, (peer, body) in enumerate(pending):
                name = f"{page.stem}-{peer}-{found.start()}-{number}"
                yield pytest.param(peer, bool(found[3]), body, found[4], id=name)
            pending = []
        assert not pending, f"{page}: a block `before` without a block `after`"


@pytest.fixture(scope="module")
def weather_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve weather.py over HTTP and yield its URL."""
    serve = [str(Path(sys.executable).with_name("jackstay")), "serve", "examples/weather.py", "--http"]
    with listening(lambda port: [*serve, str(port)], tmp_path_factory.mktemp("weather") / "log") as url:
        yield url


def run(command: list[str], folder: Path) -> list[str]:
    """Run a program, which must succeed, and return the lines that it prints."""
    # `python` is this interpreter, which runs the server that both programs start.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=folder,
        env={"PATH": path, "HOME": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(("peer", "is_server", "before", "after"), [*pairs()])
def test_code_before_and_after_prints_the_same(
    peer: str, is_server: bool, before: str, after: str, *, tmp_path: Path, weather_url: str
) -> None:
    (tmp_path / "weather.py").symlink_to(ROOT / "examples" / "weather.py")
    (tmp_path / "modules").symlink_to(ROOT / "examples" / "apcore_demo" / "extensions")
    programs = {str(BY_NAME[peer].python): before, sys.executable: after}
    outputs = []
    for number, (python, body) in enumerate(programs.items()):
        program = tmp_path / f"program{number}.py"
        program.write_text(body.replace("http://127.0.0.1:8000", weather_url), encoding="utf-8")
        command = [python, str(program)]
        if is_server:
            command = [sys.executable, "-c", CLIENT_PROGRAM, *command]
        outputs.append(run(command, tmp_path))
    assert outputs[0] == outputs[1]
    assert outputs[1]


@pytest.mark.parametrize(
    ("peer", "program"),
    [("fastmcp3", "library_fastmcp.py"), ("fastmcp4", "library_fastmcp.py"), ("sdk2", "library_sdk.py")],
)
def test_the_library_is_the_same_server(peer: str, program: str, tmp_path: Path) -> None:
    client = [sys.executable, str(EXAMPLES / "library_client.py")]
    expected = run([*client, sys.executable, str(EXAMPLES / "library.py")], tmp_path)
    assert len(expected) > 20
    assert run([*client, str(BY_NAME[peer].python), str(EXAMPLES / program)], tmp_path) == expected
