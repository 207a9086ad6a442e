"""Documentation: links resolve, code compiles and runs, trees match the files, generated pages are current."""

import ast
import functools
import inspect
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jackstay.cli import main
from jackstay.client import CallOptions
from jackstay.oauth import Identity, OAuth
from jackstay.transport import stdio
from jackstay.transport.http import http
from scripted.places import PYTHONPATH, SOURCES

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page
    for page in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part in ("build", "node_modules") for part in page.relative_to(ROOT).parts)
)
GENERATOR = ROOT / "tools" / "make_docs.py"
GENERATED = [ROOT / "docs" / name for name in ("protocol.md", "settings.md", "errors.md", "messages.md")]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

FENCE = re.compile(r"^( *)(```+)([^\n`]*)\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """(info, body) of each fenced block; the body without the indentation of its fence."""
    for found in FENCE.finditer(text):
        indent = len(found[1])
        yield found[3].strip(), "".join(line[indent:] for line in found[4].splitlines(keepends=True))


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#{1,6} +(.+?) *#*$", FENCE.sub("", text), re.MULTILINE)
    found: set[str] = set()
    for heading in headings:
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = 1
        unique = anchor
        while unique in found:
            unique, number = f"{anchor}-{number}", number + 1
        found.add(unique)
    return found


def broken_links(page: Path, text: str) -> list[str]:
    """Links of this page that lead nowhere inside the repository; addresses on the web are not followed."""
    broken = []
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        path, _, anchor = target.partition("#")
        aimed = page if not path else (page.parent / path).resolve()
        if path and (not aimed.exists() or ROOT not in (aimed, *aimed.parents)):
            broken.append(target)
        elif anchor and aimed.suffix == ".md":
            body = text if aimed == page else aimed.read_text(encoding="utf-8")
            if anchor not in anchors(body):
                broken.append(target)
    return broken


def broken_code(text: str) -> list[str]:
    """Python blocks that are not Python. `await` outside a function is allowed: examples use it."""
    broken = []
    for info, body in blocks(text):
        if info.split()[:1] == ["python"]:
            try:
                compile(body, "block", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            except SyntaxError as error:
                broken.append(f"{error}: {body[:60]!r}")
    return broken


@functools.cache
def targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", makefile, re.MULTILINE))


def make_words(text: str) -> set[str]:
    """Every X of a `make X` in the code of a page."""
    code = [body for _, body in blocks(text)] + re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    return {word for piece in code for word in re.findall(r"\bmake +([a-z][a-z-]*)", piece)}


def commands(text: str) -> list[str]:
    """The `jackstay ...` lines in the shell blocks of a page, and those in running text."""
    shell = [line for info, body in blocks(text) if info == "sh" for line in body.splitlines()]
    inline = re.findall(r"`(jackstay [^`\n]+)`", FENCE.sub("", text))
    return [line.partition("#")[0].strip() for line in [*shell, *inline] if re.match(r"jackstay \w", line)]


# --- every page -------------------------------------------------------------------------------------------------------


def test_every_link_resolves() -> None:
    found = {page_id(page): broken_links(page, page.read_text(encoding="utf-8")) for page in PAGES}
    assert {page: broken for page, broken in found.items() if broken} == {}


def test_every_python_block_compiles() -> None:
    found = {page_id(page): broken_code(page.read_text(encoding="utf-8")) for page in PAGES}
    assert {page: broken for page, broken in found.items() if broken} == {}


def test_every_make_target_that_a_page_names_exists() -> None:
    found = {page_id(page): make_words(page.read_text(encoding="utf-8")) - targets() for page in PAGES}
    assert {page: unknown for page, unknown in found.items() if unknown} == {}


def test_every_jackstay_command_that_a_page_shows_works(capsys: pytest.CaptureFixture[str]) -> None:
    for page in PAGES:
        for command in commands(page.read_text(encoding="utf-8")):
            if page.name == "README.md" and " -- " in command:
                continue  # it starts a file that the page wrote before: run by tests/test_readme.py
            assert main(shlex.split(command)[1:]) == 0, (page, command)
            assert capsys.readouterr().out.strip(), (page, command)


RUNNABLE = [
    pytest.param(body, id=f"{page_id(page)}-{number}")
    for page in PAGES
    for number, (info, body) in enumerate(blocks(page.read_text(encoding="utf-8")), 1)
    if info.split() == ["python", "run"]
]


TESTS = {
    f"test_{re.sub(r'[^a-z0-9]+', '_', page_id(page))}_{number}.py": body
    for page in PAGES
    for number, (info, body) in enumerate(blocks(page.read_text(encoding="utf-8")), 1)
    if info.split() == ["python", "test"]
}


def test_every_block_marked_as_a_test_passes(tmp_path: Path) -> None:
    """One run for all of them: starting pytest takes longer than each."""
    for name, body in TESTS.items():
        (tmp_path / name).write_text(body, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *TESTS]
    path = {**os.environ, "PYTHONPATH": PYTHONPATH}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path, env=path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) >= len(TESTS)


@pytest.mark.parametrize("body", RUNNABLE)
def test_a_block_marked_as_runnable_runs(body: str, tmp_path: Path) -> None:
    path = f"import sys; sys.path[:0] = {[str(source) for source in SOURCES.values()]!r}\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", path + body],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr


# --- single pages -----------------------------------------------------------------------------------------------------


def test_the_tree_in_the_contributing_guide_shows_what_is_there() -> None:
    block = next(
        body for info, body in blocks(CONTRIBUTING) if info == "text" and "packages/jackstay/src/jackstay/" in body
    )
    shown = [line.split()[0] for line in block.splitlines() if line.strip()]
    assert [path for path in shown if not (ROOT / path).exists()] == []


def test_the_tree_in_the_contributing_guide_shows_every_package_and_layer() -> None:
    for folder in (*SOURCES.values(), SOURCES["jackstay"] / "jackstay"):
        for found in pkgutil.iter_modules([str(folder)]):
            if not found.name.startswith("_"):
                assert f"{folder.relative_to(ROOT)}/{found.name}{'/' if found.ispkg else '.py'}" in CONTRIBUTING


def test_the_readme_names_the_command_that_runs_it_and_the_one_that_tests_it() -> None:
    assert {"run", "test"} <= make_words(README)


def test_every_make_target_has_a_description() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    undescribed = [line for line in re.findall(r"^[a-z][a-z-]*:.*$", makefile, re.MULTILINE) if "##" not in line]
    assert [line.partition(":")[0] for line in undescribed] == ["test-bare"]  # only tools/test_all calls it


def test_the_changes_have_a_section_for_what_is_not_released_yet() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (.+)$", text, re.MULTILINE)[1] == "Unreleased"  # type: ignore[index] # fails as it should


@pytest.mark.parametrize(
    ("function", "page"),
    [(stdio, "client.md"), (http, "client.md"), (OAuth, "oauth.md"), (Identity, "oauth.md")],
)
def test_every_argument_is_explained(function: Callable[..., object], page: str) -> None:
    """`clock` is for tests."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    names = set(inspect.signature(function).parameters) - {"clock"}
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []


def test_the_table_of_call_options_has_every_option() -> None:
    _, _, section = (ROOT / "docs" / "client.md").read_text(encoding="utf-8").partition("\nEvery call accepts these")
    table = section.split("\n\n")[1]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [*CallOptions.__annotations__]


def test_generated_pages_match_the_tables() -> None:
    assert all(page.exists() for page in GENERATED)
    done = subprocess.run(
        [sys.executable, str(GENERATOR), "--check"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --- the proof that these tests can fail ------------------------------------------------------------------------------


def test_a_planted_broken_link_is_found() -> None:
    for link in (
        "[x](no-such-file.md)",
        "[x](#no-such-heading)",
        "[x](README.md#no-such-heading)",
        "[x](../outside.md)",
        '[x](no-such-file.md "title")',
    ):
        assert len(broken_links(ROOT / "PLANTED.md", f"# Heading\n\n{link}\n")) == 1, link


def test_a_sound_link_is_not_reported() -> None:
    for link in (
        "[x](README.md)",
        "[x](#a-heading-with-code)",
        "[x](https://example.org/x.md)",
        "`[x](y.md)`",
        "```\n[x](y)\n```",
    ):
        assert broken_links(ROOT / "PLANTED.md", f"# A heading, with `code`\n\n{link}\n") == [], link


def test_planted_broken_code_is_found() -> None:
    for body in ("def f(:", "return 1", "  x = 1"):
        assert len(broken_code(f"```python\n{body}\n```\n")) == 1, body
        assert len(broken_code(f"```python run\n{body}\n```\n")) == 1, body
        assert broken_code(f"```text\n{body}\n```\n") == [], body


def test_awaiting_in_an_example_is_not_broken_code() -> None:
    assert broken_code("```python\nasync with connect() as client:\n    await client.ready()\n```\n") == []


def test_planted_make_targets_and_commands_are_found() -> None:
    text = "Run `make nonsense`.\n\n```sh\nmake other ONLY=x\njackstay states # all\n```\n\nDo not make more of it.\n"
    assert make_words(text) == {"nonsense", "other"}
    assert commands(text) == ["jackstay states"]
