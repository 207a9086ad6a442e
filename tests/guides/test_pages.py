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
FOLDER = ROOT / "docs" / "guides"
# A page for each example of a framework, which tests/interop/test_agents.py runs.
AGENTS = FOLDER / "agents"


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


def test_every_framework_has_a_page_with_its_example() -> None:
    examples = sorted((ROOT / "examples" / "agents").glob("*.py"))
    names = {path.stem.removesuffix("_agent").replace("_", "-"): path.read_text(encoding="utf-8") for path in examples}
    assert {page.name for page in AGENTS.glob("*.md")} == {*(f"{name}.md" for name in names), "README.md"}
    overview = (AGENTS / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[.+\]\((.+)\.md\) \| `([\w-]+)` \|", overview, re.MULTILINE)
    assert sorted(listed) == [(name, name) for name in sorted(names)]  # the page, and the extra
    for name, code in names.items():
        (shown,) = blocks(AGENTS / f"{name}.md")
        assert shown.strip("\n") in code


@pytest.mark.parametrize("name", COMPLETE)
def test_every_block_of_other_guides_is_run(name: str) -> None:
    kinds = re.findall(r"^```python(.*)$", (FOLDER / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert kinds
    assert set(kinds) <= {" run", " test"}


def test_every_guide_and_every_example_is_in_the_table() -> None:
    assert {page.name for page in FOLDER.glob("*.md")} == {*PAGES, *COMPLETE, "README.md"}
    listed = re.findall(r"\]\(([\w-]+\.md|agents/README\.md)\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted((*PAGES, *COMPLETE, "agents/README.md"))
    examples = {path.name for path in GUIDES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert examples == {*PAGES.values(), "shop.py", "weather_client.py"}


@pytest.mark.parametrize("name", ["fastapi_app.py", "shop.py", "assistant.py"])
def test_an_example_without_arguments_prints_its_usage(name: str) -> None:
    done = subprocess.run([sys.executable, GUIDES / name], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert (done.returncode, done.stderr.split(name)[0]) == (1, "usage: python ")
