"""The apcore bridge of Jackstay and the public one, in one interleaved run.

    python bench/apcore.py        or: make bench ONLY=apcore

Exits with 1 if a target is missed by more than the noise of the run.
"""

# Both bridges serve the same eight modules over stdio, each in a new environment, because apcore loads some libraries
# only if they are installed. The cost of a call is the CPU time of the server; the cost of the bridge is that minus a
# bare `Executor.call_async`. The start is measured to the first result and to the first list of tools.

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _measure import Sample, Series, compare, format_seconds, interleave, print_platform, print_rows
from _peers import OUR_BRIDGE, PUBLIC_BRIDGE, python_of
from stdio import OLD, Server

HERE = Path(__file__).resolve().parent
ROUNDS = int(os.environ.get("ROUNDS", "5"))
CALLS = 300

MODULE = '''
from pydantic import BaseModel


class Input(BaseModel):
    text: str
    times: int = 1


class Output(BaseModel):
    text: str


class Echo:
    """Return the text."""

    input_schema = Input
    output_schema = Output
    description = "Return the text."

    def execute(self, inputs, context):
        return {{"text": inputs["text"]}}
'''

# The maximum cost, in seconds or bytes.
BOUNDS = {
    "build of 100": 0.05,
    "build of 1,000": 0.5,
    "bytes a tool": 10 * 1024,
    "to_openai_tools of 100": 0.2,
    "schema, simple": 0.0001,
    "schema, 5 references": 0.001,
}


class Bridge(Server):
    """A bridge over stdio, with prepared frames."""

    def call(self) -> bytes:
        """Return a frame that calls the first module, by the name in the tool list of the bridge."""
        return (
            b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%b","arguments":{"text":"hello"}}}\n'
            % (next(self.ids), self.name)
        )

    name = b"bench.module_0"

    def find_name(self) -> None:
        """Read the name of the module from the tool list."""
        listed = json.loads(self.exchange([self.listing()]))["result"]["tools"]
        self.name = next(tool["name"] for tool in listed if tool["name"].endswith("module_0")).encode()

    def cpu(self) -> float:
        """Return the CPU seconds that the server has used."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


def write_modules(folder: Path) -> None:
    """Write eight modules as files."""
    (folder / "bench").mkdir()
    for number in range(8):
        (folder / "bench" / f"module_{number}.py").write_text(MODULE.format(), encoding="utf-8")


def call(command: list[str]) -> Sample:
    """Return a sample of the CPU seconds of the server per call."""

    def run() -> float:
        server = Bridge(command, OLD)
        server.find_name()
        if b"hello" not in server.exchange([server.call()]):
            raise SystemExit(f"{command} did not respond to initialize")
        for _ in range(50):
            server.exchange([server.call()])
        before = server.cpu()
        for _ in range(CALLS):
            server.exchange([server.call()])
        took = (server.cpu() - before) / CALLS
        server.close()
        return took

    return run


def start(command: list[str], *, lists: bool = False) -> Sample:
    """Return a sample of the seconds from the start of the process to the first result, or first list of tools."""
    probe = Bridge(command, OLD)
    probe.find_name()
    name = probe.name
    probe.close()

    def run() -> float:
        started = time.perf_counter()
        server = Bridge(command, OLD)
        server.name = name
        server.exchange([server.listing() if lists else server.call()])
        took = time.perf_counter() - started
        server.close()
        return took

    return run


def importing(python: str) -> Sample:
    """Return a sample of the seconds of an interpreter that imports only apcore: the minimum of every bridge."""

    def run() -> float:
        started = time.perf_counter()
        subprocess.run([python, "-c", "import asyncio, apcore"], capture_output=True, check=True)
        return time.perf_counter() - started

    return run


def help_text(command: list[str]) -> Sample:
    """Return a sample of the seconds of `--help`."""

    def run() -> float:
        started = time.perf_counter()
        subprocess.run([*command[:3], "--help"], capture_output=True, check=True)
        return time.perf_counter() - started

    return run


def inside() -> dict[str, float]:
    """Run `programs/apcore_build.py` and return its measurements."""
    program = HERE / "programs" / "apcore_build.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def print_inside(figures: dict[str, float]) -> bool:
    """Print the rows that have a bound and no peer; return whether all bounds are met."""
    print("\nInside the process (CPU, best of five)")
    is_good = True
    for name, bound in BOUNDS.items():
        value = figures[name]
        is_bytes = name.startswith("bytes")
        shown = f"{value:,.0f} bytes" if is_bytes else format_seconds(value)
        limit = f"{bound:,.0f} bytes" if is_bytes else format_seconds(bound)
        is_good = is_good and value <= bound
        print(f"  {name:26} {shown:>12}  target {limit:>12}  {'ok' if value <= bound else 'MISSED'}")
    return is_good


def main() -> int:
    """Run and print all measurements. Returns the exit code."""
    print_platform()
    print(f"peer: {PUBLIC_BRIDGE}")
    # pip compiles installed packages, so the editable package must be compiled, too.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        write_modules(Path(folder))
        commands = {
            name: [python, "-m", "apcore_mcp", "--extensions-dir", folder]
            for name, python in (("jackstay", python_of(OUR_BRIDGE)), ("public", python_of(PUBLIC_BRIDGE)))
        }
        calls = interleave({name: call(command) for name, command in commands.items()}, rounds=ROUNDS)
        starts = interleave({name: start(command) for name, command in commands.items()}, rounds=ROUNDS)
        lists = interleave({name: start(command, lists=True) for name, command in commands.items()}, rounds=ROUNDS)
        alone = interleave({name: importing(command[0]) for name, command in commands.items()}, rounds=ROUNDS)
        helps = interleave({name: help_text(command) for name, command in commands.items()}, rounds=ROUNDS)
    figures = inside()
    bare = figures["bare call_async"]
    added = {name: max(series.middle - bare, 1e-6) for name, series in calls.items()}
    print(f"\nA call: bare call_async {format_seconds(bare)}")
    for name, series in calls.items():
        print(f"  {name:8} {format_seconds(series.middle):>9} of CPU, {format_seconds(added[name])} added")
    is_light = added["jackstay"] < 0.0003 and added["public"] / added["jackstay"] >= 8
    ratio = added["public"] / added["jackstay"]
    print(f"  added: {ratio:.1f} times less than the public bridge (target: at least 8, and under 0.3 ms)")
    is_quick = print_rows(
        "Cold start to the first result, 8 modules; --help",
        [
            compare("cold start, to the public bridge", starts["jackstay"], starts["public"], 0.5),
            compare("first tool list, to the public bridge", lists["jackstay"], lists["public"], 0.5),
            compare("--help, to the public bridge", helps["jackstay"], helps["public"], 1),
        ],
    )
    print(f"  of which Python and `import apcore`: {_both(alone)}")
    first, help_seconds = starts["jackstay"].middle, helps["jackstay"].middle
    print(f"  cold start {format_seconds(first)} (under 0.6 s), --help {format_seconds(help_seconds)} (under 0.2 s)")
    is_quick = is_quick and first < 0.6 and help_seconds < 0.2
    return 0 if print_inside(figures) and is_light and is_quick else 1


def _both(series: dict[str, Series]) -> str:
    return ", ".join(f"{name} {format_seconds(row.middle)}" for name, row in series.items())


if __name__ == "__main__":
    sys.exit(main())
