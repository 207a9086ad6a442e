"""A fact is declared once: each test adds one in a copy of the source, in one place, and uses it."""

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from jackstay.protocol import settings_of
from jackstay.protocol.client import ClientKeywords, FleetKeywords, Settings
from jackstay.server import Options
from jackstay.server._keywords import (
    AddedToolKeywords,
    PromptKeywords,
    ResourceKeywords,
    ServerKeywords,
    ToolKeywords,
)
from jackstay.server._prompts import PromptOptions
from jackstay.server._resources import ResourceOptions
from jackstay.server._tools import ToolOptions
from jackstay.server.http import HttpKeywords, HttpOptions, RunHttpKeywords, RunOptions
from scripted.places import ROOT, SOURCES

sys.path.insert(0, str(ROOT / "tools"))
import make_stubs


@pytest.fixture
def edit(tmp_path: Path) -> Callable[[str, str, str], Path]:
    """Copies the source of the runtime and inserts lines in front of a line of one file."""
    source = tmp_path / "packages" / "jackstay" / "src"
    shutil.copytree(SOURCES["jackstay"], source, ignore=shutil.ignore_patterns("__pycache__"))

    def insert(name: str, line: str, added: str) -> Path:
        path = source / "jackstay" / name
        text = path.read_text(encoding="utf-8")
        assert text.count(line) == 1, line
        path.write_text(text.replace(line, added + line), encoding="utf-8")
        return source

    return insert


def run(source: Path, code: str) -> None:
    """Run code with this source in a new process."""
    paths = [str(source), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {paths!r}\n{code}"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr


REFUSAL = """
from jackstay.errors import UsageError
try:
    {call}
except UsageError as error:
    assert str(error) == "added must be an int from 1, not 0", error
else:
    raise AssertionError("not refused")
"""


def test_a_client_setting(edit: Callable[[str, str, str], Path]) -> None:
    field = '    added: Annotated[int, Setting("Added.", low=1)] = 7\n'
    source = edit("protocol/client/_settings.py", "    open_timeout: Annotated", field)
    code = """
from jackstay import connect, stdio
from jackstay.protocol.client import SETTINGS, Settings
assert Settings().added == 7 and SETTINGS["added"].meaning == "Added."
connect(stdio("x"), added=3)
"""
    run(source, code + REFUSAL.format(call='connect(stdio("x"), added=0)'))
    stub = make_stubs.stubs(source.parents[2])[source / "jackstay/protocol/client/_keywords.pyi"]
    assert stub.count("    added: int\n") == 2  # of a client and of a fleet


def test_a_server_option(edit: Callable[[str, str, str], Path]) -> None:
    field = '    added: Annotated[int, Setting("Added.", low=1)] = 7\n'
    source = edit("server/_options.py", "    title: Annotated", field)
    code = """
from jackstay import Server
assert Server("x").options.added == 7 and Server("x", added=3).options.added == 3
"""
    run(source, code + REFUSAL.format(call='Server("x", added=0)'))
    stub = make_stubs.stubs(source.parents[2])[source / "jackstay/server/_keywords.pyi"]
    assert "    added: int\n" in stub


def test_an_option_of_connections_reaches_the_core(edit: Callable[[str, str, str], Path]) -> None:
    field = '    added: Annotated[int, Setting("Added.", low=1)] = 7\n'
    source = edit("protocol/server/_config.py", "    strict: Annotated", field)
    run(source, "from jackstay import Server\nassert Server('x', added=3).options.for_core(frozenset()).added == 3")
    stub = make_stubs.stubs(source.parents[2])[source / "jackstay/server/_keywords.pyi"]
    assert "    added: int\n" in stub


def test_an_option_of_every_entry(edit: Callable[[str, str, str], Path]) -> None:
    source = edit(
        "server/_entries.py",
        "    tags: Iterable[str] = ()",
        "    added: int = 7\n",
    )
    code = """
from jackstay import Server
server = Server("x")
server.tool(added=3)(len)
server.prompt(name="x", added=3)(lambda: "")
server.resource("x://y", added=3)(lambda: "")
assert server.catalogue.resources["x://y"].options.added == 3
"""
    run(source, code)
    stub = make_stubs.stubs(source.parents[2])[source / "jackstay/server/_keywords.pyi"]
    assert stub.count("    added: int\n") == 4  # of both kinds of tools, of resources and of prompts


CALL = """
import asyncio, inspect
from jackstay import Context, Server, connect
from jackstay.client import Tools
from jackstay.errors import UsageError

server = Server("x")

@server.tool
def shown(ctx: Context) -> str:
    return str(ctx.meta)

async def call(**options):
    async with connect(server, versions=(version,)) as client:
        started = []
        client.on_event(lambda name, fields: started.append(fields) if name.endswith("request.start") else None)
        result = await client.tools.call("shown", **options)
        return result.text, started[-1]

for version in ("2025-11-25", "2026-07-28"):
    try:
        asyncio.run(call(added=0))
    except UsageError as error:
        assert str(error) == "added must be an int from 1, not 0", error
    else:
        raise AssertionError("not refused")
assert "added" in inspect.signature(Tools.call).parameters
"""


def test_an_option_of_a_call(edit: Callable[[str, str, str], Path]) -> None:
    field = '    added: Annotated[int, Setting("Added.", low=1)]\n'
    edit("client/_requests.py", "    wait_for_ready: Annotated", field)
    use = '"added": self.options.get("added"), '
    source = edit("client/_call.py", '"method": self.method', use)
    run(source, CALL + 'assert asyncio.run(call(added=3))[1]["added"] == 3')


def test_an_option_of_a_call_that_the_core_uses(edit: Callable[[str, str, str], Path]) -> None:
    edit(
        "client/_requests.py", "    wait_for_ready: Annotated", '    added: Annotated[int, Setting("Added.", low=1)]\n'
    )
    edit("protocol/client/events.py", "    wants_progress: bool = False", "    added: int = 0\n")
    use = "        members.append(b'\"added\":%d' % exchange.added)\n"
    edit("protocol/client/_calls.py", "        if exchange.meta:\n", use)
    source = edit("protocol/client/_calls.py", "exchange.wants_progress\n", "exchange.added or ")
    run(source, CALL + "assert \"'added': 3\" in asyncio.run(call(added=3))[0]")


def test_a_list_method(edit: Callable[[str, str, str], Path]) -> None:
    row = """
        Method("things/list", "PaginatedRequestParams", "ListThingsResult", capability="things",
               entries="allThings", changed_by="notifications/things/list_changed"),
"""
    source = edit("protocol/_methods.py", "        # Completion and logging.", row)
    code = """
import asyncio
from jackstay import Server, connect
from jackstay.client._lists import ENTRIES, INVALIDATES
from jackstay.proxy._lists import Lists
CHANGED = "notifications/things/list_changed"
assert INVALIDATES[CHANGED] == ("things/list",)
assert ENTRIES["things/list"] == "all_things"
assert "things/list" in Lists()._seen

async def receive(version):
    server, received = Server("x", capabilities=("things",)), asyncio.Event()
    client = connect(server, versions=(version,))
    client.on_notification(lambda notification: received.set() if notification.method == CHANGED else None)
    async with client:
        await client.ping()  # the server has received the request for list changes before
        server._publish_change(CHANGED, "")
        await asyncio.wait_for(received.wait(), 60)

for version in ("2025-11-25", "2026-07-28"):
    asyncio.run(receive(version))
"""
    run(source, code)


def test_facts_that_are_written_once() -> None:
    files = [path for source in set(SOURCES.values()) for path in source.rglob("*.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    for fact in (
        "16_777_216",
        "UnicodeDecodeError, RecursionError",
        '"critical", "alert", "emergency"',
        "MAX_ROUNDS: Final =",
        "MAX_VIOLATION_WARNINGS: Final =",
    ):
        assert text.count(fact) == 1, fact
    # DECODE_ERRORS has all that msgspec raises for a hostile text.
    assert re.search(r"except \(?[^:\n]*msgspec\.DecodeError, ", text) is None


def test_the_keywords_are_the_settings() -> None:
    parameters = {"name", "version", "instructions"}  # of `Server()`
    pairs = [
        (ClientKeywords, set(settings_of(Settings))),
        (FleetKeywords, set(settings_of(Settings)) - {"name"}),
        (ServerKeywords, set(settings_of(Options)) - parameters),
        (HttpKeywords, set(settings_of(HttpOptions))),
        (RunHttpKeywords, set(settings_of(HttpOptions)) | set(settings_of(RunOptions))),
    ]
    schema_tool = {"name", "structured"}  # a parameter of `add_tool()`, and an option that is not for it
    pairs += [
        (ToolKeywords, set(ToolOptions.__struct_fields__)),
        (AddedToolKeywords, set(ToolOptions.__struct_fields__) - schema_tool),
        (ResourceKeywords, set(ResourceOptions.__struct_fields__)),
        (PromptKeywords, set(PromptOptions.__struct_fields__)),
    ]
    for keywords, names in pairs:
        assert keywords.__annotations__.keys() == names
