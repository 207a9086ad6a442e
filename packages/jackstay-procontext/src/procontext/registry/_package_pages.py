"""Pages of installed packages: the README, and what modules and types declare. Nothing is imported."""

import ast
import inspect
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Final, TypeAlias

from procontext.registry._installed import read_text

MAX_MODULES: Final = 400

_DECLARATION = re.compile(
    r"^(?:export\s+)?(?:declare\s+)?(?:default\s+)?(?:abstract\s+)?(?:async\s+)?"
    r"(?:class|function|interface|type|const|enum|namespace)\s+(\w+)",
    re.MULTILINE,
)
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def python_pages(distribution: PathDistribution) -> dict[str, str]:
    """Return the README and the documented modules of a Python package, by file name."""
    metadata = distribution.metadata
    text = (distribution.read_text("METADATA") or "").replace("\r\n", "\n")
    readme = text.partition("\n\n")[2]
    pages = {"README.md": f"# {metadata['Name']} {distribution.version}\n\n{_demoted(readme)}\n"}
    for file, module in sorted(_modules(distribution))[:MAX_MODULES]:
        page = module_page(file, module)
        if page:
            pages[f"{module}.md"] = page
    return pages


def javascript_pages(folder: Path, name: str, version: str, manifest: Mapping[str, object]) -> dict[str, str]:
    """Return the README and the types of a package in `node_modules`, by file name."""
    readme = next((text for file in ("README.md", "readme.md") if (text := read_text(folder / file))), "")
    pages = {"README.md": f"# {name} {version}\n\n{_demoted(readme)}\n"}
    types = str(manifest.get("types") or manifest.get("typings") or "index.d.ts")
    text = read_text(folder / types) if ".." not in types else ""
    if text:
        pages["types.md"] = types_page(name, text)
    return pages


def _modules(distribution: PathDistribution) -> Iterator[tuple[Path, str]]:
    """Return the files and names of the modules, a stub instead of its module."""
    stubs = {str(file)[:-4] for file in distribution.files or () if str(file).endswith(".pyi")}
    for file in distribution.files or ():
        parts = file.with_suffix("").parts
        is_module = file.suffix == ".pyi" or (file.suffix == ".py" and str(file)[:-3] not in stubs)
        if not is_module or ".." in parts or not all(part.isidentifier() for part in parts):
            continue
        if {"tests", "test", "conftest", "setup"} & set(parts):
            continue
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if parts:
            yield Path(str(file.locate())), ".".join(parts)


def module_page(file: Path, module: str) -> str:
    """Return the public classes and functions of a module with their docstrings, or "" if it documents nothing."""
    try:
        tree = ast.parse(read_text(file))
    except (SyntaxError, ValueError):
        return ""
    lines = [f"# {module}", "", _docstring(tree)]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            bases = ", ".join(map(ast.unparse, node.bases))
            lines += ["", f"## class {node.name}({bases})" if bases else f"## class {node.name}", "", _docstring(node)]
            for member in node.body:
                if isinstance(member, _Function) and (not member.name.startswith("_") or member.name == "__init__"):
                    lines += ["", f"### {node.name}.{_signature(member)}", "", _docstring(member)]
        elif isinstance(node, _Function) and not node.name.startswith("_"):
            lines += ["", f"## {_signature(node)}", "", _docstring(node)]
    has_text = len(lines) > 3 or lines[2]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n" if has_text else ""


def types_page(name: str, text: str) -> str:
    """Return the declarations of a `.d.ts` file, each as a section."""
    starts = list(_DECLARATION.finditer(text))
    parts = [f"# {name} types\n"]
    for start, end in zip(starts, [*(later.start() for later in starts[1:]), len(text)], strict=False):
        parts.append(f"## {start[1]}\n\n```ts\n{text[start.start() : end].strip()}\n```\n")
    return "\n".join(parts)


def _signature(node: _Function) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return " ".join(f"{node.name}({ast.unparse(node.args)}){returns}".split())


def _docstring(node: ast.Module | ast.ClassDef | _Function) -> str:
    return _demoted(inspect.cleandoc(ast.get_docstring(node, clean=False) or ""))


def _demoted(text: str) -> str:
    """Move the headings of a string below those of the page."""
    return re.sub(r"^(#{1,3}) ", r"##\1 ", text, flags=re.MULTILINE)


def write_pages(target: Path, pages: dict[str, str]) -> None:
    """Write the pages in one step: another process sees all of them or none."""
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=target.parent))
    try:
        for name, text in pages.items():
            (made / name).write_text(text.encode("utf-8", "replace").decode(), encoding="utf-8")
        made.rename(target)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        if not target.exists():  # another process may have written it
            raise


__all__ = ["javascript_pages", "module_page", "python_pages", "types_page", "write_pages"]
