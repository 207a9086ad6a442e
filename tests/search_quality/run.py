"""How often search finds the right page and section, in documentation sets built from source distributions.

    make search-quality                     all sets; builds them into build/search-quality first
    python tests/search_quality/run.py click    some sets; --misses lists the tuned questions that fail

Exits with 1 if the held-back half misses a target.
"""

# --hybrid fuses the ranking with that of wordllama, a static embedding model (`pip install wordllama`), to compare.

# questions.txt has the questions, sets.txt the distributions and their hashes. Each question is written in the words of
# a user and as keywords; symbols are drawn from the inventories by hash. Half of the questions, also by hash, are held
# back: the ranking was never tuned on them, and --misses never shows them.

import argparse
import hashlib
import importlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from procontext.cache._rows import Document, Section
from procontext.cache._store import Store
from procontext.models import Hit, Page
from procontext.page._conversion import convert_markdown
from procontext.page._html import html_to_markdown
from procontext.page._windows import fitting_part, section
from procontext.tools._tools import SECTION_CHARS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "search-quality"
SITE = "https://docs.example"
SYMBOLS_PER_SET = 8
# Characters of English documentation and addresses for each token of a language model, roughly.
CHARACTERS_PER_TOKEN = 3.5

# The minimum of hit@3: the page, and the section.
TARGETS = {"question": (0.85, 0.70), "keywords": (0.95, 0.88), "symbol": (0.98, None)}

CONF = """
import os
project = os.environ["SET_NAME"]
root_doc = os.environ["SET_ROOT"]
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser"]
html_theme = "furo"
source_suffix = {".rst": "restructuredtext", ".txt": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "**/README*", *os.environ["SET_EXCLUDE"].split()]
suppress_warnings = ["*"]
autodoc_mock_imports = ["twisted"]
autodoc_member_order = "bysource"
myst_enable_extensions = ["colon_fence", "deflist", "substitution"]
myst_heading_anchors = 3
html_copy_source = False
html_show_sourcelink = False
"""


class Row(NamedTuple):
    """One documentation set: a source distribution, the folder of its documentation, its format, and a file to skip."""

    name: str
    version: str
    sha256: str
    folder: str
    format: str
    exclude: str = ""


class Query(NamedTuple):
    """One search with its right answers, as (page, heading or anchor)."""

    row: str
    kind: str
    text: str
    answers: tuple[tuple[str, str], ...]
    is_held_back: bool


class StoredPage(msgspec.Struct):
    """A converted page."""

    page: Page
    sections: tuple[Section, ...]


def rows() -> list[Row]:
    """Return the documentation sets."""
    lines = (HERE / "sets.txt").read_text().splitlines()
    return [Row(*line.split()) for line in lines if line and not line.startswith("#")]


# --- building ---------------------------------------------------------------------------------------------------------


def source(row: Row) -> Path:
    """Download and unpack a source distribution, and return its folder."""
    archives = BUILD / "archives"
    archives.mkdir(parents=True, exist_ok=True)
    file = archives / f"{row.name}-{row.version}.tar.gz"
    if not file.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", row.name]
        subprocess.run([*command, "--dest", str(archives), f"{row.name}=={row.version}"], check=True)
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != row.sha256:
        raise SystemExit(f"{file.name} has another hash: {found}")
    folder = BUILD / "sources" / f"{row.name}-{row.version}"
    if not folder.exists():
        with tarfile.open(file) as archive:
            archive.extractall(folder.parent, filter="data")
    return folder


def build(row: Row) -> Path:
    """Build the pages of a set and return their folder. Markdown is used as it is."""
    folder = source(row)
    docs = folder / row.folder
    if row.format == "markdown":
        return docs
    out = BUILD / "html" / row.name
    if not (out / "objects.inv").exists():
        configuration = BUILD / "conf"
        configuration.mkdir(exist_ok=True)
        (configuration / "conf.py").write_text(CONF)
        is_root = any((docs / f"index{suffix}").exists() for suffix in (".rst", ".md", ".txt"))
        environment = {
            **os.environ,
            "SET_NAME": row.name,
            "SET_EXCLUDE": row.exclude,
            "SET_ROOT": "index" if is_root else "contents",
            "PYTHONPATH": os.pathsep.join(map(str, (folder / "src", folder, folder / "lib"))),
        }
        print(f"building {row.name}", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "sphinx", "-Q", "-c", str(configuration), "-b", "html"]
        doctrees = str(BUILD / "doctrees" / row.name)
        subprocess.run([*command, "-d", doctrees, str(docs), str(out)], check=True, env=environment)
    return out


def pages(row: Row) -> list[StoredPage]:
    """Return the converted pages of a set. They are stored, because the conversion takes longer than all searches."""
    folder = build(row)
    code = (ROOT / "packages/jackstay-procontext/src/procontext/page").glob("_*.py")
    version = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(code))).hexdigest()[:12]
    stored = BUILD / "pages" / f"{row.name}-{row.version}-{version}.msgpack"
    if stored.exists():
        return msgspec.msgpack.decode(stored.read_bytes(), type=list[StoredPage])
    suffix = ".md" if row.format == "markdown" else ".html"
    converted = []
    for file in sorted(folder.rglob(f"*{suffix}")):
        path = file.relative_to(folder).as_posix()
        if path in ("genindex.html", "search.html", "py-modindex.html") or "/_" in f"/{path}":
            continue
        url = f"{SITE}/{row.name}/{quote(path)}"
        text = file.read_text(encoding="utf-8", errors="replace")
        made = convert_markdown(url, text if suffix == ".md" else html_to_markdown(text, url))
        converted.append(StoredPage(made.page, made.sections))
    stored.parent.mkdir(exist_ok=True)
    stored.write_bytes(msgspec.msgpack.encode(converted))
    return converted


# --- queries ----------------------------------------------------------------------------------------------------------


def is_held_back(text: str) -> bool:
    """Return whether a query belongs to the half that is never tuned on."""
    return hashlib.sha256(text.encode()).digest()[0] % 2 == 0


def questions() -> Iterator[Query]:
    """Read the questions."""
    for line in (HERE / "questions.txt").read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        row, right, question, keywords = line.split("|")
        answers = tuple((page, heading) for page, _, heading in (part.partition("#") for part in right.split(" ; ")))
        yield Query(row, "question", question, answers, is_held_back(question))
        yield Query(row, "keywords", keywords, answers, is_held_back(question))


def symbols(row: Row) -> Iterator[Query]:
    """Draw objects from the inventory of a set, by hash."""
    inventory = BUILD / "html" / row.name / "objects.inv"
    if row.format != "sphinx":
        return
    lines = zlib.decompress(inventory.read_bytes().split(b"\n", 4)[4]).decode().splitlines()
    found = []
    for line in lines:
        name, role, _, location, *_ = line.split()
        kind = role.removeprefix("py:")
        last = name.rpartition(".")[2]
        if role.startswith("py:") and kind in ("class", "function", "method", "exception") and len(last) >= 4:
            text = ".".join(name.split(".")[-2:]) if kind == "method" else last
            page, _, anchor = location.partition("#")
            if not last.startswith("_"):
                found.append((hashlib.sha256(name.encode()).hexdigest(), text, page, anchor.replace("$", name)))
    # A name that several objects have has several right answers.
    for _, text, _, _ in sorted(found)[:SYMBOLS_PER_SET]:
        answers = {(page.removesuffix(".html"), anchor) for _, other, page, anchor in found if other == text}
        yield Query(row.name, "symbol", text, tuple(sorted(answers)), is_held_back(text))


def plain(heading: str) -> str:
    """Return the letters and digits of a heading, for comparison."""
    return re.sub(r"[^\w]|_", "", heading).casefold()


def page_of(url: str) -> str:
    """Return the page of a URL as the questions name it."""
    path = url.removeprefix(SITE).split("/", 2)[2]
    return re.sub(r"\.(html|md)$", "", path)


def ranks(query: Query, hits: list[Hit]) -> tuple[int, int]:
    """Return the ranks of the first right page and the first right section; 0 if there is none."""
    first_page = first_section = 0
    for rank, hit in enumerate(hits, 1):
        page = page_of(hit.url)
        for right_page, right in query.answers:
            if page != right_page:
                continue
            first_page = first_page or rank
            if query.kind == "symbol":
                copies = {copy.partition("#")[2] for copy in hit.copies}
                is_right = right in {hit.anchor, *copies}
            else:
                is_right = plain(right) in {plain(heading) for heading in hit.heading_path}
            if is_right:
                first_section = first_section or rank
    return first_page, first_section


def check_answers(query: Query, known: dict[str, set[str]]) -> list[str]:
    """Return the answers of a question that no page has."""
    return [
        f"{query.row}: {page}#{heading}"
        for page, heading in query.answers
        if query.kind == "question" and plain(heading) not in known.get(f"{query.row}/{page}", set())
    ]


# --- measuring --------------------------------------------------------------------------------------------------------


class Score:
    """The ranks of one kind of queries."""

    def __init__(self) -> None:
        self.pages: list[int] = []
        self.sections: list[int] = []

    def add(self, page: int, section: int) -> None:
        self.pages.append(page)
        self.sections.append(section)

    @staticmethod
    def _hits(found: list[int], limit: int) -> float:
        return sum(0 < rank <= limit for rank in found) / len(found)

    def values(self) -> tuple[float, float, float, float, float, float]:
        """Return hit@1, hit@3 and the mean reciprocal rank of pages, then of sections."""
        results: list[float] = []
        for found in (self.pages, self.sections):
            mean = sum(1 / rank for rank in found if rank) / len(found)
            results += [self._hits(found, 1), self._hits(found, 3), mean]
        return tuple(results)  # type: ignore[return-value]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--misses", action="store_true", help="list the tuned questions that are missed")
    parser.add_argument("--hybrid", action="store_true", help="fuse the ranking with that of an embedding model")
    arguments = parser.parse_args()
    chosen = [row for row in rows() if not arguments.sets or row.name in arguments.sets]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        try:
            embeddings = Embeddings() if arguments.hybrid else None
            return measure(store, chosen, arguments.misses, embeddings)
        finally:
            store.close()


class Embeddings:
    """The sections of each set by their similarity to a query."""

    # The constant of reciprocal rank fusion, and the weight of the embeddings beside 1 for the search.
    CONSTANT = 20
    WEIGHT = 0.2
    CANDIDATES = 50

    def __init__(self) -> None:
        wordllama = importlib.import_module("wordllama")
        folder = Path(wordllama.__file__ or "").parent  # the package contains the model
        self._model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
        self._sections: dict[str, list[Hit]] = {}
        self._vectors: dict[str, Any] = {}

    def add(self, row: str, stored: list[StoredPage]) -> None:
        """Embed the sections of a set."""
        pairs = [(item.page.url, section) for item in stored for section in item.sections]
        self._sections[row] = [
            Hit(url, section.line, section.path, "", 0.0, section.anchor, section.lines) for url, section in pairs
        ]
        texts = [f"{' '.join(section.path)} {section.body[:600]}" for _, section in pairs]
        self._vectors[row] = self._model.embed(texts, norm=True)

    def fuse(self, query: Query, hits: list[Hit]) -> list[Hit]:
        """Return the ten best sections by both rankings."""
        similar = self._vectors[query.row] @ self._model.embed([query.text], norm=True)[0]
        best = similar.argsort()[::-1][: self.CANDIDATES]
        points: dict[tuple[str, int], float] = defaultdict(float)
        found: dict[tuple[str, int], Hit] = {}
        for ranking, weight in ((hits, 1.0), ([self._sections[query.row][at] for at in best], self.WEIGHT)):
            for rank, hit in enumerate(ranking):
                points[hit.url, hit.line] += weight / (self.CONSTANT + rank)
                found.setdefault((hit.url, hit.line), hit)
        return [found[key] for key in sorted(points, key=lambda key: -points[key])[:10]]


def measure(store: Store, chosen: list[Row], with_misses: bool, embeddings: Embeddings | None = None) -> int:
    """Index the sets, run all queries and print the table. Return the exit code."""
    documents: dict[str, Page] = {}
    known: dict[str, set[str]] = defaultdict(set)
    for row in chosen:
        stored = pages(row)
        if embeddings is not None:
            embeddings.add(row.name, stored)
        for item in stored:
            documents[item.page.url] = item.page
            known[f"{row.name}/{page_of(item.page.url)}"] |= {plain(heading.text) for heading in item.page.headings}
            text = "\n".join(item.page.lines)
            document = Document(
                key=item.page.url, kind="page", url=item.page.url, text=text, fetched_at=0.0, checked_at=0.0
            )
            store.put(document, (row.name,), item.sections)
    names = {row.name for row in chosen}
    queries = [query for query in questions() if query.row in names]
    queries += [query for row in chosen for query in symbols(row)]
    wrong = [problem for query in queries for problem in check_answers(query, known)]
    if wrong:
        raise SystemExit("answers that do not exist:\n" + "\n".join(wrong))
    scores: dict[tuple[str, bool], Score] = defaultdict(Score)
    costs: list[float] = []
    durations: list[float] = []
    for query in queries:
        started = time.perf_counter()
        hits = store.search(query.row, query.text, 10 if embeddings is None else embeddings.CANDIDATES)
        if embeddings is not None:
            hits = embeddings.fuse(query, hits)
        durations.append(time.perf_counter() - started)
        page, found = ranks(query, hits)
        scores[query.kind, query.is_held_back].add(page, found)
        if hits and query.kind == "question":
            costs.append(cost(hits, documents))
        if with_misses and not query.is_held_back and not 0 < found <= 3:
            first = "; ".join(f"{page_of(hit.url)}#{(hit.heading_path or ('',))[-1][:50]}" for hit in hits[:3])
            print(f"{query.row} {query.kind} {query.text!r}: {page} {found}; {first}; right: {query.answers}")
    print(f"{len(chosen)} sets, {len(documents)} pages, {len(queries)} queries; half of them held back")
    print(f"{'':24}{'page h@1':>9}{'h@3':>6}{'MRR':>6}{'section h@1':>13}{'h@3':>6}{'MRR':>6}")
    code = 0
    for kind, (page_target, section_target) in TARGETS.items():
        for held_back in (False, True):
            if (kind, held_back) not in scores:
                continue
            score = scores[kind, held_back]
            values = score.values()
            numbers = "".join(f"{value:>{width}.2f}" for value, width in zip(values, (9, 6, 6, 13, 6, 6), strict=True))
            print(f"{kind:9}{'held back' if held_back else 'tuned':10}{len(score.pages):5}{numbers}")
            if held_back and (values[1] < page_target or (section_target is not None and values[4] < section_target)):
                code = 1
                print(f"{'':9}below the target: page {page_target}, section {section_target}")
    print(f"tokens from question to answer: median {median(costs):.0f}, 5 hits and the first section")
    print(f"search: median {1000 * median(durations):.1f} ms, longest {1000 * max(durations):.0f} ms")
    return code


def cost(hits: list[Hit], documents: dict[str, Page]) -> float:
    """Return the tokens of an answer with five hits, and of the section of the first."""
    answer = sum(
        len(hit.url) + len(hit.anchor) + len(hit.snippet) + sum(len(name[:100]) + 3 for name in hit.heading_path) + 60
        for hit in hits[:5]
    )
    page = documents[hits[0].url]
    span = section(page, f"#{hits[0].anchor}") if hits[0].anchor else None
    first, length = span or (hits[0].line, hits[0].lines)
    length = fitting_part(page, first, length, SECTION_CHARS)
    answer += sum(len(line) + 1 for line in page.lines[first - 1 : first - 1 + length])
    return answer / CHARACTERS_PER_TOKEN


if __name__ == "__main__":
    sys.exit(main())
