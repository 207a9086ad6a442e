"""Find words that this project does not use (tools/words.toml), and citations of pages that do not exist.

python tools/check_words.py [PATH ...]
"""

import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tools" / "words.toml"
CHECKED = (".py", ".md", ".toml", ".yml", ".yaml", ".html", ".js", ".sh")
# Data, and lists of the forbidden words.
EXEMPT = (
    "tools/words.toml",
    "tests/test_words.py",
    "tests/interop/sdk_suite/",
    "packages/jackstay-procontext/src/procontext/data/",
    "packages/jackstay-procontext/tests/data/",
)
MAX_DOCSTRING_LINES = 5
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_NAMES = re.compile(r"[^\W\d]\w*")
_PAGES = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md")
_GUARANTEES = re.compile(r"docs/guarantees\.md (G\d+)")


@dataclass(frozen=True, eq=False)
class Word:
    """One row of the table."""

    names: frozenset[str]
    prose: tuple[re.Pattern[str], ...]
    instead: str
    allow: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Finding:
    """A use of a word, or a citation that does not resolve."""

    path: str
    line: int
    found: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.found!r}; write {self.instead}"


def load(table: Path = TABLE) -> list[Word]:
    """Return the rows of the table."""
    rows = tomllib.loads(table.read_text(encoding="utf-8"))["word"]
    return [
        Word(
            frozenset(row["names"]),
            tuple(re.compile(pattern) for pattern in row["prose"]),
            row["instead"],
            tuple((path, part) for path, _, part in (entry.partition(": ") for entry in row.get("allow", ()))),
        )
        for row in rows
    ]


def check(path: str, text: str, words: Iterable[Word]) -> Iterator[Finding]:
    """Yield the findings in one file."""
    lines = text.splitlines()
    words = tuple(words)
    python = path.endswith(".py")
    pieces = _pieces(text) if python else ((i, "text", line) for i, line in enumerate(lines, 1))
    for number, kind, value in pieces if _may_have_findings(words, text) else ():
        for word in _candidates(words, kind, value):
            found = _find(word, kind, value)
            if found is not None:
                line = number + value[: found[1]].count("\n")
                if not _is_allowed(word, path, lines[line - 1]):
                    yield Finding(path, line, found[0], word.instead)
        if kind == "text":
            for page in _PAGES.findall(value):
                if not (ROOT / page).exists():
                    yield Finding(path, number, page, "the path of a page that exists")
    for guarantee in _GUARANTEES.findall(text):
        if f"| {guarantee} |" not in (ROOT / "docs/guarantees.md").read_text(encoding="utf-8"):
            yield Finding(path, 1, guarantee, "the number of a guarantee in docs/guarantees.md")
    if python:
        yield from _docstring(path, text)


def _may_have_findings(words: tuple[Word, ...], text: str) -> bool:
    """Search the whole text, which is much faster than to split it and almost always finds nothing."""
    return (
        _any_prose(words).search(text) is not None
        or any(_candidates_for_name(words, name) for name in set(_NAMES.findall(text)))
        or any(not (ROOT / page).exists() for page in _PAGES.findall(text))
    )


@cache
def _any_prose(words: tuple[Word, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern.pattern})" for word in words for pattern in word.prose))


@cache
def _candidates_for_name(words: tuple[Word, ...], name: str) -> tuple[Word, ...]:
    return tuple(word for word in words if _find(word, "name", name))


def _candidates(words: tuple[Word, ...], kind: str, value: str) -> tuple[Word, ...]:
    """The words that may be in this piece: almost always none, which one search finds out."""
    if kind == "name":
        return _candidates_for_name(words, value)
    return words if _any_prose(words).search(value) else ()


def _find(word: Word, kind: str, value: str) -> tuple[str, int] | None:
    if kind == "name":
        parts = _PARTS.findall(value)
        for part in parts:
            if part in word.names or (part[1:].islower() and part.lower() in word.names):
                return value, 0
        return None
    for pattern in word.prose:
        if match := pattern.search(value):
            return match.group(), match.start()
    return None


def _is_allowed(word: Word, path: str, line: str) -> bool:
    return any(path.startswith(where) and part in line for where, part in word.allow)


def _pieces(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, kind, value) for names, comments and strings."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], "name", token.string
        elif token.type in (tokenize.COMMENT, tokenize.STRING) or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            is_text = token.type == tokenize.COMMENT or token.string.startswith('"""')
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, "text" if is_text else "string", line


def _docstring(path: str, text: str) -> Iterator[Finding]:
    match = re.match(r'(?:#[^\n]*\n)*(?:r?)"""(.*?)"""', text, flags=re.DOTALL)
    if match and match.group(1).strip().count("\n") >= MAX_DOCSTRING_LINES and "/tests/" not in f"/{path}":
        yield Finding(path, 1, "a long module docstring", f"at most {MAX_DOCSTRING_LINES} lines")


def files(roots: Iterable[str] = ()) -> Iterator[str]:
    """Yield the paths of all checked files of the repository, or of those below `roots`."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *roots],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for path in listed:
        if path.endswith(CHECKED) and not path.startswith(EXEMPT) and (ROOT / path).is_file():
            yield path


def main(roots: list[str]) -> int:
    """Print every finding. Returns the exit code."""
    words = load()
    count = 0
    for path in files(roots):
        for finding in check(path, (ROOT / path).read_text(encoding="utf-8"), words):
            print(finding)
            count += 1
    print(f"{count} found" if count else "no forbidden word, no citation that leads nowhere")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
