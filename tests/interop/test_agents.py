"""The adapters for agent frameworks, with the real frameworks, in their environments, and scripted models.

Coverage is measured here, because `make test` has no framework.
"""

import os
import subprocess
from pathlib import Path

import pytest

from interop.peers import BY_NAME, ROOT
from scripted.places import PYTHONPATH

CHECKS = Path(__file__).parent / "agents"
# environment -> its frameworks, by the names of their adapters
FRAMEWORKS = {
    "agents-sdk2": ("adk", "llama_index", "openai_agents", "pydantic_ai"),
    "agents-sdk1": ("langchain", "smolagents", "strands"),
}
GUARD = 400.0
MIN_COVERAGE = 95


@pytest.mark.guard(GUARD)
@pytest.mark.parametrize("environment", FRAMEWORKS)
def test_agents_use_the_tools_of_a_server(environment: str, tmp_path: Path) -> None:
    names = FRAMEWORKS[environment]
    coverage = (BY_NAME[environment].python, "-m", "coverage")
    sources = ROOT / "packages" / "jackstay" / "src"
    adapters = [f"{sources}/jackstay/agents/_{name}.py" for name in names]
    checks = [CHECKS / f"check_{name}.py" for name in names]
    included = f"--include={','.join(adapters)}"
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    variables |= {
        "PYTHONPATH": os.pathsep.join((PYTHONPATH, str(CHECKS))),
        "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "bytecode"),
        "COVERAGE_FILE": str(tmp_path / "coverage"),
    }
    commands = (
        (*coverage, "run", "--rcfile=/dev/null", included, "-m", "pytest", "-c", CHECKS / "pytest.ini", *checks),
        (*coverage, "report", "--rcfile=/dev/null", "--show-missing", f"--fail-under={MIN_COVERAGE}", included),
    )
    for command in commands:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=tmp_path,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=GUARD,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_every_adapter_is_checked() -> None:
    checked = sorted(name for names in FRAMEWORKS.values() for name in names)
    assert sorted(path.stem.removeprefix("check_") for path in CHECKS.glob("check_*.py")) == checked
    examples = sorted(path.stem.removesuffix("_agent") for path in (ROOT / "examples" / "agents").glob("*.py"))
    assert examples == checked
