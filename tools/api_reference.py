"""Generate the API reference: a page for every public module, and the same as Markdown.

`write_pages` writes the pages from the data of `api_source`, `setup` is the Sphinx extension that links names in
signatures, and `missing` finds public names without an entry in a built site.
"""

import functools
import importlib
import inspect
import re
import typing
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from api_source import Entry, Field, Name, entry, home, modules, names_of, packages, resolve

if TYPE_CHECKING:
    from docutils import nodes  # type: ignore[import-untyped]  # it has no stubs
    from sphinx.application import Sphinx

FOLDER = "api"  # of the pages, in the site
CAPTION = "API reference"

CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
DOCS_PAGE = re.compile(r"docs/([\w/-]+)\.md(#[\w-]+)?")
RAISES = re.compile(r"(?:^|(?<=[.:;)`] ))Raises: ")


# --- Markdown ---------------------------------------------------------------------------------------------------------


def module_text(module: str) -> str:
    """Return a module of the reference as Markdown."""
    parts = [f"# {module}", inspect.getdoc(importlib.import_module(module)) or ""]
    for name in names_of(module):
        found, full = entry(module, name), home(module, name)
        parts += _entry_text(found, None if str(full) == found.full_name else full)
    return "\n\n".join(part for part in parts if part) + "\n"


def texts() -> Iterator[tuple[str, str, str]]:
    """Yield the name, the first paragraph of the docstring, and the Markdown of every public module."""
    for module in modules():
        first = (inspect.getdoc(importlib.import_module(module)) or "").partition("\n\n")[0]
        yield module, " ".join(first.split()), module_text(module)


def _entry_text(found: Entry, full: Name | None, level: int = 2) -> list[str]:
    title = found.full_name if level == 2 else ".".join(found.full_name.split(".")[-2:])
    parts = [f"{'#' * level} {title}", _declaration(found)]
    if full is not None:
        return [*parts, found.doc.partition("\n\n")[0], f"Documented in full as `{full}`."]
    parts.append(found.doc)
    parts.append("\n".join(f"- `{_field_text(field)}`{': ' if field.doc else ''}{field.doc}" for field in found.fields))
    for member in found.members:
        parts += _entry_text(member, None, level + 1)
    return parts


def _declaration(found: Entry) -> str:
    if found.kind == "data":
        return f"```python\n{found.name} = {found.value}\n```" if found.value else ""
    word = {"function": "def ", "method": "def ", "property": "property ", "exception": "class "}.get(
        found.kind, "class "
    )
    line = f"{found.prefix}{word}{found.name}{found.signature}"
    if len(line) > 110 and found.parameters:
        line = f"{found.prefix}{word}{found.name}(\n    " + ",\n    ".join(found.parameters) + ",\n)"
    returns = f" -> {found.returns}" if found.returns and found.kind != "property" else ""
    returns = f": {found.returns}" if found.kind == "property" and found.returns else returns
    return f"```python\n{line}{returns}\n```"


def _field_text(field: Field) -> str:
    annotation = f": {field.annotation}" if field.annotation else ""
    default = f" = {field.default}" if field.default else ""
    return f"{field.name}{annotation}{default}"


# --- pages ------------------------------------------------------------------------------------------------------------


def write_pages(folder: Path) -> list[tuple[str, str]]:
    """Write the page of every public module. Returns (title, page) of each package, for the navigation."""
    target = folder / FOLDER
    target.mkdir(exist_ok=True)
    for module in modules():
        (target / f"{module}.rst").write_text(page(module), encoding="utf-8")
    return [(package, f"/{FOLDER}/{package}") for package in packages()]


def page(module: str) -> str:
    """Return the page of a module as reStructuredText."""
    lines = [module, "=" * len(module), "", f".. py:module:: {module}", ""]
    lines += [*formatted(inspect.getdoc(importlib.import_module(module)) or "", module), ""]
    inner = [each for each in modules() if each.startswith(f"{module}.")]
    if module in packages() and inner:
        lines += [".. rubric:: Modules", ""]
        for each in inner:
            first = (inspect.getdoc(importlib.import_module(each)) or "").partition("\n\n")[0]
            lines += [f"- :doc:`{each} <{each}>`: {inline(' '.join(first.split()), each)}"]
        lines += ["", ".. toctree::", "   :hidden:", ""]
        lines += [*(f"   {each.removeprefix(f'{module}.')} <{each}>" for each in inner), ""]
    for name in names_of(module):
        found, full = entry(module, name), home(module, name)
        lines += description(found, None if str(full) == found.full_name else full)
    return "\n".join(lines)


def description(found: Entry, full: Name | None = None) -> list[str]:
    """Return an entry as a directive of Sphinx's Python domain; `full` is the name with the full documentation."""
    returns = f" -> {found.returns}" if found.returns and found.parameters is not None else ""
    is_short = full is not None and found.kind != "function"
    lines = [f".. py:{found.kind}:: {found.name}{'' if is_short else found.signature + returns}"]
    lines += [f"   :{word}:" for word in found.prefix.split()]
    if found.kind == "property" and found.returns:
        lines.append(f"   :type: {found.returns}")
    lines.append("")
    if full is None:
        lines += [f"   {line}" for line in body(found)]
        for member in found.members:
            lines += [f"   {line}" for line in description(member)]
        return lines
    first = RAISES.split(found.doc.partition("\n\n")[0])[0]
    lines += [f"   {line}" for line in formatted(first, found.source_module)]
    return [*lines, "", f"   Documented in full as :py:obj:`{full}`.", ""]


def body(found: Entry) -> list[str]:
    """Return the content of an entry below its signature, as lines of reStructuredText."""
    lines = formatted(found.doc, found.source_module)
    if found.value:
        lines += [
            "",
            ".. code-block:: text",
            "",
            f"   {found.name} = {found.value}",
        ]  # `text`, because highlighting is slow
    if found.fields:
        lines.append("")
    for field in found.fields:
        doc = f": {inline(' '.join(field.doc.split()), found.source_module)}" if field.doc else ""
        lines.append(f"- ``{_field_text(field)}``{doc}")
    return [*lines, ""]


def formatted(text: str, module: str) -> list[str]:
    """Convert a docstring with Markdown code and lists to lines of reStructuredText."""
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if re.match(r" {4}|```", block):  # code, in a fence or indented
            code = re.sub(r"^```.*\n?", "", block, flags=re.MULTILINE)
            lines += ["", "::", "", *(f"   {line}" for line in inspect.cleandoc(code).splitlines())]
            continue
        for item in re.split(r"\n(?=[-*] )", block):
            if re.match(r"[-*] ", item):
                lines += ["- " + inline(" ".join(item[2:].split()), module)]
                continue
            sentence, *raised = RAISES.split(" ".join(item.split()), maxsplit=1)
            lines += ["", inline(sentence.strip(), module)] if sentence.strip() else []
            lines += ["", f":Raises: {inline(raised[0], module, is_raised=True)}"] if raised else []
        lines.append("")
    return lines


def inline(text: str, module: str, *, is_raised: bool = False) -> str:
    """Convert a paragraph: code becomes a literal, with a link if it is a documented name. Other markup is escaped."""
    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [
            _plain(text[end : code.start()], module, is_raised=is_raised),
            _code(code[2].strip(), module),
        ]
        end = code.end()
    parts.append(_plain(text[end:], module, is_raised=is_raised))
    line = "".join(parts)
    return f"\\{line}" if re.match(r"[^\w\s\\:]|\(?\w+[.)] |:\w+:(?!`)", line) else line


def _plain(text: str, module: str, *, is_raised: bool) -> str:
    escaped = re.sub(r"([\\*`|_])", r"\\\1", text).replace("::", ":\\:")
    if not is_raised:
        return escaped
    return re.sub(
        r"\b[A-Z]\w+",
        lambda found: _code(found[0], module) if resolve(found[0], module) else found[0],
        escaped,
    )


def _code(text: str, module: str) -> str:
    called = text.removesuffix("()")
    found = resolve(called, module)
    if found is not None:
        return f"\\ :py:obj:`{text} <{found}>`\\ "
    docs = DOCS_PAGE.fullmatch(text)
    if docs and not docs[1].endswith("README"):
        return f"\\ :doc:`{text} </{docs[1]}>`\\ "
    text = text.replace("\\", "\\\\")
    # A literal cannot start or end with a backtick or a space, and has no escapes; the role has escapes.
    return f"\\ :code:`{text.replace('`', chr(92) + '`')}`\\ "


# --- the Sphinx extension ---------------------------------------------------------------------------------------------


def setup(app: "Sphinx") -> dict[str, object]:
    """Link the names in signatures to their entries, and keep the navigation cheap."""
    from sphinx.search.en import SearchEnglish  # noqa: PLC0415  # not needed by the tools that only read the source

    class English(SearchEnglish):
        """English, with a cache for the stems of words."""

        stem = functools.cache(SearchEnglish.stem)

    app.add_search_language(English)
    entries: dict[str, Entry] = {}
    for module in modules():
        for name in names_of(module):
            found = entry(module, name)
            for each in (found, *found.members):
                entries[each.full_name] = each

    def link_annotations(_: "Sphinx", domain: str, kind: str, content: "nodes.Element") -> None:
        """Link names in annotations to their entries; everything else in a parameter becomes plain text.

        Sphinx creates an element for every name, operator and space, which makes the pages three times as large.
        """
        from docutils import nodes  # noqa: PLC0415  # not needed by the tools that only read the source
        from sphinx import addnodes  # noqa: PLC0415

        parts = (addnodes.desc_parameter, addnodes.desc_returns, addnodes.desc_annotation)
        for signature in content.parent.children[:-1] if domain == "py" and kind else ():
            found = entries.get(f"{signature.get('module')}.{signature.get('fullname')}")
            for part in [each for each in signature.findall() if isinstance(each, parts)]:
                kept: list[nodes.Node] = []
                for node in part.findall():
                    target = None
                    if isinstance(node, addnodes.pending_xref):
                        target = resolve(node["reftarget"], found.source_module if found else "")
                    if isinstance(node, addnodes.pending_xref) and target is not None:
                        node["reftarget"], node["reftype"] = str(target), "obj"
                        node["py:module"] = node["py:class"] = None
                        node[:] = [nodes.Text(node.astext())]
                        kept.append(node)
                    elif isinstance(node, nodes.Text) and (not kept or node.parent is not kept[-1]):
                        if kept and isinstance(kept[-1], nodes.Text):
                            node = nodes.Text(kept.pop().astext() + node.astext())  # noqa: PLW2901
                        kept.append(node)
                part[:] = kept

    def lighten_navigation(app: "Sphinx", page: str, _: str, context: dict[str, typing.Any], __: object) -> None:
        """Resolve the navigation from titles alone, and show the modules of a package on its own pages only.

        Otherwise Sphinx copies every heading and entry of every page for every page, which dominates the build time.
        """
        toctree, tocs = context.get("toctree"), app.env.tocs
        if toctree is None:
            return
        package = page.removeprefix(f"{FOLDER}/").partition(".")[0] if page.startswith(f"{FOLDER}/") else ""
        if package not in titles:
            closed = {f"{FOLDER}/{each}" for each in packages()} - {f"{FOLDER}/{package}"}
            titles[package] = {name: title_only(toc, is_closed=name in closed) for name, toc in tocs.items()}

        def resolved(**options: object) -> object:
            app.env.tocs = titles[package]
            try:
                return toctree(**options)
            finally:
                app.env.tocs = tocs

        context["toctree"] = resolved

    titles: dict[str, dict[str, nodes.bullet_list]] = {}
    app.connect("html-page-context", lighten_navigation, priority=100)
    app.connect("object-description-transform", link_annotations)
    return {"version": "1", "parallel_read_safe": False}


def title_only(toc: "nodes.bullet_list", *, is_closed: bool) -> "nodes.bullet_list":
    """Return the table of contents of a page without its sections: its title and, unless closed, its subpages."""
    from docutils import nodes  # noqa: PLC0415
    from sphinx import addnodes  # noqa: PLC0415

    found = toc.copy()
    for item in toc.children[:1]:
        copied = item.copy()
        copied += item.children[0].deepcopy()
        trees = list(item.findall(addnodes.toctree))
        if trees and not is_closed:
            copied += nodes.bullet_list("", *(tree.copy() for tree in trees))
        found += copied
    return found


def missing(site: Path) -> list[str]:
    """Return public names without an entry in the inventory of a built site."""
    inventory = site / "objects.inv"
    content = inventory.read_bytes() if inventory.is_file() else b""
    header = re.match(rb"(?:#.*\n){4}", content)
    text = zlib.decompress(content[header.end() :]).decode() if header else ""
    known = {line.split(" ")[0] for line in text.splitlines() if " py:" in line}
    return [f"{module}.{name}" for module in modules() for name in names_of(module) if f"{module}.{name}" not in known]
