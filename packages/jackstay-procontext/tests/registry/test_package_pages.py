"""Pages of installed packages: modules, stubs and types, without importing them."""

from pathlib import Path

import pytest

from procontext.registry._package_pages import module_page, types_page, write_pages


def test_page_of_a_module(tmp_path: Path) -> None:
    file = tmp_path / "boats.pyi"
    file.write_text('"""Boats.\n\n# A heading of the docstring\n"""\nclass Boat:\n    """One."""\n')
    page = module_page(file, "harbour.boats")
    assert page == "# harbour.boats\n\nBoats.\n\n### A heading of the docstring\n\n## class Boat\n\nOne.\n"


def test_module_without_documentation_has_no_page(tmp_path: Path) -> None:
    empty = tmp_path / "empty.py"
    empty.write_text("_x = 1\n")
    assert module_page(empty, "empty") == ""
    assert module_page(tmp_path / "absent.py", "absent") == ""
    empty.write_text("def (")
    assert module_page(empty, "empty") == ""


def test_page_of_types() -> None:
    assert types_page("x", "no declarations") == "# x types\n"
    page = types_page("x", "export class A {}\nexport type B = 1;\n")
    assert page == "# x types\n\n## A\n\n```ts\nexport class A {}\n```\n\n## B\n\n```ts\nexport type B = 1;\n```\n"


def test_pages_of_another_process_are_kept(tmp_path: Path) -> None:
    target = tmp_path / "pages"
    write_pages(target, {"a.md": "first"})
    write_pages(target, {"a.md": "second"})
    assert (target / "a.md").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["pages"]
    with pytest.raises(OSError, match="absent"):
        write_pages(tmp_path / "pages" / "b", {"absent/a.md": "x"})
