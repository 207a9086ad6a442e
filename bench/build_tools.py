"""`build_tools` of Jackstay and of apcore-mcp in CPU time, interleaved, with the same interpreter and libraries.

Each round builds a registry of modules with models of their own, then builds it again. Exits with 1 if Jackstay is not
twice as fast. `make apcore-numbers` runs it.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PEER: Final = ROOT / ".interop" / "apcore_suite"
ROUNDS: Final = int(os.environ.get("ROUNDS", "5"))
MODULES: Final = 100
TARGET: Final = 2.0

PROGRAM: Final = """
import json, logging, time
from apcore import Registry
from pydantic import BaseModel, Field
from apcore_mcp.server.factory import MCPServerFactory

logging.disable(logging.CRITICAL)


def module(number):
    class Input(BaseModel):
        text: str = Field(description="The text to return")
        times: int = 1
        names: list[str] = Field(default_factory=list)

    class Output(BaseModel):
        text: str

    class Echo:
        input_schema = Input
        output_schema = Output
        description = "Return the text."

        def execute(self, inputs, context):
            return inputs

    return Echo()


def registry():
    made = Registry()
    for number in range(MODULES):
        made.register(f"bench.module_{number}", module(number))
    return made


factory = MCPServerFactory()
factory.build_tools(registry())
made = registry()
seconds = []
for _ in range(2):
    started = time.process_time()
    assert len(factory.build_tools(made)) == MODULES
    seconds.append(time.process_time() - started)
print(json.dumps(seconds))
"""


def sample(*sources: Path) -> list[float]:
    """Return the CPU seconds of the first build and of another one."""
    done = subprocess.run(
        [PEER / "bin" / "python", "-c", PROGRAM.replace("MODULES", str(MODULES))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sources))},
        capture_output=True,
        text=True,
        check=True,
    )
    seconds: list[float] = json.loads(done.stdout)
    return seconds


def main() -> int:
    """Measure, print and return the exit code."""
    subprocess.run([sys.executable, str(ROOT / "tests" / "interop" / "install.py"), PEER.name], check=True)
    bridge = [ROOT / "packages" / name / "src" for name in ("jackstay", "jackstay-apcore")]
    (public,) = (PEER / "source").glob("apcore_mcp-*/src")
    rounds = [(sample(*bridge), sample(public)) for _ in range(ROUNDS)]
    is_fast = True
    for at, title in enumerate(("first", "again")):
        jackstay, peer = (statistics.median(row[side][at] for row in rounds) for side in (0, 1))
        is_fast = is_fast and peer / jackstay >= TARGET
        print(
            f"build_tools of {MODULES}, {title}: {jackstay * 1000:.1f} ms of CPU, apcore-mcp {peer * 1000:.1f} ms,"
            f" {peer / jackstay:.1f} times as fast"
        )
    return 0 if is_fast else 1


if __name__ == "__main__":
    sys.exit(main())
