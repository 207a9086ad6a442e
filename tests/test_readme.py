"""The commands of the READMEs work, in the environment that runs the tests.

`make walk` does the same in a fresh clone with an empty home, with `make run` and `make demo`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripted.places import PYTHONPATH

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import walk_readme  # noqa: E402  # a tool, not a package: found by its folder

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def newcomer(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder that looks like a clone, an empty home, and our commands on the path."""
    for name in ("examples", "packages"):
        (tmp_path / name).symlink_to(ROOT / name)
    home = tmp_path / "home"
    home.mkdir()
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return tmp_path, {"HOME": str(home), "PATH": path, "PYTHONPATH": PYTHONPATH}


def test_the_readme_works(newcomer: tuple[Path, dict[str, str]]) -> None:
    folder, environment = newcomer
    done = walk_readme.walk(README, folder, environment, skipped=("make ",))
    assert sum(step.startswith("wrote ") for step in done) >= 2
    assert {step.split()[0] for step in done} >= {"python", "jackstay"}


@pytest.mark.parametrize("name", ["jackstay-apcore", "jackstay-procontext"])
def test_the_readme_of_a_product_has_a_first_result(name: str, newcomer: tuple[Path, dict[str, str]]) -> None:
    """The first commands, after the installation, print what the page shows."""
    folder, environment = newcomer
    page = (ROOT / "packages" / name / "README.md").read_text(encoding="utf-8")
    (_, commands), (kind, expected) = re.findall(r"^```(sh|text)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[:2]
    assert kind == "text"
    install, _, rest = commands.partition("\n")
    assert install == f"pip install {name}"
    done = subprocess.run(
        ["bash", "-ec", rest], cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("```sh\nfalse\n```\n", "ended with 1"),
        ("```sh\ntrue\n```\n", "ended with 0"),  # without output
        ("```sh\necho Traceback\n```\n", "Traceback"),
        ('```python title="x.py"\nraise SystemExit("bad")\n```\n\n```sh\npython x.py\n```\n', "bad"),
        ('```json\n{"mcpServers": {"x": {"command": "no-such-command"}}}\n```\n', "no-such-command"),
    ],
)
def test_a_page_that_does_not_work_is_found(page: str, message: str, newcomer: tuple[Path, dict[str, str]]) -> None:
    with pytest.raises(walk_readme.WalkFailedError, match=message):
        walk_readme.walk(page, *newcomer)
