"""Build the documentation site from docs/: `python tools/make_site.py` writes build/site.

The pages are copied; in the copy, links are adapted, diagrams are drawn, and linked source files become pages. The
navigation follows docs/README.md. Sphinx warnings and problems found by `check_links` are errors.
"""

import argparse
import gc
import io
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import api_reference
import api_source
import check_links
import draw_states
import llms_files
from jackstay import __version__
from jackstay.protocol.drawing import MACHINES

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "site"
MAP = PurePosixPath("docs/README.md")
STYLES = Path(__file__).with_name("site")

# Pages in the root of the repository, and their names in the site.
FRONT = {"README.md": "readme.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}
PICTURES = {".svg", ".png", ".gif", ".jpg", ".webp"}
LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml", ".mjs": "javascript", ".yaml": "yaml"}

FENCE = re.compile(r"^( *)(```+)([^\n`]*)\n(.*?)^\1\2 *$\n?", re.MULTILINE | re.DOTALL)
# Code, which is not changed; a Markdown link or image; an address in HTML.
POINTER = re.compile(
    r"(?P<code>(?P<ticks>`+)[^`](?:.|\n)*?(?P=ticks)|<!--(?:.|\n)*?-->)"
    r"|(?P<head>!?\[(?:[^\[\]`]|`[^`]*`|!\[[^\]]*\]\([^)]*\))*\]\(<?)(?P<target>[^)\s>]+)(?P<tail>>?(?:\s+\"[^\"]*\")?\))"
    r"|(?P<attribute>\b(?:src|srcset|href)=\")(?P<address>[^\"]+)\""
)
ENTRY = re.compile(r"^(?:[-*]|\d+\.) \[(?P<title>.+?)\]\((?P<target>[^)\s]+)\)(?:: (?P<note>.+))?")

READING = (
    "A column is a state: a dot marks the initial state, a double frame a final state. "
    "An arrow is a transition on any of the events above it; a condition is in brackets."
)
# A link text that is only the path of a page, or of a folder of pages.
PATH = re.compile(r"`?[\w./-]+(?:\.md|/)`?")


class SiteError(Exception):
    """The site cannot be built; the message names the page and the fix."""


class Section(NamedTuple):
    """One heading of the navigation, and its pages as (title, path in the repository)."""

    title: str
    entries: tuple[tuple[str, PurePosixPath], ...]


def place(path: PurePosixPath) -> PurePosixPath:
    """Return the path of a file or folder of the repository among the staged pages."""
    if str(path) in FRONT:
        return PurePosixPath(FRONT[str(path)])
    if (ROOT / path).is_dir():
        return PurePosixPath("source") / path / "index.md"
    if path.parts[0] == "docs":
        inside = path.relative_to("docs")
        return inside.with_name("index.md") if path.name == "README.md" else inside
    if path.suffix == ".md":
        return PurePosixPath("source") / path
    return PurePosixPath("source") / path.with_name(path.name + ".md")


def aim(page: PurePosixPath, target: str) -> PurePosixPath:
    """Return the file of the repository that a link in this page refers to.

    For a folder, this is its README, or the folder if there is none.
    """
    path = PurePosixPath(os.path.normpath(page.parent / target))
    if path.parts[:1] == ("..",):
        raise SiteError(f"{page}: {target} is outside of the repository")
    if (ROOT / path / "README.md").is_file():
        path /= "README.md"
    if not (ROOT / path).exists():
        raise SiteError(f"{page}: {target} is not there")
    return path


def title_of(path: PurePosixPath) -> str:
    """Return the title of a page; for another file, its name as code."""
    if path.suffix != ".md":
        return f"`{path}/`" if (ROOT / path).is_dir() else f"`{path.name}`"
    found = re.search(r"^# (.+)$", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    return found[1].strip() if found else f"`{path.name}`"


def sections(text: str) -> Iterator[Section]:
    """Yield the sections of the navigation: each heading of the map with the first links of its list items."""
    for part in re.split(r"^## ", FENCE.sub("", text), flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        found = [ENTRY.match(line) for line in body.splitlines()]
        entries = tuple((each["title"], aim(MAP, each["target"])) for each in found if each)
        if entries:
            yield Section(title.strip(), entries)


def children(page: PurePosixPath, text: str) -> list[PurePosixPath]:
    """Return the pages of the same folder that a README links to, in order."""
    found = []
    for each in POINTER.finditer(FENCE.sub("", text)):
        target = (each["target"] or "").partition("#")[0]
        if target.endswith(".md") and "/" not in target and target != page.name:
            found.append(aim(page, target))
    return list(dict.fromkeys(found))


def toctree(entries: list[tuple[str, str]], caption: str = "") -> str:
    """Return a hidden toctree of pages, with their titles if they are given."""
    lines = [f"{title.replace('`', '')} <{name}>" if title else name for title, name in entries]
    head = f":hidden:\n:caption: {caption}\n" if caption else ":hidden:\n"
    return "\n```{toctree}\n" + head + "\n" + "\n".join(lines) + "\n```\n"


class Staging:
    """The pages for the build in one folder, collected by following links from the map."""

    def __init__(self, folder: Path) -> None:
        self.pages = folder / "pages"
        self.extra = folder / "extra"  # files that HTML refers to, copied unchanged
        for each in (self.pages, self.extra):
            each.mkdir()
        self.staged: set[PurePosixPath] = set()
        self._waiting: list[PurePosixPath] = []
        self.reference: list[tuple[str, str]] = []  # the pages of the packages, as (title, page)

    def stage(self) -> None:
        """Write the API reference, the map, everything that it links to, and every other page in docs/."""
        api_source.use(ROOT)
        self.reference = api_reference.write_pages(self.pages)
        for first in (MAP, *all_pages()):
            self._want(first)
            while self._waiting:
                self._write(self._waiting.pop())

    def _want(self, path: PurePosixPath) -> PurePosixPath:
        if path not in self.staged:
            self.staged.add(path)
            self._waiting.append(path)
        return place(path)

    def _write(self, path: PurePosixPath) -> None:
        target = self.pages / place(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in PICTURES:
            shutil.copyfile(ROOT / path, target)
            return
        if (ROOT / path).is_dir():
            target.write_text(self._converted(path / "index", folder_page(path)), encoding="utf-8")
            return
        text = (ROOT / path).read_text(encoding="utf-8")
        if path.suffix == ".md":
            text = self._navigated(path, self._converted(path, text))
        else:
            text = source_page(path, text)
        target.write_text(text, encoding="utf-8")

    def _navigated(self, path: PurePosixPath, text: str) -> str:
        """Return the page with its toctrees; a page in no toctree is marked as an orphan."""
        if path == MAP:
            for section in sections((ROOT / MAP).read_text(encoding="utf-8")):
                entries = [(title, f"/{place(page).with_suffix('')}") for title, page in section.entries]
                text += toctree(entries, section.title)
            rest = [("", f"/{place(page).with_suffix('')}") for page in unlisted()]
            text += toctree(rest, "More pages") if rest else ""
            if self.reference:
                text += toctree(self.reference, api_reference.CAPTION)
        elif path.parts[0] == "docs" and path.name == "README.md":
            pages = children(path, (ROOT / path).read_text(encoding="utf-8"))
            text += toctree([("", f"/{place(page).with_suffix('')}") for page in pages])
        elif path.parts[0] != "docs" and str(path) not in FRONT:
            text = "---\norphan: true\n---\n\n" + text
        return text

    def _converted(self, page: PurePosixPath, text: str) -> str:
        """Return the page with the links and diagrams of the site; code is not changed."""
        parts, end = [], 0
        for fence in FENCE.finditer(text):
            parts.append(self._linked(page, text[end : fence.start()]))
            parts.append(drawn(page, fence[4]) if fence[3].strip() == "mermaid" else fence[0])
            end = fence.end()
        return "".join([*parts, self._linked(page, text[end:])])

    def _linked(self, page: PurePosixPath, text: str) -> str:
        def turned(found: re.Match[str]) -> str:
            if found["code"]:
                return found[0]
            if found["attribute"]:
                return f'{found["attribute"]}{self._html_address(page, found["address"])}"'
            head = found["head"]
            if head.startswith("[!"):  # a linked picture
                head = head[0] + POINTER.sub(turned, head[1 : head.rindex("](")]) + head[head.rindex("](") :]
            elif PATH.fullmatch(head.strip("[(]<")):  # a link text that is only a path becomes the title of the page
                head = f"[{title_of(aim(page, found['target'].partition('#')[0]))}]("
            return head + self._address(page, found["target"]) + found["tail"]

        return POINTER.sub(turned, text)

    def _address(self, page: PurePosixPath, target: str) -> str:
        if target.startswith("#") or check_links.is_outside(target):
            return target
        path, hash, anchor = target.partition("#")
        placed = self._want(aim(page, path))
        return f"{os.path.relpath(placed, place(page).parent)}{hash}{anchor}"

    def _html_address(self, page: PurePosixPath, target: str) -> str:
        """Return the site address of a link in HTML, which Sphinx ignores, and copy the file if it is a picture."""
        if target.startswith("#") or check_links.is_outside(target):
            return target
        path, hash, anchor = target.partition("#")
        aimed = aim(page, path)
        if aimed.suffix in PICTURES:
            placed = place(aimed)
            (self.extra / placed).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / aimed, self.extra / placed)
        else:
            placed = self._want(aimed).with_suffix(".html")
        return f"{os.path.relpath(placed, place(page).parent)}{hash}{anchor}"


def drawn(page: PurePosixPath, text: str) -> str:
    """Return a diagram as SVG. The states of our machines are columns in the order of the machine."""
    try:
        diagram = draw_states.read(text)
        orders = [tuple(str(state.value) for state in machine.states) for machine in MACHINES.values()]
        order = next((each for each in orders if set(each) == set(diagram.states)), diagram.states)
        name = dict(zip(orders, MACHINES, strict=True)).get(order, "machine")
        picture = draw_states.draw(draw_states.in_order(diagram, order), name)
    except draw_states.DrawingError as error:
        raise SiteError(f"{page}: {error}; put other pictures into docs/pictures as SVG") from error
    return f'<figure class="machine">\n{picture}<figcaption>{READING}</figcaption>\n</figure>\n'


def folder_page(path: PurePosixPath) -> str:
    """Return a page with the files of a folder that has no README."""
    names = sorted(
        file.name
        for file in (ROOT / path).iterdir()
        if file.is_file() and (file.suffix in LANGUAGES or file.suffix == ".md")
    )
    lines = "".join(f"- [`{name}`]({name})\n" for name in names)
    return f"---\norphan: true\nno-search: true\n---\n\n# {path}/\n\n{lines}"


def source_page(path: PurePosixPath, text: str) -> str:
    """Return a source file as a page, which is not in the search index."""
    ticks = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    language = LANGUAGES.get(path.suffix, "text")
    head = "---\norphan: true\nno-search: true\n---\n\n"
    return f"{head}# {path.name}\n\n`{path}`\n\n{ticks}{language}\n{text.rstrip()}\n{ticks}\n"


def all_pages() -> list[PurePosixPath]:
    """Return every page in docs/."""
    return sorted(PurePosixPath(file.relative_to(ROOT).as_posix()) for file in (ROOT / "docs").rglob("*.md"))


def unlisted() -> list[PurePosixPath]:
    """Return pages in docs/ that are not in the navigation.

    They are built, but a test fails until they are listed.
    """
    listed = {MAP}
    for section in sections((ROOT / MAP).read_text(encoding="utf-8")):
        listed.update(page for _, page in section.entries)
    for page in [page for page in listed if page.name == "README.md" and page != MAP]:
        listed.update(children(page, (ROOT / page).read_text(encoding="utf-8")))
    return [page for page in all_pages() if page not in listed]


def summary() -> str:
    """Return the first paragraph of the map, without links."""
    _, _, text = (ROOT / MAP).read_text(encoding="utf-8").partition("\n\n")
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text.partition("\n\n")[0])


def reading_order() -> list[llms_files.Section]:
    """Return every page as Markdown, in the order of the navigation, followed by the API reference."""
    text = (ROOT / MAP).read_text(encoding="utf-8")
    notes = {aim(MAP, found["target"]): found["note"] for found in map(ENTRY.match, text.splitlines()) if found}
    found = [
        llms_files.Section(
            "Overview", [document(MAP, title_of(MAP), "the map of the pages, and the words that they use")]
        )
    ]
    for section in sections(text):
        documents = []
        for title, page in section.entries:
            documents.append(document(page, title, notes.get(page) or ""))
            if page.name == "README.md" and page.parts[0] == "docs":
                below = children(page, (ROOT / page).read_text(encoding="utf-8"))
                documents += [document(each, title_of(each), first_sentence(each)) for each in below]
        found.append(llms_files.Section(section.title, documents))
    if unlisted():
        rest = [document(page, title_of(page), first_sentence(page)) for page in unlisted()]
        found.append(llms_files.Section("More pages", rest))
    reference = [
        llms_files.Document(name, note, f"{api_reference.FOLDER}/{name}.md", text, text)
        for name, note, text in api_reference.texts()
    ]
    return [*found, llms_files.Section(api_reference.CAPTION, reference)] if reference else found


def first_sentence(page: PurePosixPath) -> str:
    """Return the first sentence of a page below its title, without links; empty if there is no paragraph."""
    blocks = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8")).split("\n\n")
    text = next((" ".join(each.split()) for each in blocks if re.match(r"[\w`*\[]", each)), "")
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.split(r"(?<=[.:]) ", text)[0].rstrip(".:").replace("**", "")


def document(page: PurePosixPath, title: str, note: str) -> llms_files.Document:
    """Return the Markdown version of a page.

    It links to the Markdown version of other pages, and to the HTML of everything else.
    """
    text = (ROOT / page).read_text(encoding="utf-8")

    def converted(folder: PurePosixPath) -> str:
        def turned(found: re.Match[str]) -> str:
            target = found["target"] or found["address"]
            if found["code"] or target.startswith("#") or check_links.is_outside(target):
                return found[0]
            path, hash, anchor = target.partition("#")
            aimed = aim(page, path)
            is_page = aimed.suffix == ".md" and (aimed.parts[0] == "docs" or str(aimed) in FRONT)
            if aimed.suffix in PICTURES:
                alternative = (found["head"] or "![](").strip("![(<").rstrip("]")
                return f"(picture: {alternative})" if found["head"] else found[0]
            placed = place(aimed) if is_page else place(aimed).with_suffix(".html")
            address = f"{os.path.relpath(placed, folder)}{hash}{anchor}"
            if found["attribute"]:
                return f'{found["attribute"]}{address}"'
            head = found["head"]
            if head.startswith("[!"):
                head = head[0] + POINTER.sub(turned, head[1 : head.rindex("](")]) + head[head.rindex("](") :]
            return f"{head}{address}{found['tail']}"

        parts, end = [], 0
        for fence in FENCE.finditer(text):
            parts += [POINTER.sub(turned, text[end : fence.start()]), fence[0]]
            end = fence.end()
        return "".join([*parts, POINTER.sub(turned, text[end:])])

    placed = place(page)
    return llms_files.Document(title, note, str(placed), converted(placed.parent), converted(PurePosixPath()))


def banner() -> str:
    """Return the text with the version at the top of every page."""
    return f"Documentation of Jackstay {__version__}"


def settings(extra: Path) -> dict[str, object]:
    """Return the Sphinx configuration."""
    return {
        "project": "Jackstay",
        "version": __version__,
        "release": __version__,
        "extensions": ["myst_parser", "api_reference"],
        "root_doc": "index",
        "language": "en",
        "smartquotes": False,  # quoted values must be copied unchanged
        "myst_heading_anchors": 6,
        "html_theme": "furo",
        "html_title": "Jackstay",
        "html_static_path": [str(STYLES)],
        "html_css_files": ["site.css"],
        "html_favicon": str(STYLES / "jackstay.svg"),
        "html_extra_path": [str(extra)],
        "html_copy_source": False,
        "html_show_sphinx": False,
        "html_show_copyright": False,
        "html_use_index": False,
        "html_domain_indices": False,
        "html_theme_options": {"top_of_page_buttons": [], "announcement": banner()},
        "add_module_names": False,
        "toc_object_entries_show_parents": "hide",
        "maximum_signature_line_length": 80,
        "pygments_style": "a11y-high-contrast-light",
        "pygments_dark_style": "a11y-high-contrast-dark",
    }


def build(site: Path, log: Callable[[str], None] = print) -> None:
    """Build the site and check it. An existing site is replaced only if there are no problems.

    Raises: SiteError.
    """
    if site.exists() and any(site.iterdir()) and not (site / "searchindex.js").is_file():
        raise SiteError(f"{site} contains files that are not a site; use another directory")
    with tempfile.TemporaryDirectory(prefix="jackstay-site-") as folder:
        staging = Staging(Path(folder))
        staging.stage()
        for page in unlisted():
            log(f"{page} is under 'More pages': add a line to {MAP}, or to the README.md of its folder")
        made = Path(folder) / "site"
        run_sphinx(staging, Path(folder), made)
        llms_files.write(made, "Jackstay", summary(), reading_order())
        report = check_links.check(made)
        flaws = report.flaws + [f"{name}: the API reference has no entry" for name in api_reference.missing(made)]
        flaws += llms_files.check(made)
        if flaws:
            raise SiteError("\n".join(flaws))
        if site.exists():
            shutil.rmtree(site)
        site.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(made, site)
    log(
        f"{site / 'index.html'}: {report.pages} pages, {report.links} links checked, {len(report.outside)} "
        f"external addresses (not fetched; tools/check_links.py --list shows them)"
    )


def run_sphinx(staging: Staging, folder: Path, made: Path) -> None:
    """Run Sphinx on the staged pages; every warning is an error."""
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # from Sphinx and docutils
    from sphinx.application import Sphinx  # noqa: PLC0415  # slow, and not needed for --help
    from sphinx.errors import SphinxError  # noqa: PLC0415

    rows = settings(staging.extra).items()
    (folder / "conf.py").write_text("".join(f"{name} = {value!r}\n" for name, value in rows), encoding="utf-8")
    output = io.StringIO()
    gc.set_threshold(200_000, 20, 20)  # a build creates millions of nodes and frees few
    try:
        application = Sphinx(
            staging.pages, folder, made, folder / "doctrees", "html", status=None, warning=output, freshenv=True
        )
        application.build(force_all=True)
    except SphinxError as error:
        raise SiteError(f"{error}\n{output.getvalue()}".strip()) from error
    text = re.sub(r"\x1b\[[0-9;]*m", "", output.getvalue()).replace(f"{staging.pages}/", "")
    if text.strip() or application.statuscode:
        raise SiteError(text.strip() or f"Sphinx exited with {application.statuscode}")
    shutil.rmtree(made / ".doctrees", ignore_errors=True)
    (made / ".buildinfo").unlink(missing_ok=True)


def main() -> int:
    """Build the site, or print the problems. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path, nargs="?", default=SITE, help="the output directory (default: build/site)")
    try:
        build(parser.parse_args().site)
    except SiteError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
