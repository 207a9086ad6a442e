"""The adapters for agent frameworks, with the real frameworks, in their environments, and scripted models.

Coverage is measured here, because `make test` has no framework. The environments are tested at the same time.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.peers import BY_NAME, ROOT
from scripted.places import PYTHONPATH

CHECKS = Path(__file__).parent / "agents"
# environment -> its frameworks, by the names of their adapters
FRAMEWORKS = {
    "agents-crewai": ("crewai",),
    "agents-sdk2": ("adk", "llama_index", "openai_agents", "pydantic_ai"),
    "agents-sdk1": ("autogen", "langchain", "semantic_kernel", "smolagents", "strands"),
}
GUARD = 600.0
MIN_COVERAGE = 95


class Run:
    """The tests of one environment; `output()` waits for their end."""

    def __init__(self, environment: str, directory: Path) -> None:
        names = FRAMEWORKS[environment]
        adapters = ",".join(f"{ROOT}/packages/jackstay/src/jackstay/agents/_{name}.py" for name in names)
        self._coverage = (str(BY_NAME[environment].python), "-m", "coverage")
        self._options = ("--rcfile=/dev/null", f"--include={adapters}")
        self._directory = directory
        self._variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))},
            "PYTHONPATH": os.pathsep.join((PYTHONPATH, str(CHECKS))),
            "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "bytecode"),
            "COVERAGE_FILE": str(directory / "coverage"),
        }
        checks = [str(CHECKS / f"check_{name}.py") for name in names]
        self.process = self._start("run", "-m", "pytest", "-c", str(CHECKS / "pytest.ini"), *checks)

    def _start(self, command: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._coverage, command, *self._options, *arguments],
            cwd=self._directory,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def output(self) -> tuple[int, str]:
        """Wait for the tests. Returns the exit code and the output."""
        output, _ = self.process.communicate(timeout=GUARD)
        return self.process.returncode, output

    def report(self) -> tuple[int, str]:
        """Return the exit code and the output of the report about coverage."""
        with self._start("report", "--show-missing", f"--fail-under={MIN_COVERAGE}") as process:
            output, _ = process.communicate(timeout=GUARD)
        return process.returncode, output


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Run]]:
    """Start the tests of all environments."""
    started = {name: Run(name, tmp_path_factory.mktemp(name)) for name in FRAMEWORKS}
    yield started
    for run in started.values():
        run.process.kill()
        run.process.communicate()


@pytest.mark.guard(GUARD)
@pytest.mark.parametrize("environment", FRAMEWORKS)
def test_agents_use_the_tools_of_a_server(environment: str, runs: dict[str, Run]) -> None:
    code, output = runs[environment].output()
    assert code == 0, output[-8000:]
    code, output = runs[environment].report()
    assert code == 0, output


def test_every_adapter_is_checked() -> None:
    checked = sorted(name for names in FRAMEWORKS.values() for name in names)
    assert sorted(path.stem.removeprefix("check_") for path in CHECKS.glob("check_*.py")) == checked
    examples = sorted(path.stem.removesuffix("_agent") for path in (ROOT / "examples" / "agents").glob("*.py"))
    assert examples == checked
