"""What each import may load and do, in a fresh process without site-packages hooks, coverage or pytest.

A stdio server must not import an HTTP stack, and `jackstay.errors` imports nothing else. Importing configures,
registers, reads and prints nothing.
"""

import ast
import os
import pkgutil
import pty
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from scripted.places import PYTHONPATH, SOURCES

HTTP_STACKS = (
    "aiohttp",
    "h11",
    "http",
    "httpcore",
    "httptools",
    "httpx",
    "requests",
    "ssl",
    "starlette",
    "uvicorn",
)
CLOCKS_AND_DOORS = (
    "asyncio",
    "concurrent",
    "logging",
    "multiprocessing",
    "random",
    "selectors",
    "socket",
    "subprocess",
)


class Row(NamedTuple):
    """One import: what it may not load, which third-party packages it may, and how many modules of others at most."""

    module: str
    third_party: tuple[str, ...]
    forbidden: tuple[str, ...]
    most_foreign: int
    # Loaded first, and no fault of ours: asyncio brings ssl and logging, and they register exit hooks of their own.
    given: str = ""


# The counts are limits for modules of others, on top of a bare interpreter: up to a third above what 3.11 and 3.12
# load. Python 3.13 loads fewer, so there the ceiling is loose; the names before it are the sharper check.
ROWS = (
    Row("jackstay", (), ("pydantic", "threading", *HTTP_STACKS, *CLOCKS_AND_DOORS), 45),
    Row("jackstay.errors", (), ("pydantic", "threading", *HTTP_STACKS, *CLOCKS_AND_DOORS), 45),
    Row("jackstay.extras", (), ("pydantic", "threading", *HTTP_STACKS, *CLOCKS_AND_DOORS), 45),
    Row("jackstay.types", ("msgspec",), ("pydantic", *HTTP_STACKS, *CLOCKS_AND_DOORS), 90),
    Row("jackstay.apps", ("msgspec",), ("pydantic", *HTTP_STACKS, *CLOCKS_AND_DOORS), 90),
    Row("jackstay.skills", ("msgspec",), ("pydantic", "yaml", *HTTP_STACKS, *CLOCKS_AND_DOORS), 100),
    Row("jackstay.extensions", ("msgspec",), ("pydantic", *HTTP_STACKS, *CLOCKS_AND_DOORS), 90),
    Row("jackstay.protocol", ("msgspec",), ("pydantic", *HTTP_STACKS, *CLOCKS_AND_DOORS), 90),
    Row("jackstay.protocol.wire", ("msgspec",), ("pydantic", *HTTP_STACKS, *CLOCKS_AND_DOORS), 90),
    Row("jackstay.protocol.client", ("msgspec",), ("pydantic", *HTTP_STACKS, *CLOCKS_AND_DOORS), 90),
    Row("jackstay.protocol.server", ("msgspec",), ("pydantic", *HTTP_STACKS, *CLOCKS_AND_DOORS), 90),
    Row("jackstay.protocol.http", ("msgspec",), ("pydantic", *HTTP_STACKS, *CLOCKS_AND_DOORS), 95),
    Row(
        "jackstay.transport",
        ("msgspec",),
        ("pydantic", "jsonschema", *HTTP_STACKS),
        90,
        "asyncio, logging, shutil, subprocess, threading",
    ),
    Row(
        "jackstay.transport.http",
        ("msgspec",),
        ("pydantic", "jsonschema", *HTTP_STACKS),
        90,
        "asyncio, logging, shutil, subprocess, threading",
    ),
    Row(
        "jackstay.client",
        ("msgspec",),
        ("pydantic", "jsonschema", *HTTP_STACKS),
        90,
        "asyncio, logging, shutil, subprocess, threading",
    ),
    Row(
        "jackstay.server",
        ("msgspec",),
        ("pydantic", "jsonschema", *HTTP_STACKS),
        90,
        "asyncio, logging, shutil, subprocess, threading",
    ),
    Row(
        "jackstay.proxy",
        ("msgspec",),
        ("pydantic", "jsonschema", *HTTP_STACKS),
        90,
        "asyncio, logging, shutil, subprocess, threading",
    ),
    Row(
        "jackstay.testing",
        ("msgspec",),
        ("pydantic", "jsonschema", "pytest", *HTTP_STACKS),
        90,
        "asyncio, logging, shutil, subprocess, threading",
    ),
    Row(
        "jackstay.sync",
        ("msgspec",),
        ("pydantic", "jsonschema", *HTTP_STACKS),
        90,
        "asyncio, concurrent.futures, logging, shutil, subprocess, threading",
    ),
    Row(
        "jackstay.oauth",
        ("msgspec",),
        ("pydantic", "jsonschema", "joserfc", "cryptography", "webbrowser", *HTTP_STACKS),
        90,
        "asyncio, logging",
    ),
    Row("jackstay.redis", (), ("pydantic", "redis", *HTTP_STACKS, *CLOCKS_AND_DOORS), 45),
    Row("jackstay.openapi", (), ("pydantic", "yaml", "jsonschema", *HTTP_STACKS, *CLOCKS_AND_DOORS), 45),
    Row("jackstay.models", (), ("pydantic", "openai", "anthropic", *HTTP_STACKS, *CLOCKS_AND_DOORS), 45),
    Row("jackstay.agents", (), ("pydantic", *HTTP_STACKS, *CLOCKS_AND_DOORS), 45),
    Row("jackstay.shell", (), ("pydantic", "argparse", *HTTP_STACKS, *CLOCKS_AND_DOORS), 45),
    Row("jackstay.inspector", (), ("pydantic", *HTTP_STACKS, *CLOCKS_AND_DOORS), 45),
    Row("jackstay.cli", (), ("pydantic", "msgspec", *HTTP_STACKS, "asyncio", "logging", "subprocess"), 50),
    Row("apcore_mcp", (), ("pydantic", *HTTP_STACKS, *CLOCKS_AND_DOORS), 45),
    Row("apcore_mcp.cli", (), ("pydantic", *HTTP_STACKS, *CLOCKS_AND_DOORS), 45),
    Row("procontext", (), ("pydantic", *HTTP_STACKS, *CLOCKS_AND_DOORS), 0),
    Row("procontext.cli", (), ("pydantic", *HTTP_STACKS, *CLOCKS_AND_DOORS), 45),
    Row("procontext.cache", (), ("pydantic", "sqlite3", *HTTP_STACKS, *CLOCKS_AND_DOORS), 45),
    Row("procontext.fetch", (), ("pydantic", *HTTP_STACKS, *CLOCKS_AND_DOORS), 45),
    Row("procontext.page", (), ("pydantic", "sqlite3", *HTTP_STACKS, *CLOCKS_AND_DOORS), 45),
)

OURS = ("jackstay", "apcore_mcp", "procontext")

# Loaded by msgspec if they happen to be installed, or part of it; none of ours imports them.
COMPANIONS = {"typing_extensions"}

# Run in a fresh process. The first loads nothing of its own, so that it hides nothing; the second loads what it needs
# to look around, then imports, then reports everything that changed.
LOADED = """\
import sys
sys.path[:0] = {paths!r}
before = set(sys.modules)
import {module}
report = sorted(set(sys.modules) - before)
sys.__stderr__.write("REPORT" + repr(report))
"""
STANDING = """\
import sys
sys.path[:0] = {paths!r}
import atexit, os, signal, warnings
touched = []
def audit(event, arguments):
    if event == "open" and not str(arguments[0]).endswith((".py", ".pyc", ".so", ".pyd")):
        touched.append(f"open {{arguments[0]}}")
    elif event.partition(".")[0] in ("socket", "subprocess", "sqlite3", "ftplib", "smtplib", "urllib", "webbrowser"):
        touched.append(event)
    elif event in ("os.system", "os.exec", "os.fork", "os.posix_spawn", "_thread.start_new_thread"):
        touched.append(event)
def standing():
    return {{
        "signals": [repr(signal.getsignal(s)) for s in sorted(signal.valid_signals())],
        "environment": dict(os.environ),
        "path": list(sys.path),
        "exit hooks": atexit._ncallbacks(),
        "warning filters": repr(warnings.filters),
        "hooks": repr([sys.excepthook, sys.displayhook, sys.breakpointhook, sys.unraisablehook]),
        "import hooks": repr([sys.meta_path, sys.path_hooks]),
        "streams": repr([sys.stdin, sys.stdout, sys.stderr]),
        "recursion limit": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
    }}
before = standing()
sys.addaudithook(audit)
import {module}
after = standing()
found = [*touched, *(name for name in before if before[name] != after[name])]
if len(sys._current_frames()) > 1:
    found.append("threads")
if "logging" in sys.modules and sys.modules["logging"].root.handlers:
    found.append("log handlers")
sys.__stderr__.write("REPORT" + repr(found))
"""


@cache
def fresh(probe: str, module: str, *paths: Path) -> list[str]:
    """Import `module` in a new interpreter and return the probe's report; fails if anything was printed."""
    everywhere = [
        *map(str, paths or SOURCES.values()),
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
    ]
    done = subprocess.run(
        # Isolated and without site: no PYTHON* variables, no .pth files, nothing loaded before us.
        [sys.executable, "-I", "-S", "-B", "-c", probe.format(paths=everywhere, module=module)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed, _, report = done.stderr.partition("REPORT")
    assert done.stdout + printed == "", f"import {module} printed {done.stdout + printed!r}"
    return list(ast.literal_eval(report))


def tops(modules: Iterable[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.module)
def test_an_import_loads_only_what_its_row_allows(row: Row) -> None:
    modules = fresh(_after(row.given) + LOADED, row.module)
    loaded = tops(modules)
    assert loaded.isdisjoint(row.forbidden), sorted(loaded & set(row.forbidden))
    foreign = [module for module in modules if not module.startswith(OURS)]
    third_party = {top for top in tops(foreign) - COMPANIONS if top not in sys.stdlib_module_names}
    assert third_party <= set(row.third_party), f"third-party: {sorted(third_party)}"
    assert len(foreign) <= row.most_foreign, f"{len(foreign)} modules: {foreign}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.module)
def test_an_import_changes_touches_and_starts_nothing(row: Row) -> None:
    assert fresh(_after(row.given) + STANDING, row.module) == []


def _after(given: str) -> str:
    return f"import {given}\n" if given else ""


@pytest.mark.parametrize("module", ["jackstay", "apcore_mcp", "procontext"])
def test_an_application_never_loads_the_other(module: str) -> None:
    others = {"apcore_mcp", "procontext"} - {module}
    assert tops(fresh(LOADED, module)).isdisjoint(others)


def test_importing_jackstay_loads_no_layer() -> None:
    loaded = [name for name in fresh(LOADED, "jackstay") if name.startswith("jackstay")]
    assert loaded == ["jackstay", "jackstay._lazy"]


# What a stdio server has loaded when it ends, after one call of an async tool.
SERVED = """
import sys
sys.path[:0] = {paths!r}
import asyncio, json, msgspec, os
given = set(sys.modules)
requests = [
    {{"method": "initialize", "id": 0, "params": {{
        "protocolVersion": "2025-11-25", "capabilities": {{}}, "clientInfo": {{"name": "x", "version": "1"}}
    }}}},
    {{"method": "notifications/initialized"}},
    {{"method": "tools/call", "id": 1, "params": {{"name": "echo", "arguments": {{"text": "hello"}}}}}},
]
reader, writer = os.pipe()
os.write(writer, b"".join(json.dumps({{"jsonrpc": "2.0", **request}}).encode() + b"\\n" for request in requests))
os.close(writer)
os.dup2(reader, 0)
responses, output = os.pipe()
os.dup2(output, 1)
from {module} import Server
server = Server("echo")
@server.tool
async def echo(text: str) -> str:
    return text
asyncio.run(server.serve_stdio())  # without the time limits of `run()`
assert os.read(responses, 65536).count(b"hello") == 1
os.dup2(2, 1)
print("REPORT" + repr(sorted(set(sys.modules) - given)), file=sys.__stderr__, flush=True)
"""


def test_a_stdio_server_loads_little() -> None:
    loaded = fresh(SERVED, "jackstay.server")
    internal = {name for name in loaded if name.startswith(OURS)}
    # The rest is for subscriptions, and peers other than clients over stdio.
    unused = {"jackstay.server._subscriptions"}
    assert internal.isdisjoint({*unused, "jackstay.client", "jackstay.protocol.client", "jackstay.transport.http"})
    assert len(internal) <= 59, sorted(internal)
    assert set(loaded) == internal


# A command whose import of one module waits until the test has seen the status line.
GATED = """
import sys
class Gate:
    def find_spec(self, name, path=None, target=None):
        if name == {gated!r}:
            sys.meta_path.remove(self)
            open({gate!r}).close()
sys.meta_path.insert(0, Gate())
from {module} import main
sys.exit(main())
"""
# package -> a module that its command imports, the words, and the exit code.
COMMANDS = {
    "jackstay.cli": ("asyncio", ["tools"], 2),
    "apcore_mcp.cli": ("apcore", ["--check", "--extensions-dir", "."], 0),
    "procontext.cli": ("asyncio", ["resolve"], 2),
}


@pytest.mark.parametrize("module", COMMANDS)
def test_a_command_shows_that_it_starts_before_its_imports_end(module: str, tmp_path: Path) -> None:
    gated, words, code = COMMANDS[module]
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "modules").mkdir()
    terminal, end = pty.openpty()
    program = GATED.format(gated=gated, gate=str(gate), module=module)
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        cwd=tmp_path / "modules",
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stdout=subprocess.DEVNULL,
        stderr=end,
    ) as process:
        os.close(end)
        seen = b""
        while b"starting" not in seen and b"loading" not in seen:
            seen += os.read(terminal, 4096)
        gate.write_text("")  # its reader is the import
        try:
            while more := os.read(terminal, 4096):
                seen += more
        except OSError:
            pass  # the process has ended
    os.close(terminal)
    assert process.returncode == code, seen
    assert seen.rpartition(b"\r\x1b[K")[2].count(b" s starting") == 0  # removed


def test_every_layer_has_a_row() -> None:
    inside = pkgutil.iter_modules([str(SOURCES["jackstay"] / "jackstay")])
    layers = {f"jackstay.{found.name}" for found in inside if not found.name.startswith("_")}
    assert layers <= {row.module for row in ROWS}, sorted(layers - {row.module for row in ROWS})


# What a planted module does when imported -> what the report must contain.
PLANTED = {
    "import os; os.environ['JACKSTAY_X'] = '1'": "environment",
    "import atexit; atexit.register(int)": "exit hooks",
    "import signal; signal.signal(signal.SIGTERM, lambda *_: None)": "signals",
    "import warnings; warnings.simplefilter('ignore')": "warning filters",
    "import sys; sys.path.append('/x')": "path",
    "import sys; sys.excepthook = print": "hooks",
    "import sys; sys.stdout = sys.stderr": "streams",
    "import socket; socket.socket().close()": "socket.__new__",
    "open('/dev/null', 'rb').close()": "open /dev/null",
    "import subprocess; subprocess.run(['true'])": "subprocess.Popen",
    "import logging; logging.basicConfig()": "log handlers",
    "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()": "threads",
}


@pytest.mark.parametrize(("source", "found"), PLANTED.items(), ids=PLANTED.values())
def test_a_planted_side_effect_is_found(source: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(source)
    assert found in fresh(STANDING, "planted", tmp_path)


@pytest.mark.parametrize("source", ["print('x')", "import sys; sys.stderr.write('x')"])
def test_a_planted_print_is_found(source: str, tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(source)
    with pytest.raises(AssertionError, match="import planted printed 'x"):
        fresh(LOADED, "planted", tmp_path)


def test_a_planted_dependency_is_found(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text("import asyncio, msgspec")
    assert {"asyncio", "msgspec", "socket"} <= tops(fresh(LOADED, "planted", tmp_path))
