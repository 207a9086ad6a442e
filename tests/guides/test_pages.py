"""Every code block of a guide is part of the example that the tests run."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from guides.loading import ENVIRONMENT, GUIDES, ROOT

# page -> the example it is about
PAGES = {
    "fastapi.md": "fastapi_app.py",
    "worker.md": "worker.py",
    "notebook.md": "notebook.ipynb",
    "models.md": "assistant.py",
    "openapi.md": "openapi_server.py",
    "typed-client.md": "typed_client.py",
}
# Pages whose blocks are complete programs and tests, which tests/test_docs.py runs.
COMPLETE = ("apps.md", "dependency-injection.md", "extensions.md", "gateway.md", "skills.md", "tasks.md", "testing.md")
# A page about several examples, which tests/interop/test_agents.py runs.
AGENTS = "agents.md"
FOLDER = ROOT / "docs" / "guides"


def code_of(example: Path) -> str:
    """All code of an example; of a notebook, that of its cells."""
    text = example.read_text(encoding="utf-8")
    if example.suffix != ".ipynb":
        return text
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    return "\n\n".join("".join(cell["source"]) for cell in cells)


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", PAGES)
def test_a_guide_shows_the_code_that_the_tests_run(name: str) -> None:
    shown, code = blocks(FOLDER / name), code_of(GUIDES / PAGES[name])
    assert shown, "a guide begins with code"
    assert [block for block in shown if block.strip("\n") not in code] == []


def test_the_page_about_agents_shows_each_example_once() -> None:
    examples = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples" / "agents").glob("*.py"))]
    shown = [block.strip("\n") for block in blocks(FOLDER / AGENTS)]
    assert [sum(block in code for block in shown) for code in examples] == [1] * len(examples)
    assert len(shown) == len(examples)


@pytest.mark.parametrize("name", COMPLETE)
def test_every_block_of_other_guides_is_run(name: str) -> None:
    kinds = re.findall(r"^```python(.*)$", (FOLDER / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert kinds
    assert set(kinds) <= {" run", " test"}


def test_every_guide_and_every_example_is_in_the_table() -> None:
    assert {page.name for page in FOLDER.glob("*.md")} == {*PAGES, *COMPLETE, AGENTS, "README.md"}
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted((*PAGES, *COMPLETE, AGENTS))
    examples = {path.name for path in GUIDES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert examples == {*PAGES.values(), "shop.py", "weather_client.py"}


@pytest.mark.parametrize("name", ["fastapi_app.py", "shop.py", "assistant.py"])
def test_an_example_without_arguments_prints_its_usage(name: str) -> None:
    done = subprocess.run([sys.executable, GUIDES / name], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert (done.returncode, done.stderr.split(name)[0]) == (1, "usage: python ")
