"""Every `__all__` is complete, resolvable and documented, and is the same at run time and for type checkers.

A public module is a package, or a file whose name has no underscore.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import zip_longest
from pathlib import Path
from types import ModuleType

import pytest

import apcore_mcp
import jackstay
import procontext
from scripted.places import ROOT, SOURCES, import_path

sys.path.insert(0, str(ROOT / "tools"))
import make_stubs

FILES = [path for source in SOURCES.values() for path in sorted(source.rglob("*.py"))]
PACKAGES = (jackstay, apcore_mcp, procontext)


def public_modules() -> Iterator[str]:
    for package in PACKAGES:
        yield package.__name__
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not any(part.startswith("_") for part in module.name.split(".")):
                yield module.name


MODULES = sorted(public_modules())


def source_of(module: ModuleType) -> Path:
    assert module.__file__ is not None
    return Path(module.__file__)


def accidental_names(module: ModuleType) -> set[str]:
    """Names without an underscore that the module binds, that our packages define, and that its list leaves out."""
    packages = tuple(package.__name__ for package in PACKAGES)
    found = set()
    for name, value in vars(module).items():
        if name.startswith("_") or isinstance(value, ModuleType) or name in module.__all__:
            continue
        home = getattr(value, "__module__", None)
        is_foreign = isinstance(home, str) and home.split(".")[0] not in packages
        if not is_foreign:
            found.add(name)
    return found


def borrowed_names(module: ModuleType) -> set[str]:
    """What a module imports to use and not to show: for a package, from outside; for a file, from anywhere.

    Constants carry no home, so this is read from the text."""
    path = source_of(module)
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            is_internal = (node.module or "").split(".")[0] in {package.__name__ for package in PACKAGES}
            is_internal = is_internal and node.module != "jackstay._lazy"
            if path.name != "__init__.py" or not is_internal:
                found |= {alias.asname or alias.name for alias in node.names}
    return found


def test_all_lists_every_public_name_once_and_nothing_else(subtests: pytest.Subtests) -> None:
    for name in MODULES:
        with subtests.test(module=name):
            module = importlib.import_module(name)
            assert isinstance(module.__all__, list), f"{name} has no __all__"
            assert len(module.__all__) == len(set(module.__all__)), "a duplicate name"
            absent = [public for public in module.__all__ if not hasattr(module, public)]
            assert absent == [], f"in {name}.__all__, but not defined"
            assert accidental_names(module) - borrowed_names(module) == set(), f"public by accident in {name}"


# --- documentation of each name ---------------------------------------------------------------------------------------


def assignments(path: Path) -> dict[str, bool]:
    """Each name assigned at the top of a file, and whether it is explained: by a comment above or beside it, or a
    string below it. In a run of assignments without an empty line, the comment above the first is for all of them."""
    text = path.read_text(encoding="utf-8")
    lines, body = text.splitlines(), ast.parse(text).body
    found: dict[str, bool] = {}
    was_explained, last_line = False, -1
    for node, following in zip_longest(body, body[1:]):
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        above = lines[node.lineno - 2].lstrip() if node.lineno > 1 else ""
        beside = re.search(r"\s#\s*\S", lines[node.lineno - 1]) is not None
        below = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        is_run = node.lineno == last_line + 1 and was_explained
        was_explained = above.startswith("#") or beside or below or is_run
        last_line = node.end_lineno or node.lineno
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                found[target.id] = was_explained
    return found


@cache
def explained_constants() -> dict[str, bool]:
    """Every constant of every source file; a layer may show one that a lower layer explains."""
    found: dict[str, bool] = {}
    for file in FILES:
        for name, is_explained in assignments(file).items():
            found[name] = found.get(name, False) or is_explained
    return found


def undocumented_names(name: str) -> list[str]:
    module = importlib.import_module(name)
    found = []
    for public in module.__all__:
        value = getattr(module, public)
        if public.startswith("__") or isinstance(value, ModuleType) or name == "jackstay":
            continue  # the names of the top package are documented where they are defined
        if inspect.isclass(value) and public == value.__name__:
            is_documented = bool((value.__dict__.get("__doc__") or "").strip())
        elif inspect.isroutine(value):
            is_documented = bool((value.__doc__ or "").strip())
        else:
            is_documented = explained_constants().get(public, False)
        if not is_documented:
            found.append(public)
    return found


def test_every_public_name_has_a_docstring_or_a_comment() -> None:
    found = {name: undocumented_names(name) for name in MODULES}
    assert {name: undocumented for name, undocumented in found.items() if undocumented} == {}


# --- lazy packages ----------------------------------------------------------------------------------------------------

STUBS = make_stubs.stubs()


def test_the_stubs_have_the_names_of_the_packages() -> None:
    found = {path for source in SOURCES.values() for path in source.rglob("*.pyi")}
    assert found - STUBS.keys() == {SOURCES["jackstay"] / "jackstay" / "sync" / "__init__.pyi"}, "a package is not lazy"
    assert [path for path, text in STUBS.items() if path.read_text(encoding="utf-8") != text] == [], "run `make docs`"


def test_the_layers_that_start_programs_are_lazy() -> None:
    lazy = {".".join(import_path(path.parent).parts) for path in STUBS}
    assert {"jackstay", "jackstay.types", "jackstay.protocol.wire", "jackstay.client", "jackstay.server"} <= lazy


def test_one_edit_adds_a_public_name(tmp_path: Path) -> None:
    """The mapping in `__init__.py` is the only declaration: run time and stub follow."""
    shutil.copytree(SOURCES["jackstay"], tmp_path / "packages" / "jackstay" / "src", ignore=lambda *_: ["__pycache__"])
    package = tmp_path / "packages" / "jackstay" / "src" / "jackstay"
    (package / "client" / "_added.py").write_text("class Added: ...\n")
    declaration = package / "client" / "__init__.py"
    text = declaration.read_text()
    declaration.write_text(text.replace('"._call": "Call",', '"._call": "Call",\n        "._added": "Added",'))
    code = (
        f"import sys; sys.path.insert(0, {str(package.parent)!r})\n"
        "import jackstay.client\n"
        "assert 'Added' in jackstay.client.__all__ and 'Added' in dir(jackstay.client)\n"
        "assert 'jackstay.client._added' not in sys.modules\n"
        "from jackstay.client import Added\n"
        "assert jackstay.client.__dict__['Added'] is Added\n"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, timeout=240)
    stub = make_stubs.stubs(tmp_path)[declaration.with_suffix(".pyi")]
    assert "from jackstay.client._added import Added\n" in stub
    assert '__all__ = ["Added", ' in stub


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="module 'jackstay' has no attribute 'conect'"):
        jackstay.conect  # noqa: B018 (the look-up is the test)
    with pytest.raises(ImportError, match="conect"):
        exec("from jackstay import conect", {})


def test_dir_shows_every_name_before_it_is_loaded() -> None:
    assert set(jackstay.__all__) <= set(dir(jackstay))


def test_a_lazy_name_is_loaded_once_in_a_fresh_module() -> None:
    code = (
        "import sys, jackstay\n"
        "assert 'McpError' in dir(jackstay) and 'jackstay.errors' not in sys.modules\n"
        "first = jackstay.McpError\n"
        "assert jackstay.__dict__['McpError'] is first is sys.modules['jackstay.errors'].McpError\n"
        "from jackstay import *\n"
        "assert McpError is first and TransportError.__mro__[-2] is BaseException\n"
        "import pydoc\n"
        "assert 'class Client(' in pydoc.render_doc(jackstay, renderer=pydoc.plaintext)\n"
    )
    path = f"import sys; sys.path[:0] = {[str(source) for source in SOURCES.values()]!r}\n"
    subprocess.run([sys.executable, "-c", path + code], check=True, timeout=240)


# --- the distribution -------------------------------------------------------------------------------------------------


def test_each_distribution_has_its_version_in_one_place_and_all_have_the_same() -> None:
    for name, source in SOURCES.items():
        project = tomllib.loads((source.parent / "pyproject.toml").read_text())
        assert project["project"]["dynamic"] == ["version"]
        assert project["tool"]["hatch"]["version"]["path"] == f"src/{name}/_version.py"
    versions = {package.__version__ for package in PACKAGES}
    assert len(versions) == 1, f"the distributions are released together: {versions}"
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", jackstay.__version__)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_a_package_is_marked_as_typed(package: ModuleType) -> None:
    assert source_of(package).with_name("py.typed").exists()


# --- the proof that these tests can fail ------------------------------------------------------------------------------


def planted(tmp_path: Path, source: str) -> ModuleType:
    path = tmp_path / "planted.py"
    path.write_text(source)
    module = ModuleType("jackstay.planted")
    module.__file__ = str(path)
    exec(compile(source, "<planted>", "exec"), vars(module))  # not a file, so that coverage lets it be
    return module


def test_a_planted_accident_is_found(tmp_path: Path) -> None:
    source = "import enum\nfrom re import Pattern\n__all__ = ['A']\nclass A: ...\nclass B: ...\nLIMIT = 3\n_x = 1\n"
    module = planted(tmp_path, source)
    assert accidental_names(module) - borrowed_names(module) == {"B", "LIMIT"}


def test_a_planted_undocumented_constant_is_found(tmp_path: Path) -> None:
    source = "# text\nA = 1\nB = 2\n\nC = 3\nD: int = 4  # text\n\nE = 5\n'text'\n\nF = 6\n"
    assert assignments(source_of(planted(tmp_path, source))) == {
        "A": True,
        "B": True,
        "C": False,
        "D": True,
        "E": True,
        "F": False,
    }
