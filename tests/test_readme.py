"""The README is walked, in the environment that runs the tests.

`make walk` does the same in a fresh clone with an empty home, where `make run` and `make demo` are run, too.
"""

import os
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


@pytest.mark.guard(180)  # eight commands, each a process or two
def test_the_readme_does_what_it_says(newcomer: tuple[Path, dict[str, str]]) -> None:
    folder, environment = newcomer
    done = walk_readme.walk(README, folder, environment, skipped=("make ",))
    assert sum(step.startswith("wrote ") for step in done) >= 2
    assert {step.split()[0] for step in done} >= {"python", "jackstay"}


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("```sh\nfalse\n```\n", "ended with 1"),
        ("```sh\ntrue\n```\n", "ended with 0"),  # and said nothing
        ("```sh\necho Traceback\n```\n", "Traceback"),
        ('```python title="x.py"\nraise SystemExit("bad")\n```\n\n```sh\npython x.py\n```\n', "bad"),
        ('```json\n{"mcpServers": {"x": {"command": "no-such-command"}}}\n```\n', "no-such-command"),
    ],
)
def test_a_page_that_does_not_keep_its_word_is_found(
    page: str, said: str, newcomer: tuple[Path, dict[str, str]]
) -> None:
    with pytest.raises(walk_readme.WalkFailedError, match=said):
        walk_readme.walk(page, *newcomer)
