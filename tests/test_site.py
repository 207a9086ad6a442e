"""The documentation site: its links are checked, its diagrams are drawn, its navigation has every page.

`make docs-check` builds the whole site. These tests build a few pages only and show what fails a build.
"""

import html
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

import test_exports
from jackstay.protocol.drawing import MACHINES
from jackstay.protocol.drawing import draw as draw_machine

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import api_reference  # noqa: E402  # a program of tools/, which is not a package
import api_source  # noqa: E402
import check_links  # noqa: E402
import draw_states  # noqa: E402
import llms_files  # noqa: E402
import make_site  # noqa: E402

# --- links of a built site --------------------------------------------------------------------------------------------


def site(folder: Path, body: str, **others: str) -> list[str]:
    """The flaws of a site whose first page has this body; `other_html` beside it is sound."""
    (folder / "index.html").write_text(f'<p id="here"><a href="other.html">x</a>{body}</p>', encoding="utf-8")
    (folder / "other.html").write_text('<p id="there"></p>', encoding="utf-8")
    (folder / "picture.svg").write_text("<svg/>", encoding="utf-8")
    for name, text in others.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return check_links.check(folder).flaws


@pytest.mark.parametrize(
    "body",
    [
        '<a href="#here">x</a>',
        '<a href="other.html#there">x</a>',
        '<a href="other.html?highlight=x#there">x</a>',
        '<a href="https://example.org/a%20b?c=d#e">x</a>',
        '<a href="http://127.0.0.1:8000/inspector">x</a>',
        '<a href="mailto:a@example.org">x</a>',
        '<img src="picture.svg" srcset="picture.svg 2x">',
        '<img src="data:image/png;base64,AA==">',
        '<link rel="next" href="other.html">',
        '<link rel="canonical" href="https://example.org/">',
    ],
)
def test_a_sound_link_of_the_site_is_not_reported(body: str, tmp_path: Path) -> None:
    assert site(tmp_path, body) == []


@pytest.mark.parametrize(
    ("body", "flaw"),
    [
        ('<a href="missing.html">x</a>', "there is no such file"),
        ('<a href="#nowhere">x</a>', "there is no 'nowhere'"),
        ('<a href="other.html#nowhere">x</a>', "there is no 'nowhere'"),
        ('<a href="/other.html">x</a>', "at the root of a host"),
        ('<a href="../x.html">x</a>', "leads out of the site"),
        ('<img src="missing.png">', "there is no such file"),
        ('<img srcset="picture.svg, missing.png 2x">', "there is no such file"),
        ('<img src="https://example.org/x.png">', "loaded from elsewhere"),
        ('<script src="//cdn.example.org/x.js"></script>', "loaded from elsewhere"),
        ('<link rel="stylesheet" href="https://example.org/x.css">', "loaded from elsewhere"),
        ('<link rel="preconnect" href="https://fonts.example.org">', "loaded from elsewhere"),
        ('<style>@import "https://example.org/x.css";</style>', "loaded from elsewhere"),
        ('<b style="background: url(https://example.org/x.png)">x</b>', "loaded from elsewhere"),
        ('<svg><use href="https://example.org/x.svg#a"/></svg>', "loaded from elsewhere"),
        ('<b id="twice"></b><b id="twice"></b>', "two elements have the id 'twice'"),
        ('<a href="https://example">x</a>', "no sound host name"),
        ('<a href="https://exa_mple.org">x</a>', "no sound host name"),
        ('<a href="https://example.org:port/">x</a>', "ort"),
        ('<a href="https://me@example.org/">x</a>', "a user name"),
        ('<a href="https://example.org/{id}">x</a>', "must be escaped"),
        ('<a href="mailto:nobody">x</a>', "not a mail address"),
        ('<a href="javascript:alert(1)">x</a>', "neither http nor https"),
    ],
)
def test_a_planted_flaw_of_the_site_is_found(body: str, flaw: str, tmp_path: Path) -> None:
    found = site(tmp_path, body)
    assert len(found) == 1
    assert found[0].startswith("index.html: ")
    assert flaw in found[0]


@pytest.mark.parametrize(
    ("others", "flaw"),
    [
        ({"x_css": "a { background: url('https://example.org/x.png') }"}, "x.css: https://example.org/x.png"),
        ({"x_css": "a { background: url(missing.png) }"}, "x.css: missing.png: there is no such file"),
        ({"x_js": 'fetch("https://example.org/x.json")'}, "x.js: https://example.org/x.json"),
        ({"x_js": "script.src = '//example.org/x.js'"}, "x.js: //example.org/x.js"),
        (
            {"x_svg": '<svg><image href="https://example.org/x.png"/></svg>'},
            "x.svg: https://example.org/x.png",
        ),
        ({"lost_html": "<p></p>"}, "lost.html: no link leads here"),
    ],
)
def test_what_styles_scripts_and_pictures_load_is_looked_at(others: dict[str, str], flaw: str, tmp_path: Path) -> None:
    found = site(tmp_path, "", **others)
    assert len(found) == 1
    assert flaw in found[0]


def test_comments_and_pieces_of_the_file_itself_are_not_loads(tmp_path: Path) -> None:
    styles = "/* url(https://example.org/licence) */ a { fill: url(#tip); mask: url(data:image/png;base64,AA==) }"
    assert site(tmp_path, "", x_css=styles, x_js="// see https://example.org/licence") == []


def test_a_site_without_a_first_page_is_a_flaw(tmp_path: Path) -> None:
    assert check_links.check(tmp_path).flaws == ["index.html: no link leads here"]


def test_addresses_on_the_web_are_listed_once_and_not_fetched(tmp_path: Path) -> None:
    link = '<a href="https://nobody.invalid/x">x</a>'
    assert site(tmp_path, link * 2) == []
    assert check_links.check(tmp_path).outside == ["https://nobody.invalid/x"]


# --- diagrams ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MACHINES)
def test_a_drawn_machine_has_every_state_and_every_event_of_its_arrows(name: str) -> None:
    machine = MACHINES[name]
    diagram = draw_states.read(draw_machine(machine, "mermaid"))
    states = tuple(str(state.value) for state in machine.states)
    picture = draw_states.draw(draw_states.in_order(diagram, states), name)
    assert [picture.count(f'class="name" x="{x}"') for x in columns(picture)] == [2] * len(states)
    assert picture.count('class="way"') == len(diagram.arrows)
    shown = html.unescape(" ".join(re.findall(r'class="event"[^>]*>([^<]*)<', picture)))
    assert [event for arrow in diagram.arrows for event in arrow.events if event not in shown] == []
    assert "\n\n" not in picture  # an empty line would end the piece of HTML in a page


def columns(picture: str) -> list[str]:
    return re.findall(r'class="lifeline" x1="(\d+)"', picture)


@pytest.mark.parametrize("name", MACHINES)
def test_nothing_in_a_drawn_machine_lies_on_anything_else(name: str) -> None:
    picture = draw_states.draw(draw_states.read(draw_machine(MACHINES[name], "mermaid")), name)
    heights = [int(y) for y in re.findall(r'class="event" x="\d+" y="(\d+)"', picture)]
    ways = [int(y) for y in re.findall(r'class="way" x1="\d+" y1="(\d+)"', picture)]
    taken = sorted(heights + ways)
    assert min(after - before for before, after in itertools.pairwise(taken)) >= 9
    width = int(re.search(r'viewBox="0 0 (\d+)', picture)[1])  # type: ignore[index] # fails as it should
    for x, text in re.findall(r'class="event" x="(\d+)" y="\d+">([^<]*)<', picture):
        half = len(text) * draw_states.CHARACTER / 2
        assert int(x) - half >= 0
        assert int(x) + half <= width


def test_a_comma_inside_of_a_condition_parts_no_events() -> None:
    label = "lost [safe, not repeated], given up, expired [written]"
    assert draw_states.split_events(label) == ("lost [safe, not repeated]", "given up", "expired [written]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "only state diagrams"),
        ("flowchart LR\n    a --> b\n", "only state diagrams"),
        ("stateDiagram-v2\n    state fork <<fork>>\n", "not an arrow"),
    ],
)
def test_a_diagram_that_cannot_be_drawn_is_refused(text: str, message: str) -> None:
    with pytest.raises(draw_states.DrawingError, match=message):
        draw_states.read(text)


def test_columns_are_the_states_of_the_diagram() -> None:
    diagram = draw_states.read("stateDiagram-v2\n    [*] --> a\n    a --> b: x\n")
    with pytest.raises(draw_states.DrawingError, match="not its states"):
        draw_states.in_order(diagram, ("a", "c"))


# --- pages and navigation ---------------------------------------------------------------------------------------------


def test_every_page_has_a_place_in_the_reading_order() -> None:
    """A page that no README of docs/ lists is found by nobody."""
    assert make_site.unlisted() == []


def test_the_navigation_begins_with_the_readme_and_ends_with_the_changes() -> None:
    text = (ROOT / make_site.MAP).read_text(encoding="utf-8")
    pages = [page for section in make_site.sections(text) for _, page in section.entries]
    assert len(pages) == len(set(pages))
    assert (str(pages[0]), str(pages[-1])) == ("README.md", "CHANGELOG.md")


@pytest.mark.parametrize(
    ("path", "placed"),
    [
        ("README.md", "readme.md"),
        ("docs/README.md", "index.md"),
        ("docs/client.md", "client.md"),
        ("docs/design/README.md", "design/index.md"),
        ("docs/pictures/layers.svg", "pictures/layers.svg"),
        ("tests/conformance/README.md", "source/tests/conformance/README.md"),
        ("packages/jackstay/src/jackstay/errors.py", "source/packages/jackstay/src/jackstay/errors.py.md"),
        ("LICENSE", "source/LICENSE.md"),
    ],
)
def test_a_file_has_its_place_in_the_site(path: str, placed: str) -> None:
    assert str(make_site.place(PurePosixPath(path))) == placed


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository of documentation."""
    root = tmp_path / "repository"
    files = {
        "README.md": "# The front\n\n[Map](docs/README.md)\n",
        "docs/README.md": "# Map\n\n## Read\n\n- [Front](../README.md): first\n- [One](one.md)\n- [More](more/)\n",
        "docs/one.md": "# One\n\n[two](more/two.md#deep-down) [code](../src/code.py)\n\n## A part\n\n![p](p.svg)\n",
        "docs/p.svg": '<svg xmlns="http://www.w3.org/2000/svg"/>',
        "docs/more/README.md": "# More\n\n[two.md](two.md)\n",
        "docs/more/two.md": "# Two\n\n## Deep down\n\n[back](../one.md#a-part)\n",
        "src/code.py": 'TICKS = "```"\n',
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(make_site, "ROOT", root)
    return root


def staged(folder: Path) -> Path:
    folder.mkdir()
    staging = make_site.Staging(folder)
    staging.stage()
    return staging.pages


def test_links_lead_to_where_things_stand_in_the_site(repository: Path, tmp_path: Path) -> None:
    page = (staged(tmp_path / "build") / "one.md").read_text(encoding="utf-8")
    assert "[two](more/two.md#deep-down) [code](source/src/code.py.md)" in page
    assert "![p](p.svg)" in page


def test_a_link_that_is_only_a_path_is_given_the_title_of_its_page(repository: Path, tmp_path: Path) -> None:
    assert "[Two](two.md)" in (staged(tmp_path / "build") / "more" / "index.md").read_text(encoding="utf-8")


def test_code_and_comments_keep_what_looks_like_a_link(repository: Path, tmp_path: Path) -> None:
    text = "# Map\n\n`[a](b.md)`\n\n```text\n[c](d.md)\n```\n\n<!-- [e](f.md) -->\n"
    (repository / "docs" / "README.md").write_text(text, encoding="utf-8")
    page = (staged(tmp_path / "build") / "index.md").read_text(encoding="utf-8")
    assert all(piece in page for piece in ("`[a](b.md)`", "[c](d.md)", "<!-- [e](f.md) -->"))


def test_pictures_in_html_and_pictures_that_are_links_are_taken_along(repository: Path, tmp_path: Path) -> None:
    text = '# Front\n\n<img src="docs/p.svg" alt="p">\n\n[![p](docs/p.svg)](docs/one.md)\n'
    (repository / "README.md").write_text(text, encoding="utf-8")
    pages = staged(tmp_path / "build")
    assert '<img src="p.svg" alt="p">\n\n[![p](p.svg)](one.md)' in (pages / "readme.md").read_text("utf-8")
    assert (pages.parent / "extra" / "p.svg").is_file()
    assert (pages / "p.svg").is_file()


def test_a_file_of_the_source_becomes_a_page_that_keeps_its_backticks(repository: Path, tmp_path: Path) -> None:
    page = (staged(tmp_path / "build") / "source" / "src" / "code.py.md").read_text(encoding="utf-8")
    assert page.endswith('````python\nTICKS = "```"\n````\n')


def test_a_folder_without_a_readme_becomes_a_list_of_its_files(repository: Path, tmp_path: Path) -> None:
    (repository / "README.md").write_text("# Front\n\n[src/](src/)\n", encoding="utf-8")
    pages = staged(tmp_path / "build")
    assert "[`src/`](source/src/index.md)" in (pages / "readme.md").read_text(encoding="utf-8")
    assert "- [`code.py`](code.py.md)" in (pages / "source" / "src" / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[x](missing.md)", "missing.md is not there"),
        ("[x](../../outside.md)", "outside of the repository"),
        ("```mermaid\nflowchart LR\n```", "only state diagrams"),
    ],
)
def test_a_page_that_cannot_be_built_is_named(text: str, message: str, repository: Path, tmp_path: Path) -> None:
    (repository / "docs" / "one.md").write_text(f"# One\n\n{text}\n", encoding="utf-8")
    with pytest.raises(make_site.SiteError, match=r"docs/one\.md") as caught:
        staged(tmp_path / "build")
    assert message in str(caught.value)


def test_a_page_without_a_place_is_known(repository: Path) -> None:
    (repository / "docs" / "new.md").write_text("# New\n", encoding="utf-8")
    assert make_site.unlisted() == [PurePosixPath("docs/new.md")]


PROGRAM = "import pathlib, sys, make_site; make_site.ROOT = pathlib.Path(sys.argv.pop(1)); sys.exit(make_site.main())"


def build(repository: Path, site: Path, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    """In a process of its own: Sphinx changes logging, locale and warnings of the one it runs in."""
    command = [sys.executable, "-c", program, str(repository), str(site)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=ROOT / "tools")


def test_a_site_is_built_and_its_links_hold(repository: Path, tmp_path: Path) -> None:
    page = repository / "docs" / "one.md"
    page.write_text(page.read_text("utf-8") + f"\n```mermaid\n{draw_machine(MACHINES['server'], 'mermaid')}```\n")
    (repository / "docs" / "new.md").write_text("# New\n", encoding="utf-8")
    done = build(repository, tmp_path / "site")
    assert (done.returncode, done.stderr) == (0, "")
    assert "docs/new.md is under 'More pages'" in done.stdout
    assert '<svg xmlns="http://www.w3.org/2000/svg" class="machine"' in (tmp_path / "site" / "one.html").read_text()


def test_a_warning_fails_the_build_and_leaves_what_was_built_before(repository: Path, tmp_path: Path) -> None:
    old = tmp_path / "site" / "searchindex.js"
    old.parent.mkdir()
    old.write_text("old", encoding="utf-8")
    (repository / "docs" / "one.md").write_text("# One\n\n[x](more/two.md#nowhere)\n", encoding="utf-8")
    done = build(repository, tmp_path / "site")
    assert done.returncode == 1
    assert "one.md" in done.stderr
    assert "nowhere" in done.stderr
    assert old.read_text(encoding="utf-8") == "old"


def test_a_folder_that_holds_something_else_is_not_replaced(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letters").write_text("x", encoding="utf-8")
    with pytest.raises(make_site.SiteError, match="not a site; use another directory"):
        make_site.build(tmp_path / "home")


# --- the API reference ------------------------------------------------------------------------------------------------

PACKAGE = {
    "packages/small/src/small/__init__.py": """\"\"\"A small package.\"\"\"

from small._inner import Box, build

__all__ = ["Box", "build"]
""",
    "packages/small/src/small/_inner.py": '''"""Private."""

from typing import TYPE_CHECKING, TypedDict, Unpack

if TYPE_CHECKING:
    from collections.abc import Sequence


class Keywords(TypedDict, total=False):
    """The options."""

    size: int
    labels: "Sequence[str]"


class Box:
    """A box of *things*; see `build()`."""

    def __init__(self, name: str, *, depth: int = 3) -> None:
        self.name = name

    async def open(self) -> "Box":
        """Open it.

        Raises: OSError if it is locked_ or |broken|.
        """
        return self


def build(name: str, **options: Unpack[Keywords]) -> Box:
    """Return a `Box`."""
    return Box(name)
''',
    "packages/small/src/small/more.py": """\"\"\"More of it.\"\"\"

from small._inner import build

__all__ = ["LIMIT", "build"]

# The largest size.
LIMIT = 7
""",
    "packages/small/src/small/_private.py": '"""Not documented."""\n\n__all__ = ["hidden"]\nhidden = 1\n',
}


@pytest.fixture
def package(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The small repository with an import package."""
    for name, text in PACKAGE.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    api_source.use(repository)
    yield repository
    api_source.use(ROOT)
    for name in [name for name in sys.modules if name.partition(".")[0] == "small"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("built") / "site"


@pytest.fixture
def built(package: Path, folder: Path) -> Path:
    """The site of the small repository, built once."""
    if not folder.exists():
        done = build(package, folder)
        assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_the_site_has_an_entry_for_every_public_name_and_a_planted_missing_one_is_found(built: Path) -> None:
    assert api_reference.missing(built) == []
    page = (built / "api" / "small.html").read_text(encoding="utf-8")
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page))
    assert "size: int = ..." in text
    assert "Raises: OSError if it is locked_ or |broken|." in text.replace(" :", ":")
    assert 'href="#small.Box"' in page
    assert "Documented in full as small.build" in re.sub(
        r"\s+",
        " ",
        re.sub(r"<[^>]+>", "", (built / "api" / "small.more.html").read_text("utf-8")),
    )
    assert '"build"' in (built / "searchindex.js").read_text("utf-8")  # the objects that the search finds
    more = sys.modules["small.more"]
    more.__all__.append("planted")  # type: ignore[attr-defined] # a name that was published after the build
    assert api_reference.missing(built) == ["small.more.planted"]


def test_a_name_without_an_entry_fails_the_build(package: Path, tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, api_reference, make_site; make_site.ROOT = pathlib.Path(sys.argv.pop(1)); "
        "whole = api_reference.description; "
        "api_reference.description = lambda found, full=None: [] if found.name == 'LIMIT' else whole(found, full); "
        "sys.exit(make_site.main())"
    )
    done = build(package, tmp_path / "site", program)
    assert done.returncode == 1
    assert done.stderr == "small.more.LIMIT: the API reference has no entry\n"


def test_the_reference_has_every_public_name_of_every_public_module() -> None:
    """The modules are those of `test_exports`; the pages are read as the build is given them."""
    api_source.use(ROOT)
    assert sorted(api_source.modules()) == test_exports.MODULES
    for module in api_source.modules():
        page = api_reference.page(module)
        found = re.findall(r"^\.\. py:(?:function|class|exception|data):: (\w+)", page, re.MULTILINE)
        assert found == api_source.names_of(module), module


@pytest.mark.parametrize(
    ("module", "name", "parameters"),
    [
        ("jackstay.client", "connect", {"target", "request_timeout", "max_pending", "name"}),
        ("jackstay.server", "Server", {"name", "instructions", "max_concurrent"}),
        ("apcore_mcp", "serve", {"registry_or_executor", "transport"}),
        ("jackstay.types", "Tool", {"name", "input_schema", "output_schema"}),
    ],
)
def test_a_signature_lists_the_keywords_that_are_accepted(module: str, name: str, parameters: set[str]) -> None:
    api_source.use(ROOT)
    found = {each.partition(":")[0] for each in api_source.entry(module, name).parameters or ()}
    assert parameters <= found
    assert not any(each.startswith("**") for each in found)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Plain *text* with `code`.", [r"Plain \*text\* with \ :code:`code`\ ."]),
        ("It is sent. Raises: OSError.", ["It is sent.", ":Raises: OSError."]),
        ("Lines\nare joined.\n\n- one\n- two\n  lines", ["Lines are joined.", "- one", "- two lines"]),
        ("Code:\n\n    x = 1\n", ["Code:", "::", "   x = 1"]),
        ("1. is no list", [r"\1. is no list"]),
    ],
)
def test_a_docstring_is_text_and_not_markup(text: str, lines: list[str]) -> None:
    api_source.use(ROOT)
    assert [line for line in api_reference.formatted(text, "jackstay") if line] == lines


def test_every_page_shows_the_version(built: Path) -> None:
    version = re.search(
        r'__version__ = "(.+)"', (ROOT / "packages/jackstay/src/jackstay/_version.py").read_text("utf-8")
    )
    assert version is not None
    assert make_site.banner() == f"Documentation of Jackstay {version[1]}"
    for page in built.rglob("*.html"):
        assert make_site.banner() in page.read_text(encoding="utf-8"), page


# --- llms.txt ---------------------------------------------------------------------------------------------------------


def test_llms_txt_lists_every_page_and_llms_full_txt_has_them(built: Path) -> None:
    index = (built / "llms.txt").read_text(encoding="utf-8")
    full = (built / "llms-full.txt").read_text(encoding="utf-8")
    assert index.startswith("# Jackstay\n\n> ")
    assert re.findall(r"^## (.+)$", index, re.MULTILINE) == ["Overview", "Read", "API reference"]
    files = [
        "index.md",
        "readme.md",
        "one.md",
        "more/index.md",
        "more/two.md",
        "api/small.md",
        "api/small.more.md",
    ]
    assert re.findall(r"^- \[.+?\]\((.+?)\)", index, re.MULTILINE) == files
    assert "- [Front](readme.md): first\n" in index
    assert re.findall(r"^<!-- (.+) -->$", full, re.MULTILINE) == files
    assert "[two](more/two.md#deep-down) [code](source/src/code.py.html)" in full
    assert "def build(name: str, *, size: int = ..., labels: Sequence[str] = ...) -> Box" in full
    assert "[back](../one.md#a-part)" in (built / "more" / "two.md").read_text(encoding="utf-8")
    assert llms_files.check(built) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "flaw"),
    [
        ("llms.txt", "(one.md)", "(gone.md)", "llms.txt: gone.md: there is no such file"),
        ("llms.txt", "- [One](one.md)\n", "", "llms.txt: one.md: the page is missing"),
        ("llms-full.txt", "<!-- one.md -->", "", "llms-full.txt: one.md: the page is missing"),
        ("llms-full.txt", "(one.md)", "(gone.md)", "llms-full.txt: gone.md: there is no such file"),
    ],
)
def test_a_planted_flaw_of_the_llms_files_is_found(file: str, old: str, new: str, flaw: str, tmp_path: Path) -> None:
    page = llms_files.Document("One", "", "one.md", "# One\n", "# One\n\n[itself](one.md)\n")
    llms_files.write(tmp_path, "Title", "Summary.", [llms_files.Section("Read", [page])])
    assert llms_files.check(tmp_path) == []
    text = (tmp_path / file).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new), encoding="utf-8")
    assert flaw in llms_files.check(tmp_path)


def test_every_page_of_the_documentation_is_in_the_reading_order() -> None:
    api_source.use(ROOT)
    files = [each.file for section in make_site.reading_order() for each in section.documents]
    assert len(files) == len(set(files))
    assert {str(make_site.place(page)) for page in make_site.all_pages()} <= set(files)
    assert {f"api/{module}.md" for module in api_source.modules()} <= set(files)
